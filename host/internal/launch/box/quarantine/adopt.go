package quarantine

import (
	"io"
	"os"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/recovery"
)

// When a gantry is killed its launchers end what they have started. That takes a moment, in which commands may go on making things. So the
// next gantry judges at once and takes what is left for a session of its own: it judges what appears, and once more when the last launcher
// of the killed gantry has ended.

// adopt makes what a killed gantry has left running a guest, until pipes say that it has ended. The caller holds h.mu.
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
	file, path := o.Lock, o.Path // which stays locked: no other judges meanwhile
	o.Lock = nil
	h.adopters.Go(func() { // ended by close, which closes the pipes
		defer file.Close()
		for _, f := range pipes {
			if _, err := io.Copy(io.Discard, f); err == nil {
				_ = os.Remove(f.Name())
			}
			_ = f.Close()
		}
		// A launcher that was killed itself has left the end of its tree to the kernel, which is about to bring it about.
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
