package acp

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// tool is a call in the protocol's shape.
type tool struct{ acp.ToolCallUpdate }

// start returns the update that announces the call.
func (t tool) start() acp.SessionUpdateToolCall {
	return acp.SessionUpdateToolCall{
		ToolCallId: t.ToolCallId, Title: *t.Title, Kind: *t.Kind, Status: *t.Status, Content: t.Content, Locations: t.Locations, RawInput: t.RawInput,
	}
}

// update returns the update with everything that may have changed.
func (t tool) update() acp.SessionToolCallUpdate {
	return acp.SessionToolCallUpdate{
		ToolCallId: t.ToolCallId, Title: t.Title, Kind: t.Kind, Status: t.Status, Content: t.Content, Locations: t.Locations, RawOutput: t.RawOutput,
	}
}

// toolCall converts an item that is a call. ok is false for other items, and for those that editors do not show.
func toolCall(it protocol.ThreadItem) (t tool, ok bool) {
	t.ToolCallId = acp.ToolCallId(it.Body.Header().ID)
	kind, name, status := acp.ToolKindOther, "", acp.ToolCallStatusInProgress
	if it.Body.Header().CompletedAtMs != nil {
		status = acp.ToolCallStatusCompleted
	}
	switch b := it.Body.(type) {
	case protocol.CommandExecutionItem:
		kind, t.Locations = commandKind(b)
		name, status = oneLine(b.Script()), statusOf(b.Status)
		t.RawInput = map[string]any{"command": b.Script(), "cwd": b.Cwd}
		if b.ExitCode != nil {
			t.RawOutput = map[string]any{"exitCode": *b.ExitCode}
		}
	case protocol.FileChangeItem:
		kind, name = changeKind(b.Changes)
		status = statusOf(b.Status)
		t.Content = contents(nil, b.Changes, nil)
		t.Locations = changed(b.Changes)
	case protocol.MCPToolCallItem:
		name, status = b.Server+": "+b.Tool, statusOf(b.Status)
		t.RawInput = rawJSON(b.Arguments)
		if b.Result != nil {
			t.Content = results(b.Result.Content)
		} else if b.Error != nil {
			t.Content = fenced(b.Error.Message)
		}
	case protocol.DynamicToolCallItem:
		name, status = b.Tool, statusOf(b.Status)
		if b.Namespace != nil {
			name = *b.Namespace + ": " + b.Tool
		}
		t.RawInput = rawJSON(b.Arguments)
		for _, c := range b.ContentItems {
			if text, ok := c.Body.(protocol.InputTextContent); ok {
				t.Content = append(t.Content, fenced(text.Text)...)
			}
		}
	case protocol.WebSearchItem:
		kind, name = acp.ToolKindFetch, "Search the web: "+oneLine(b.Query)
		t.RawInput = map[string]any{"query": b.Query}
	case protocol.ImageViewItem:
		kind, name = acp.ToolKindRead, "View "+filepath.Base(b.Path)
		t.Locations = []acp.ToolCallLocation{{Path: b.Path}}
	case protocol.ContextCompactionItem:
		kind, name = acp.ToolKindThink, "Shorten the conversation"
	default:
		return t, false
	}
	t.Kind, t.Title, t.Status = &kind, &name, &status
	return t, true
}

func statusOf(s protocol.ItemStatus) acp.ToolCallStatus {
	switch s {
	case protocol.ItemInProgress:
		return acp.ToolCallStatusInProgress
	case protocol.ItemCompleted:
		return acp.ToolCallStatusCompleted
	}
	return acp.ToolCallStatusFailed
}

// maxName bounds the title of a call, in bytes.
const maxName = 300

func oneLine(text string) string {
	first, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if first = cut(first, maxName); more && !strings.HasSuffix(first, "…") {
		first += " …"
	}
	return first
}

// commandKind says what a command does, if all of its parts do the same, and which files it reads.
func commandKind(c protocol.CommandExecutionItem) (acp.ToolKind, []acp.ToolCallLocation) {
	var kind acp.ToolKind
	var at []acp.ToolCallLocation
	for _, a := range c.CommandActions {
		is := acp.ToolKindExecute
		switch b := a.Body.(type) {
		case protocol.ReadAction:
			is = acp.ToolKindRead
			at = append(at, acp.ToolCallLocation{Path: absolute(c.Cwd, b.Path)})
		case protocol.ListFilesAction, protocol.SearchAction:
			is = acp.ToolKindSearch
		}
		if kind != "" && is != kind {
			is = acp.ToolKindExecute
		}
		kind = is
	}
	if kind == "" {
		kind = acp.ToolKindExecute
	}
	return kind, at
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// changeKind says what a change does to its files.
func changeKind(changes []protocol.FileUpdateChange) (kind acp.ToolKind, name string) {
	kinds := map[string]int{}
	for _, c := range changes {
		kinds[verbOf(c)]++
	}
	if len(kinds) > 1 || len(changes) == 0 {
		return acp.ToolKindEdit, fmt.Sprintf("Edit %d files", len(changes))
	}
	c := changes[0]
	verb := verbOf(c)
	switch verb {
	case "Delete":
		kind = acp.ToolKindDelete
	case "Move":
		kind = acp.ToolKindMove
	default:
		kind = acp.ToolKindEdit
	}
	if len(changes) > 1 {
		return kind, fmt.Sprintf("%s %d files", verb, len(changes))
	}
	return kind, verb + " " + filepath.Base(c.Path)
}

func verbOf(c protocol.FileUpdateChange) string {
	switch k := c.Kind.Body.(type) {
	case protocol.AddPatch:
		return "Create"
	case protocol.DeletePatch:
		return "Delete"
	case protocol.UpdatePatch:
		if k.MovePath != nil {
			return "Move"
		}
	}
	return "Edit"
}

// target returns the path of a file after its change.
func target(c protocol.FileUpdateChange) string {
	if k, ok := c.Kind.Body.(protocol.UpdatePatch); ok && k.MovePath != nil {
		return *k.MovePath
	}
	return c.Path
}

// changed returns the places of changes.
func changed(changes []protocol.FileUpdateChange) []acp.ToolCallLocation {
	var out []acp.ToolCallLocation
	for _, c := range changes {
		at := acp.ToolCallLocation{Path: target(c)}
		if hunks := hunksOf(c.Diff); len(hunks) > 0 && hunks[0].line > 0 {
			at.Line = &hunks[0].line
		}
		out = append(out, at)
	}
	return out
}

// results converts the content of an MCP result.
func results(content []json.RawMessage) []acp.ToolCallContent {
	var out []acp.ToolCallContent
	for _, raw := range content {
		var c struct{ Type, Text, Data, MimeType string }
		if json.Unmarshal(raw, &c) != nil {
			continue
		}
		switch c.Type {
		case "text":
			out = append(out, fenced(c.Text)...)
		case "image":
			if strings.HasPrefix(c.Data, event.ArtifactURL) { // editors can't load it
				out = append(out, fenced("image: "+c.Data)...)
				continue
			}
			out = append(out, acp.ToolContent(acp.ImageBlock(c.Data, c.MimeType)))
		}
	}
	return out
}
