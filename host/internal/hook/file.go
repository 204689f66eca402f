package hook

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
)

// Problem is a part of a hooks file that can't be used. That part is ignored.
type Problem struct {
	Source string
	Where  string // place in the file; empty: the whole file
	Text   string
	Next   string
	// Foreign: it is meant for another program and is not an error.
	Foreign bool
}

func (p Problem) Error() string {
	where := p.Source
	if p.Where != "" {
		where += ", " + p.Where
	}
	return hint.Line(where+": "+p.Text, p.Next)
}

// NextStep implements [hint.Stepper].
func (p Problem) NextStep() string { return p.Next }

type fileJSON struct {
	Hooks      json.RawMessage `json:"hooks"`
	DisableAll bool            `json:"disableAllHooks"`
}

type groupJSON struct {
	Matcher *string           `json:"matcher"`
	Hooks   []json.RawMessage `json:"hooks"`
}

type handlerJSON struct {
	Type                   string   `json:"type"`
	Command                string   `json:"command"`
	Prompt                 string   `json:"prompt"`
	Model                  string   `json:"model"`
	Timeout                *float64 `json:"timeout"`
	Async                  bool     `json:"async"`
	StatusMessage          string   `json:"statusMessage"`
	AdditionalContextLimit *int64   `json:"additionalContextLimit"`
	OnError                string   `json:"onError"`
	Files                  []string `json:"files"`
}

// ParseFile parses a hooks.json, or a settings file with the same "hooks" object. The definitions are ordered by event, and then
// as in the file.
func ParseFile(text []byte, source string, scope Scope) ([]Definition, []Problem) {
	var f fileJSON
	whole := func(said string) []Problem {
		return []Problem{{Source: source, Text: said, Next: `write {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "..."}]}]}}`}}
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, whole("it can't be parsed: " + err.Error())
	}
	if f.DisableAll || len(f.Hooks) == 0 || string(f.Hooks) == "null" {
		return nil, nil
	}
	var events map[Event]json.RawMessage
	if err := json.Unmarshal(f.Hooks, &events); err != nil {
		return nil, whole(`"hooks" is not an object: ` + err.Error())
	}
	p := parser{source: source, scope: scope}
	for _, ev := range Events {
		if raw, ok := events[ev]; ok {
			p.groups(ev, raw)
			delete(events, ev)
		}
	}
	for ev := range events {
		b := Problem{Source: source, Where: string(ev), Text: "unknown event", Next: "use one of " + join(Events), Foreign: slices.Contains(foreignEvents, ev)}
		p.problems = append(p.problems, b)
	}
	slices.SortFunc(p.problems, func(a, b Problem) int { return strings.Compare(a.Where, b.Where) })
	return p.found, p.problems
}

func join(events []Event) string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = string(e)
	}
	return strings.Join(names, ", ")
}

type parser struct {
	source   string
	scope    Scope
	found    []Definition
	problems []Problem
}

func (p *parser) problem(where, text, next string) {
	p.problems = append(p.problems, Problem{Source: p.source, Where: where, Text: text, Next: next})
}

func (p *parser) groups(ev Event, raw json.RawMessage) {
	var groups []json.RawMessage
	if err := json.Unmarshal(raw, &groups); err != nil {
		p.problem(string(ev), "it is not a list of groups", `write [{"hooks": [...]}]`)
		return
	}
	for g, raw := range groups {
		where := fmt.Sprintf("%s[%d]", ev, g)
		var group groupJSON
		if err := json.Unmarshal(raw, &group); err != nil {
			p.problem(where, "it is not a group of hooks: "+err.Error(), `write {"matcher": "...", "hooks": [...]}`)
			continue
		}
		match := ""
		if group.Matcher != nil && ev.selective() {
			match = *group.Matcher
		}
		if _, err := newMatcher(match); err != nil {
			p.problem(where, fmt.Sprintf("the matcher %q is not a valid regular expression", match), `write names, "Bash|Write" for example, or a regular expression`)
			continue
		}
		for i, raw := range group.Hooks {
			p.handler(ev, match, fmt.Sprintf("%s.hooks[%d]", where, i), fmt.Sprintf("%s:%s:%d:%d", p.source, ev.snake(), g, i), raw)
		}
	}
}

func (p *parser) handler(ev Event, match, where, key string, raw json.RawMessage) {
	var h handlerJSON
	if err := json.Unmarshal(raw, &h); err != nil {
		p.problem(where, "it is not a hook: "+err.Error(), `write {"type": "command", "command": "..."}`)
		return
	}
	d := Definition{
		Key: key, Event: ev, Matcher: match, Command: h.Command, Async: h.Async, Status: h.StatusMessage, ContextTokens: h.AdditionalContextLimit,
		Source: p.source, Scope: p.scope, Files: h.Files,
	}
	asks := h.Type == "prompt" || h.Type == "agent"
	if asks {
		d.Command, d.Prompt, d.Model, d.Looks = "", h.Prompt, h.Model, h.Type == "agent"
	}
	switch {
	case asks && !ev.Judgeable():
		p.problem(where, fmt.Sprintf("a model can't judge %s", ev), "use the type \"command\", or one of the events "+join(promptEvents))
		return
	case asks && strings.TrimSpace(h.Prompt) == "":
		p.problem(where, "it has no prompt", `write "prompt": "..."`)
		return
	case asks:
	case h.Type != "" && h.Type != "command":
		p.problem(where, fmt.Sprintf("hooks of type %q are not supported", h.Type), `use the type "command", "prompt" or "agent"`)
		return
	case strings.TrimSpace(h.Command) == "":
		p.problem(where, "it has no command", `write "command": "..."`)
		return
	case h.AdditionalContextLimit != nil && *h.AdditionalContextLimit < 0:
		p.problem(where, "additionalContextLimit is negative", "write a number of tokens; 0: no limit")
		return
	}
	switch h.OnError {
	case "":
	case "proceed", "block":
		blocks := h.OnError == "block"
		d.Block = &blocks
	default:
		p.problem(where, fmt.Sprintf("onError is %q", h.OnError), `write "proceed" or "block"`)
		return
	}
	if h.Timeout != nil {
		if !(*h.Timeout >= 0 && *h.Timeout < math.MaxInt32) {
			p.problem(where, "the timeout is not a valid number of seconds", "write a number from 1 on")
			return
		}
		d.Timeout = max(time.Duration(*h.Timeout*float64(time.Second)), minTimeout)
	}
	p.found = append(p.found, d)
}
