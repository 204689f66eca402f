package launch

import "time"

// Usage is what a process uses that may outlive its call.
type Usage struct {
	Owner Owner
	PID   int
	// CPUPercent is the processor time of the process and its descendants since the process has started, in percent of the time that has
	// passed, and Resident their memory in bytes. Known says whether this system tells them.
	CPUPercent float64
	Resident   int64
	Known      bool
}

// Sessions returns the running processes of a thread that may outlive their calls.
func (l *Launcher) Sessions(thread string) []Usage {
	var out []Usage
	read := treeReader()
	for _, p := range l.find(func(p *Process) bool { return p.spec.Session && p.running() && p.spec.Owner.Thread == thread }) {
		select {
		case <-p.exited:
			continue
		default:
		}
		u := Usage{Owner: p.spec.Owner, PID: p.pid}
		cpu, resident, ok := read(p.pid)
		if elapsed := time.Since(p.started); ok && elapsed > 0 {
			u.CPUPercent, u.Resident, u.Known = 100*float64(cpu)/float64(elapsed), resident, true
		}
		out = append(out, u)
	}
	return out
}
