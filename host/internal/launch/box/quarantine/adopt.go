package quarantine

import (
	"io"
	"os"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/recovery"
)

// When gantry is killed, its launchers end the processes that they have started. Until that is done, commands may still create
// files. So the next gantry checks at once, treats the remaining processes as a session of its own, whose creations it checks as
// they appear, and checks once more when the last launcher of the killed gantry has exited.

// adopt treats the processes that a killed gantry has left as a command until the pipes say that they have ended. The caller holds
// h.mu.
func (h *Guard) adopt(owner launch.Owner, o *recovery.Orphan, ids map[fspath.Identity]bool, pipes []*os.File) error {
	at := h.state(o.Root)
	if at.known == nil {
		m, err := h.records.Write(o.Record)
		if err != nil {
			return err
		}
		at.end()
		*at = rootState{known: ids, named: o.Named, began: o.Began, denied: Denied{}, anchor: anchorAt(o.Root), lock: m, record: o.Record, recorded: ids}
	}
	g := &Command{Owner: owner, Argv: []string{"left by a gantry that was killed"}, Roots: []string{o.Root}, background: true}
	h.commands = append(h.commands, g)
	h.pipes = append(h.pipes, pipes...)
	file, path := o.Lock, o.Path // it stays locked, so that no other gantry checks meanwhile
	o.Lock = nil
	h.adopters.Go(func() { // returns when Close closes the pipes
		defer file.Close()
		for _, f := range pipes {
			if _, err := io.Copy(io.Discard, f); err == nil {
				_ = os.Remove(f.Name())
			}
			_ = f.Close()
		}
		// If a launcher was killed as well, the kernel is still ending its processes.
		late := time.NewTimer(lockLinger)
		defer late.Stop()
		select {
		case <-late.C:
		case <-h.closing:
		}
		if h.Leave(g, nil) {
			_ = os.Remove(path)
		}
		recovery.Unlock(file)
	})
	return nil
}
