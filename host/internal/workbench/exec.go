package workbench

import (
	"context"
	"path/filepath"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// commandExec is the name of the method.
const commandExec = "command/exec"

// CommandExec implements command/exec: it runs a command in the sandbox that the request asks for or, by default, in that of the
// configuration. started, if not nil, is called once the client may write to the command or end it, while CommandExec waits for its end:
// the requests that do so have the same key. The command ends with ctx and with the connection.
func (b *Bench) CommandExec(ctx context.Context, q protocol.CommandExecParams, started func()) (protocol.CommandExecResponse, error) {
	o, err := b.commandOrder(ctx, q)
	if err != nil {
		return protocol.CommandExecResponse{}, err
	}
	if o.id != "" {
		if !b.commands.reserve(o.id) {
			return protocol.CommandExecResponse{}, rpc.Errorf(rpc.InvalidRequest, "duplicate active processId %q", o.id)
		}
		defer b.commands.free(o.id)
	}
	j, err := b.start(ctx, o)
	if err != nil {
		return protocol.CommandExecResponse{}, err
	}
	defer context.AfterFunc(ctx, func() { j.stop(errClosed) })()
	if o.id != "" {
		b.commands.set(o.id, j)
	}
	if started != nil {
		started()
	}
	r, err := b.run(j)
	if err != nil {
		return protocol.CommandExecResponse{}, rpc.Errorf(rpc.Internal, "%s", err)
	}
	return protocol.CommandExecResponse{ExitCode: r.code, Stdout: r.streams[0].text(), Stderr: r.streams[1].text()}, nil
}

// CommandExecWrite implements command/exec/write. It does not wait for the command to read.
func (b *Bench) CommandExecWrite(_ context.Context, q protocol.CommandExecWriteParams) error {
	return b.commands.write(commandExec, q.ProcessID, q.DeltaBase64, q.CloseStdin)
}

// CommandExecResize implements command/exec/resize.
func (b *Bench) CommandExecResize(_ context.Context, q protocol.CommandExecResizeParams) error {
	return b.commands.resize(commandExec, q.ProcessID, q.Size)
}

// CommandExecTerminate implements command/exec/terminate. It does not wait for the end of the command.
func (b *Bench) CommandExecTerminate(_ context.Context, q protocol.CommandExecTerminateParams) error {
	return b.commands.terminate(commandExec, q.ProcessID)
}

// commandOrder checks the parameters of command/exec.
func (b *Bench) commandOrder(ctx context.Context, q protocol.CommandExecParams) (o order, err error) {
	streams := q.Tty || q.StreamStdin || q.StreamStdoutStderr
	switch {
	case len(q.Command) == 0 || q.Command[0] == "":
		return o, rpc.Errorf(rpc.InvalidRequest, "command must not be empty")
	case q.ProcessID != nil && *q.ProcessID == "":
		return o, rpc.Errorf(rpc.InvalidRequest, "processId must not be empty")
	case q.ProcessID == nil && streams:
		return o, rpc.Errorf(rpc.InvalidRequest, "tty, streamStdin and streamStdoutStderr require a processId")
	case q.OutputBytesCap != nil && q.DisableOutputCap:
		return o, rpc.Errorf(rpc.InvalidParams, "outputBytesCap and disableOutputCap exclude each other")
	case q.TimeoutMs != nil && q.DisableTimeout:
		return o, rpc.Errorf(rpc.InvalidParams, "timeoutMs and disableTimeout exclude each other")
	case q.SandboxPolicy != nil && q.PermissionProfile != nil:
		return o, rpc.Errorf(rpc.InvalidRequest, "sandboxPolicy and permissionProfile exclude each other")
	}
	o.spec = launch.Spec{Argv: q.Command, Stdin: q.StreamStdin && !q.Tty}
	if o.spec.Terminal, err = terminal(q.Tty, q.Size); err != nil {
		return o, err
	}
	if o.timeout, err = timeout(q.TimeoutMs, defaultTimeout); err != nil {
		return o, err
	}
	if q.DisableTimeout {
		o.timeout = 0
	}
	at := b.cfg.areas()
	ws := at.first
	o.spec.Cwd = ws.Dir
	if q.Cwd != nil {
		if o.spec.Cwd = *q.Cwd; !filepath.IsAbs(o.spec.Cwd) {
			o.spec.Cwd = filepath.Join(ws.Dir, o.spec.Cwd)
		}
		ws = at.workspace(fspath.Resolve(o.spec.Cwd))
	}
	o.runner = ws.Runner
	if o.spec.Env, err = environ(ws.Environ.Tools(), q.Env); err != nil {
		return o, err
	}
	if o.spec.Grant, err = ws.commandGrant(ctx, q.SandboxPolicy, q.PermissionProfile); err != nil {
		return o, err
	}
	o.streamIn, o.streamOut = q.StreamStdin || q.Tty, q.StreamStdoutStderr || q.Tty
	o.cap = outputCap(q.OutputBytesCap)
	if q.DisableOutputCap {
		o.cap = noCap
	}
	if q.ProcessID != nil {
		o.id = *q.ProcessID
	}
	o.delta = func(s protocol.OutputStream, data string, capReached bool) {
		b.cfg.Notify("command/exec/outputDelta", protocol.CommandExecOutputDeltaNotification{
			ProcessID: o.id, Stream: s, DeltaBase64: data, CapReached: capReached,
		})
	}
	return o, nil
}

// noCap does not limit the output.
const noCap = 1<<64 - 1

func outputCap(asked *uint64) uint64 {
	if asked == nil {
		return defaultCap
	}
	return *asked
}

// commandGrant returns the grant of a command under a policy or a profile; without either, under the configuration.
func (w *Workspace) commandGrant(ctx context.Context, policy *protocol.SandboxPolicy, profile *string) (launch.Grant, error) {
	mode := w.mode()
	var roots []string
	var network *bool
	if profile != nil {
		switch *profile {
		case ":read-only":
			mode = box.ReadOnly
		case ":workspace":
			mode = box.WorkspaceWrite
		case ":danger-full-access":
			mode = launch.FullAccess
		default:
			return launch.Grant{}, hint.With(rpc.Errorf(rpc.InvalidRequest, "permissionProfile %q is unknown", *profile), "use :read-only, :workspace or :danger-full-access")
		}
	}
	if policy != nil {
		switch p := policy.Body.(type) {
		case protocol.FullAccessPolicy, protocol.ExternalSandboxPolicy:
			mode = launch.FullAccess
		case protocol.ReadOnlyPolicy:
			mode, network = box.ReadOnly, &p.NetworkAccess
		case protocol.WorkspaceWritePolicy:
			mode, network, roots = box.WorkspaceWrite, &p.NetworkAccess, p.WritableRoots
		default:
			return launch.Grant{}, rpc.Errorf(rpc.InvalidParams, "sandboxPolicy has an unknown type")
		}
	}
	for _, r := range roots {
		if !filepath.IsAbs(r) || hasNUL(r) {
			return launch.Grant{}, rpc.Errorf(rpc.InvalidParams, "sandboxPolicy.writableRoots: %q is not an absolute path", r)
		}
	}
	g, err := w.grant(ctx, mode)
	if err != nil {
		return launch.Grant{}, notStarted(err)
	}
	g.WritableRoots = append(g.WritableRoots[:len(g.WritableRoots):len(g.WritableRoots)], roots...)
	if network != nil {
		// With a proxy the configuration's rules for hosts apply.
		g.Network, g.Proxied = *network && !g.Proxied, *network && g.Proxied
	}
	return g, nil
}
