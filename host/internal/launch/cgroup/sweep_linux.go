package cgroup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/procfs"
)

// prefix starts the name of every group of gantry. It is followed by the host's process id and start time, by which another host can
// tell that it is dead, and the PID namespace in which the id is valid.
const prefix = "gantry-"

// groupName returns the name of the groups of the tree with this id.
func groupName(id string) string {
	self, _ := procfs.Read(os.Getpid())
	return fmt.Sprintf("%s%d-%d.%s-%s", prefix, os.Getpid(), self.Started, pidNamespace(), id)
}

// pidNamespace identifies our PID namespace.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(name, "pid:[]")
}

// sweep removes the groups of hosts that are dead and whose launchers were killed too, and kills what is left in them. It does not
// touch groups of hosts in other PID namespaces, whose process ids are meaningless here.
func (p Places) sweep() {
	for _, place := range []string{p.unified, p.memoryV1, p.pidsV1} {
		if place == "" {
			continue
		}
		dirs, _ := filepath.Glob(filepath.Join(place, prefix+"*"))
		for _, dir := range dirs {
			pid, rest, ok := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
			host, _, ok2 := strings.Cut(rest, "-")
			started, namespace, hasNamespace := strings.Cut(host, ".")
			n, err := strconv.Atoi(pid)
			if !ok || !ok2 || err != nil || isHost(n, started) {
				continue
			}
			if hasNamespace && namespace != pidNamespace() {
				continue // its host may be alive
			}
			if hasNamespace {
				killGroup(dir)
			}
			removeTree(dir)
		}
	}
}

// isHost reports whether the process with this id is the one that was started at that time.
func isHost(pid int, started string) bool {
	s, ok := procfs.Read(pid)
	return ok && strconv.FormatUint(s.Started, 10) == started
}

// Limits of killing the processes of a group: the next round finds children that were forked during a round.
const (
	killRounds = 20
	killTime   = 200 * time.Millisecond // for each round; a killed process ends within a few milliseconds
)

// killGroup kills all processes in a group.
func killGroup(dir string) {
	put(dir, "cgroup.kill", 1) // since Linux 5.14, in version 2
	for range killRounds {
		b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		var pids []int
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 { // 0: a process of a PID namespace that can't be seen from here
				pids = append(pids, pid)
			}
		}
		isIn := func(pid int) bool {
			now, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
			return err == nil && bytes.Contains(now, []byte("/"+filepath.Base(dir)+"\n"))
		}
		if procfs.Kill(pids, isIn, killTime) == 0 {
			return
		}
	}
}
