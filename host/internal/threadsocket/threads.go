package threadsocket

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/undo"
)

// Methods that change the thread of the socket or read stored threads. All but the listings are about this thread.
const (
	methodFork      = "thread/fork"
	methodRevert    = "thread/revert"
	methodRollback  = "thread/rollback"
	methodArchive   = "thread/archive"
	methodUnarchive = "thread/unarchive"
	methodName      = "thread/name/set"
	methodStop      = "session/stop"
	methodTurns     = "thread/turns/list"
	methodList      = "thread/list"
	methodSearch    = "thread/search"
)

// Library is what clients can do with threads. thread is a thread that runs in the host.
type Library interface {
	ForkThread(ctx context.Context, thread event.ThreadID, at branch.Point, name string) (event.ThreadID, error)
	// RevertThread reverts the turn before and all later ones, or the last turns if before is empty.
	RevertThread(ctx context.Context, thread event.ThreadID, before string, turns int) (event.ThreadReverted, error)
	ArchiveThread(ctx context.Context, thread event.ThreadID, archive bool) error
	NameThread(ctx context.Context, thread event.ThreadID, name string) error
	// StopSession ends a session of a tool. plugin may be empty if only one plugin has a session with this ID.
	StopSession(ctx context.Context, thread event.ThreadID, plugin, session string) error
	// UndoFiles restores the files of a turn. Conflicts are part of the report, not an error.
	UndoFiles(ctx context.Context, thread event.ThreadID, p UndoParams) (undo.Report, error)
	Turns(ctx context.Context, thread event.ThreadID) ([]store.TurnInfo, error)
	Threads(ctx context.Context, f store.Filter) ([]store.ThreadInfo, error)
	Search(ctx context.Context, query string, f store.Filter) ([]store.Hit, error)
}

// ForkParams select where the thread is forked: after a completed turn, before a turn, or by default at the end. A turn is
// identified by its ID, a prefix of it, or its number among the turns that were not reverted.
type ForkParams struct {
	LastTurn   string `json:"lastTurnId,omitempty"`
	BeforeTurn string `json:"beforeTurnId,omitempty"`
	Name       string `json:"name,omitempty"` // of the fork; empty: that of the thread
}

// ForkResult identifies the fork, which is stored and not running.
type ForkResult struct {
	Thread     event.ThreadID `json:"thread"`
	ForkedFrom event.ThreadID `json:"forkedFrom"`
}

// RevertParams identify the first turn that is reverted. All later turns are reverted as well.
type RevertParams struct {
	BeforeTurn string `json:"beforeTurnId"`
}

// RollbackParams are the number of turns with user input to revert, starting from the last.
type RollbackParams struct {
	Turns int `json:"numTurns"`
}

// RevertResult describes the reverted turns.
type RevertResult struct {
	BeforeTurn event.TurnID `json:"beforeTurnId"`
	Turns      int          `json:"numTurns"`
	Usage      event.Tokens `json:"usage"` // of the thread after the revert
}

// NameParams set the thread's name.
type NameParams struct {
	Name string `json:"name"`
}

// StopParams identify a session to end.
type StopParams struct {
	Session string `json:"sessionId"`
	Plugin  string `json:"plugin,omitempty"` // of the session; empty: the only one with a session of this ID
}

// ListParams select threads, sorted by last update, newest first.
type ListParams struct {
	Archived   bool   `json:"archived,omitempty"` // only archived threads
	Cwd        string `json:"cwd,omitempty"`      // only threads of this folder; empty: of all folders
	SearchTerm string `json:"searchTerm,omitempty"`
	Limit      int    `json:"limit,omitempty"`  // 0: 25; at most 100
	Cursor     string `json:"cursor,omitempty"` // NextCursor of the previous page
}

// ListResult is a page of threads.
type ListResult struct {
	Data       []ThreadInfo `json:"data"`
	NextCursor string       `json:"nextCursor,omitempty"` // empty: this is the last page
}

// SearchParams search the names and messages of threads; see [store.Store.Search].
type SearchParams struct {
	SearchTerm string `json:"searchTerm"`
	Archived   bool   `json:"archived,omitempty"`
	Cwd        string `json:"cwd,omitempty"`
	Limit      int    `json:"limit,omitempty"` // threads; 0: 25; at most 100
}

// SearchResult lists the matching threads, newest first.
type SearchResult struct {
	Data []Hit `json:"data"`
}

// Hit is a thread that matches, with the first matching passages. If there are none, its name matches.
type Hit struct {
	Thread   ThreadInfo `json:"thread"`
	Passages []Passage  `json:"passages"`
	More     int        `json:"more,omitempty"` // number of further passages
}

// Passage is a matching part of a message.
type Passage struct {
	Turn    event.TurnID `json:"turnId"`
	Seq     uint64       `json:"seq"`  // number of its event
	Role    string       `json:"role"` // "user" or "agent"
	Snippet string       `json:"snippet"`
}

// ThreadInfo is an entry of a listing. Unknown fields are empty.
type ThreadInfo struct {
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

// TurnInfo is a turn of a thread.
type TurnInfo struct {
	Number   int          `json:"number,omitempty"` // among the turns that were not reverted, from 1; 0: it was reverted
	ID       event.TurnID `json:"id"`
	Status   string       `json:"status"` // "running", "completed", "failed" or "interrupted"
	Preview  string       `json:"preview,omitempty"`
	Started  time.Time    `json:"started,omitzero"`
	Ended    time.Time    `json:"ended,omitzero"`
	Reverted bool         `json:"reverted,omitempty"`
}

// TurnsResult lists the turns of a thread, oldest first, including reverted ones.
type TurnsResult struct {
	Data []TurnInfo `json:"data"`
}

// InfoOf converts the description of a thread.
func InfoOf(t store.ThreadInfo) ThreadInfo {
	return ThreadInfo{
		ID: t.ID, Name: t.Name, Preview: t.Preview, Status: t.Status, Cwd: t.Cwd, Model: t.Model, Provider: t.Provider,
		ModelName: t.ModelName, Source: t.Source, Created: t.Created.UTC(), Updated: t.Updated.UTC(), Archived: t.Archived.UTC(),
		Turns: t.Turns, Events: t.Seq, Tokens: t.Tokens, ForkedFrom: t.ForkedFrom, Run: t.Run,
	}
}

// HitOf converts a search result.
func HitOf(h store.Hit) Hit {
	out := Hit{Thread: InfoOf(h.Thread), Passages: make([]Passage, len(h.Passages)), More: h.More}
	for i, p := range h.Passages {
		out.Passages[i] = Passage{Turn: p.Turn, Seq: p.Seq, Role: p.Role, Snippet: p.Snippet}
	}
	return out
}

// TurnsOf converts the turns of a thread, including reverted ones.
func TurnsOf(turns []store.TurnInfo) []TurnInfo {
	out := make([]TurnInfo, len(turns))
	n := 0
	for i, t := range turns {
		out[i] = TurnInfo{ID: t.ID, Status: t.Status, Preview: t.Preview, Started: t.Started, Ended: t.Ended, Reverted: t.Reverted > 0}
		if t.Reverted == 0 {
			n++
			out[i].Number = n
		}
	}
	return out
}

func (s *session) fork(ctx context.Context, p ForkParams) (ForkResult, error) {
	id, err := s.thread.Library.ForkThread(ctx, s.thread.ID(), branch.Point{Before: p.BeforeTurn, Through: p.LastTurn}, p.Name)
	return ForkResult{Thread: id, ForkedFrom: s.thread.ID()}, err
}

func (s *session) revert(ctx context.Context, p RevertParams) (RevertResult, error) {
	if p.BeforeTurn == "" {
		return RevertResult{}, errors.New("beforeTurnId is missing: set it to the first turn to revert")
	}
	return reverted(s.thread.Library.RevertThread(ctx, s.thread.ID(), p.BeforeTurn, 0))
}

func (s *session) rollback(ctx context.Context, p RollbackParams) (RevertResult, error) {
	return reverted(s.thread.Library.RevertThread(ctx, s.thread.ID(), "", p.Turns))
}

func reverted(e event.ThreadReverted, err error) (RevertResult, error) {
	return RevertResult{BeforeTurn: e.Before, Turns: e.Turns, Usage: e.Thread.Usage}, err
}

func (s *session) name(ctx context.Context, p NameParams) (any, error) {
	return nil, s.thread.Library.NameThread(ctx, s.thread.ID(), p.Name)
}

func (s *session) stop(ctx context.Context, p StopParams) (any, error) {
	return nil, s.thread.Library.StopSession(ctx, s.thread.ID(), p.Plugin, p.Session)
}

func (s *session) turns(ctx context.Context, _ struct{}) (TurnsResult, error) {
	turns, err := s.thread.Library.Turns(ctx, s.thread.ID())
	return TurnsResult{Data: TurnsOf(turns)}, err
}

// Sizes of pages.
const (
	defaultPage = 25
	maxPage     = 100
)

func page(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, maxPage)
}

func (s *session) list(ctx context.Context, p ListParams) (ListResult, error) {
	before, err := store.ParseCursor(p.Cursor)
	if err != nil {
		return ListResult{}, err
	}
	n := page(p.Limit)
	infos, err := s.thread.Library.Threads(ctx, store.Filter{Cwd: p.Cwd, Archived: p.Archived, Name: p.SearchTerm, Before: before, Limit: n + 1})
	if err != nil {
		return ListResult{}, err
	}
	r := ListResult{Data: []ThreadInfo{}}
	for i, t := range infos {
		if i == n {
			r.NextCursor = infos[n-1].Cursor().String()
			break
		}
		r.Data = append(r.Data, InfoOf(t))
	}
	return r, nil
}

func (s *session) search(ctx context.Context, p SearchParams) (SearchResult, error) {
	hits, err := s.thread.Library.Search(ctx, p.SearchTerm, store.Filter{Cwd: p.Cwd, Archived: p.Archived, Limit: page(p.Limit)})
	r := SearchResult{Data: make([]Hit, len(hits))}
	for i, h := range hits {
		r.Data[i] = HitOf(h)
	}
	return r, err
}

// Fork creates a stored thread with the same history.
func (c *Client) Fork(ctx context.Context, p ForkParams) (r ForkResult, err error) {
	err = c.call(ctx, methodFork, p, &r)
	return r, err
}

// Revert reverts a turn and all later ones.
func (c *Client) Revert(ctx context.Context, p RevertParams) (r RevertResult, err error) {
	err = c.call(ctx, methodRevert, p, &r)
	return r, err
}

// Rollback reverts the last turns.
func (c *Client) Rollback(ctx context.Context, p RollbackParams) (r RevertResult, err error) {
	err = c.call(ctx, methodRollback, p, &r)
	return r, err
}

// Archive removes the thread from listings, or restores it.
func (c *Client) Archive(ctx context.Context, archive bool) error {
	method := methodUnarchive
	if archive {
		method = methodArchive
	}
	return c.call(ctx, method, nil, nil)
}

// Name sets the thread's name.
func (c *Client) Name(ctx context.Context, name string) error {
	return c.call(ctx, methodName, NameParams{Name: name}, nil)
}

// StopSession ends a session of the thread.
func (c *Client) StopSession(ctx context.Context, p StopParams) error {
	return c.call(ctx, methodStop, p, nil)
}

// Turns lists the turns of the thread.
func (c *Client) Turns(ctx context.Context) (r TurnsResult, err error) {
	err = c.call(ctx, methodTurns, nil, &r)
	return r, err
}

// List lists the threads in the host's home.
func (c *Client) List(ctx context.Context, p ListParams) (r ListResult, err error) {
	err = c.call(ctx, methodList, p, &r)
	return r, err
}

// Search searches the threads in the host's home.
func (c *Client) Search(ctx context.Context, p SearchParams) (r SearchResult, err error) {
	err = c.call(ctx, methodSearch, p, &r)
	return r, err
}
