//go:build linux || darwin

package tree

import (
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// adopt has the folders of a tree that came from its file watched, and returns those that are not what the file says. Each is watched
// before it is compared, and after the one that it lies in: whoever exchanges folders meanwhile is heard.
func (t *Tree) adopt() (queue []int32, err error) {
	var st unix.Stat_t
	if err := retry(func() error { return unix.Fstat(t.dir, &st) }); err != nil {
		return nil, err
	}
	if identityOf(&st) != t.nodes[0].id {
		queue = append(queue, 0)
	}
	top, err := t.open("", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(top)
	watch, err := t.watch(top, 0)
	if err == nil && watch != 0 {
		_, err = t.watched(0, watch)
	}
	if err != nil {
		return nil, err
	}
	var levels [][]int32 // folders with others in them, by their depth
	depth := make([]int32, len(t.nodes))
	for n := range t.nodes { // those above come first in the file
		x := &t.nodes[n]
		if n > 0 {
			depth[n] = depth[x.parent] + 1
		}
		if int(depth[n]) == len(levels) {
			levels = append(levels, nil)
		}
		if x.first != none {
			levels[depth[n]] = append(levels[depth[n]], int32(n))
		}
	}
	for _, level := range levels {
		parts := make([][]int32, workers)
		errs := make([]error, workers)
		var threads sync.WaitGroup
		for i, some := range slices.Collect(slices.Chunk(level, max(1, (len(level)+workers-1)/workers))) {
			threads.Go(func() { parts[i], errs[i] = t.adoptIn(some) }) // waited for below
		}
		threads.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		queue = slices.Concat(append(parts, queue)...)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.in != nil {
		t.in.read()
	}
	for n, names := range t.pending {
		if names != nil {
			continue
		}
		t.below(n, func(c int32) { queue = append(queue, c) }) // others may have been watched in their place
	}
	return queue, nil
}

// adoptIn does it for the folders in these.
func (t *Tree) adoptIn(above []int32) (queue []int32, err error) {
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
		t.mu.Lock()
		rel, id := t.rel(p), t.nodes[p].id
		in = in[:0]
		for c := t.nodes[p].first; c != none; c = t.nodes[c].next {
			in = append(in, child{n: c, name: t.nodes[c].name, id: t.nodes[c].id, hot: t.heats(c)})
		}
		t.mu.Unlock()
		fd, err := t.open(rel, openPath)
		if err == nil && (retry(func() error { return unix.Fstat(fd, &st) }) != nil || uint64(st.Dev) != id.Dev || st.Ino != id.Ino) {
			unix.Close(fd)
			err = errMoved
		}
		if err != nil { // nothing below it is known
			t.mu.Lock()
			t.below(p, func(n int32) { queue = append(queue, n) })
			queue = append(queue, max(0, t.nodes[p].parent))
			t.mu.Unlock()
			continue
		}
		for i := range in {
			c := &in[i]
			c.watch = t.watchAt(fd, rel, c.name, c.hot)
			switch err := fstatat(fd, c.name, &st); {
			case err != nil:
				queue = append(queue, p)
			case identityOf(&st) != c.id || c.id.Changed == 0:
				queue = append(queue, c.n)
			}
		}
		unix.Close(fd)
		t.mu.Lock()
		watching := t.in != nil && t.why == ""
		for _, c := range in {
			other, known := t.watches[c.watch]
			switch {
			case c.watch == 0 && watching:
				queue = append(queue, c.n) // it is closed, or gone
			case c.watch == 0:
			case known && other != c.n:
				queue = append(queue, c.n, other)
			default:
				t.watches[c.watch], t.nodes[c.n].watch, t.nodes[c.n].hot = c.n, c.watch, c.hot
				if t.stray[c.watch] {
					delete(t.stray, c.watch)
					t.pend(c.n, "")
				}
			}
		}
		t.mu.Unlock()
	}
	return queue, nil
}
