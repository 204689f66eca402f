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

// ErrEnded is returned by a call's methods after its result was sent, for example by a goroutine that the handler left
// behind. Nothing is left to do for such a goroutine but to end.
var ErrEnded = errors.New("tool: the call has ended")

// Cancelled is the cause of a call's context after the host asked it to end. The handler still returns a result.
type Cancelled struct {
	Reason string        // "interrupted", "shutdown", "deadline" or "replaced"
	Grace  time.Duration // the result must be there before this is over
}

// Error implements error.
func (c *Cancelled) Error() string { return "call cancelled: " + c.Reason }

// Call is one call that runs. Its methods may be used by several goroutines.
type Call struct {
	start  *contract.CallStart
	tool   Tool
	env    *Env
	thread *Thread
	soft   context.Context
	hard   context.Context
	out    *outbox
	clock  *Clock
	grants grants
}

// ThreadID of the thread that the call belongs to.
func (c *Call) ThreadID() string { return c.start.ThreadID }

// TurnID of the turn that the call belongs to.
func (c *Call) TurnID() string { return c.start.TurnID }

// ID of the call.
func (c *Call) ID() string { return c.start.CallID }

// Tool is the name under which the tool was called.
func (c *Call) Tool() string { return c.start.Tool }

// Cwd is the absolute working directory of the call.
func (c *Call) Cwd() string { return c.start.Cwd }

// Attempt is 1 for the first try, more after a retry with a wider grant.
func (c *Call) Attempt() int { return max(1, int(c.start.Attempt)) }

// AssessDigest is the digest of the assessment that this call was decided on; empty for tools without one.
func (c *Call) AssessDigest() string { return c.start.AssessDigest }

// Grant is what the plugin may know of the call's grant, also after it has grown. The host enforces it.
func (c *Call) Grant() contract.GrantFacts { return c.grants.get() }

// Caps are the limits of the call. Zero fields mean the contract's defaults.
func (c *Call) Caps() contract.CallCaps { return c.start.Caps }

// ModelTraits are the traits of the model that asked.
func (c *Call) ModelTraits() []string { return slices.Clone(c.start.ModelTraits) }

// Parents are the ids of the calls that this one is nested in, outermost first.
func (c *Call) Parents() []string { return slices.Clone(c.start.Parents) }

// Env of the plugin.
func (c *Call) Env() *Env { return c.env }

// Thread that the call belongs to. Sessions are opened on it: they outlive the call.
func (c *Call) Thread() *Thread { return c.thread }

// Soft is the context that the handler got: it ends when the host asks to cancel, with a *[Cancelled] as its cause.
func (c *Call) Soft() context.Context { return c.soft }

// Hard ends when the call is over or the host is done with it. What must still happen after a cancel, like storing what
// was found so far, runs under it.
func (c *Call) Hard() context.Context { return c.hard }

// Clock stands still while anything of the call waits for a person.
func (c *Call) Clock() *Clock { return c.clock }

// Started says what the call looks like to a user. Call it first, if at all: the host is told within 20 ms that the call
// has begun in any case, and an item that comes later is an update.
func (c *Call) Started(item contract.Item) error {
	return c.out.event(c.hard, contract.Started{Item: item})
}

// Output shows output as it appears; the model sees only the result. It is gathered for up to 20 ms or 16 KiB, cut
// between characters and never reordered. What goes beyond the caps is dropped and counted. It waits when the host is
// slow.
func (c *Call) Output(p []byte) error { return c.out.output(c.hard, p) }

// OutputWriter returns a writer whose Write is Output, to be the Stdout of a command.
func (c *Call) OutputWriter() io.Writer { return outputWriter{c} }

type outputWriter struct{ c *Call }

func (w outputWriter) Write(p []byte) (int, error) {
	if err := w.c.Output(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Dropped is how many bytes of output were not sent because of the caps.
func (c *Call) Dropped() int64 { return c.out.dropped.Load() }

// Progress is for people. total 0 means unknown.
func (c *Call) Progress(message string, done, total float64) error {
	return c.out.event(c.hard, contract.Progress{Message: message, Done: done, Total: total})
}

// Note is something that a nested step has to say; it appears under the item.
func (c *Call) Note(text string) error { return c.out.event(c.hard, contract.Note{Text: text}) }

// Update replaces the item that the user sees.
func (c *Call) Update(item contract.Item) error {
	return c.out.event(c.hard, contract.ItemUpdate{Item: item})
}

// Artifact stores content with the host, tells the user about it, and returns its reference for the result.
func (c *Call) Artifact(ctx context.Context, name, mediaType string, r io.Reader) (contract.ArtifactRef, error) {
	ref, err := c.env.PutArtifact(ctx, name, mediaType, r)
	if err != nil {
		return contract.ArtifactRef{}, err
	}
	return ref, c.out.event(c.hard, ref)
}

// Command prepares a process that the host spawns under the call's grant. It ends with ctx, and with the call unless it
// is a session.
func (c *Call) Command(ctx context.Context, argv ...string) *process.Cmd {
	return c.env.command(ctx, c.start.CallToken, argv)
}

// AssessCall is a call that is only being judged.
type AssessCall struct {
	req    *contract.AssessRequest
	tool   Tool
	env    *Env
	thread *Thread
}

// ThreadID of the thread that the call belongs to.
func (c *AssessCall) ThreadID() string { return c.req.ThreadID }

// TurnID of the turn that the call belongs to.
func (c *AssessCall) TurnID() string { return c.req.TurnID }

// ID of the call.
func (c *AssessCall) ID() string { return c.req.CallID }

// Tool is the name under which the tool was called.
func (c *AssessCall) Tool() string { return c.req.Tool }

// Cwd is the absolute working directory of the call.
func (c *AssessCall) Cwd() string { return c.req.Cwd }

// Env of the plugin.
func (c *AssessCall) Env() *Env { return c.env }

// Thread that the call belongs to.
func (c *AssessCall) Thread() *Thread { return c.thread }

// Command prepares a helper that reads what it needs and changes nothing.
func (c *AssessCall) Command(ctx context.Context, argv ...string) *process.Cmd {
	cmd := c.env.command(ctx, c.req.CallToken, argv)
	cmd.ReadOnly = true
	return cmd
}
