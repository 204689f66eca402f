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

// OwnGroup is ownGroup.
var OwnGroup = ownGroup

// Cgroups looks for a place for control groups, of version 2, and says whether they have the controllers.
func Cgroups(dir string) (place string, memory, pids bool) {
	g := findCgroups(dir)
	return g.unified, g.memory, g.pids
}

// PlacesOf are the folders that placesOf names.
func PlacesOf(own string, handed bool) (dirs []string) {
	for _, p := range placesOf(own, func(string) bool { return handed }) {
		dirs = append(dirs, p.dir)
	}
	return dirs
}

// AllOurs and Vacate are allOurs and vacate.
var (
	AllOurs = allOurs
	Vacate  = vacate
)

// GroupPlaces are the folders in which groups are made that bound memory and processes; empty: there is none.
func GroupPlaces() (memory, pids string) {
	g := findCgroups("")
	if memory = g.memory1; g.memory {
		memory = g.unified
	}
	if pids = g.pids1; g.pids {
		pids = g.unified
	}
	return memory, pids
}

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
