package appserver

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/workbench"
)

// bench has the methods about commands, processes and files. Each connection has a workbench of its own, made for the first request.
type bench struct{ *Server }

// openBench returns the workbench of the connection.
func (c *client) openBench(ctx context.Context) (*workbench.Bench, error) {
	c.benching.Lock()
	defer c.benching.Unlock()
	if c.bench != nil {
		return c.bench, nil
	}
	space, runner, leave, err := c.server.cfg.Hub.Workbench(ctx, c.server.cfg.Workspace)
	if err != nil {
		return nil, err
	}
	c.bench = workbench.New(workbench.Config{
		Notify: c.send, Workspaces: func() []*workbench.Workspace { return []*workbench.Workspace{space} }, Runner: runner,
		Logger: c.server.log.Named("workbench"),
	})
	c.leaveBench = leave
	return c.bench, nil
}

// closeBench ends the processes and watches of the connection.
func (c *client) closeBench() {
	c.benching.Lock()
	defer c.benching.Unlock()
	if c.bench != nil {
		c.bench.Close()
		c.leaveBench()
	}
}

// withBench returns a handler that calls f, which is a method of the workbench.
func withBench[P, R any](f func(b *workbench.Bench, ctx context.Context, p P) (R, error)) func(context.Context, *call, P) (R, error) {
	return func(ctx context.Context, c *call, p P) (out R, err error) {
		b, err := c.openBench(ctx)
		if err != nil {
			return out, err
		}
		return f(b, ctx, p)
	}
}

// emptyBench is withBench for methods whose results have no members.
func emptyBench[R, P any](f func(b *workbench.Bench, ctx context.Context, p P) error) func(context.Context, *call, P) (R, error) {
	return withBench(func(b *workbench.Bench, ctx context.Context, p P) (out R, err error) { return out, f(b, ctx, p) })
}

func (s bench) commandExec(ctx context.Context, c *call, p protocol.CommandExecParams) (out protocol.CommandExecResponse, err error) {
	b, err := c.openBench(ctx)
	if err != nil {
		return out, err
	}
	return b.CommandExec(ctx, p, c.request.Release)
}

func (s bench) processSpawn(ctx context.Context, c *call, p protocol.ProcessSpawnParams) (out protocol.ProcessSpawnResponse, err error) {
	b, err := c.openBench(ctx)
	if err != nil {
		return out, err
	}
	begin, err := b.ProcessSpawn(ctx, p)
	if err == nil {
		c.afterwards(begin)
	}
	return out, err
}

// sessionStart begins the session's notifications after the response.
func (s bench) sessionStart(ctx context.Context, c *call, p protocol.FuzzyFileSearchSessionStartParams) (out protocol.FuzzyFileSearchSessionStartResponse, err error) {
	b, err := c.openBench(ctx)
	if err != nil {
		return out, err
	}
	begin, err := b.FuzzyFileSearchSessionStart(ctx, p)
	if err == nil {
		c.afterwards(begin)
	}
	return out, err
}

// register adds the handlers.
func (s bench) register(m map[string]handler) {
	type B = workbench.Bench
	on(m, protocol.MethodCommandExec, s.commandExec)
	on(m, protocol.MethodCommandExecWrite, emptyBench[protocol.CommandExecWriteResponse]((*B).CommandExecWrite))
	on(m, protocol.MethodCommandExecResize, emptyBench[protocol.CommandExecResizeResponse]((*B).CommandExecResize))
	on(m, protocol.MethodCommandExecTerminate, emptyBench[protocol.CommandExecTerminateResponse]((*B).CommandExecTerminate))
	on(m, protocol.MethodProcessSpawn, s.processSpawn)
	on(m, protocol.MethodProcessWriteStdin, emptyBench[protocol.ProcessWriteStdinResponse]((*B).ProcessWriteStdin))
	on(m, protocol.MethodProcessResizePty, emptyBench[protocol.ProcessResizePtyResponse]((*B).ProcessResizePty))
	on(m, protocol.MethodProcessKill, emptyBench[protocol.ProcessKillResponse]((*B).ProcessKill))
	on(m, protocol.MethodFsReadFile, withBench((*B).FsReadFile))
	on(m, protocol.MethodFsWriteFile, emptyBench[protocol.FsWriteFileResponse]((*B).FsWriteFile))
	on(m, protocol.MethodFsCreateDirectory, emptyBench[protocol.FsCreateDirectoryResponse]((*B).FsCreateDirectory))
	on(m, protocol.MethodFsGetMetadata, withBench((*B).FsGetMetadata))
	on(m, protocol.MethodFsReadDirectory, withBench((*B).FsReadDirectory))
	on(m, protocol.MethodFsRemove, emptyBench[protocol.FsRemoveResponse]((*B).FsRemove))
	on(m, protocol.MethodFsCopy, emptyBench[protocol.FsCopyResponse]((*B).FsCopy))
	on(m, protocol.MethodFsWatch, withBench((*B).FsWatch))
	on(m, protocol.MethodFsUnwatch, emptyBench[protocol.FsUnwatchResponse]((*B).FsUnwatch))
	on(m, protocol.MethodFuzzyFileSearch, withBench((*B).FuzzyFileSearch))
	on(m, protocol.MethodFuzzyFileSearchSessionStart, s.sessionStart)
	on(m, protocol.MethodFuzzyFileSearchSessionUpdate, emptyBench[protocol.FuzzyFileSearchSessionUpdateResponse]((*B).FuzzyFileSearchSessionUpdate))
	on(m, protocol.MethodFuzzyFileSearchSessionStop, emptyBench[protocol.FuzzyFileSearchSessionStopResponse]((*B).FuzzyFileSearchSessionStop))
}
