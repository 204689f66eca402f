package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/artifacts"
	"github.com/gantry-agent/gantry/host/internal/store/database"
)

const (
	// maxBodyBytes limits one event. Large content belongs in an artifact; a larger event is a mistake and would slow down every
	// resume of the thread.
	maxBodyBytes = 64 << 20

	// maxPassageBytes is how much of a message is searchable: several pages. Pasted text may be longer.
	maxPassageBytes = 32 << 10

	// maxPreviewRunes limits a preview to about twice the width of a terminal.
	maxPreviewRunes = 200
)

// record is a durable event to be written: its row, and the changes of derived rows. It is constructed without the database.
type record struct {
	eventRow
	set     map[string]any // columns of the thread
	preview string         // of the thread, unless it has one
	turn    *turnRow       // started (FirstSeq is set) or ended
	item    *itemRow
	passage *passageRow
	revert  *revertRow
	refs    []string // possible digests of artifacts
}

func newRecord(e event.Event) (record, error) {
	if e.Thread == "" {
		return record{}, fmt.Errorf("store event %s: it has no thread", e.Body.Kind())
	}
	if e.Seq == 0 {
		return record{}, fmt.Errorf("store event %s of thread %s: it has no sequence number", e.Body.Kind(), e.Thread)
	}
	body, err := json.Marshal(e.Body)
	if err != nil {
		return record{}, fmt.Errorf("store event %d (%s) of thread %s: %w", e.Seq, e.Body.Kind(), e.Thread, err)
	}
	if len(body) > maxBodyBytes {
		return record{}, hint.With(fmt.Errorf("store event %d (%s) of thread %s: it has %d bytes, the limit is %d", e.Seq, e.Body.Kind(), e.Thread, len(body), maxBodyBytes),
			"put large content into an artifact")
	}
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD")) // as a JSON decoder would
	}
	r := record{eventRow: eventRow{
		ThreadID: string(e.Thread), Seq: e.Seq, TurnID: string(e.Turn), Time: database.Nanos(e.Time), Kind: e.Body.Kind(),
		Body: string(body),
	}}
	r.Sum = r.checksum()
	r.derive(e)
	return r, nil
}

func newRecords(evs []event.Event) ([]*record, error) {
	recs := make([]*record, len(evs))
	for i, e := range evs {
		r, err := newRecord(e)
		if err != nil {
			return nil, err
		}
		recs[i] = &r
	}
	return recs, nil
}

// size returns the approximate memory that the record needs.
func (r *record) size() int { return len(r.Body) + 256 }

// derive determines which derived rows the event changes. updated_at changes with turns and not with every event, because each
// change rewrites pages of two indexes, which would slow down every barrier.
func (r *record) derive(e event.Event) {
	r.refs = digests(r.Body)
	switch b := e.Body.(type) {
	case event.ThreadStarted:
		r.set = map[string]any{
			"cwd": b.Cwd, "model": b.Model, "provider": b.Provider, "model_name": b.ModelName, "source": b.Source,
			"forked_from": string(b.ForkedFrom), "parent": string(b.Parent), "created_at": r.Time, "updated_at": r.Time,
		}
	case event.ThreadNamed:
		r.set = map[string]any{"name": b.Name, "updated_at": r.Time}
	case event.ThreadDescribed:
		r.set = map[string]any{}
		for column, value := range map[string]*string{"git_sha": b.SHA, "git_branch": b.Branch, "git_origin": b.Origin} {
			if value != nil {
				r.set[column] = *value
			}
		}
	case event.ThreadArchived:
		r.set = map[string]any{"archived_at": int64(0)}
		if b.Archived {
			r.set["archived_at"] = r.Time
		}
	case event.ThreadForked:
		r.set = checkpointColumns(b.Thread)
		r.set["cwd"], r.set["source"], r.set["name"] = b.Thread.Started.Cwd, b.Thread.Started.Source, b.Thread.Name
		r.set["forked_from"] = string(b.From)
		r.set["created_at"], r.set["updated_at"] = r.Time, r.Time
	case event.ThreadReverted:
		r.set = checkpointColumns(b.Thread)
		r.set["updated_at"] = r.Time
		r.revert = &revertRow{ThreadID: r.ThreadID, Seq: r.Seq, FromSeq: b.From, ThroughSeq: b.Through}
	case event.TurnStarted:
		r.set = map[string]any{"status": StatusRunning, "updated_at": r.Time}
		for column, value := range map[string]string{
			"cwd": b.Cwd, "model": b.Model, "provider": b.Provider, "model_name": b.ModelName,
		} {
			if value != "" {
				r.set[column] = value
			}
		}
		r.turn = &turnRow{
			ThreadID: r.ThreadID, ID: r.TurnID, FirstSeq: r.Seq, Status: StatusRunning, StartedAt: r.Time,
		}
	case event.TurnEnded:
		r.set = map[string]any{"status": string(b.Status), "updated_at": r.Time}
		if b.Usage != (event.Tokens{}) {
			r.set["tokens"] = tokensJSON(b.Usage)
		}
		r.turn = &turnRow{
			ThreadID: r.ThreadID, ID: r.TurnID, LastSeq: r.Seq, Status: string(b.Status), EndedAt: r.Time,
		}
	case event.UsageReported:
		r.set = map[string]any{"tokens": tokensJSON(b.Total)}
	case event.ItemStarted:
		r.deriveItem(b.Item)
	case event.ItemCompleted:
		r.deriveItem(b.Item)
		r.derivePassage(b.Item)
	}
}

// checkpointColumns returns the columns that a checkpoint resets when turns are reverted or not copied.
func checkpointColumns(c event.Checkpoint) map[string]any {
	return map[string]any{
		"model": c.Model.Model, "provider": c.Model.Provider, "model_name": c.Model.ModelName, "tokens": tokensJSON(c.Usage),
	}
}

func (r *record) deriveItem(i event.Item) {
	if i.Type == event.ItemUserMessage {
		r.preview = preview(i.Text)
	}
	r.item = &itemRow{
		ThreadID: r.ThreadID, ID: string(i.ID), TurnID: r.TurnID, CallID: string(i.Call), Type: string(i.Type),
		Status: string(i.Status), FirstSeq: r.Seq, LastSeq: r.Seq,
	}
}

// Who said a [Passage].
const (
	RoleUser  = "user"
	RoleAgent = "agent"
)

func (r *record) derivePassage(i event.Item) {
	role := RoleUser
	switch i.Type {
	case event.ItemAgentMessage:
		role = RoleAgent
	case event.ItemUserMessage:
	default:
		return
	}
	text := i.Text
	if i.Status == event.StatusSuperseded { // a later item repeats it
		text = ""
	}
	if len(text) > maxPassageBytes {
		text = strings.ToValidUTF8(text[:maxPassageBytes], "")
	}
	if text != "" {
		r.passage = &passageRow{ThreadID: r.ThreadID, Seq: r.Seq, TurnID: r.TurnID, Role: role, Text: text}
	}
}

func tokensJSON(t event.Tokens) string {
	b, err := json.Marshal(t)
	if err != nil { // plain numbers
		panic("store: marshal tokens: " + err.Error())
	}
	return string(b)
}

// preview returns a text as one line: only printable characters, with white space collapsed, truncated with an ellipsis.
func preview(text string) string {
	var b strings.Builder
	runes, space := 0, false
	for _, c := range text {
		if unicode.IsSpace(c) || c == utf8.RuneError || !unicode.IsPrint(c) {
			space = b.Len() > 0
			continue
		}
		need := 1
		if space {
			need = 2
		}
		if runes+need >= maxPreviewRunes {
			b.WriteRune('…')
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(c)
		runes += need
	}
	return b.String()
}

// digests returns everything in a body that may be the digest of an artifact: each run of exactly 64 lower-case hex digits. An event
// can refer to an artifact in a field, in a plugin's payload or in text for the model; a run that is no artifact costs one
// look-up. A run of 64 bytes contains every 64th byte, so it is sufficient to test those.
func digests(body string) []string {
	var found []string
	for i := 0; i < len(body); i += artifacts.DigestLen {
		if !artifacts.IsHex(body[i]) {
			continue
		}
		from, to := i, i+1
		for from > 0 && artifacts.IsHex(body[from-1]) {
			from--
		}
		for to < len(body) && artifacts.IsHex(body[to]) {
			to++
		}
		if to-from == artifacts.DigestLen {
			found = append(found, body[from:to])
		}
		i = to // not a digit: the next run of 64 contains byte i+64 or begins after it
	}
	return found
}
