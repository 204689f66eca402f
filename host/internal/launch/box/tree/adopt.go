//go:build linux || darwin

package tree

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// adoptStep is how many folders are adopted before a waiting Settle gets its turn: 3 ms of processor time. It is not done with a
	// lower priority, since then a Settle would wait for it on a busy machine.
	adoptStep = 500
	// adoptRounds bounds how often adopt starts over because folders changed while it worked. What is still not watched then is
	// compared by every Settle.
	adoptRounds = 4
)

// adopt watches the folders of a tree that was loaded from its file, and reads those that differ from it. Without yield the
// caller holds t.op; with yield, adopt takes it for one step at a time. It reports whether any folder differed from the file.
func (t *Tree) adopt(yield bool) (differed bool, err error) {
	g := t.g
	lock, unlock := func() {}, func() {}
	if yield {
		lock, unlock = t.op.Lock, func() {
			t.op.Unlock()
			t.op.Lock()
			//lint:ignore SA2001 waiting callers go first
			t.op.Unlock()
		}
	}
	for range adoptRounds {
		lock()
		above := g.unwatched()
		unlock()
		if len(above) == 0 {
			break
		}
		for len(above) > 0 {
			lock()
			if t.closing.Load() {
				unlock()
				return differed, errClosed
			}
			if yield && !t.filled { // a Settle failed; the next one reads and watches everything
				unlock()
				return differed, nil
			}
			var queue []int32
			if above, queue, err = t.adoptSome(above); err == nil && len(queue) > 0 {
				differed = true
				_, err = t.scan(queue, false)
				g.dropAdrift() // or a folder that turns up elsewhere would bring along others that are not watched
			}
			if err != nil && yield {
				t.filled = false
			}
			unlock()
			if err != nil {
				return differed, err
			}
		}
	}
	lock()
	defer unlock()
	rest := g.unwatched()
	g.mu.Lock()
	g.watching = len(rest) == 0 && g.in != nil && g.why == "" && (!yield || t.filled)
	g.mu.Unlock()
	g.endWatching()
	return differed, nil
}

// unwatched returns the folders that contain folders which could be watched and are not, those closer to the root first. It is
// empty where nothing can be watched. It takes mu; the caller holds Tree.op.
func (g *graph) unwatched() []int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in == nil || g.why != "" {
		return nil
	}
	depth := map[int32]int{} // of the folders that are returned
	for n := range g.nodes {
		x := &g.nodes[n]
		if x.dead || x.adrift || x.watch != 0 || x.unreadable {
			continue
		}
		above := max(0, x.parent) // the root counts as its own parent
		if _, ok := depth[above]; ok {
			continue
		}
		deep := 0
		for p := above; p > 0; p = g.nodes[p].parent {
			deep++
		}
		depth[above] = deep
	}
	return slices.SortedFunc(maps.Keys(depth), func(a, b int32) int { return cmp.Or(cmp.Compare(depth[a], depth[b]), cmp.Compare(a, b)) })
}

// adoptSome watches folders below the first of above and returns those that are left, and the folders that have to be read. Each
// folder is watched before it is compared, so that a change is either seen by the comparison or reported by the kernel.
func (t *Tree) adoptSome(above []int32) (left, queue []int32, err error) {
	g := t.g
	g.mu.Lock()
	if g.in != nil {
		g.in.read()
	}
	// Only what happens during this step matters below, so earlier events are put back at the end.
	earlier := g.pending
	g.pending = map[int32][]string{}
	size := 0
	some := above[:0:0]
	for left = above; len(left) > 0 && size < t.step; left = left[1:] {
		n := left[0]
		if int(n) >= len(g.nodes) || g.nodes[n].dead || g.nodes[n].adrift {
			continue
		}
		some = append(some, n)
		for c := g.nodes[n].first; c != none; c = g.nodes[c].next {
			size++
		}
	}
	g.mu.Unlock()

	if len(some) > 0 && some[0] == 0 {
		if queue, err = t.adoptRoot(); err != nil {
			return nil, nil, err
		}
	}
	parts := make([][]int32, workers)
	errs := make([]error, workers)
	var threads sync.WaitGroup
	for i, part := range slices.Collect(slices.Chunk(some, max(1, (len(some)+workers-1)/workers))) {
		threads.Go(func() { parts[i], errs[i] = t.adoptIn(part) }) // waited for below
	}
	threads.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	queue = slices.Concat(append(parts, queue)...)

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in != nil {
		g.in.read()
	}
	// Folders are watched by path. If a folder on the way was replaced meanwhile, the watch may be on another one.
	for _, n := range some {
		for p := n; p != none; p = g.nodes[p].parent {
			if names, ok := g.pending[p]; ok && names == nil {
				for c := g.nodes[n].first; c != none; c = g.nodes[c].next {
					queue = append(queue, c)
				}
				break
			}
		}
	}
	for n, names := range earlier {
		if names == nil {
			g.pend(n, "")
		}
		for _, name := range names {
			g.pend(n, name)
		}
	}
	return left, queue, nil
}

// adoptRoot watches the root itself.
func (t *Tree) adoptRoot() (queue []int32, err error) {
	g := t.g
	g.mu.Lock()
	known := g.nodes[0].watch != 0
	g.mu.Unlock()
	if known {
		return nil, nil
	}
	top, err := g.open("", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(top)
	watch, err := g.watch(top, 0)
	if err == nil && watch != 0 {
		_, err = g.watched(0, watch)
	}
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(g.dir, &st) }); err != nil {
		return nil, err
	}
	if identityOf(&st) != g.nodes[0].id {
		queue = append(queue, 0)
	}
	return queue, nil
}

// adoptIn watches and compares the subfolders of some folders.
func (t *Tree) adoptIn(above []int32) (queue []int32, err error) {
	g := t.g
	type child struct {
		n     int32
		name  string
		id    Identity
		hot   bool
		watch int32
	}
	var st unix.Stat_t
	var in []child
	for _, p := range above {
		if t.closing.Load() {
			return nil, errClosed
		}
		g.mu.Lock()
		rel, id := g.rel(p), g.nodes[p].id
		in = in[:0]
		for c := g.nodes[p].first; c != none; c = g.nodes[c].next {
			if g.nodes[c].watch == 0 {
				in = append(in, child{n: c, name: g.nodes[c].name, id: g.nodes[c].id, hot: g.contentMatters(c)})
			}
		}
		g.mu.Unlock()
		fd, err := g.open(rel, openPath)
		if err == nil && (retry(func() error { return unix.Fstat(fd, &st) }) != nil || uint64(st.Dev) != id.Dev || st.Ino != id.Ino) {
			unix.Close(fd)
			err = errMoved
		}
		if err != nil { // nothing below it can be trusted
			g.mu.Lock()
			g.below(p, func(n int32) { queue = append(queue, n) })
			queue = append(queue, max(0, g.nodes[p].parent))
			g.mu.Unlock()
			continue
		}
		for i := range in {
			c := &in[i]
			c.watch = g.watchAt(fd, rel, c.name, c.hot)
			switch err := fstatat(fd, c.name, &st); {
			case err != nil:
				queue = append(queue, p)
			case identityOf(&st) != c.id || c.id.Changed == 0:
				queue = append(queue, c.n)
			}
		}
		unix.Close(fd)
		g.mu.Lock()
		watching := g.in != nil && g.why == ""
		for _, c := range in {
			other, known := g.watches[c.watch]
			switch {
			case c.watch == 0 && watching:
				queue = append(queue, c.n) // it can't be opened, or is gone
			case c.watch == 0:
			case known && other != c.n:
				queue = append(queue, c.n, other)
			default:
				g.watches[c.watch], g.nodes[c.n].watch, g.nodes[c.n].watchContent = c.n, c.watch, c.hot
				if g.stray[c.watch] {
					delete(g.stray, c.watch)
					g.pend(c.n, "")
				}
			}
		}
		g.mu.Unlock()
	}
	return queue, nil
}
