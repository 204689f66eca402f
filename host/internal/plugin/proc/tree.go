package proc

// entry is a process in the process table.
type entry struct {
	pid, parent, session int
	state                byte   // 'Z': a zombie
	started              uint64 // in units of the system, increasing: together with the pid it identifies a process
}

// table is all processes that the host can see, by id.
type table map[int]entry

// root is the first process of a tree.
type root struct {
	pid     int
	started uint64
	marker  string
}

// descends reports whether pid is p or a descendant of p.
func (t table) descends(p root, pid int) bool {
	for at, steps := pid, 0; at > 1 && steps <= len(t); steps++ {
		if at == p.pid {
			return p.started == 0 || t[at].started == p.started
		}
		e, ok := t[at]
		if !ok {
			return false
		}
		at = e.parent
	}
	return false
}

// owns reports whether pid is p, descends from p or from a member of its session, or carries its marker.
func (t table) owns(p root, pid int, carries func(pid int, marker string) bool) bool {
	if e, ok := t[pid]; ok && e.started < p.started {
		return false // older than p: there is no need to read its environment
	}
	for at, steps := pid, 0; at > 1 && steps <= len(t); steps++ {
		if at == p.pid {
			return true
		}
		e, ok := t[at]
		if !ok {
			break
		}
		if e.session == p.pid {
			return true
		}
		at = e.parent
	}
	return p.marker != "" && carries(pid, p.marker)
}
