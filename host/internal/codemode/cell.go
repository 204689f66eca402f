package codemode

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Bounds of what a script outputs between two answers and of what it stores, in bytes. The script is untrusted, and so is its process:
// the bounds in the prelude are for its messages.
const (
	maxOutput = 8 << 20
	itemBytes = 64       // of the host's memory, for an item without content
	maxNotes  = 16 << 10 // models read notes in addition to the output
	maxStored = 1 << 20
)

// cell is a script and what it has output since the last answer. It implements [codemode.Owner].
type cell struct {
	thread  *Thread
	id      string
	calls   *orchestrate.Cell
	session *codemode.Session
	yields  chan struct{} // has an element when the script has asked its observer for an answer

	mu      sync.Mutex
	tools   catalogue // of the call that has observed the cell last
	items   []contract.Part
	size    int
	dropped bool                       // items or notes
	stored  map[string]json.RawMessage // nil: deleted
	watcher *observer                  // nil: none
	known   bool                       // the model knows the cell's ID
	left    []session                  // by calls, in order; some may have ended
}

// session is a session that a call has left, such as a command that goes on.
type session struct{ plugin, id, tool string }

// maxLeft bounds the sessions of which an answer tells; plugins bound how many there are.
const maxLeft = 32

// observer is a call that observes a cell.
type observer struct {
	release  func() // ends the observation
	progress func(text string)
}

// observed says that a call begins to observe the cell, or ends to (nil).
func (c *cell) observed(o *observer, tools catalogue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watcher, c.tools = o, tools
	select {
	case <-c.yields: // for an observer that has ended otherwise
	default:
	}
}

// catalogue holds the tools that a script can call, by the name under which it calls them.
type catalogue struct {
	byName map[string]*registry.Entry
	names  []string // in order
}

// catalogueOf returns the tools that scripts can call. Of tools whose names are the same in scripts, the first is used.
func catalogueOf(tools *registry.Snapshot, traits []string) catalogue {
	c := catalogue{byName: map[string]*registry.Entry{}}
	for _, e := range tools.CodeTools(traits) {
		name := callable(e)
		if c.byName[name] == nil {
			c.byName[name] = e
			c.names = append(c.names, name)
		}
	}
	return c
}

// callable returns the name under which scripts call a tool; codex-compatible.
func callable(e *registry.Entry) string {
	if e.Namespace == "" || e.Namespace == registry.DefaultNamespace {
		return codemode.CallableName(e.Name)
	}
	return codemode.CallableName(e.Namespace + "__" + e.Name)
}

// Call implements [codemode.Owner].
func (c *cell) Call(ctx context.Context, call frame.Call) (json.RawMessage, error) {
	c.mu.Lock()
	tools := c.tools
	c.mu.Unlock()
	if call.Namespace == guideNamespace {
		return guide(tools, call)
	}
	e := tools.byName[call.Name]
	if e == nil {
		return nil, fmt.Errorf("Tool %q not found; ALL_TOOLS lists what can be called", call.Name)
	}
	in, err := input(e, call)
	if err != nil {
		return nil, err
	}
	result, err := c.calls.CallTool(ctx, e.Namespace, e.Name, in)
	if err != nil {
		return nil, err
	}
	if result.SessionID != "" {
		c.mu.Lock()
		if s := (session{e.Plugin, result.SessionID, call.Name}); len(c.left) < maxLeft && !slices.Contains(c.left, s) {
			c.left = append(c.left, s)
		}
		c.mu.Unlock()
	}
	return value(result)
}

// sessionsLeft returns a text about the sessions that the script's calls have left and that have not ended: the script may not have said so.
func (c *cell) sessionsLeft(ended func(plugin, session string) bool) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var open []string
	for _, s := range c.left {
		if !ended(s.plugin, s.id) {
			open = append(open, fmt.Sprintf("%s of %s", s.id, s.tool))
		}
	}
	if len(open) == 0 {
		return nil
	}
	return []string{"Sessions that calls of the script began and that still run: " + strings.Join(open, ", ")}
}

// input converts the argument of a call; codex-compatible.
func input(e *registry.Entry, call frame.Call) (contract.Input, error) {
	var argument json.RawMessage
	if len(call.Args) > 0 && string(call.Args[0]) != "null" {
		argument = call.Args[0]
	}
	if e.Freeform != nil {
		var text string
		if argument == nil || json.Unmarshal(argument, &text) != nil {
			return contract.Input{}, fmt.Errorf("tool `%s` expects a string input", call.Name)
		}
		return contract.Input{Text: text, Freeform: true}, nil
	}
	switch {
	case argument == nil:
		argument = json.RawMessage("{}")
	case argument[0] != '{':
		return contract.Input{}, fmt.Errorf("tool `%s` expects a JSON object for arguments", call.Name)
	}
	return contract.Input{Arguments: argument}, nil
}

// value returns what a call evaluates to: the structured result, or else the text for the model. The error is the text of a failure.
func value(r *contract.Result) (json.RawMessage, error) {
	var text strings.Builder
	for _, p := range r.Parts {
		switch p := p.(type) {
		case *contract.TextPart:
			if p.Audience != contract.AudienceUser {
				text.WriteString(p.Text)
			}
		case *contract.JSONPart:
			if p.Audience != contract.AudienceUser {
				text.Write(p.JSON)
			}
		}
	}
	switch {
	case r.IsError || r.Aborted:
		message := text.String()
		if message == "" {
			message = "Tool call failed"
		}
		return nil, errors.New(message)
	case len(r.Structured) > 0:
		return r.Structured, nil
	}
	return json.Marshal(text.String())
}

// Emit implements [codemode.Owner].
func (c *cell) Emit(e frame.Emit) {
	var text string
	switch e.Kind {
	case "text":
		if json.Unmarshal(e.Value, &text) == nil {
			c.output(&contract.TextPart{Text: text}, len(text))
		}
	case "media":
		var m struct {
			MediaType string `json:"media_type"`
			Data      string `json:"data"`
			Detail    string `json:"detail"`
		}
		if json.Unmarshal(e.Value, &m) != nil {
			return
		}
		data, err := base64.StdEncoding.DecodeString(strings.Map(withoutSpace, m.Data))
		if err != nil {
			c.output(&contract.TextPart{Text: "[" + m.MediaType + " left out: its data is not valid base64]"}, 0)
			return
		}
		c.output(&contract.MediaPart{MediaType: m.MediaType, Data: data, Detail: m.Detail}, len(data))
	case "store":
		var s struct {
			Key   string  `json:"key"`
			Value *string `json:"value"`
		}
		if json.Unmarshal(e.Value, &s) != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stored == nil {
			c.stored = map[string]json.RawMessage{}
		}
		delete(c.stored, s.Key)
		size := itemBytes + len(s.Key)
		for key, v := range c.stored {
			size += itemBytes + len(key) + len(v)
		}
		if s.Value != nil {
			size += len(*s.Value)
		}
		switch {
		case size > maxStored:
		case s.Value == nil:
			c.stored[s.Key] = nil
		case json.Valid([]byte(*s.Value)):
			c.stored[s.Key] = json.RawMessage(*s.Value)
		}
	case "notify":
		if json.Unmarshal(e.Value, &text) == nil {
			c.notify(text)
		}
	case "yield":
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.watcher == nil {
			return
		}
		c.watcher.release() // calls after this one wait for the next observer
		c.yields <- struct{}{}
		c.watcher = nil
	}
}

// Log implements [codemode.Owner]. Lines of the console are output, since models write them to be read.
func (c *cell) Log(line string) { c.output(&contract.TextPart{Text: line}, len(line)) }

func (c *cell) output(p contract.Part, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += itemBytes + size; c.size > maxOutput {
		c.size -= itemBytes + size
		c.dropped = true
		return
	}
	c.items = append(c.items, p)
}

// notify passes on a note: people see it at once, and the model reads it in its next request, whether or not a call observes the cell.
func (c *cell) notify(text string) {
	kept := c.thread.note(c.id, text)
	c.mu.Lock()
	c.dropped = c.dropped || !kept
	watcher := c.watcher
	c.mu.Unlock()
	if kept && watcher != nil {
		watcher.progress(text)
	}
}

// take returns what the script has output since the last answer.
func (c *cell) take() (items []contract.Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	items = c.items
	if c.dropped {
		items = append(items, &contract.TextPart{Text: fmt.Sprintf("[output beyond %d MiB or notes beyond %d KiB left out]", maxOutput>>20, maxNotes>>10)})
	}
	c.items, c.size, c.dropped = nil, 0, false
	return items
}

func withoutSpace(r rune) rune {
	if strings.ContainsRune(" \t\r\n", r) {
		return -1
	}
	return r
}
