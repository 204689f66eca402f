package launch

// LauncherPID is the process id of the process's gantry-launch.
func (p *Process) LauncherPID() int { return p.monitor.Pid }

// OwnGroup is ownGroup.
var OwnGroup = ownGroup

// Cgroups looks for a place for control groups.
func Cgroups(dir string) (place string, memory, pids bool) {
	g := findCgroups(dir)
	return g.dir, g.memory, g.pids
}

// Trailing and MaxEnded are the constants.
const (
	MaxEnded = maxEnded
)

// Forget removes the record of a process at once, whatever became of its output.
func (p *Process) Forget() { p.l.forget(p) }
