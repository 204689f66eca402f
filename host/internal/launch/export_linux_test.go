package launch

import "time"

// LauncherPID is the process id of the process's gantry-launch.
func (p *Process) LauncherPID() int { return p.monitor.process.Pid }

// Spare waits until no spare launcher is being started and returns the process id of the one that there is; 0: none.
func (l *Launcher) Spare() int {
	for {
		l.mu.Lock()
		sparing, m := l.mu.sparing, l.mu.spare
		l.mu.Unlock()
		switch {
		case sparing != nil:
			<-sparing
		case m == nil:
			return 0
		default:
			return m.process.Pid
		}
	}
}

// NoHurry makes it start no spare beside a command, however long that runs. To be called before the first.
func (l *Launcher) NoHurry() { l.spareAfter = time.Hour }

// EndSpare is endSpare.
func (l *Launcher) EndSpare() { l.endSpare() }

// Trailing and MaxEnded are the constants.
const (
	MaxEnded = maxEnded
)

// Forget removes the record of a process at once, whatever became of its output.
func (p *Process) Forget() { p.l.forget(p) }

// NotHere and NotByRlimit are what other systems say.
var (
	NotHere     = notHere
	NotByRlimit = notByRlimit
)
