package box

import (
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// When a gantry is killed its launchers end what they have started. That takes a moment, in which commands may go on making things. So the
// next gantry judges at once and takes what is left for a session of its own: it judges what appears, and once more when the last launcher
// of the killed gantry has ended.

// Held is what launchers keep open until nothing of their tree is left: a descriptor of its own, which the caller closes. nil: there is none.
func (b *Box) Held() *os.File {
	m := b.guests.marks
	m.held()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pipe == nil {
		return nil
	}
	return duplicate(m.pipe)
}

// held is the pipe of this gantry; nil: there is none.
func (m *markings) held() *os.File {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opened || m.dir == "" || os.MkdirAll(m.dir, 0o700) != nil {
		return m.pipe
	}
	m.opened = true
	m.pipe, _ = makePipe(filepath.Join(m.dir, newName()+".pipe")) // without it, what is left is judged once
	return m.pipe
}

// drop removes the pipe: nothing is left.
func (m *markings) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened = true
	if f := m.pipe; f != nil {
		m.pipe = nil
		_ = os.Remove(f.Name())
		_ = f.Close()
	}
}

// left are the pipes of those that a record names, as far as somebody holds them.
func (m *markings) left(r *record) (pipes []*os.File) {
	for _, name := range r.Held {
		if name != filepath.Base(name) {
			continue
		}
		path := filepath.Join(m.dir, name)
		if f := openPipe(path); f != nil {
			pipes = append(pipes, f)
		} else {
			_ = os.Remove(path)
		}
	}
	return pipes
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// adopt makes what a killed gantry has left running a guest, until pipes say that it has ended. The caller holds h.mu.
func (h *guests) adopt(owner launch.Owner, o *orphan, ids map[fspath.Identity]bool, pipes []*os.File) error {
	at := h.ground(o.Root)
	if at.known == nil {
		m, err := h.write(o.record)
		if err != nil {
			return err
		}
		at.end()
		*at = ground{known: ids, named: o.Named, began: o.began, kept: kept{}, anchor: anchorAt(o.Root), mark: m, record: o.record, marked: ids}
	}
	g := &guest{owner: owner, argv: []string{"left by a gantry that was killed"}, roots: []string{o.Root}, background: true}
	h.list = append(h.list, g)
	h.pipes = append(h.pipes, pipes...)
	file, path := o.file, o.path // which stays locked: no other judges meanwhile
	o.file = nil
	h.leaving.Go(func() { // ended by close, which closes the pipes
		defer file.Close()
		for _, f := range pipes {
			if _, err := io.Copy(io.Discard, f); err == nil {
				_ = os.Remove(f.Name())
			}
			_ = f.Close()
		}
		// A launcher that was killed itself has left the end of its tree to the kernel, which is about to bring it about.
		late := time.NewTimer(linger)
		defer late.Stop()
		select {
		case <-late.C:
		case <-h.ending:
		}
		if h.leave(g, nil) {
			_ = os.Remove(path)
		}
		unlock(file)
	})
	return nil
}
