package tool

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/process"
)

var errSkeleton = errors.New("tool: not there yet")

// ErrEnded is returned by a call's methods after its result was sent or its host is gone.
var ErrEnded = errors.New("tool: the call has ended")

// Cancelled is the cause of a call's context after the host asked it to end. The handler still returns a result.
type Cancelled struct {
	Reason string        // "interrupted", "shutdown", "deadline" or "replaced"
	Grace  time.Duration // after this the host ends the rpc
}

// Error implements error.
func (c *Cancelled) Error() string { return "call cancelled: " + c.Reason }

// Call is one call that runs. Its methods may be used by several goroutines.
type Call struct{}

func (c *Call) ThreadID() string           { return "" }
func (c *Call) TurnID() string             { return "" }
func (c *Call) ID() string                 { return "" }
func (c *Call) Tool() string               { return "" }
func (c *Call) Cwd() string                { return "" }
func (c *Call) Attempt() int               { return 0 }
func (c *Call) AssessDigest() string       { return "" }
func (c *Call) Grant() contract.GrantFacts { return contract.GrantFacts{} }
func (c *Call) Caps() contract.CallCaps    { return contract.CallCaps{} }
func (c *Call) ModelTraits() []string      { return nil }
func (c *Call) Parents() []string          { return nil }
func (c *Call) Env() *Env                  { return nil }

// Thread returns the thread that the call belongs to; sessions are opened on it.
func (c *Call) Thread() *Thread { return nil }

// Started says what the call looks like. At most once counts; later ones update the item.
func (c *Call) Started(item contract.Item) error { return errSkeleton }

// Output shows output as it appears.
func (c *Call) Output(p []byte) error { return errSkeleton }

// OutputWriter returns a writer whose Write is Output.
func (c *Call) OutputWriter() io.Writer { return nil }

// Dropped returns how many bytes of output were not sent because of the caps.
func (c *Call) Dropped() int64 { return 0 }

// Progress is for people. total 0: unknown.
func (c *Call) Progress(message string, done, total float64) error { return errSkeleton }

// Note is something that a nested step has to say.
func (c *Call) Note(text string) error { return errSkeleton }

// Artifact stores content and tells about it.
func (c *Call) Artifact(ctx context.Context, name, mediaType string, r io.Reader) (contract.ArtifactRef, error) {
	return contract.ArtifactRef{}, errSkeleton
}

// Update replaces the item.
func (c *Call) Update(item contract.Item) error { return errSkeleton }

// Command prepares a process that the host spawns under the call's grant.
func (c *Call) Command(ctx context.Context, argv ...string) *process.Cmd { return nil }

// Authorize asks for effects that only show up now. The error of a refusal is a *DeniedError.
func (c *Call) Authorize(ctx context.Context, effects ...contract.Effect) error { return errSkeleton }

// DeniedError is a refusal. Its text is for the model.
type DeniedError struct{ Denial string }

// Error implements error.
func (e *DeniedError) Error() string { return e.Denial }

// Ask puts a question to the user.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) { return Answer{}, errSkeleton }

// Question is a choice (Options), a form (FormSchema) or a URL.
type Question struct {
	Title, Message string
	Options        []string
	FormSchema     []byte
	URL            string
	Redirect       bool
}

// Answer of a question.
type Answer struct {
	Declined, Cancelled bool
	JSON                []byte
}

// CallTool runs another tool of the thread. args is marshalled to JSON; a string is passed to a freeform tool as Freeform.
func (c *Call) CallTool(ctx context.Context, namespace, name string, args any) (*Result, error) {
	return nil, errSkeleton
}

// Sample asks the model once.
func (c *Call) Sample(ctx context.Context, req *llm.Request) (*Sampled, error) {
	return nil, errSkeleton
}

// Sampled is what the model answered.
type Sampled struct {
	Message llm.Message
	Usage   llm.Usage
	Reason  llm.FinishReason
}

// Soft is the context that the handler got: it ends when the host asks to cancel, with a *Cancelled as the cause.
func (c *Call) Soft() context.Context { return nil }

// Hard ends when the host ends the rpc; clean-up after a cancel runs under it.
func (c *Call) Hard() context.Context { return nil }

// Clock stands still while anything waits for a person.
func (c *Call) Clock() *Clock { return nil }

// Clock counts the time of a call that nobody had to wait for a person.
type Clock struct{}

// Elapsed time since the call began, without pauses.
func (k *Clock) Elapsed() time.Duration { return 0 }

// Paused reports whether something waits for a person.
func (k *Clock) Paused() bool { return false }

// NewTimer returns a timer that fires after d of unpaused time.
func (k *Clock) NewTimer(d time.Duration) *Timer { return nil }

// Timer of a [Clock].
type Timer struct {
	C <-chan time.Time
}

// Stop releases the timer.
func (t *Timer) Stop() {}

// AssessCall is a call that is only being judged.
type AssessCall struct{}

func (c *AssessCall) ThreadID() string { return "" }
func (c *AssessCall) TurnID() string   { return "" }
func (c *AssessCall) ID() string       { return "" }
func (c *AssessCall) Tool() string     { return "" }
func (c *AssessCall) Cwd() string      { return "" }
func (c *AssessCall) Env() *Env        { return nil }

// Thread returns the thread that the call belongs to.
func (c *AssessCall) Thread() *Thread { return nil }

// Command prepares a read-only helper.
func (c *AssessCall) Command(ctx context.Context, argv ...string) *process.Cmd { return nil }
