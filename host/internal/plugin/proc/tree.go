package proc

// entry is what the process table says about the place of a process.
type entry struct {
	pid, parent, group, session int
	state                       byte
	started                     uint64 // in the system's own units, later is larger: with the pid it names one process for ever
}

// table is every process that the host sees at one moment.
type table map[int]entry

// root is a process that others belong to.
type root struct {
	pid     int
	started uint64
	marker  string
}

// descends tells whether pid is p, or a descendant of it.
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

// owns tells whether pid is p, a descendant of it, in its session, or carries its marker.
func (t table) owns(p root, pid int, carries func(pid int, marker string) bool) bool {
	if e, ok := t[pid]; ok && e.started < p.started {
		return false // older than p; spares reading the environments of the whole system
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
