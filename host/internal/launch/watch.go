package launch

import (
	"fmt"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/limit"
	"github.com/gantry-agent/gantry/host/internal/launch/monitor"
)

// watch listens to gantry-launch until the tree has ended, and then releases everything that the process had.
func (p *Process) watch() {
	r := p.tree.Listen(monitor.Events{
		Started: func(pid int) {
			p.pid = pid
			close(p.begun)
		},
		Failed: func(m control.Failed) {
			p.startErr = p.startFailure(m)
			close(p.begun)
		},
		Exited: func(m control.Exited) {
			p.exit = exitOf(m)
			if !p.boxed { // else once the sandbox has been cleared up, which callers rely on
				p.exit.Limit = p.endedBy(p.exit)
				p.tellLimit(p.exit.Limit)
				close(p.exited)
			}
		},
	})
	p.survivors = r.Left
	if r.Free {
		p.freed(r)
		return
	}
	state := p.slot.Monitor.Close(p.l.cfg.KillGrace + killSlack)
	if !r.Started && p.startErr == nil {
		p.startErr = launcherFailure(state, r.Text)
	}
	if !r.Began {
		close(p.begun)
	}
	if !r.Exited {
		if r.Started {
			killSession(p.pid)
			p.l.cfg.Logger.Warn("a launcher ended before its process", "id", p.id, "pid", p.pid, "state", fmt.Sprint(state), "text", r.Text)
		}
		p.exit = Exit{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL, Lost: true}
	}
	if p.boxed && r.Exited {
		p.addUsage(r)
	}
	if r.Started {
		p.tellLimit(p.endedBy(p.exit))
	}
	p.over()
	if p.boxed && r.Started {
		p.l.prepareNext(p)
	}
	if p.boxed || !r.Exited {
		close(p.exited)
	}
	close(p.gone)
}

// freed releases what the process had, of which nothing is left. Its gantry-launch and its sandbox are ready for the next process
// before anyone is notified of the end.
func (p *Process) freed(r monitor.Report) {
	m := p.tree.Release()
	if p.boxed {
		p.addUsage(r)
		p.tellLimit(p.exit.Limit)
	}
	p.over()
	switch {
	case !p.boxed:
		p.kept = p.l.pool.KeepMonitor(m)
	case p.slot.Sandbox == nil || !p.l.pool.KeepSandbox(p.slot.Sandbox, p.spec.Owner.Thread):
		p.l.prepareNext(p)
	}
	if p.boxed {
		close(p.exited)
	}
	close(p.gone)
}

// addUsage completes the Exit of a process in a sandbox, where the usage of the whole tree counts.
func (p *Process) addUsage(r monitor.Report) {
	if r.Used != nil {
		used := exitOf(control.Exited{UserMicros: r.Used.UserMicros, SystemMicros: r.Used.SystemMicros, MaxRSSKiB: r.Used.MaxRSSKiB})
		p.exit.User, p.exit.System, p.exit.MaxRSS = used.User, used.System, used.MaxRSS
	}
	p.exit.Limit = p.endedBy(p.exit)
}

func exitOf(m control.Exited) Exit {
	e := Exit{
		Code: int(m.Code), Signal: syscall.Signal(m.Signal), MaxRSS: int64(m.MaxRSSKiB) << 10,
		User: time.Duration(m.UserMicros) * time.Microsecond, System: time.Duration(m.SystemMicros) * time.Microsecond,
	}
	if m.Signal != 0 {
		e.Code = 128 + int(m.Signal)
	}
	return e
}

// over releases what the tree had, once it has ended or if it was never started.
func (p *Process) over() {
	p.mu.Lock()
	p.mu.over = true
	if p.mu.endProxy != nil {
		p.mu.endProxy()
	}
	p.mu.Unlock()
	if p.tree != nil {
		p.tree.End()
	}
	if p.offer != nil {
		p.offer.Close()
	}
	if p.way != nil {
		p.way.Close()
	}
	if p.limits != nil {
		p.limits.Close()
	}
	if p.release != nil {
		p.release()
	}
	p.l.update(p, func(at *status) { at.ended = true })
}

// kill ends the tree at once, also while it is being started.
func (p *Process) kill() {
	p.cancelStart(ErrEnded)
	select {
	case <-p.begun:
		p.tree.Kill(0)
	default:
	}
}

// limitReached ends the tree at once, because it has reached a limit.
func (p *Process) limitReached() {
	select {
	case <-p.begun:
		p.tree.Kill(0)
	case <-p.gone:
	}
}

// endedBy returns the limit that ended the process; empty: none did.
func (p *Process) endedBy(e Exit) string {
	return p.limits.EndedBy(limit.Usage{Code: e.Code, Signal: int(e.Signal), CPU: e.User + e.System})
}

// tellLimit calls Config.OnLimit, once, if a limit has ended the process or the rest of its tree.
func (p *Process) tellLimit(limit string) {
	if limit == "" || p.told || p.l.cfg.OnLimit == nil {
		return
	}
	p.told = true
	p.l.cfg.OnLimit(p, limit)
}
