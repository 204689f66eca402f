// Package process starts processes through the host. Its API resembles os/exec: the host starts the program under the grant
// of the call, and its descriptors are passed over a side socket or, if that is impossible, its input and output over a
// stream.
//
// It owns: starting, copying, signalling and waiting, as seen by a plugin. It must not know: grants, sandboxes, how the
// host starts processes, which tool asks.
//
// Start with [Broker] and [Cmd].
package process

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrWaitDelay is returned by Wait if the program exited with code 0 but another process kept its output open for
// [Cmd.WaitDelay]. Output written until then has been copied.
var ErrWaitDelay = errors.New("process: output still open after the process has ended")

// ErrOutputTooLong is returned by Output and CombinedOutput if there was more than [MaxOutputBytes]. The beginning of the
// output is returned with it.
var ErrOutputTooLong = errors.New("process: output too long")

const (
	// DefaultWaitDelay is how long Wait waits for further output after the last byte. If a shell leaves a server running in the
	// background, Wait takes this much longer.
	DefaultWaitDelay = 250 * time.Millisecond
	// attachDelay is how long Wait waits at least for the end of an Attach stream. The end of the process may be known before
	// its last output has arrived, and the host ends the stream soon after the process.
	attachDelay = 2 * time.Second
	// MaxOutputBytes is the maximum size of the result of Output and CombinedOutput. Use a writer for longer output.
	MaxOutputBytes = 32 << 20
)

// Broker starts processes for a call or for the plugin itself.
type Broker struct {
	client gantryv1.HostServiceClient
	token  string
	socket string
}

// New returns a broker for the call with the given token. client must carry the services token. If descriptorsSocket is
// empty, the broker uses the Attach stream.
func New(client gantryv1.HostServiceClient, token, descriptorsSocket string) *Broker {
	return &Broker{client: client, token: token, socket: descriptorsSocket}
}

// Command prepares a command. When ctx ends, the whole process tree is killed; with [Cmd.Session], ctx bounds only Start.
func (b *Broker) Command(ctx context.Context, argv ...string) *Cmd {
	return &Cmd{Args: argv, ctx: ctx, broker: b}
}

// Declared prepares the process that the plugin's config block declares under a name, for example "server.github". It needs no call.
// The config block determines the program, its arguments, its folder, its environment and what it may do, so of the fields of Cmd only
// Stdin, Stdout, Stderr, Terminal, MergeStderr, Limits, ReportDenials and WaitDelay can be set. When ctx ends, the whole process tree is killed; it also
// ends with the plugin's process. The error of Start is a *StartError with Denied set if the user has not accepted the process.
func (b *Broker) Declared(ctx context.Context, name string) *Cmd {
	return &Cmd{Args: []string{name}, declared: name, ctx: ctx, broker: b}
}

// Keep makes a session outlive the plugin's process. See [Cmd.Keep].
type Keep struct {
	Note   []byte // data for the process that adopts the session, at most 64 KiB
	Memory int    // size of the memory that both processes share, at most 8 MiB; see [Cmd.Memory]
}

// Adopted is a session of an earlier process of the plugin.
type Adopted struct {
	// Cmd is running or has ended. Set its writers or get its pipes, then call Start to connect to it.
	Cmd              *Cmd
	ThreadID, CallID string    // of the call that started it
	Note             []byte    // of Keep
	Started          time.Time // according to the host's clock
}

// Adoption is the result of [Broker.Adopt].
type Adoption struct {
	Processes []Adopted
	// Unanswered lists calls that the plugin accepted and that got no result. Output that an earlier process had collected
	// for one of them was never delivered.
	Unanswered []string
	// EarlierRuns reports whether an earlier process is still running and may leave more sessions. Call Adopt again at the
	// next call.
	EarlierRuns bool
}

// Adopt takes over the kept sessions of earlier processes of the plugin for a thread; an empty thread means all. It waits
// for the end of an earlier process that still has sessions. ctx limits the wait, and the use of each Cmd until it is
// connected.
func (b *Broker) Adopt(ctx context.Context, threadID string) (*Adoption, error) {
	resp, err := b.client.Adopt(ctx, &gantryv1.AdoptRequest{ThreadId: threadID})
	if err != nil {
		return nil, fmt.Errorf("adopt processes: %w", err)
	}
	out := &Adoption{Unanswered: resp.GetUnansweredCallIds(), EarlierRuns: resp.GetEarlierRuns()}
	for _, p := range resp.GetProcesses() {
		c := b.Command(ctx, p.GetArgv()...)
		c.Session, c.Dir, c.Keep = true, p.GetCwd(), &Keep{Note: p.GetNote()}
		if p.GetTerminal() {
			c.Terminal = &Size{}
		}
		c.adopted = &gantryv1.SpawnResponse{
			ProcessId: p.GetProcessId(), Pid: p.GetPid(),
			DescriptorToken: p.GetDescriptorToken(), Descriptors: p.GetDescriptors(),
		}
		out.Processes = append(out.Processes, Adopted{
			Cmd: c, ThreadID: p.GetThreadId(), CallID: p.GetCallId(), Note: p.GetNote(), Started: time.UnixMilli(p.GetStartedUnixMs()),
		})
	}
	return out, nil
}

// Exit describes how a process ended.
type Exit struct {
	Code         int            // a signal n is 128+n
	Signal       syscall.Signal // 0: none
	User, System time.Duration
	MaxRSSBytes  int64
	Limit        string // the limit that ended it: "memory", "pids", "time", "file_size"; empty: none
}

func exitOf(r *gantryv1.WaitResponse) Exit {
	return Exit{
		Code: int(r.GetExitCode()), Signal: syscall.Signal(r.GetSignal()),
		User:        time.Duration(r.GetUserMs()) * time.Millisecond,
		System:      time.Duration(r.GetSystemMs()) * time.Millisecond,
		MaxRSSBytes: r.GetMaxRssBytes(), Limit: r.GetLimit(),
	}
}

// ExitError is the error for a process that exited with a code other than 0.
type ExitError struct {
	Exit
	Stderr []byte // set by Output if Cmd.Stderr was nil: beginning and end
}

// Error implements error.
func (e *ExitError) Error() string {
	switch {
	case e.Limit != "":
		return fmt.Sprintf("ended by its %s limit", e.Limit)
	case e.Signal != 0:
		return "signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// StartError is the error for a process that the host could not or did not start.
type StartError struct {
	Argv    []string
	Message string        // the operating system's text, for example "No such file or directory"
	Errno   syscall.Errno // 0: none
	Denied  bool          // refused by policy or sandbox
}

// Error implements error.
func (e *StartError) Error() string {
	program := ""
	if len(e.Argv) > 0 {
		program = e.Argv[0]
	}
	return fmt.Sprintf("start %q: %s", program, e.Message)
}

// Unwrap returns the errno, so that errors.Is(err, fs.ErrNotExist) works.
func (e *StartError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
