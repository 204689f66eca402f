package protocol

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Meta is a vendor's own data for a block, a call or a response, before it is stored under the vendor's namespace.
type Meta map[string]any

// Under returns m under a namespace, or nil if m is empty.
func (m Meta) Under(namespace string) llm.Metadata {
	if len(m) == 0 || namespace == "" {
		return nil
	}
	b, err := Encode(m)
	if err != nil { // cannot fail: the values come from JSON
		panic("protocol: encode metadata: " + err.Error())
	}
	return llm.Metadata{namespace: b}
}

// MetaOf decodes the data under a namespace into v, a pointer to a struct. If it is missing or invalid, v is unchanged.
func MetaOf(md llm.Metadata, namespace string, v any) bool {
	raw := md[namespace]
	return len(raw) > 0 && json.Unmarshal(raw, v) == nil
}

// Lifecycle orders the blocks of text and reasoning of a response: each block starts and ends once, and so does the response.
// After the last event, all methods emit nothing. The zero value with a namespace is ready to use.
type Lifecycle struct {
	Namespace string

	// Raw says that the vendor shows reasoning itself, not a summary of it. A decoder whose vendor has both sets it before each delta.
	Raw bool

	// Step is part of the first event: set it as soon as the vendor identifies the response.
	Step llm.StepStart

	started, finished bool
	open              []openBlock       // in the order of their start
	used              map[blockName]int // how often an ID was emitted, including suffixes
}

type blockName struct {
	kind llm.BlockKind
	id   string // the vendor's
}

type openBlock struct {
	blockName
	told string // the ID in events
	meta Meta
}

// Start starts the response, once.
func (l *Lifecycle) Start(dst []llm.Event) []llm.Event {
	if l.started || l.finished {
		return dst
	}
	l.started = true
	return append(dst, l.Step)
}

// Open starts a block, unless it is open already. If a block with this ID has ended, events call the new one "id#2", because an ID
// must be unique.
func (l *Lifecycle) Open(dst []llm.Event, kind llm.BlockKind, id string, meta Meta) []llm.Event {
	if l.finished {
		return dst
	}
	dst = l.Start(dst)
	if l.find(kind, id) >= 0 {
		return dst
	}
	if l.used == nil {
		l.used = map[blockName]int{}
	}
	b := openBlock{blockName: blockName{kind, id}, told: id, meta: meta}
	n := l.used[b.blockName] + 1
	for n > 1 {
		b.told = id + "#" + strconv.Itoa(n)
		if l.used[blockName{kind, b.told}] == 0 {
			l.used[blockName{kind, b.told}] = 1
			break
		}
		n++ // the vendor itself uses this ID
	}
	l.used[b.blockName] = n
	l.open = append(l.open, b)
	return append(dst, llm.BlockStart{Kind: kind, ID: b.told, Metadata: meta.Under(l.Namespace)})
}

// Delta appends to a block, starting it if necessary. Empty text emits nothing.
func (l *Lifecycle) Delta(dst []llm.Event, kind llm.BlockKind, id, text string) []llm.Event {
	if text == "" || l.finished {
		return dst
	}
	dst = l.Open(dst, kind, id, nil)
	return append(dst, llm.BlockDelta{Kind: kind, ID: l.open[l.find(kind, id)].told, Text: text, Raw: l.Raw && kind == llm.BlockReasoning})
}

// Close ends a block. The keys in meta replace those of the start. If the block is not open, nothing is emitted.
func (l *Lifecycle) Close(dst []llm.Event, kind llm.BlockKind, id string, meta Meta) []llm.Event {
	i := l.find(kind, id)
	if i < 0 {
		return dst
	}
	b := l.open[i]
	whole := maps.Clone(b.meta)
	if whole == nil {
		whole = meta
	} else {
		maps.Copy(whole, meta)
	}
	l.open = slices.Delete(l.open, i, i+1)
	return append(dst, llm.BlockEnd{Kind: kind, ID: b.told, Metadata: whole.Under(l.Namespace)})
}

// CloseAll ends all blocks of a kind in the order of their start.
func (l *Lifecycle) CloseAll(dst []llm.Event, kind llm.BlockKind) []llm.Event {
	for i := 0; i < len(l.open); {
		if l.open[i].kind == kind {
			dst = l.Close(dst, kind, l.open[i].id, nil)
		} else {
			i++
		}
	}
	return dst
}

// IsOpen reports whether a block is open.
func (l *Lifecycle) IsOpen(kind llm.BlockKind, id string) bool { return l.find(kind, id) >= 0 }

// Started reports whether the response has started.
func (l *Lifecycle) Started() bool { return l.started }

// Finish ends reasoning, then text, then the response. Further calls emit nothing.
func (l *Lifecycle) Finish(dst []llm.Event, end llm.StepFinish, meta Meta) []llm.Event {
	if l.finished {
		return dst
	}
	dst = l.Start(dst)
	dst = l.CloseAll(dst, llm.BlockReasoning)
	dst = l.CloseAll(dst, llm.BlockText)
	l.finished = true
	return append(dst, end, llm.Finish{Reason: end.Reason, Usage: end.Usage, Metadata: meta.Under(l.Namespace)})
}

// Finished reports whether the response is complete.
func (l *Lifecycle) Finished() bool { return l.finished }

func (l *Lifecycle) find(kind llm.BlockKind, id string) int {
	for i := range l.open {
		if l.open[i].kind == kind && l.open[i].id == id {
			return i
		}
	}
	return -1
}
