// Package checkpoint knows what stood in files before calls changed them, and what became of them.
//
// It owns: looking at paths, keeping content in the store before it can change, the net change of a turn, and finding all of
// that again in a thread's log. It must not know: tools, grants, how the store keeps content, how files are put back.
//
// Start with [Tracker], which the pipeline asks around each call, and [Read], which reads a log.
package checkpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
)

const (
	// maxPaths is how many paths of one call are looked at. Beyond it they are counted, and can't be taken back.
	maxPaths = 1000
	// maxCallBytes is how much content is kept before one call. Beyond it only digests are.
	maxCallBytes = 64 << 20
	// maxFollowed is how many files of a turn are looked at again around each of its calls. A look that finds nothing new takes
	// about 2 µs.
	maxFollowed = 256
	// settled is how old a time of change must be to stand for the content: clocks of file systems are coarse.
	settled = 100 * time.Millisecond
)

// Store keeps content by its digest.
type Store interface {
	PutArtifact(ctx context.Context, mediaType, name string, r io.Reader) (contract.ArtifactRef, error)
	Artifact(ctx context.Context, digest string) (io.ReadCloser, error)
}

// Tracker follows the files that the calls of one turn change. Calls may run side by side.
type Tracker struct {
	store Store
	mu    struct {
		sync.Mutex
		changes Changes
		open    map[event.CallID][]event.FileKept
		follow  map[string]observation // files that calls have changed
		kept    map[string]bool        // digests that are in the store
		told    bool                   // that there is a diff
	}
	render struct {
		sync.Mutex
		Renderer
	}
}

// observation is how a file looked when it was last read.
type observation struct {
	Snapshot
	at time.Time
}

// NewTracker follows a turn whose paths are shown as seen from cwd.
func NewTracker(store Store, cwd string) *Tracker {
	t := &Tracker{store: store}
	t.render.Root = Root(cwd)
	t.mu.open = map[event.CallID][]event.FileKept{}
	t.mu.follow = map[string]observation{}
	t.mu.kept = map[string]bool{}
	return t
}

// Before looks at what a call may write and keeps it; what it returns is to be committed before the call can change anything.
// nil: there is nothing to keep. With an error content could not be stored, and the call must not start.
func (t *Tracker) Before(ctx context.Context, call event.CallID, effects []contract.Effect, item contract.Item) (*event.FilesKept, error) {
	kept := event.FilesKept{Call: call}
	places, left := writtenPlaces(effects)
	kept.Skipped = left
	wanted := announcedStates(item)
	room := int64(maxCallBytes)
	looked := map[string]observation{}
	before := t.keptBefore(call)
	for _, p := range places {
		if _, twice := looked[p.path]; twice || before[p.path] {
			continue
		}
		s := Inspect(p.path)
		if err := t.keep(ctx, p.path, &s, &room); err != nil {
			return nil, err
		}
		looked[p.path] = observation{s, time.Now()}
		kept.Files = append(kept.Files, event.FileKept{
			Path: p.path, Before: s.FileState, Wanted: wanted.of(p.path, s.FileState), NewFolder: p.newFolder,
		})
	}
	// What others did to the turn's files since its last call is not this call's doing.
	for path, s := range t.changed(func(path string) bool { _, ok := looked[path]; return ok || before[path] }) {
		if err := t.keep(ctx, path, &s, &room); err != nil {
			return nil, err
		}
		looked[path] = observation{s, time.Now()}
		kept.Files = append(kept.Files, event.FileKept{Path: path, Before: s.FileState})
	}
	if len(kept.Files) == 0 && kept.Skipped == 0 {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for path, g := range looked {
		if _, ok := t.mu.follow[path]; ok {
			t.mu.follow[path] = g
		}
	}
	t.mu.open[call] = append(t.mu.open[call], kept.Files...)
	t.mu.changes.AddBefore(kept)
	return &kept, nil
}

// keptBefore are the paths that were kept for the same call: what it was found to do later counts from there.
func (t *Tracker) keptBefore(call event.CallID) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]bool{}
	for _, k := range t.mu.open[call] {
		out[k.Path] = true
	}
	return out
}

// After looks again when the call has ended, and says what it has changed; nil: nothing was kept, and nothing changed. The
// content now is stored, too; what can't be is noted and left: the change was made all the same. The item is told the digests.
func (t *Tracker) After(ctx context.Context, call event.CallID, item *event.Item) *event.FilesChanged {
	t.mu.Lock()
	open, closes := t.mu.open[call]
	delete(t.mu.open, call)
	t.mu.Unlock()
	made := event.FilesChanged{Call: call}
	moved := movesByPath(item.Changes)
	room := int64(maxCallBytes)
	seen := map[string]bool{}
	note := func(path, newFolder string, before event.FileState, now Snapshot) {
		if err := t.keep(ctx, path, &now, &room); err != nil {
			now.Kept, now.Why = false, err.Error()
		}
		t.mu.Lock()
		t.mu.follow[path] = observation{now, time.Now()}
		t.mu.Unlock()
		made.Changes = append(made.Changes, event.ChangedFile{
			Path: path, Before: before, After: now.FileState, NewFolder: newFolder, MovedFrom: moved[path],
		})
	}
	for _, k := range open {
		seen[k.Path] = true
		now := Inspect(k.Path)
		if !now.Same(k.Before) {
			note(k.Path, k.NewFolder, k.Before, now)
		}
	}
	for path, now := range t.changed(func(path string) bool { return seen[path] }) {
		t.mu.Lock()
		before := t.mu.follow[path].FileState
		t.mu.Unlock()
		note(path, "", before, now)
	}
	if !closes && len(made.Changes) == 0 {
		return nil
	}
	item.Changes = slices.Clone(item.Changes) // an earlier event may hold them
	setDigests(item.Changes, made.Changes)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.changes.AddAfter(made)
	return &made
}

// changed are the files that earlier calls have changed and that are others by now, but for those to skip.
func (t *Tracker) changed(skip func(path string) bool) map[string]Snapshot {
	t.mu.Lock()
	followed := maps.Clone(t.mu.follow)
	t.mu.Unlock()
	var out map[string]Snapshot
	for i, path := range slices.Sorted(maps.Keys(followed)) {
		if i >= maxFollowed {
			break
		}
		g := followed[path]
		if skip(path) || g.unchanged(path) {
			continue
		}
		now := Inspect(path)
		if now.Same(g.FileState) {
			t.mu.Lock()
			t.mu.follow[path] = observation{now, time.Now()}
			t.mu.Unlock()
			continue
		}
		if out == nil {
			out = map[string]Snapshot{}
		}
		out[path] = now
	}
	return out
}

// unchanged tells at a glance that a file is what it was. A false answer says nothing.
func (g observation) unchanged(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || g.Info == nil {
		return err != nil && g.Kind == event.FileAbsent
	}
	changed := changedAt(info)
	return os.SameFile(info, g.Info) && info.Mode() == g.Info.Mode() && info.Size() == g.Info.Size() &&
		changed.Equal(changedAt(g.Info)) && g.at.Sub(changed) > settled
}

// keep puts content into the store, within room.
func (t *Tracker) keep(ctx context.Context, path string, s *Snapshot, room *int64) error {
	if s.SHA256 == "" {
		return nil
	}
	t.mu.Lock()
	known := t.mu.kept[s.SHA256]
	t.mu.Unlock()
	if known {
		s.Kept = true
		return nil
	}
	if *room < s.Size {
		s.Why = fmt.Sprintf("the files of the call exceed %d MiB", maxCallBytes>>20)
		return nil
	}
	*room -= s.Size
	if _, err := t.store.PutArtifact(ctx, "application/octet-stream", filepath.Base(path), bytes.NewReader(s.Data)); err != nil {
		return fmt.Errorf("store the content of %s: %w", path, err)
	}
	s.Kept = true
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.kept[s.SHA256] = true
	return nil
}

// writtenPlaces are the places that effects say are written, with those that links there lead to, and how many are left out.
func writtenPlaces(effects []contract.Effect) (out []place, left int) {
	for _, e := range effects {
		w, ok := e.(contract.WriteEffect)
		if !ok {
			continue
		}
		for _, path := range w.Paths {
			switch {
			case len(out) >= maxPaths:
				left++
			case filepath.IsAbs(path):
				out = append(out, resolveLinks(path)...)
			}
		}
	}
	return out, left
}

// announced is what a plugin says that a call will make of files, by their resolved path.
type announced map[string]event.FileState

func announcedStates(item contract.Item) announced {
	it, ok := item.(*contract.FileChangeItem)
	if !ok {
		return nil
	}
	out := announced{}
	for _, c := range it.Changes {
		if c.MovedFrom != "" {
			from, _ := Resolve(c.MovedFrom)
			out[from] = event.FileState{Kind: event.FileAbsent}
		}
		places := resolveLinks(c.Path)
		switch {
		case c.Kind == contract.ChangeDelete: // a link goes, what it leads to stays
			out[places[0].path] = event.FileState{Kind: event.FileAbsent}
		case c.AfterSHA256 != "": // what is written goes where a link leads
			out[places[len(places)-1].path] = event.FileState{Kind: event.FileRegular, SHA256: c.AfterSHA256}
		}
	}
	return out
}

// of is what is wanted at a path; a file that is there keeps its mode.
func (a announced) of(path string, before event.FileState) *event.FileState {
	w, ok := a[path]
	if !ok {
		return nil
	}
	if w.Kind == event.FileRegular && before.Kind == event.FileRegular {
		w.Mode = before.Mode
	}
	return &w
}

// movesByPath says where content was moved from, by its path now.
func movesByPath(changes []event.FileChange) map[string]string {
	out := map[string]string{}
	for _, c := range changes {
		if c.MovedFrom != "" {
			to, _ := Resolve(c.Path)
			out[to], _ = Resolve(c.MovedFrom)
		}
	}
	return out
}

// setDigests notes in an item's changes under which digests content is stored.
func setDigests(changes []event.FileChange, made []event.ChangedFile) {
	if len(changes) == 0 {
		return
	}
	by := map[string]event.ChangedFile{}
	for _, m := range made {
		by[m.Path] = m
	}
	stored := func(s event.FileState) string {
		if !s.Kept {
			return ""
		}
		return s.SHA256
	}
	at := func(path string) event.ChangedFile {
		places := resolveLinks(path)
		if m, ok := by[places[0].path]; ok {
			return m
		}
		return by[places[len(places)-1].path]
	}
	for i := range changes {
		c := &changes[i]
		m := at(c.Path)
		c.Before, c.After = stored(m.Before), stored(m.After)
		if c.MovedFrom != "" {
			c.Before = stored(at(c.MovedFrom).Before)
		}
	}
}
