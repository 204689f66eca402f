package threads

import (
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
)

// hitRow is a thread that matches, with the first matching passages. If there are none, its name matches.
type hitRow struct {
	Thread   threadRow    `json:"thread"`
	Passages []passageRow `json:"passages"`
	More     int          `json:"more,omitempty"` // number of further passages
}

// passageRow is a matching part of a message.
type passageRow struct {
	Turn    event.TurnID `json:"turnId"`
	Seq     uint64       `json:"seq"`  // number of its event
	Role    string       `json:"role"` // "user" or "agent"
	Snippet string       `json:"snippet"`
}

// threadRow is an entry of a listing. Unknown fields are empty.
type threadRow struct {
	ID         event.ThreadID `json:"id"`
	Name       string         `json:"name,omitempty"`
	Preview    string         `json:"preview,omitempty"` // beginning of the first task, in one line
	Status     string         `json:"status"`            // "new", "running", "stopped", "completed", "failed" or "interrupted"
	Cwd        string         `json:"cwd"`
	Model      string         `json:"model,omitempty"`     // name of the model block
	Provider   string         `json:"provider,omitempty"`  // label of the provider block
	ModelName  string         `json:"modelName,omitempty"` // the provider's name for the model
	Source     string         `json:"source,omitempty"`    // the front end: "exec"
	Created    time.Time      `json:"created,omitzero"`
	Updated    time.Time      `json:"updated,omitzero"`
	Archived   time.Time      `json:"archived,omitzero"`
	Turns      int            `json:"turns"` // not reverted
	Events     uint64         `json:"events"`
	Tokens     event.Tokens   `json:"tokens"`
	ForkedFrom event.ThreadID `json:"forkedFrom,omitempty"`
	Run        string         `json:"run,omitempty"` // the host process that wrote last
}

// turnRow is a turn of a thread.
type turnRow struct {
	Number   int          `json:"number,omitempty"` // among the turns that were not reverted, from 1; 0: it was reverted
	ID       event.TurnID `json:"id"`
	Status   string       `json:"status"` // "running", "completed", "failed" or "interrupted"
	Preview  string       `json:"preview,omitempty"`
	Started  time.Time    `json:"started,omitzero"`
	Ended    time.Time    `json:"ended,omitzero"`
	Reverted bool         `json:"reverted,omitempty"`
}

// threadRowOf converts the description of a thread.
func threadRowOf(t hub.Info) threadRow {
	return threadRow{
		ID: t.ID, Name: t.Name, Preview: t.Preview, Status: t.Status, Cwd: t.Cwd, Model: t.Model, Provider: t.Provider,
		ModelName: t.ModelName, Source: t.Source, Created: t.Created.UTC(), Updated: t.Updated.UTC(), Archived: t.Archived.UTC(),
		Turns: t.Turns, Events: t.Seq, Tokens: t.Tokens, ForkedFrom: t.ForkedFrom, Run: t.Run,
	}
}

// hitRowOf converts a search result.
func hitRowOf(h hub.Hit) hitRow {
	out := hitRow{Thread: threadRowOf(h.Thread), Passages: make([]passageRow, len(h.Passages)), More: h.More}
	for i, p := range h.Passages {
		out.Passages[i] = passageRow{Turn: p.Turn, Seq: p.Seq, Role: p.Role, Snippet: p.Snippet}
	}
	return out
}

// turnRowsOf converts the turns of a thread, including reverted ones.
func turnRowsOf(turns []hub.TurnInfo) []turnRow {
	out := make([]turnRow, len(turns))
	n := 0
	for i, t := range turns {
		out[i] = turnRow{ID: t.ID, Status: t.Status, Preview: t.Preview, Started: t.Started, Ended: t.Ended, Reverted: t.Reverted > 0}
		if t.Reverted == 0 {
			n++
			out[i].Number = n
		}
	}
	return out
}
