package quarantine

import (
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/recovery"
)

// A gantry that is killed can't judge what its commands have created. So before the first command starts in a folder, what matters
// there is recorded on disk, in a file that is locked as long as the process lives. The next gantry that works in the folder and
// finds a record without an owner judges in its place: what the record does not contain is moved aside.

// record writes the record of a root in which a command is about to start.
func (h *Guard) record(root string, found *autorun.Found, known map[fspath.Identity]bool) error {
	at := h.state(root)
	if at.unlockTimer != nil {
		at.unlockTimer.Stop()
	}
	if at.lock != nil && maps.Equal(at.recorded, known) && maps.Equal(at.named, found.Named) {
		at.lock.Renew()
		return nil
	}
	r := recovery.Record{Root: root, Named: found.Named}
	if id, _, ok := fspath.Lstat(root); ok {
		id = fspath.Persistent(root, id)
		r.Dev, r.Ino, r.Born = id.Dev, id.Ino, id.Changed
	}
	digests := map[fspath.Identity]string{}
	for _, p := range found.Files {
		if p.Root != root {
			continue
		}
		d, ok := at.digests[p.ID]
		if !ok {
			d = p.Digest()
		}
		digests[p.ID] = d
		r.Parts = append(r.Parts, recovery.File{Path: p.Path, Kind: int(p.Kind), Dev: p.ID.Dev, Ino: p.ID.Ino, Changed: p.ID.Changed, Size: p.ID.Size, Digest: d})
	}
	m, err := h.records.Write(r)
	if err != nil {
		return fmt.Errorf("the files in %s that are executed later can't be recorded: %w; free space for gantry's folder", root, err)
	}
	if at.lock != nil {
		at.lock.Remove()
	}
	at.lock, at.record, at.recorded, at.digests = m, r, known, digests
	return nil
}

// longestMark is how long a record stays if its folder has been replaced by another.
const longestMark = 30 * 24 * time.Hour

// recover judges what commands of a killed gantry have created in a root. The caller holds h.mu.
func (h *Guard) recover(root string, owner launch.Owner) (words []notice, err error) {
	list, err := h.records.Orphans(root)
	defer func() {
		for _, o := range list {
			if o.Lock != nil {
				o.Lock.Close()
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	for i := range list {
		o := &list[i]
		if !o.Find(root) {
			if !fspath.IsDir(o.Root) || time.Since(o.Began) > longestMark {
				_ = os.Remove(o.Path)
			}
			continue
		}
		pipes := h.records.Pipes(&o.Record) // opened before it is judged
		ids, digests := map[fspath.Identity]bool{}, map[string]bool{}
		for _, n := range o.Parts {
			ids[fspath.Identity{Dev: n.Dev, Ino: n.Ino, Changed: n.Changed, Size: n.Size}] = true
			if n.Digest != "" {
				digests[n.Path+"\x00"+n.Digest] = true
			}
		}
		after, moved, err := h.quarantineNew(baseline{known: ids, began: o.Began}, nil, func() (*autorun.Found, error) {
			after, err := h.Index.Find([]string{o.Root}, nil, ids)
			if err != nil {
				return nil, err
			}
			if o.Named != nil {
				after.DropOlder(o.Began, &autorun.Found{Named: o.Named})
			}
			for _, p := range after.Files {
				if d := p.Digest(); d != "" && digests[p.Path+"\x00"+d] {
					ids[p.ID] = true
				}
			}
			return after, nil
		})
		if after != nil && (len(moved) > 0 || err != nil) {
			words = append(words, notice{owner: owner, moved: moved, err: err})
		}
		sure := after != nil && !after.Moved && err == nil
		switch {
		case sure && len(pipes) > 0:
			if err := h.adopt(owner, o, ids, pipes); err != nil {
				recovery.CloseAll(pipes)
				return words, err
			}
			continue
		case sure:
			_ = os.Remove(o.Path)
		}
		recovery.CloseAll(pipes)
		if after == nil {
			return words, err
		}
	}
	return words, nil
}

// Watch starts reading the folders of roots in the background, and judges what a killed gantry has left in them.
func (h *Guard) Watch(owner launch.Owner, roots []string) error {
	h.mu.Lock()
	var words []notice
	var err error
	for _, root := range fspath.Outermost(roots) {
		if h.closed {
			break
		}
		var w []notice
		w, err = h.recover(root, owner)
		words = append(words, w...)
		if err != nil {
			break
		}
		if _, err = h.Index.Open(root); err != nil {
			break
		}
	}
	h.mu.Unlock()
	h.notify(words...)
	return err
}
