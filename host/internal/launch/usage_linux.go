package launch

import (
	"sync"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// treeReader returns a function that reads what a process and its descendants use. It reads the process table once.
func treeReader() func(pid int) (t Tree, ok bool) {
	table := sync.OnceValue(procfs.ReadChildren)
	return func(pid int) (t Tree, ok bool) {
		list := table().Tree(pid)
		if list[0].PID != pid {
			return t, false
		}
		for _, s := range list {
			t.CPU += s.CPU
			t.Resident += s.Resident
			t.PIDs++
		}
		return t, true
	}
}
