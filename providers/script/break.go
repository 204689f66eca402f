package script

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// flushDelay is how long a process waits by default before it dies: sent data leaves it through the transport's goroutines, whose
// completion cannot be observed. 20 ms is several hundred times what they need.
const flushDelay Millis = 20

// strike truncates the events where the break occurs, and returns the actions there.
func (b *Break) strike(events []timed) ([]timed, []Action) {
	kept, delay := b.keep(events), b.Delay
	last := []Action{Halt{How: b.How, Code: b.Code}}
	switch b.How {
	case "", "incomplete":
		last = []Action{Emit{Event: failureOf(llm.ErrIncompleteStream)}}
	case "exit", "kill":
		if delay == 0 {
			delay = flushDelay
		}
	}
	if delay > 0 {
		last = append([]Action{Wait{For: delay.Duration()}}, last...)
	}
	return kept, last
}

// keep returns the events before the break, never including the finish.
func (b *Break) keep(events []timed) []timed {
	var kept []timed
	bytes := 0
	for _, e := range events {
		switch ev := e.event.(type) {
		case llm.StepFinish, llm.Finish, *llm.Error:
			return kept
		case llm.BlockDelta:
			if b.AfterBytes == nil {
				break
			}
			if left := *b.AfterBytes - bytes; len(ev.Text) >= left {
				for left > 0 && !isBoundary(ev.Text, left) {
					left--
				}
				if ev.Text = ev.Text[:left]; left > 0 {
					kept = append(kept, timed{wait: e.wait, event: ev})
				}
				return kept
			}
			bytes += len(ev.Text)
		}
		kept = append(kept, e)
	}
	return kept
}

// malformation is a way to violate the order of events. It converts a complete response to an invalid one; eof leaves the stream
// without an end.
type malformation struct {
	block  bool // needs a block with deltas
	call   bool // needs a call
	change func(events []timed) (out []timed, eof bool)
}

func before(match func(llm.Event) bool, insert func(llm.Event) llm.Event) func([]timed) ([]timed, bool) {
	return edit(match, func(e timed) []timed { return []timed{{event: insert(e.event)}, e} })
}

func twice(match func(llm.Event) bool) func([]timed) ([]timed, bool) {
	return edit(match, func(e timed) []timed { return []timed{e, {event: e.event}} })
}

func without(match func(llm.Event) bool) func([]timed) ([]timed, bool) {
	return edit(match, func(timed) []timed { return nil })
}

// edit replaces the first event that matches.
func edit(match func(llm.Event) bool, by func(timed) []timed) func([]timed) ([]timed, bool) {
	return func(events []timed) ([]timed, bool) {
		i := slices.IndexFunc(events, func(e timed) bool { return match(e.event) })
		if i < 0 {
			return events, false
		}
		return slices.Concat(events[:i], by(events[i]), events[i+1:]), false
	}
}

func is[T llm.Event](e llm.Event) bool {
	_, ok := e.(T)
	return ok
}

func always(e llm.Event) func(llm.Event) llm.Event { return func(llm.Event) llm.Event { return e } }

func malformations() map[string]malformation {
	return map[string]malformation{
		"no-step-start":           {change: without(is[llm.StepStart])},
		"two-step-starts":         {change: twice(is[llm.StepStart])},
		"late-attempt":            {change: edit(is[llm.StepStart], func(e timed) []timed { return []timed{e, {event: llm.Attempt{N: 2, Reason: "too late"}}} })},
		"delta-without-start":     {block: true, change: without(is[llm.BlockStart])},
		"two-starts":              {block: true, change: twice(is[llm.BlockStart])},
		"two-ends":                {block: true, change: twice(is[llm.BlockEnd])},
		"no-end":                  {block: true, change: without(is[llm.BlockEnd])},
		"end-without-start":       {change: before(is[llm.StepFinish], always(llm.BlockEnd{Kind: llm.BlockText, ID: "text-nobody-started"}))},
		"delta-after-end":         {block: true, change: edit(is[llm.BlockEnd], deltaAfter)},
		"two-calls":               {call: true, change: twice(is[llm.ToolCallDone])},
		"no-step-finish":          {change: without(is[llm.StepFinish])},
		"two-step-finishes":       {change: twice(is[llm.StepFinish])},
		"block-after-step-finish": {change: before(is[llm.Finish], always(llm.BlockStart{Kind: llm.BlockText, ID: "text-late"}))},
		"two-finishes":            {change: twice(is[llm.Finish])},
		"after-finish": {change: edit(is[llm.Finish], func(e timed) []timed {
			return []timed{e, {event: llm.BlockStart{Kind: llm.BlockText, ID: "text-late"}}, {event: llm.BlockDelta{Kind: llm.BlockText, ID: "text-late", Text: "and another thing"}}}
		})},
		"error-after-finish": {change: edit(is[llm.Finish], func(e timed) []timed { return []timed{e, {event: failureOf(llm.ErrProviderInternal)}} })},
		"no-finish": {change: func(events []timed) ([]timed, bool) {
			out, _ := without(is[llm.Finish])(events)
			return out, true
		}},
		"nothing": {change: func([]timed) ([]timed, bool) { return nil, true }},
	}
}

func deltaAfter(e timed) []timed {
	end := e.event.(llm.BlockEnd)
	return []timed{e, {event: llm.BlockDelta{Kind: end.Kind, ID: end.ID, Text: "late"}}}
}

// Malformations returns the valid values of [Step].Malformed.
func Malformations() []string { return sortedKeys(malformations()) }

func (s *step) checkMalformed() error {
	if s.Malformed == "" {
		return nil
	}
	m, ok := malformations()[s.Malformed]
	if !ok {
		return fmt.Errorf("malformed: unknown name %q; names are %s", s.Malformed, strings.Join(Malformations(), ", "))
	}
	block, call := false, false
	for _, p := range s.parts {
		block = true
		call = call || p.Call != ""
	}
	if m.block && !block || m.call && !call {
		return fmt.Errorf("malformed: %s needs a step that answers something", s.Malformed)
	}
	if s.failure != nil {
		return fmt.Errorf("malformed: not together with an error")
	}
	return nil
}

// distort applies the step's malformation.
func (s *step) distort(events []timed) ([]timed, []Action) {
	m, ok := malformations()[s.Malformed]
	if !ok {
		return events, nil
	}
	out, eof := m.change(events)
	if eof {
		return out, []Action{Halt{How: "eof"}}
	}
	return out, nil
}
