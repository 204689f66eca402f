package llm

import (
	"maps"
	"slices"
	"strings"
)

// Fold assembles the events of an answer: texts and reasoning in the order in which they started, calls and results of
// hosted tools where they were published. It ignores invalid sequences; [Checker] verifies the order.
//
// The zero value is ready to use. A Fold is not safe for concurrent use.
type Fold struct {
	parts   []*foldPart
	open    map[blockKey]*foldPart
	pending []ToolCall // calls whose input is incomplete, in order
	input   map[string]*strings.Builder
	step    StepStart
	end     StepFinish
	meta    Metadata
	err     *Error
	done    bool
}

type foldPart struct {
	kind  BlockKind
	text  strings.Builder
	meta  Metadata
	ended bool
	whole Part // a complete call or result
}

// Add processes the next event.
func (f *Fold) Add(e Event) {
	switch e := e.(type) {
	case StepStart:
		f.step = e
	case BlockStart:
		f.start(e)
	case BlockDelta:
		if p := f.open[blockKey{e.Kind, e.ID}]; p != nil {
			p.text.WriteString(e.Text)
		} else if b := f.input[e.ID]; b != nil && e.Kind == BlockToolInput {
			b.WriteString(e.Text)
		}
	case BlockEnd:
		k := blockKey{e.Kind, e.ID}
		if p := f.open[k]; p != nil {
			p.ended = true
			if e.Metadata != nil {
				p.meta = e.Metadata
			}
			delete(f.open, k)
		}
	case ToolInputError:
		f.drop(e.ID)
	case ToolCallDone:
		f.drop(e.Call.ID)
		call := e.Call
		f.parts = append(f.parts, &foldPart{whole: &call, ended: true})
	case ToolResultDone:
		res := e.Result
		f.parts = append(f.parts, &foldPart{whole: &res, ended: true})
	case StepFinish:
		f.end = e
	case Finish:
		f.done = true
		f.end.Reason = e.Reason
		if e.Usage.known() {
			f.end.Usage = e.Usage
		}
		f.meta = e.Metadata
	case *Error:
		f.err = e
	}
}

func (f *Fold) start(e BlockStart) {
	if e.Kind == BlockToolInput {
		f.drop(e.ID)
		f.pending = append(f.pending, ToolCall{
			ID: e.ID, Name: e.Name, Namespace: e.Namespace, Freeform: e.Freeform, ProviderExecuted: e.ProviderExecuted,
		})
		if f.input == nil {
			f.input = map[string]*strings.Builder{}
		}
		f.input[e.ID] = &strings.Builder{}
		return
	}
	p := &foldPart{kind: e.Kind, meta: e.Metadata}
	f.parts = append(f.parts, p)
	if f.open == nil {
		f.open = map[blockKey]*foldPart{}
	}
	f.open[blockKey{e.Kind, e.ID}] = p
}

func (f *Fold) drop(id string) {
	f.pending = slices.DeleteFunc(f.pending, func(c ToolCall) bool { return c.ID == id })
	delete(f.input, id)
}

func (u Usage) known() bool {
	return u.Input != nil || u.Output != nil || u.Total != nil || u.CacheRead != nil || u.CacheWrite != nil || u.Reasoning != nil ||
		u.Raw != nil || u.CostUSD != nil
}

// Message returns a copy of the assistant's message so far. Empty texts and reasoning without metadata are left out,
// because no vendor accepts them.
func (f *Fold) Message() *Message { return f.message(false) }

// Ended returns the complete part of the message: blocks that have ended, calls, and results. This is what can be kept if
// the stream breaks.
func (f *Fold) Ended() *Message { return f.message(true) }

func (f *Fold) message(endedOnly bool) *Message {
	m := &Message{Role: RoleAssistant, Metadata: maps.Clone(f.meta)}
	for _, p := range f.parts {
		if endedOnly && !p.ended {
			continue
		}
		if q := p.part(); q != nil {
			m.Parts = append(m.Parts, q)
		}
	}
	return m
}

func (p *foldPart) part() Part {
	switch w := p.whole.(type) {
	case *ToolCall:
		c := *w
		return &c
	case *ToolResult:
		r := *w
		return &r
	}
	s := p.text.String()
	if s == "" && len(p.meta) == 0 {
		return nil
	}
	switch p.kind {
	case BlockText:
		return &Text{Text: s, Metadata: p.meta}
	case BlockReasoning:
		return &Reasoning{Text: s, Metadata: p.meta}
	}
	return nil
}

// Calls returns the published calls that the vendor did not execute itself, in order.
func (f *Fold) Calls() []*ToolCall {
	var out []*ToolCall
	for _, p := range f.parts {
		if c, ok := p.whole.(*ToolCall); ok && !c.ProviderExecuted {
			c := *c
			out = append(out, &c)
		}
	}
	return out
}

// Pending returns the calls whose input is still incomplete, with the input so far.
func (f *Fold) Pending() []*ToolCall {
	var out []*ToolCall
	for _, c := range f.pending {
		c.Input = f.input[c.ID].String()
		out = append(out, &c)
	}
	return out
}

// Step returns the first event of the answer, with the serving model and the response ID.
func (f *Fold) Step() StepStart { return f.step }

// End returns how the answer ended: the reason, the last reported usage, and whether the model wants to continue.
func (f *Fold) End() StepFinish { return f.end }

// Done reports whether the answer is complete.
func (f *Fold) Done() bool { return f.done }

// Err returns the error that ended the stream, nil if none did.
func (f *Fold) Err() *Error { return f.err }
