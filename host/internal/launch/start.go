package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/failure"
	"github.com/gantry-agent/gantry/host/internal/launch/monitor"
	"github.com/gantry-agent/gantry/host/internal/launch/pool"
)

// start starts the process. If it returns an error nothing is left of it.
func (p *Process) start(ctx context.Context, confiner Confiner) error {
	defer close(p.settled)
	p.confiner = confiner
	order, err := p.confine(ctx)
	var rest []byte
	if err == nil {
		rest, err = p.launch(ctx, order)
	}
	if err != nil {
		p.over()
		close(p.exited)
		close(p.gone)
		return err
	}
	p.l.work.Go(p.watch)
	stop := context.AfterFunc(ctx, p.tree.Abort)
	p.tree.Send(rest)
	<-p.begun
	if !stop() || ctx.Err() != nil {
		p.tree.Abort()
		<-p.gone
		return context.Cause(ctx)
	}
	if p.startErr != nil {
		<-p.gone
		return p.startErr
	}
	p.limits.Started(p.tree.MonitorPID())
	if p.offer != nil || p.way != nil {
		if err := p.serveProxy(ctx); err != nil {
			p.tree.Abort()
			<-p.gone
			return err
		}
	}
	return nil
}

// confine determines the confinement and the limits of the process, and returns the order to start it.
func (p *Process) confine(ctx context.Context) (*control.Order, error) {
	if err := p.l.prepareUnconfined(&p.spec); err != nil {
		return nil, err
	}
	grant := p.spec.Grant
	c := Confinement{
		Owner: p.spec.Owner, Argv: p.spec.Argv, Env: p.spec.Env, Cwd: p.spec.Cwd, Launcher: p.l.cfg.LauncherPath,
		End: p.kill, Hide: p.hide,
	}
	release, err := p.confiner.Confine(ctx, grant, p.spec.ReadOnly, &c)
	p.release, p.way, p.boxed, p.reusable = release, c.Listener, c.Box != nil, c.Reusable && p.l.reuses(&p.spec)
	if err == nil {
		err = enforceable(runtime.GOOS, grant)
	}
	if err == nil {
		p.limits, err = p.l.limits.Prepare(p.id, grant.Limits, p.boxed, p.limitReached)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	listens := p.boxed && c.Box.Listen
	if (listens || p.way != nil) && p.l.cfg.Proxy == nil {
		return nil, &UnsupportedError{
			Mode: grant.Mode, What: "the process may use the network only through a proxy, and there is none here",
			Next: `set network { mode = "none" } or "full"`,
		}
	}
	return &control.Order{
		Argv: c.Argv, Env: c.Env, Cwd: c.Cwd, Terminal: p.spec.Terminal != nil, Rlimits: append(c.Rlimits, p.limits.Rlimits...),
		Cgroup: p.limits.Cgroup, Groups: p.limits.Groups, Box: c.Box,
		LifelineGraceMS: uint32(min(lifelineGrace, p.l.cfg.KillGrace).Milliseconds()),
		// Control groups end with gantry-launch, and so does a listener.
		Reusable: !grant.Limits.OfTree() && p.way == nil && (!p.boxed || p.reusable && !listens),
	}, nil
}

// launch sends the order and the descriptors to a gantry-launch, one with the order's sandbox if that may be prepared. It returns the
// rest of the order.
func (p *Process) launch(ctx context.Context, o *control.Order) (rest []byte, err error) {
	target, opened, err := p.streams.Open()
	defer func() {
		for _, f := range opened {
			f.Close() // gantry-launch has duplicates
		}
	}()
	if err != nil {
		return nil, err
	}
	if p.boxed && o.Box.Listen {
		ours, theirs, err := monitor.Socketpair("listener")
		if err != nil {
			return nil, err
		}
		p.offer = ours
		target, opened = append(target, theirs), append(opened, theirs)
	}
	// A process in groups gets a sandbox that is created in them.
	var prepared *control.Box
	if p.boxed && p.reusable && o.Cgroup == "" && len(o.Groups) == 0 && p.spec.Grant.Limits.MaxPids == 0 {
		prepared = o.Box
		withoutArgs := *o.Box
		withoutArgs.Args = nil
		o.Box = &withoutArgs
	}
	owner := p.spec.Owner
	command := pool.Command{Thread: owner.Thread, Plugin: owner.Plugin, Limited: p.spec.Grant.Limits.OfTree()}
	slot, err := p.l.pool.Take(ctx, command, prepared)
	if err != nil {
		return nil, err
	}
	rest, err = slot.Monitor.Order(o, owner.Plugin, target)
	if slot.Waited && errors.Is(err, syscall.EPIPE) { // it has just ended, and has read nothing
		slot.Monitor.Kill()
		if slot, err = p.l.pool.New(ctx, command, prepared); err != nil {
			return nil, err
		}
		rest, err = slot.Monitor.Order(o, owner.Plugin, target)
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) { // after EPIPE its last words are read
		slot.Monitor.Kill()
		return nil, failure.Of("send the order", err)
	}
	p.slot, p.tree = slot, slot.Monitor.Follow()
	return rest, nil
}

// serveProxy serves the process's connections until its tree has ended.
func (p *Process) serveProxy(ctx context.Context) error {
	ln, err := p.way, error(nil)
	if ln == nil {
		ln, err = monitor.ReceiveListener(p.offer) // it was sent before the process was started
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.over { // the process has ended already, and its listener with it
			return nil
		}
		return fmt.Errorf("receive the listener for the network proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.mu.Lock()
	p.mu.endProxy = cancel
	if p.mu.over {
		cancel()
	}
	p.mu.Unlock()
	p.l.work.Go(func() { // ends with ctx, which ends with the tree
		defer ln.Close()
		p.l.cfg.Proxy(ctx, p, ln)
	})
	return nil
}

// startFailure translates what gantry-launch says about a failed start.
func (p *Process) startFailure(m control.Failed) error {
	errno := syscall.Errno(m.Errno)
	tooLittle := func(limit string) error {
		e := failure.New(m.Op.String(), p.spec.Argv[0], errno)
		what, value, name := p.Limit(limit)
		e.Message = fmt.Sprintf("the limit on %s, %s, leaves too little to start anything; raise limits.%s", what, value, name)
		if name == "" {
			e.Message = fmt.Sprintf("the plugin's limit on %s, %s, leaves too little to start anything", what, value)
		}
		return e
	}
	if limit := p.endedBy(Exit{Code: 1}); limit != "" {
		return tooLittle(limit)
	}
	switch m.Op {
	case control.OpVersion:
		return hint.New(p.l.cfg.LauncherPath+" is from another build than this host", "install gantry and gantry-launch from one build")
	case control.OpChdir:
		return failure.New(m.Op.String(), p.spec.Cwd, errno)
	case control.OpConfine:
		return failure.Sandbox(m.Op.String(), m.Text, errno)
	case control.OpLimit:
		if errno == syscall.EPROTO {
			return tooLittle(LimitMemory)
		}
	}
	return failure.New(m.Op.String(), p.spec.Argv[0], errno)
}

// launcherFailure is the error of a gantry-launch that has ended before it has said how the start went.
func launcherFailure(state *os.ProcessState, text string) error {
	if text == "" {
		return fmt.Errorf("gantry-launch ended before it started the process: %v", state)
	}
	return fmt.Errorf("gantry-launch crashed before it started the process: %v: %s", state, text)
}
