// Package checkpoint records the state of files before and after calls change them.
//
// It owns: inspecting paths, storing content before it can change, the net change of a turn, and reading all of that from a
// thread's log. It must not know: tools, grants, how the store keeps content, how files are restored.
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
	// maxPaths is the maximum number of paths of one call that are inspected. Further paths are only counted, and their changes
	// can't be undone.
	maxPaths = 1000
	// maxCallBytes is the maximum size of the content that is stored before one call. For the rest, only digests are recorded.
	maxCallBytes = 64 << 20
	// maxFollowed is the maximum number of a turn's files that are inspected again around each call. It takes about 2 µs to find
	// that a file has not changed.
	maxFollowed = 256
	// settled is the minimum age of a change time that proves unchanged content. Clocks of file systems are coarse, so a file with
	// a more recent change time may have changed again.
	settled = 100 * time.Millisecond
)

// Store stores content by its digest.
type Store interface {
	PutArtifact(ctx context.Context, mediaType, name string, r io.Reader) (contract.ArtifactRef, error)
	Artifact(ctx context.Context, digest string) (io.ReadCloser, error)
}

// Tracker tracks the files that the calls of one turn change. Calls may run concurrently.
type Tracker struct {
	store Store
	mu    struct {
		sync.Mutex
		changes Changes
		open    map[event.CallID][]event.FileKept
		follow  map[string]observation // files that calls have changed
		kept    map[string]bool        // digests that are in the store
		told    bool                   // a diff has been published
	}
	render struct {
		sync.Mutex
		Renderer
	}
}

// observation is the state of a file when it was last inspected.
type observation struct {
	Snapshot
	at time.Time
}

// NewTracker returns a tracker for a turn in the folder cwd, which determines how diffs name paths.
func NewTracker(store Store, cwd string) *Tracker {
	t := &Tracker{store: store}
	t.render.Root = Root(cwd)
	t.mu.open = map[event.CallID][]event.FileKept{}
	t.mu.follow = map[string]observation{}
	t.mu.kept = map[string]bool{}
	return t
}

// Before inspects the files that a call may write and stores their content. The caller must commit the returned event before the
// call can change anything; nil means that there is nothing to record. If Before fails, content could not be stored, and the call
// must not start.
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
	// Record changes to the turn's files since its last call, so that they are not attributed to this one.
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

// keptBefore returns the paths that are already recorded for the same call. If the call announces further effects while it runs,
// the first record remains valid.
func (t *Tracker) keptBefore(call event.CallID) map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string]bool{}
	for _, k := range t.mu.open[call] {
		out[k.Path] = true
	}
	return out
}

// After inspects the files again after the call, stores their new content, and returns the changes; nil means that nothing was
// recorded and nothing has changed. A failure to store content is only recorded, since the change has already happened. After sets
// the digests in the item's changes.
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
	item.Changes = slices.Clone(item.Changes) // an earlier event may refer to the slice
	setDigests(item.Changes, made.Changes)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.changes.AddAfter(made)
	return &made
}

// changed returns the files that earlier calls have changed and that have changed again since, except those to skip.
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

// unchanged reports whether a file is certainly unchanged, without reading it. If it returns false, the file may still be unchanged.
func (g observation) unchanged(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || g.Info == nil {
		return err != nil && g.Kind == event.FileAbsent
	}
	changed := changedAt(info)
	return os.SameFile(info, g.Info) && info.Mode() == g.Info.Mode() && info.Size() == g.Info.Size() &&
		changed.Equal(changedAt(g.Info)) && g.at.Sub(changed) > settled
}

// keep stores content if it does not exceed room.
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

// writtenPlaces returns the paths that effects declare to write, including the targets of symbolic links, and the number of omitted paths.
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

// announced has the state of files after a call as its plugin has announced it, by resolved path.
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
		case c.Kind == contract.ChangeDelete: // a link is deleted, and not its target
			out[places[0].path] = event.FileState{Kind: event.FileAbsent}
		case c.AfterSHA256 != "": // content is written to the target of a link
			out[places[len(places)-1].path] = event.FileState{Kind: event.FileRegular, SHA256: c.AfterSHA256}
		}
	}
	return out
}

// of returns the announced state of a path, or nil. An existing file keeps its mode.
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

// movesByPath returns the previous paths of moved files, by new path.
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

// setDigests sets the digests of stored content in the changes of an item.
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
