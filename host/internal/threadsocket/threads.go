package threadsocket

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/undo"
	"github.com/gantry-agent/gantry/host/internal/view"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Methods that change a thread as a whole, or its sessions.
const (
	methodFork      = prefix + "fork"
	methodRevert    = prefix + "revert"
	methodRollback  = prefix + "rollback"
	methodArchive   = prefix + "archive"
	methodUnarchive = prefix + "unarchive"
	methodName      = prefix + "rename"
	methodDescribe  = prefix + "describe"
	methodStop      = prefix + "stopSession"
	methodProcesses = prefix + "processes"
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
	// ThreadProcesses returns the processes of sessions that calls left running.
	ThreadProcesses(thread event.ThreadID) ([]SessionProcess, error)
	// OpenView shows a session of a tool to a person. plugin is as for StopSession.
	OpenView(ctx context.Context, thread event.ThreadID, plugin string, o contract.ViewOpen) (*view.View, error)
	// UndoFiles restores the files of a turn. Conflicts are part of the report, not an error.
	UndoFiles(ctx context.Context, thread event.ThreadID, p UndoParams) (undo.Report, error)
}

// ForkParams select where the thread is forked: after a completed turn, before a turn, or by default at the end. A turn is
// identified by its ID, a prefix of it, or its number among the turns that were not reverted.
type ForkParams struct {
	OfThread
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
	OfThread
	BeforeTurn string `json:"beforeTurnId"`
}

// RollbackParams are the number of turns with user input to revert, starting from the last.
type RollbackParams struct {
	OfThread
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
	OfThread
	Name string `json:"name"`
}

// StopParams identify a session to end.
type StopParams struct {
	OfThread
	Session string `json:"sessionId"`
	Plugin  string `json:"plugin,omitempty"` // of the session; empty: the only one with a session of this ID
}

// SessionProcess is a process that runs after the call that started it.
type SessionProcess struct {
	Plugin string       `json:"plugin"`
	Call   event.CallID `json:"call"`
	PID    int          `json:"pid"`
	// CPUPercent is the processor time of the process and its descendants since the process has started, in percent of the time that has
	// passed, and ResidentBytes their memory; nil: not known on this system.
	CPUPercent    *float64 `json:"cpuPercent,omitempty"`
	ResidentBytes *int64   `json:"residentBytes,omitempty"`
}

func (t *served) fork(ctx context.Context, p ForkParams) (ForkResult, error) {
	id, err := t.Library.ForkThread(ctx, t.ID(), branch.Point{Before: p.BeforeTurn, Through: p.LastTurn}, p.Name)
	return ForkResult{Thread: id, ForkedFrom: t.ID()}, err
}

func (t *served) revert(ctx context.Context, p RevertParams) (RevertResult, error) {
	if p.BeforeTurn == "" {
		return RevertResult{}, errors.New("beforeTurnId is missing: set it to the first turn to revert")
	}
	return reverted(t.Library.RevertThread(ctx, t.ID(), p.BeforeTurn, 0))
}

func (t *served) rollback(ctx context.Context, p RollbackParams) (RevertResult, error) {
	return reverted(t.Library.RevertThread(ctx, t.ID(), "", p.Turns))
}

func reverted(e event.ThreadReverted, err error) (RevertResult, error) {
	return RevertResult{BeforeTurn: e.Before, Turns: e.Turns, Usage: e.Thread.Usage}, err
}

// Fork creates a stored thread with the same history.
func (c *Client) Fork(ctx context.Context, p ForkParams) (r ForkResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodFork, p, &r)
	return r, err
}

// Revert reverts a turn and all later ones.
func (c *Client) Revert(ctx context.Context, p RevertParams) (r RevertResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodRevert, p, &r)
	return r, err
}

// Rollback reverts the last turns.
func (c *Client) Rollback(ctx context.Context, p RollbackParams) (r RevertResult, err error) {
	p.Thread = c.thread
	err = c.call(ctx, methodRollback, p, &r)
	return r, err
}

// Archive removes the thread from listings, or restores it.
func (c *Client) Archive(ctx context.Context, archive bool) error {
	method := methodUnarchive
	if archive {
		method = methodArchive
	}
	return c.call(ctx, method, c.target(), nil)
}

// Name sets the thread's name.
func (c *Client) Name(ctx context.Context, name string) error {
	return c.call(ctx, methodName, NameParams{OfThread: c.target(), Name: name}, nil)
}

// DescribeParams say what is known about the repository in which the thread works.
type DescribeParams struct {
	OfThread
	Git event.ThreadDescribed `json:"git"`
}

// Describe changes what is known about the repository in which a thread works.
func Describe(ctx context.Context, t *thread.Thread, git event.ThreadDescribed) error {
	seq, err := t.Publish(ctx, "", git)
	if err != nil {
		return err
	}
	return t.Barrier(ctx, seq)
}

// Describe changes what is known about the repository in which the thread works.
func (c *Client) Describe(ctx context.Context, git event.ThreadDescribed) error {
	return c.call(ctx, methodDescribe, DescribeParams{c.target(), git}, nil)
}

// StopSession ends a session of the thread.
func (c *Client) StopSession(ctx context.Context, p StopParams) error {
	p.Thread = c.thread
	return c.call(ctx, methodStop, p, nil)
}

// Processes returns the processes of the thread that run after the call that started them.
func (c *Client) Processes(ctx context.Context) (r []SessionProcess, err error) {
	err = c.call(ctx, methodProcesses, c.target(), &r)
	return r, err
}
