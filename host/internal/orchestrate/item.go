package orchestrate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// maxItemOutput bounds the beginning of a call's output that its item keeps for people, in bytes: a few screens. The model's copy is
// truncated separately; a plugin that wants the full output to be kept stores it as an artifact.
const maxItemOutput = 64 << 10

// itemState is a call's item while the call runs.
type itemState struct {
	item    event.Item
	called  string // the name that the model uses
	shown   bool
	full    bool              // it has reported that no more artifacts are listed
	bytes   int64             // of output so far
	effects []contract.Effect // that were assessed
	redact  *redact.Redactor
	output  *redact.Stream // of the output
}

func newItem(c Call, e *registry.Entry, secrets *redact.Redactor) itemState {
	it := event.Item{ID: event.NewItemID(), Type: event.ItemTool, Status: event.StatusInProgress, Call: c.ID}
	it.Tool = registry.FullName(c.Model.Namespace, c.Model.Name)
	if e != nil {
		it.Plugin = e.Plugin
	}
	if !c.Model.Freeform {
		it.Arguments = validJSON(json.RawMessage(c.Model.Input))
	}
	return itemState{item: it, called: it.Tool, redact: secrets, output: secrets.Stream()}
}

func (s *itemState) id() event.ItemID { return s.item.ID }

func (s *itemState) title() string {
	switch {
	case s.item.Command != "":
		return s.item.Command
	case s.item.Text != "" && s.item.Type != event.ItemMCPCall: // whose title is the server's
		return s.item.Text
	default:
		return s.called
	}
}

func (s *itemState) begin() event.Item {
	s.shown = true
	return s.item
}

// shell returns the program and the option with which a command is run, if it is the script of a shell.
func (s *itemState) shell(script string) []string {
	for _, e := range s.effects {
		if e, ok := e.(contract.ExecEffect); ok && script != "" && e.ShellText == script && len(e.Argv) == 3 && e.Argv[2] == script {
			return []string{short(e.Argv[0]), short(e.Argv[1])}
		}
	}
	return nil
}

// assessed applies the plugin's description of the item.
func (s *itemState) assessed(it contract.Item) {
	switch it := it.(type) {
	case *contract.CommandItem:
		s.item.Type, s.item.Command, s.item.Cwd = event.ItemCommand, short(it.Command), it.Cwd
		s.item.Shell = s.shell(it.Command)
		s.item.Session = it.SessionID
		if it.ExitCode != nil {
			s.item.ExitCode = it.ExitCode
		}
	case *contract.CodeItem:
		s.item.Type, s.item.Language, s.item.Command, s.item.Session = event.ItemCode, phrase(it.Language), short(it.Source), it.SessionID
	case *contract.FileChangeItem:
		s.item.Type, s.item.Changes = event.ItemFileChange, nil
		room := maxItemDiff
		for _, c := range it.Changes {
			diff := history.Truncate(s.redact.Text(c.Diff), history.Policy{Bytes: true, Limit: int64(room)})
			room = max(room-len(diff), 0)
			s.item.Changes = append(s.item.Changes, event.FileChange{Path: c.Path, Kind: c.Kind.String(), Diff: diff, MovedFrom: c.MovedFrom})
		}
	case *contract.MCPCallItem:
		s.item.Type, s.item.Server, s.item.Tool, s.item.Arguments = event.ItemMCPCall, phrase(it.Server), phrase(it.Tool), validJSON(it.Arguments)
		s.item.Text, s.item.ReadOnly, s.item.Error = phrase(it.Title), it.ReadOnly, short(s.redact.Text(it.Error))
		s.item.Result = s.mcpResult(it.Result)
	case *contract.WebSearchItem:
		s.item.Type, s.item.Query = event.ItemWebSearch, short(it.Query)
	case *contract.ImageItem:
		s.item.Type, s.item.Path = event.ItemImage, it.Path
		s.stored(contract.ArtifactRef{SHA256: it.ArtifactSHA256})
	case *contract.BrowserItem:
		s.item.Type, s.item.Text, s.item.URL = event.ItemBrowser, short(it.Action), short(it.URL)
		s.item.Tab, s.item.Title = phrase(it.Tab), phrase(s.redact.Text(it.Title))
		s.stored(it.Picture)
	case *contract.OtherItem:
		s.item.Text = short(it.Title)
	}
}

// observe applies an event of the plugin and returns the event to publish; nil: there is none.
func (s *itemState) observe(ev contract.CallEvent) event.Body {
	switch ev := ev.(type) {
	case contract.Started:
		s.assessed(ev.Item)
	case contract.ItemUpdate:
		s.assessed(ev.Item)
	case contract.Output:
		return s.outputDelta(s.output.Write(string(ev.Data)))
	case contract.Progress:
		return event.ItemDelta{Item: s.item.ID, Delta: event.DeltaProgress, Text: short(s.redact.Text(ev.Message))}
	case contract.ArtifactRef:
		return s.stored(ev)
	case contract.Note:
		return event.ItemDelta{Item: s.item.ID, Delta: event.DeltaNote, Text: short(s.redact.Text(ev.Text))}
	}
	return nil
}

// maxItemArtifacts bounds the artifacts that an item lists.
const maxItemArtifacts = 100

// stored adds an artifact to the item; an invalid digest is ignored. It returns an event once the list is full, else nil.
func (s *itemState) stored(ref contract.ArtifactRef) event.Body {
	if !isDigest(ref.SHA256) {
		return nil
	}
	s.item.Artifacts = slices.Clone(s.item.Artifacts) // published items share the slice
	i := slices.IndexFunc(s.item.Artifacts, func(a event.Artifact) bool { return a.SHA256 == ref.SHA256 })
	switch {
	case i >= 0:
	case len(s.item.Artifacts) == maxItemArtifacts:
		if s.full {
			return nil
		}
		s.full = true
		return event.ItemDelta{Item: s.item.ID, Delta: event.DeltaNote, Text: fmt.Sprintf("only the first %d artifacts are listed", maxItemArtifacts)}
	default:
		i = len(s.item.Artifacts)
		s.item.Artifacts = append(s.item.Artifacts, event.Artifact{SHA256: ref.SHA256})
	}
	a := &s.item.Artifacts[i] // an image item has only the digest, so later details are added
	a.Bytes = cmp.Or(a.Bytes, max(ref.SizeBytes, 0))
	a.MediaType = cmp.Or(a.MediaType, phrase(ref.MediaType))
	a.Name = cmp.Or(a.Name, phrase(s.redact.Text(ref.Name)))
	return nil
}

// isDigest reports whether s is a SHA-256 in lower-case hex.
func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// phrase bounds text that is part of a line.
func phrase(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 255)], "")
}

// outputDelta returns the event for a piece of output; nil: it is empty.
func (s *itemState) outputDelta(text string) event.Body {
	if text == "" {
		return nil
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	s.keep(text)
	d := event.ItemDelta{Item: s.item.ID, Delta: event.DeltaOutput, Offset: s.bytes, Text: text}
	s.bytes += int64(len(text))
	return d
}

// flush returns the event for output that the redactor has held back; nil: there is none.
func (s *itemState) flush() event.Body { return s.outputDelta(s.output.End()) }

// maxItemText bounds each text of an item and maxItemDiff the diffs of all its changes, in bytes: they are stored, and shown by every
// client. The artifacts of the file's contents before and after hold the complete change.
const (
	maxItemText = 64 << 10
	maxItemDiff = 1 << 20
)

func short(s string) string {
	return history.Truncate(s, history.Policy{Bytes: true, Limit: maxItemText})
}

// validJSON returns raw, or nil if it is not valid JSON, which the log could not store.
func validJSON(raw json.RawMessage) json.RawMessage {
	if !json.Valid(raw) {
		return nil
	}
	return raw
}

func (s *itemState) keep(text string) {
	room := maxItemOutput - len(s.item.Output)
	if room <= 0 {
		return
	}
	if len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) {
			room--
		}
		text = text[:room]
	}
	s.item.Output += text
}

// ranSilently reports whether the item is a command that printed nothing; the text for the model then is not output.
func (s *itemState) ranSilently() bool {
	return s.item.Type == event.ItemCommand && (s.item.ExitCode != nil || s.item.Session != "")
}

// end completes the item. answer is the text for the model.
func (s *itemState) end(end outcome, answer string) event.Item {
	if end.result != nil {
		s.assessed(end.result.Item)
		if end.result.SessionID != "" {
			s.item.Session = end.result.SessionID
		}
	}
	if s.item.Output == "" && !s.ranSilently() {
		s.keep(answer)
	}
	switch end.kind {
	case event.OutcomeOK:
		s.item.Status = event.StatusCompleted
		if s.item.ExitCode != nil && *s.item.ExitCode != 0 {
			s.item.Status = event.StatusFailed
		}
	case event.OutcomeDenied:
		s.item.Status = event.StatusDeclined
	case event.OutcomeAborted:
		s.item.Status = event.StatusAborted
	default:
		s.item.Status = event.StatusFailed
	}
	return s.item
}

// maxMCPResult bounds the result of an MCP server's tool that an item keeps, in bytes.
const maxMCPResult = 64 << 10

// mcpResult returns a server's result as an item keeps it: without secrets, and with media by reference; nil: there is none, or it is too
// large, or no CallToolResult.
func (s *itemState) mcpResult(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || len(raw) > maxMCPResult {
		return nil
	}
	var r struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent,omitempty"`
		IsError           bool              `json:"isError,omitempty"`
		Meta              json.RawMessage   `json:"_meta,omitempty"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return nil
	}
	if r.Content == nil {
		r.Content = []json.RawMessage{}
	}
	for i, c := range r.Content {
		r.Content[i] = byReference(c)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // or it could be larger than what came
	if e.Encode(r) != nil {
		return nil
	}
	clean := json.RawMessage(s.redact.Text(strings.TrimSpace(b.String())))
	if len(clean) > maxMCPResult {
		return nil
	}
	return validJSON(clean)
}

// byReference removes media that are not stored as artifacts from a content block.
func byReference(block json.RawMessage) json.RawMessage {
	var b struct {
		Data     *string         `json:"data"`
		Resource json.RawMessage `json:"resource"`
	}
	if json.Unmarshal(block, &b) != nil {
		return block
	}
	if b.Data != nil && !strings.HasPrefix(*b.Data, event.ArtifactURL) {
		block = without(block, "data", nil)
	}
	var r struct {
		Blob *string `json:"blob"`
	}
	if len(b.Resource) > 0 && json.Unmarshal(b.Resource, &r) == nil && r.Blob != nil && !strings.HasPrefix(*r.Blob, event.ArtifactURL) {
		block = without(block, "resource", without(b.Resource, "blob", nil))
	}
	return block
}

// without returns an object without a member, or with another value of it.
func without(object json.RawMessage, name string, instead json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return object
	}
	if delete(members, name); instead != nil {
		members[name] = instead
	}
	out, err := json.Marshal(members)
	if err != nil {
		return object
	}
	return out
}
