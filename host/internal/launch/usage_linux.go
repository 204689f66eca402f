package launch

import (
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// treeReader returns a function that reads the processor time and the resident memory of a process and its descendants. It reads the
// process table once.
func treeReader() func(pid int) (cpu time.Duration, resident int64, ok bool) {
	table := sync.OnceValue(procfs.ReadChildren)
	return func(pid int) (cpu time.Duration, resident int64, ok bool) {
		tree := table().Tree(pid)
		for _, s := range tree {
			cpu += s.CPU
			resident += s.Resident
		}
		return cpu, resident, tree[0].PID == pid
	}
}
