package hub

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/goal"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/queue"
	"github.com/gantry-agent/gantry/host/internal/review"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/undo"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// What reviews look at.
const (
	Uncommitted = review.Uncommitted // changes in the working tree, including new files
	BaseBranch  = review.BaseBranch  // differences between the working tree and a branch
	Commit      = review.Commit
	Custom      = review.Custom // what the instructions describe
)

// Plain data that packages below the hub define.
type (
	// ReviewTarget is what a review looks at.
	ReviewTarget = review.Target
	// UndoParams select the file changes to undo.
	UndoParams = threadsocket.UndoParams
	// UndoReport says what an undo has done, or would do.
	UndoReport = undo.Report
	// UndoneFile is what an undo has done with a file, or would do.
	UndoneFile = undo.FileReport
	// Queued is input that waits for a turn of its own, and QueueChange a change of such input.
	Queued      = queue.Entry
	QueueChange = queue.Change
	// Goal is what a thread is to reach, and GoalChange a change of it.
	Goal       = goal.Goal
	GoalChange = goal.Change
	// Adjustment changes the settings of a running turn. Empty fields change nothing.
	Adjustment = turn.Adjustment
	// PluginStatus is the status of a plugin of the host that runs a thread.
	PluginStatus = threadsocket.PluginStatus
	// PluginCommand selects a command of a plugin to run. Its field Thread is not used.
	PluginCommand = threadsocket.CommandParams
	// ToolCall is a call of a plugin's tool without a model, and ToolResult its result.
	ToolCall   = host.ToolCall
	ToolResult = host.ToolResult
	// ThreadProcess is a process that runs after the call that started it, on the machine of this process.
	ThreadProcess = threadsocket.SessionProcess
)

// Input is what a user says.
type Input struct {
	Parts []llm.Part
	// Context is what the front end knows, for example an open file, by a key of letters, digits, dashes and underscores. A text
	// applies until its key is sent again; an empty text removes it. The model gets about 1,000 tokens of each at most.
	Context map[string]string
	// ClientID is the client's identity of a message. A thread accepts input with the same one once: another submission of it has the
	// result of the first, even if the process was restarted in between. "": every submission is accepted.
	ClientID string
	// Continue: there are no Parts. The model is asked with the history as it is, without a message of the user; a running turn only gets
	// the Context. ClientID has no effect: there is no message.
	Continue bool

	adjust Adjustment // of a running turn, instead of Parts
}

// Submission is what a front end asks a thread to do next.
type Submission struct {
	Input
	// OutputSchema is the JSON Schema of the turn's last message; nil: free text. Input with a schema waits for the end of the running
	// turn.
	OutputSchema json.RawMessage
	// Settings change the thread's settings from this turn on; empty fields change nothing. Input with settings waits for the end of the
	// running turn.
	Settings event.Settings
	// Durable: when Submit returns, the input survives a crash of the process. It is implied for threads of other processes.
	Durable bool
}

// Accepted says what happened to a submission.
type Accepted struct {
	Turn    event.TurnID
	Steered bool // it joined the running turn
	// Concurrent: it runs beside the running turn, which does not end with it.
	Concurrent bool
	Call       event.CallID // of a command of the user: the call of its item
	// Repeated: the input was accepted before, for Turn, and was not added again.
	Repeated bool
}

// Posted says what happened to mail.
type Posted struct {
	Item event.ItemID // the item that the mail becomes when it is read
	// Turn is the running turn that reads the mail unless it ends first, or the turn that the mail started; "": it waits for the next
	// turn.
	Turn  event.TurnID
	Began bool
}

// Answer is an answer to a question of a thread. The choices of approvals are the constants [Approve] and so on.
type Answer struct {
	Choice string
	Data   json.RawMessage
}

// Replaced reports whether a turn has ended because another client started a task that replaces it.
func Replaced(e event.TurnEnded) bool { return e.Reason == orchestrate.ErrReplaced.Error() }

// Thread is a thread that runs, here or in another process. Its methods may be called concurrently. After the thread has ended or was
// unloaded, they return an error with the code [Closed]; [Hub.Resume] continues it.
type Thread struct {
	id      event.ThreadID
	started event.ThreadStarted
	done    chan struct{}
	over    sync.Once // closes done

	mu struct {
		sync.Mutex
		runner    runner
		moving    chan struct{} // closed at the end of a move to another host; nil: there is none
		attending map[*attendance]struct{}
	}
}

func newThread(id event.ThreadID, started event.ThreadStarted, r runner) *Thread {
	t := &Thread{id: id, started: started, done: make(chan struct{})}
	t.mu.runner, t.mu.attending = r, map[*attendance]struct{}{}
	return t
}

// runner reaches a running thread.
type runner interface {
	follow(ctx context.Context, after uint64, p Policy) (source, error)
	submit(ctx context.Context, s Submission) (Accepted, error)
	steer(ctx context.Context, into event.TurnID, in Input) (Accepted, error)
	interrupt(ctx context.Context, turn event.TurnID) error
	answer(ctx context.Context, question string, a Answer) error
	attend(ctx context.Context, as presence) (leave func(), err error)
	settings(ctx context.Context) (event.Settings, error)
	configure(ctx context.Context, change event.Settings) error
	compact(ctx context.Context) (Accepted, error)
	shell(ctx context.Context, command string, timeout time.Duration) (Accepted, error)
	review(ctx context.Context, target ReviewTarget) (Accepted, error)
	post(ctx context.Context, m event.Mail) (Posted, error)
	undo(ctx context.Context, p UndoParams) (UndoReport, error)
	stopSession(ctx context.Context, plugin, session string) error
	openView(ctx context.Context, plugin string, o contract.ViewOpen) (View, error)
	plugins(ctx context.Context) ([]PluginStatus, error)
	reload(ctx context.Context, plugin, path string) error
	command(ctx context.Context, c PluginCommand) (json.RawMessage, error)
	callTool(ctx context.Context, c ToolCall) (ToolResult, error)
	processes(ctx context.Context) ([]ThreadProcess, error)
	fork(ctx context.Context, f Fork) (event.ThreadID, error)
	revert(ctx context.Context, before string, turns int) (Reverted, error)
	rename(ctx context.Context, name string) error
	describe(ctx context.Context, git event.ThreadDescribed) error
	archive(ctx context.Context, archive bool) error
	inject(ctx context.Context, ms []llm.Message) error
	queued(ctx context.Context) ([]Queued, error)
	changeQueue(ctx context.Context, c QueueChange) ([]Queued, error)
	startQueued(ctx context.Context, id event.ItemID) (Accepted, error)
	goal(ctx context.Context) (*Goal, error)
	changeGoal(ctx context.Context, c GoalChange) (*Goal, error)
	remote() bool
	ephemeral() bool
}

// ID returns the thread's identity.
func (t *Thread) ID() event.ThreadID { return t.id }

// Started returns the thread's first event.
func (t *Thread) Started() event.ThreadStarted { return t.started }

// Remote reports whether another process runs the thread.
func (t *Thread) Remote() bool { return t.kind().remote() }

// Ephemeral reports whether the thread is not stored.
func (t *Thread) Ephemeral() bool { return t.kind().ephemeral() }

// Configuration returns the configuration under which the thread runs, whatever its files say by now; nil: another process runs it.
func (t *Thread) Configuration() *config.Config {
	if l, ok := t.kind().(*local); ok {
		return l.space.cfg
	}
	return nil
}

// Workspace returns the workspace in which the thread runs; nil: another process runs it.
func (t *Thread) Workspace() *Workspace {
	if l, ok := t.kind().(*local); ok {
		w := l.space.workspace
		return &w
	}
	return nil
}

// kind returns how the thread is reached, also during a move, which does not change what kind that is.
func (t *Thread) kind() runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.runner
}

// Done is closed when the thread has ended or was unloaded, but not when it moves to another host. For a thread of another process, it is
// closed when the connection to that process has ended.
func (t *Thread) Done() <-chan struct{} { return t.done }

// Follow returns the thread's stored events with numbers greater than after, then those that are published from now on, including
// transient ones. [FromNow] leaves out the stored ones. No stored event is left out or repeated, even if the caller is slow. Until the
// thread's first turn, a local thread also repeats transient events since it was loaded.
//
// A thread that is followed is not unloaded.
func (t *Thread) Follow(ctx context.Context, after uint64, p Policy) (*Events, error) {
	for {
		r, err := t.current(ctx)
		if err != nil {
			return nil, err
		}
		s, err := r.follow(ctx, after, p)
		if errors.Is(err, errClosed) && t.hasLeft(r) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return newEvents(t, r, s, p), nil
	}
}

// Submit submits input: it starts a turn or joins the running one. It waits while the thread's queue is full, and until the end of the
// running turn if it can't join that. With an error, nothing was accepted.
func (t *Thread) Submit(ctx context.Context, s Submission) (Accepted, error) {
	r, err := t.enter(ctx, s.Settings.Cwd)
	if err != nil {
		return Accepted{}, err
	}
	return r.submit(ctx, s)
}

// Steer adds input to a given running turn. It never waits and never starts a turn. When it returns without an error, the input survives
// a crash of the process. Errors have the codes [NoTurn], [OtherTurn] or [NotSteerable].
func (t *Thread) Steer(ctx context.Context, into event.TurnID, in Input) (Accepted, error) {
	r, err := t.current(ctx)
	if err != nil {
		return Accepted{}, err
	}
	return r.steer(ctx, into, in)
}

// Adjust changes the settings of a given running turn, from its next request to the model on. Later turns keep the thread's settings. Errors
// have the codes [NoTurn], [OtherTurn] or [NotSteerable].
func (t *Thread) Adjust(ctx context.Context, running event.TurnID, a Adjustment) error {
	_, err := t.Steer(ctx, running, Input{adjust: a})
	return err
}

// Interrupt interrupts the running turn, which must be the given one unless turn is empty, and returns when it has ended. Errors have the
// codes [NoTurn] or [OtherTurn].
func (t *Thread) Interrupt(ctx context.Context, turn event.TurnID) error {
	r, err := t.current(ctx)
	if err != nil {
		return err
	}
	return r.interrupt(ctx, turn)
}

// Answer answers a question. Only the first answer is used; later ones get an error with the code [Answered].
func (t *Thread) Answer(ctx context.Context, question string, a Answer) error {
	r, err := t.current(ctx)
	if err != nil {
		return err
	}
	return r.answer(ctx, question, a)
}

// Settings returns the thread's settings.
func (t *Thread) Settings(ctx context.Context) (event.Settings, error) {
	r, err := t.current(ctx)
	if err != nil {
		return event.Settings{}, err
	}
	return r.settings(ctx)
}

// Configure changes the settings of later turns and returns when they apply, which is after the running turn. Empty fields change
// nothing. A thread of this process that moves to a folder to which another configuration applies is loaded anew under that one; while a
// turn runs, the error has the code [Busy].
func (t *Thread) Configure(ctx context.Context, change event.Settings) error {
	r, err := t.enter(ctx, change.Cwd)
	if err != nil {
		return err
	}
	return r.configure(ctx, change)
}

// Compact shortens the thread's history in a turn of its own. A running turn is stopped.
func (t *Thread) Compact(ctx context.Context) (Accepted, error) {
	r, err := t.current(ctx)
	if err != nil {
		return Accepted{}, err
	}
	return r.compact(ctx)
}

// Shell runs a command of the user, without a sandbox: during the running turn or in a turn of its own. The default timeout is an hour.
func (t *Thread) Shell(ctx context.Context, command string, timeout time.Duration) (Accepted, error) {
	r, err := t.current(ctx)
	if err != nil {
		return Accepted{}, err
	}
	return r.shell(ctx, command, timeout)
}

// Review reviews changes in the thread's folder in a turn of its own. A running turn is stopped.
func (t *Thread) Review(ctx context.Context, target ReviewTarget) (Accepted, error) {
	r, err := t.current(ctx)
	if err != nil {
		return Accepted{}, err
	}
	return r.review(ctx, target)
}

// Post delivers a message of another agent. With an error, it was not accepted.
func (t *Thread) Post(ctx context.Context, m event.Mail) (Posted, error) {
	r, err := t.current(ctx)
	if err != nil {
		return Posted{}, err
	}
	return r.post(ctx, m)
}

// StopSession ends a session that a call left running. plugin may be empty if only one plugin has a session with this ID.
func (t *Thread) StopSession(ctx context.Context, plugin, session string) error {
	r, err := t.current(ctx)
	if err != nil {
		return err
	}
	return r.stopSession(ctx, plugin, session)
}

// Plugins returns the plugins of the host that runs the thread.
func (t *Thread) Plugins(ctx context.Context) ([]PluginStatus, error) {
	r, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.plugins(ctx)
}

// RunCommand runs a command of a plugin of that host and returns its output, JSON. Nobody is asked: if the command has side effects and the
// user has not agreed to them, the error has the code [NotConfirmed]; if there is no such command, [NotFound].
func (t *Thread) RunCommand(ctx context.Context, c PluginCommand) (json.RawMessage, error) {
	r, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.command(ctx, c)
}

// CallTool calls a tool of a plugin in a turn of its own, after the running one, and returns when it has ended. The call passes the stages
// of a model's call: policy, approvals, sandbox, journal. The end of ctx stops it.
func (t *Thread) CallTool(ctx context.Context, c ToolCall) (ToolResult, error) {
	r, err := t.current(ctx)
	if err != nil {
		return ToolResult{}, err
	}
	return r.callTool(ctx, c)
}

// Processes returns the processes of sessions that calls left running.
func (t *Thread) Processes(ctx context.Context) ([]ThreadProcess, error) {
	r, err := t.current(ctx)
	if err != nil {
		return nil, err
	}
	return r.processes(ctx)
}

// ReloadPlugin replaces the process of a plugin of that host. An empty path means the same file.
func (t *Thread) ReloadPlugin(ctx context.Context, plugin, path string) error {
	r, err := t.current(ctx)
	if err != nil {
		return err
	}
	return r.reload(ctx, plugin, path)
}
