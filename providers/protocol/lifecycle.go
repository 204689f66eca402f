package protocol

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Meta is the vendor's own data on a block, a call or an answer, before it goes under the vendor's namespace.
type Meta map[string]any

// Under puts m under a namespace. An empty m is nil.
func (m Meta) Under(namespace string) llm.Metadata {
	if len(m) == 0 || namespace == "" {
		return nil
	}
	b, err := Encode(m)
	if err != nil { // values are what JSON gave us
		panic("protocol: encode metadata: " + err.Error())
	}
	return llm.Metadata{namespace: b}
}

// MetaOf reads what is under a namespace into v, a pointer to a struct. What is missing or malformed leaves v as it is.
func MetaOf(md llm.Metadata, namespace string, v any) bool {
	raw := md[namespace]
	return len(raw) > 0 && json.Unmarshal(raw, v) == nil
}

// Lifecycle keeps the blocks of text and reasoning of one answer in order: each has one start and one end, and the
// answer's first and last events come once. After the last event all methods say nothing. The zero value with a
// namespace is ready.
type Lifecycle struct {
	Namespace string

	// Step is told with the first event: set it as soon as the vendor says who answers.
	Step llm.StepStart

	started, finished bool
	open              []openBlock       // in order of their start
	used              map[blockName]int // how often an id was told, numbers included
}

type blockName struct {
	kind llm.BlockKind
	id   string // the vendor's
}

type openBlock struct {
	blockName
	told string // the id in events
	meta Meta
}

// Start begins the answer, once.
func (l *Lifecycle) Start(dst []llm.Event) []llm.Event {
	if l.started || l.finished {
		return dst
	}
	l.started = true
	return append(dst, l.Step)
}

// Open begins a block. One that is open already stays as it is. An id whose block has ended begins another block, which
// events call "id#2": the order of events allows each id once.
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
		n++ // the vendor itself calls a block so
	}
	l.used[b.blockName] = n
	l.open = append(l.open, b)
	return append(dst, llm.BlockStart{Kind: kind, ID: b.told, Metadata: meta.Under(l.Namespace)})
}

// Delta adds to a block and begins it if need be. An empty text says nothing.
func (l *Lifecycle) Delta(dst []llm.Event, kind llm.BlockKind, id, text string) []llm.Event {
	if text == "" || l.finished {
		return dst
	}
	dst = l.Open(dst, kind, id, nil)
	return append(dst, llm.BlockDelta{Kind: kind, ID: l.open[l.find(kind, id)].told, Text: text})
}

// Close ends a block. What meta says replaces what the start said, key by key. A block that is not open says nothing.
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

// Started reports whether the answer has begun.
func (l *Lifecycle) Started() bool { return l.started }

// Finish ends reasoning, then text, then the answer. A second call says nothing.
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

// Finished reports whether the answer is complete.
func (l *Lifecycle) Finished() bool { return l.finished }

func (l *Lifecycle) find(kind llm.BlockKind, id string) int {
	for i := range l.open {
		if l.open[i].kind == kind && l.open[i].id == id {
			return i
		}
	}
	return -1
}
