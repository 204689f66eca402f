package workbench

import (
	"context"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// processSpawn is the name of the method.
const processSpawn = "process/spawn"

// ProcessSpawn implements process/spawn: it starts a process without a sandbox, which the workspace has to allow by full access. The
// caller calls begin once it has answered the request: then the client is notified of output, and in the end of process/exited.
func (b *Bench) ProcessSpawn(ctx context.Context, q protocol.ProcessSpawnParams) (begin func(), err error) {
	o, err := b.processOrder(ctx, q)
	if err != nil {
		return nil, err
	}
	if !b.processes.reserve(o.id) {
		return nil, rpc.Errorf(rpc.InvalidRequest, "duplicate active processHandle %q", o.id)
	}
	j, err := b.start(ctx, o)
	if err != nil {
		b.processes.free(o.id)
		return nil, err
	}
	b.processes.set(o.id, j)
	answered, begin := context.WithCancel(b.life)
	b.work.Go(func() {
		<-answered.Done()
		r, err := b.run(j)
		b.processes.free(o.id)
		if err != nil {
			return // the connection has ended
		}
		b.cfg.Notify("process/exited", protocol.ProcessExitedNotification{
			ProcessHandle: o.id, ExitCode: r.code, Stdout: r.streams[0].text(), StdoutCapReached: r.streams[0].full,
			Stderr: r.streams[1].text(), StderrCapReached: r.streams[1].full,
		})
	})
	return begin, nil
}

// ProcessWriteStdin implements process/writeStdin. It does not wait for the process to read.
func (b *Bench) ProcessWriteStdin(_ context.Context, q protocol.ProcessWriteStdinParams) error {
	return b.processes.write(processSpawn, q.ProcessHandle, q.DeltaBase64, q.CloseStdin)
}

// ProcessResizePty implements process/resizePty.
func (b *Bench) ProcessResizePty(_ context.Context, q protocol.ProcessResizePtyParams) error {
	return b.processes.resize(processSpawn, q.ProcessHandle, q.Size)
}

// ProcessKill implements process/kill. It does not wait for the end of the process.
func (b *Bench) ProcessKill(_ context.Context, q protocol.ProcessKillParams) error {
	return b.processes.terminate(processSpawn, q.ProcessHandle)
}

// processOrder checks the parameters of process/spawn.
func (b *Bench) processOrder(ctx context.Context, q protocol.ProcessSpawnParams) (o order, err error) {
	switch {
	case len(q.Command) == 0 || q.Command[0] == "":
		return o, rpc.Errorf(rpc.InvalidRequest, "command must not be empty")
	case q.ProcessHandle == "":
		return o, rpc.Errorf(rpc.InvalidRequest, "processHandle must not be empty")
	}
	if err := absolute("cwd", q.Cwd); err != nil {
		return o, err
	}
	o = order{id: q.ProcessHandle, streamIn: q.StreamStdin || q.Tty, streamOut: q.StreamStdoutStderr || q.Tty, cap: outputCap(q.OutputBytesCap)}
	o.spec = launch.Spec{Argv: q.Command, Cwd: q.Cwd, Stdin: q.StreamStdin && !q.Tty}
	if o.spec.Terminal, err = terminal(q.Tty, q.Size); err != nil {
		return o, err
	}
	if o.timeout, err = timeout(q.TimeoutMs, 0); err != nil {
		return o, err
	}
	ws := b.cfg.areas().workspace(fspath.Resolve(q.Cwd))
	o.runner = ws.Runner
	if mode := ws.mode(); mode != launch.FullAccess {
		return o, hint.With(rpc.Errorf(rpc.InvalidRequest, "process/spawn starts processes without a sandbox, but the sandbox mode for %s is %q", q.Cwd, mode),
			`use command/exec, or set sandbox { mode = "full-access" }`)
	}
	if o.spec.Env, err = environ(ws.Environ.User(), q.Env); err != nil {
		return o, err
	}
	if o.spec.Grant, err = ws.grant(ctx, launch.FullAccess); err != nil {
		return o, notStarted(err)
	}
	o.delta = func(s protocol.OutputStream, data string, capReached bool) {
		b.cfg.Notify("process/outputDelta", protocol.ProcessOutputDeltaNotification{
			ProcessHandle: o.id, Stream: s, DeltaBase64: data, CapReached: capReached,
		})
	}
	return o, nil
}
