package acp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/transcript"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Bounds of the output of a running command, which is sent whole each time.
const (
	maxLive     = 16 << 10               // bytes; the end of a longer output
	outputDelay = 100 * time.Millisecond // for which changes are collected
)

// view converts the notifications of a thread into updates of its session, the same live and from the log. One goroutine uses it.
type view struct {
	// terminals: the editor shows output as that of a terminal. This is an extension of the protocol, with which output need not be sent
	// whole each time.
	terminals bool
	// read returns stored text; "", false: it is not available or not text.
	read func(digest string) (string, bool)
	// skip reports whether a message of the user is one that the editor has sent, and shows already; nil: none is.
	skip func(text string) bool

	titled  bool
	sent    map[string]string             // what was sent of open messages and thoughts
	calls   map[string]acp.ToolCallUpdate // open tool calls, as they were sent last
	changes map[string][]event.FileChange // of completed items, with the digests of the contents
	images  map[string][]*llm.Media       // of messages of the user
	latest  []*llm.Media                  // of the last message in the history
	outputs map[string]*output            // of running commands
	dirty   time.Time                     // since when an output has changed that was not sent; zero: none has
}

// output is the end of what a running command has written.
type output struct {
	text  string
	dirty bool
}

func newView(terminals bool, read func(string) (string, bool)) *view {
	return &view{
		terminals: terminals, read: read, sent: map[string]string{}, calls: map[string]acp.ToolCallUpdate{}, changes: map[string][]event.FileChange{},
		images:  map[string][]*llm.Media{},
		outputs: map[string]*output{},
	}
}

// note keeps what notifications lack: the digests of changed files, and images.
func (v *view) note(e event.Event) {
	switch b := e.Body.(type) {
	case event.HistoryAdded: // precedes the item of a message
		v.latest = nil
		for _, m := range b.Messages {
			for _, p := range m.Parts {
				if image, ok := p.(*llm.Media); ok && m.Role == llm.RoleUser && len(image.Data) > 0 {
					v.latest = append(v.latest, image)
				}
			}
		}
	case event.ItemCompleted:
		id := string(b.Item.Call)
		if id == "" {
			id = string(b.Item.ID)
		}
		if len(b.Item.Changes) > 0 {
			v.changes[id] = b.Item.Changes
		}
		if b.Item.Type == event.ItemUserMessage && len(v.latest) > 0 {
			v.images[id] = v.latest
		}
		v.latest = nil
	}
}

// updates converts a notification.
func (v *view) updates(c transcript.Change) []acp.SessionUpdate {
	switch p := c.Params.(type) {
	case protocol.ItemStartedNotification:
		return v.started(p.Item)
	case protocol.ItemCompletedNotification:
		return v.completed(p.Item)
	case protocol.AgentMessageDeltaNotification:
		v.sent[p.ItemID] += p.Delta
		return []acp.SessionUpdate{message(p.Delta)}
	case protocol.ReasoningSummaryTextDeltaNotification:
		v.sent[p.ItemID] += p.Delta
		return []acp.SessionUpdate{thought(p.Delta)}
	case protocol.ReasoningTextDeltaNotification:
		v.sent[p.ItemID] += p.Delta
		return []acp.SessionUpdate{thought(p.Delta)}
	case protocol.CommandExecutionOutputDeltaNotification:
		return v.wrote(p.ItemID, p.Delta)
	case protocol.TurnPlanUpdatedNotification:
		return []acp.SessionUpdate{plan(p.Plan)}
	case protocol.ThreadNameUpdatedNotification:
		if p.ThreadName != nil {
			v.titled = true
			return []acp.SessionUpdate{title(*p.ThreadName)}
		}
	case protocol.WarningNotification:
		return []acp.SessionUpdate{thought("Warning: " + p.Message + "\n")}
	case protocol.GuardianWarningNotification:
		return []acp.SessionUpdate{thought("Warning: " + p.Message + "\n")}
	case protocol.ThreadTokenUsageUpdatedNotification:
		return usage(p.TokenUsage)
	case protocol.ErrorNotification:
		if p.WillRetry {
			return []acp.SessionUpdate{thought(p.Error.Message + "\n")}
		}
	}
	return nil
}

func message(text string) acp.SessionUpdate {
	return acp.SessionUpdate{AgentMessageChunk: &acp.SessionUpdateAgentMessageChunk{Content: acp.TextBlock(text)}}
}

func thought(text string) acp.SessionUpdate {
	return acp.SessionUpdate{AgentThoughtChunk: &acp.SessionUpdateAgentThoughtChunk{Content: acp.TextBlock(text)}}
}

func title(text string) acp.SessionUpdate {
	return acp.SessionUpdate{SessionInfoUpdate: &acp.SessionSessionInfoUpdate{Title: &text}}
}

// usage says how full the context window is; nil: its size is unknown.
func usage(u protocol.ThreadTokenUsage) []acp.SessionUpdate {
	if u.ModelContextWindow == nil {
		return nil
	}
	return []acp.SessionUpdate{{UsageUpdate: &acp.SessionUsageUpdate{Used: int(u.Last.TotalTokens), Size: int(*u.ModelContextWindow)}}}
}

func plan(steps []protocol.TurnPlanStep) acp.SessionUpdate {
	entries := make([]acp.PlanEntry, len(steps))
	for i, s := range steps {
		entries[i] = acp.PlanEntry{Content: s.Step, Priority: acp.PlanEntryPriorityMedium, Status: acp.PlanEntryStatusPending}
		switch s.Status {
		case protocol.StepInProgress:
			entries[i].Status = acp.PlanEntryStatusInProgress
		case protocol.StepCompleted:
			entries[i].Status = acp.PlanEntryStatusCompleted
		}
	}
	return acp.SessionUpdate{Plan: &acp.SessionUpdatePlan{Entries: entries}}
}

// started announces an item. Messages are announced by their text.
func (v *view) started(it protocol.ThreadItem) []acp.SessionUpdate {
	id := it.Body.Header().ID
	switch b := it.Body.(type) {
	case protocol.UserMessageItem:
		return v.user(b)
	case protocol.AgentMessageItem:
		return v.rest(id, b.Text, message)
	case protocol.ReasoningItem:
		return v.rest(id, strings.Join(append(b.Summary, b.Content...), "\n\n"), thought)
	case protocol.EnteredReviewModeItem:
		return []acp.SessionUpdate{thought("Review of " + b.Review + "\n")}
	case protocol.ExitedReviewModeItem:
		return nil // its text comes when it has completed
	}
	call, ok := toolCall(it)
	if !ok {
		return nil
	}
	out := call.start()
	if c, ok := it.Body.(protocol.CommandExecutionItem); ok {
		o := &output{}
		if c.AggregatedOutput != nil {
			o.text = tail(*c.AggregatedOutput)
		}
		v.outputs[id] = o
		if v.terminals {
			out.Meta = map[string]any{"terminal_info": map[string]any{"terminal_id": id, "cwd": c.Cwd}}
			call.Content = []acp.ToolCallContent{acp.ToolTerminalRef(id)}
			out.Content = call.Content
		}
	}
	v.calls[id] = call.ToolCallUpdate
	return []acp.SessionUpdate{{ToolCall: &out}}
}

// user shows a message of a user that the editor does not know.
func (v *view) user(b protocol.UserMessageItem) []acp.SessionUpdate {
	var out []acp.SessionUpdate
	show := func(text string) {
		out = append(out, acp.SessionUpdate{UserMessageChunk: &acp.SessionUpdateUserMessageChunk{Content: acp.TextBlock(text)}})
	}
	text := ""
	images := v.images[b.ID]
	delete(v.images, b.ID)
	for _, part := range b.Content {
		switch p := part.Body.(type) {
		case protocol.TextInput:
			text += p.Text
			show(p.Text)
		case protocol.ImageInput, protocol.LocalImageInput:
			if len(images) == 0 {
				show("[image]")
				break
			}
			out = append(out, acp.SessionUpdate{UserMessageChunk: &acp.SessionUpdateUserMessageChunk{
				Content: acp.ImageBlock(base64.StdEncoding.EncodeToString(images[0].Data), images[0].MediaType),
			}})
			images = images[1:]
		}
	}
	if v.skip != nil && v.skip(text) {
		out = nil
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); first != "" && !v.titled {
		v.titled = true
		out = append(out, title(cut(first, maxTitle)))
	}
	return out
}

// maxTitle bounds the title that a session without a name has, in bytes.
const maxTitle = 80

// rest sends what was not sent of a text. If parts of it were lost, because the session fell behind or was loaded in between, it is sent
// whole: what an editor shows can't be taken back.
func (v *view) rest(id, text string, chunk func(string) acp.SessionUpdate) []acp.SessionUpdate {
	sent := v.sent[id]
	rest, ok := strings.CutPrefix(text, sent)
	if !ok && text != "" {
		rest = "\n\n" + text
	}
	if rest == "" || text == "" {
		return nil
	}
	v.sent[id] = text
	return []acp.SessionUpdate{chunk(rest)}
}

// past shows an item of the history. A call that has ended is one update, unless the editor shows its output as that of a terminal.
func (v *view) past(it protocol.ThreadItem) []acp.SessionUpdate {
	begin, end := v.started(it), v.completed(it)
	if len(begin) == 1 && begin[0].ToolCall != nil && len(end) == 1 && end[0].ToolCallUpdate != nil && end[0].ToolCallUpdate.Meta == nil {
		begin[0].ToolCall.Content, begin[0].ToolCall.RawOutput = end[0].ToolCallUpdate.Content, end[0].ToolCallUpdate.RawOutput
		return begin
	}
	return append(begin, end...)
}

// completed ends an item.
func (v *view) completed(it protocol.ThreadItem) (out []acp.SessionUpdate) {
	id := it.Body.Header().ID
	switch b := it.Body.(type) {
	case protocol.UserMessageItem, protocol.EnteredReviewModeItem:
		return nil
	case protocol.AgentMessageItem:
		out = v.rest(id, b.Text, message)
		delete(v.sent, id)
		return out
	case protocol.ReasoningItem:
		out = v.rest(id, strings.Join(append(b.Summary, b.Content...), "\n\n"), thought)
		delete(v.sent, id)
		return out
	case protocol.ExitedReviewModeItem:
		return []acp.SessionUpdate{message(b.Review)}
	}
	call, ok := toolCall(it)
	if !ok {
		return nil
	}
	switch b := it.Body.(type) {
	case protocol.CommandExecutionItem:
		out = v.commandEnded(id, b, &call)
	case protocol.FileChangeItem:
		call.Content = contents(v.changes[id], b.Changes, v.read)
	}
	delete(v.calls, id)
	delete(v.outputs, id)
	delete(v.changes, id)
	update := call.update()
	update.Meta = call.Meta
	return append(out, acp.SessionUpdate{ToolCallUpdate: &update})
}

// commandEnded completes the content of a command.
func (v *view) commandEnded(id string, c protocol.CommandExecutionItem, call *tool) (out []acp.SessionUpdate) {
	text := ""
	if c.AggregatedOutput != nil {
		text = *c.AggregatedOutput
	}
	if !v.terminals {
		call.Content = fenced(text)
		return nil
	}
	call.Content = []acp.ToolCallContent{acp.ToolTerminalRef(id)}
	meta := map[string]any{"terminal_id": id, "exit_code": c.ExitCode, "signal": nil}
	call.Meta = map[string]any{"terminal_exit": meta}
	if o := v.outputs[id]; o != nil && o.text == "" && text != "" { // from the log
		out = append(out, terminalOutput(id, text))
	}
	return out
}

// wrote adds to the output of a running command.
func (v *view) wrote(id, text string) []acp.SessionUpdate {
	o := v.outputs[id]
	if o == nil {
		return nil
	}
	o.text = tail(o.text + text)
	if v.terminals {
		return []acp.SessionUpdate{terminalOutput(id, text)}
	}
	o.dirty = true
	if v.dirty.IsZero() {
		v.dirty = time.Now()
	}
	return nil
}

// flush sends the outputs that have changed.
func (v *view) flush() []acp.SessionUpdate {
	var out []acp.SessionUpdate
	for id, o := range v.outputs {
		if o.dirty {
			o.dirty = false
			call := v.calls[id]
			call.Content = fenced(o.text)
			v.calls[id] = call
			out = append(out, acp.SessionUpdate{ToolCallUpdate: &acp.SessionToolCallUpdate{ToolCallId: acp.ToolCallId(id), Content: call.Content}})
		}
	}
	v.dirty = time.Time{}
	return out
}

func terminalOutput(id, text string) acp.SessionUpdate {
	return acp.SessionUpdate{ToolCallUpdate: &acp.SessionToolCallUpdate{
		ToolCallId: acp.ToolCallId(id), Meta: map[string]any{"terminal_output": map[string]any{"terminal_id": id, "data": text}},
	}}
}

// tail returns the end of a text, without a cut character.
func tail(text string) string {
	if len(text) <= maxLive {
		return text
	}
	text = text[len(text)-maxLive:]
	for len(text) > 0 && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

// cut returns at most n bytes of a text, without a cut character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// fenced shows output as a block of code, whose fence is longer than any in the output.
func fenced(text string) []acp.ToolCallContent {
	if text == "" {
		return nil
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return []acp.ToolCallContent{acp.ToolContent(acp.TextBlock(fmt.Sprintf("%s\n%s\n%s", fence, strings.TrimRight(text, "\n"), fence)))}
}

// rawJSON returns JSON as a value; what is not JSON becomes a string.
func rawJSON(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	if !json.Valid(raw) {
		return string(raw)
	}
	return raw
}
