package orchestrate

import (
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

// maxItemOutput is how much of a call's output its item keeps for people: a few screens, head first. The model's copy
// is cut by its own policy; the full output is the plugin's to store as an artifact.
const maxItemOutput = 64 << 10

// itemState is a call's item as it grows.
type itemState struct {
	item   event.Item
	shown  bool
	full   bool // it lists as many artifacts as it may
	bytes  int64
	redact *redact.Redactor
	output *redact.Stream // of what the call shows while it runs
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
	return itemState{item: it, redact: secrets, output: secrets.Stream()}
}

func (s *itemState) id() event.ItemID { return s.item.ID }

func (s *itemState) title() string {
	switch {
	case s.item.Command != "":
		return s.item.Command
	case s.item.Text != "":
		return s.item.Text
	default:
		return s.item.Tool
	}
}

func (s *itemState) begin() event.Item {
	s.shown = true
	return s.item
}

// assessed takes over what the plugin says of the item.
func (s *itemState) assessed(it contract.Item) {
	switch it := it.(type) {
	case *contract.CommandItem:
		s.item.Type, s.item.Command, s.item.Cwd = event.ItemCommand, short(it.Command), it.Cwd
		s.item.Session = it.SessionID
		if it.ExitCode != nil {
			s.item.ExitCode = it.ExitCode
		}
	case *contract.FileChangeItem:
		s.item.Type, s.item.Changes = event.ItemFileChange, nil
		room := maxItemDiff
		for _, c := range it.Changes {
			diff := history.Truncate(s.redact.Text(c.Diff), history.Policy{Bytes: true, Limit: int64(room)})
			room = max(room-len(diff), 0)
			s.item.Changes = append(s.item.Changes, event.FileChange{Path: c.Path, Kind: c.Kind.String(), Diff: diff, MovedFrom: c.MovedFrom})
		}
	case *contract.MCPCallItem:
		s.item.Type, s.item.Server, s.item.Tool, s.item.Arguments = event.ItemMCPCall, it.Server, it.Tool, validJSON(it.Arguments)
	case *contract.WebSearchItem:
		s.item.Type, s.item.Query = event.ItemWebSearch, short(it.Query)
	case *contract.ImageItem:
		s.item.Type, s.item.Path = event.ItemImage, it.Path
		s.stored(contract.ArtifactRef{SHA256: it.ArtifactSHA256})
	case *contract.BrowserItem:
		s.item.Type, s.item.Text, s.item.URL = event.ItemBrowser, short(it.Action), short(it.URL)
	case *contract.OtherItem:
		s.item.Text = short(it.Title)
	}
}

// observe turns a plugin's event into one of ours; nil: nothing to tell.
func (s *itemState) observe(ev contract.CallEvent) event.Body {
	switch ev := ev.(type) {
	case contract.Started:
		s.assessed(ev.Item)
	case contract.ItemUpdate:
		s.assessed(ev.Item)
	case contract.Output:
		return s.printed(s.output.Write(string(ev.Data)))
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

// stored adds an artifact to the item. What is no digest is ignored. The event says that the list is full; nil: it is not.
func (s *itemState) stored(ref contract.ArtifactRef) event.Body {
	if !isDigest(ref.SHA256) {
		return nil
	}
	s.item.Artifacts = slices.Clone(s.item.Artifacts) // published items keep theirs
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
	a := &s.item.Artifacts[i] // an image item gives no more than the digest
	a.Bytes = cmp.Or(a.Bytes, max(ref.SizeBytes, 0))
	a.MediaType = cmp.Or(a.MediaType, phrase(ref.MediaType))
	a.Name = cmp.Or(a.Name, phrase(s.redact.Text(ref.Name)))
	return nil
}

// isDigest reports whether s is a SHA-256 in lower-case hex.
func isDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// phrase bounds a text that is part of a line.
func phrase(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), 255)], "")
}

// printed is the event of a piece of output that may be shown; nil: there is nothing.
func (s *itemState) printed(text string) event.Body {
	if text == "" {
		return nil
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	s.keep(text)
	d := event.ItemDelta{Item: s.item.ID, Delta: event.DeltaOutput, Offset: s.bytes, Text: text}
	s.bytes += int64(len(text))
	return d
}

// flush is the event of what was held back of the output; nil: nothing was.
func (s *itemState) flush() event.Body { return s.printed(s.output.End()) }

// maxItemText bounds one text of an item, maxItemDiff the diffs of all its changes: each is stored, and shown by every
// door. The whole change is in the artifacts before and after it.
const (
	maxItemText = 64 << 10
	maxItemDiff = 1 << 20
)

func short(s string) string {
	return history.Truncate(s, history.Policy{Bytes: true, Limit: maxItemText})
}

// validJSON drops what a plugin or a model only says is JSON: the log could not store it.
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

// ranSilently: a command that printed nothing. What the model reads of it is no output.
func (s *itemState) ranSilently() bool {
	return s.item.Type == event.ItemCommand && (s.item.ExitCode != nil || s.item.Session != "")
}

// end completes the item.
func (s *itemState) end(v verdict, answer string) event.Item {
	if v.result != nil {
		s.assessed(v.result.Item)
		if v.result.SessionID != "" {
			s.item.Session = v.result.SessionID
		}
	}
	if s.item.Output == "" && !s.ranSilently() {
		s.keep(answer)
	}
	switch v.outcome {
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
