package launch

import "time"

// LauncherPID is the process id of the process's gantry-launch.
func (p *Process) LauncherPID() int { return p.tree.MonitorPID() }

// Spare waits until no spare gantry-launch is being started, and returns its process id; 0: there is none.
func (l *Launcher) Spare() int { return l.pool.Spare() }

// NoHurry starts no spare while a command runs. It must be called before the first Spawn.
func (l *Launcher) NoHurry() { l.spareAfter = time.Hour }

// EndSpare ends the spare.
func (l *Launcher) EndSpare() { l.pool.EndSpare() }

// Dropped is the number of bytes of output that Attach has dropped.
func (p *Process) Dropped() int64 { return p.streams.Dropped() }

// MaxEnded is the constant.
const MaxEnded = maxEnded

// Forget removes the record of a process at once, even if its output has not been read.
func (p *Process) Forget() { p.l.forget(p) }

// NotHere and NotByRlimit are the errors on other systems.
var (
	NotHere     = notHere
	NotByRlimit = notByRlimit
)
