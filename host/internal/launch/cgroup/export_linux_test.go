package cgroup

// Functions without side effects, and Vacate, which is vacate.
var (
	OwnGroup = ownGroup
	AllOurs  = allOurs
	Vacate   = vacate
)

// Unified returns the folder of version 2, and whether its groups have the controllers.
func Unified(p Places) (dir string, memory, pids bool) { return p.unified, p.memory, p.pids }

// Candidates returns the folders of candidates.
func Candidates(own string, isDelegated bool) (dirs []string) {
	for _, f := range candidates(own, func(string) bool { return isDelegated }) {
		dirs = append(dirs, f.dir)
	}
	return dirs
}
