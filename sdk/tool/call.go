package tool

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
)

// ErrEnded is returned by a call's methods after its result was sent, for example to a goroutine that the handler left
// running. Such a goroutine should exit.
var ErrEnded = errors.New("tool: the call has ended")

// Cancelled is the cause of a call's context after the host has asked the call to end. The handler still returns a result.
type Cancelled struct {
	Reason string        // "interrupted", "shutdown", "deadline" or "replaced"
	Grace  time.Duration // the result must be there before this is over
}

// Error implements error.
func (c *Cancelled) Error() string { return "call cancelled: " + c.Reason }

// Call is a running call. Its methods are safe for concurrent use.
type Call struct {
	start  *contract.CallStart
	tool   Tool
	env    *Env
	thread *Thread
	soft   context.Context
	hard   context.Context
	out    *outbox
	clock  *Clock
}

// ThreadID is the ID of the thread that the call belongs to.
func (c *Call) ThreadID() string { return c.start.ThreadID }

// TurnID is the ID of the turn that the call belongs to.
func (c *Call) TurnID() string { return c.start.TurnID }

// ID is the call's ID.
func (c *Call) ID() string { return c.start.CallID }

// Tool is the name under which the tool was called.
func (c *Call) Tool() string { return c.start.Tool }

// Cwd is the absolute working directory of the call.
func (c *Call) Cwd() string { return c.start.Cwd }

// Attempt is 1 for the first attempt, and greater for a retry with a wider grant.
func (c *Call) Attempt() int { return max(1, int(c.start.Attempt)) }

// HistoryRevision is the same in two calls of a thread if whoever reads the result of the later one still has that of the earlier one.
// Otherwise it differs: after a compaction, for example. Empty: no earlier result is there to be referred to.
func (c *Call) HistoryRevision() string { return c.start.HistoryRevision }

// AssessDigest is the digest of the assessment on which the call was approved; empty for tools without assessment.
func (c *Call) AssessDigest() string { return c.start.AssessDigest }

// Grant returns information about the call's grant. The host enforces it.
func (c *Call) Grant() contract.GrantFacts { return c.start.Grant }

// Caps are the limits of the call. Zero fields mean the contract's defaults.
func (c *Call) Caps() contract.CallCaps { return c.start.Caps }

// ModelTraits returns the traits of the calling model.
func (c *Call) ModelTraits() []string { return slices.Clone(c.start.ModelTraits) }

// Parents returns the IDs of the calls that contain this one, outermost first.
func (c *Call) Parents() []string { return slices.Clone(c.start.Parents) }

// Env returns the plugin's environment.
func (c *Call) Env() *Env { return c.env }

// Thread is the thread that the call belongs to. Sessions are opened on it, because they outlive the call.
func (c *Call) Thread() *Thread { return c.thread }

// Soft is the context that was passed to the handler: it ends when the host cancels the call, with a *[Cancelled] as its
// cause.
func (c *Call) Soft() context.Context { return c.soft }

// Hard ends when the call is over or the host has given up on it. Use it for work that must still be done after a
// cancellation, such as saving partial results.
func (c *Call) Hard() context.Context { return c.hard }

// Clock returns a clock that is paused while the call waits for a person.
func (c *Call) Clock() *Clock { return c.clock }

// Started sets the item that represents the call in user interfaces. If you use it, call it first: the host is notified
// within 20 ms that the call has started, and an item after that is an update.
func (c *Call) Started(item contract.Item) error {
	return c.out.event(c.hard, contract.Started{Item: item})
}

// Output displays output while the call runs; the model sees only the result. Output is collected for up to 20 ms or 16
// KiB, split between characters, and never reordered. Output beyond the limits in Caps is dropped and counted. Output
// blocks if the host is slow.
func (c *Call) Output(p []byte) error { return c.out.output(c.hard, p) }

// OutputWriter returns a writer that calls Output, for use as a command's Stdout.
func (c *Call) OutputWriter() io.Writer { return outputWriter{c} }

type outputWriter struct{ c *Call }

func (w outputWriter) Write(p []byte) (int, error) {
	if err := w.c.Output(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Dropped returns the number of bytes of output that were dropped because of the limits in Caps.
func (c *Call) Dropped() int64 { return c.out.dropped.Load() }

// Progress reports progress to people. A total of 0 means unknown.
func (c *Call) Progress(message string, done, total float64) error {
	return c.out.event(c.hard, contract.Progress{Message: message, Done: done, Total: total})
}

// Note displays a message of a nested step below the item.
func (c *Call) Note(text string) error { return c.out.event(c.hard, contract.Note{Text: text}) }

// Update replaces the displayed item.
func (c *Call) Update(item contract.Item) error {
	return c.out.event(c.hard, contract.ItemUpdate{Item: item})
}

// Artifact stores content in the host, notifies the user, and returns its reference for the result.
func (c *Call) Artifact(ctx context.Context, name, mediaType string, r io.Reader) (contract.ArtifactRef, error) {
	ref, err := c.env.PutArtifact(ctx, name, mediaType, r)
	if err != nil {
		return contract.ArtifactRef{}, err
	}
	return ref, c.out.event(c.hard, ref)
}

// Command prepares a process that the host starts under the call's grant. The process ends with ctx, and with the call
// unless it is a session.
func (c *Call) Command(ctx context.Context, argv ...string) *process.Cmd {
	return c.env.command(ctx, c.start.CallToken, argv)
}

// AssessCall is a call that is being assessed.
type AssessCall struct {
	req    *contract.AssessRequest
	tool   Tool
	env    *Env
	thread *Thread
}

// ThreadID is the ID of the thread that the call belongs to.
func (c *AssessCall) ThreadID() string { return c.req.ThreadID }

// TurnID is the ID of the turn that the call belongs to.
func (c *AssessCall) TurnID() string { return c.req.TurnID }

// ID is the call's ID.
func (c *AssessCall) ID() string { return c.req.CallID }

// Tool is the name under which the tool was called.
func (c *AssessCall) Tool() string { return c.req.Tool }

// Cwd is the absolute working directory of the call.
func (c *AssessCall) Cwd() string { return c.req.Cwd }

// Env returns the plugin's environment.
func (c *AssessCall) Env() *Env { return c.env }

// Thread is the thread that the call belongs to.
func (c *AssessCall) Thread() *Thread { return c.thread }

// Command prepares a helper process with read-only access.
func (c *AssessCall) Command(ctx context.Context, argv ...string) *process.Cmd {
	cmd := c.env.command(ctx, c.req.CallToken, argv)
	cmd.ReadOnly = true
	return cmd
}
