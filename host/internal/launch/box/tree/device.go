//go:build linux || darwin

package tree

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// devicesLoaded examines the file systems of a tree that was loaded from its file.
func (t *Tree) devicesLoaded() error {
	g := t.g
	first := map[uint64]int32{}
	g.mu.Lock()
	for n := range g.nodes {
		if _, ok := first[g.nodes[n].id.Dev]; !ok {
			first[g.nodes[n].id.Dev] = int32(n)
		}
	}
	g.mu.Unlock()
	for dev, n := range first {
		g.mu.Lock()
		rel := g.rel(n)
		g.mu.Unlock()
		fd, err := g.open(rel, unix.O_RDONLY)
		if err != nil {
			continue // reading the folder will tell
		}
		var st unix.Stat_t
		if retry(func() error { return unix.Fstat(fd, &st) }) == nil && uint64(st.Dev) == dev {
			_, err = t.device(fd, dev)
		}
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// device examines the file system of an open folder. skip says that nothing on it is read.
func (t *Tree) device(fd int, dev uint64) (skip bool, err error) {
	g := t.g
	g.mu.Lock()
	skip, known := t.devices[dev]
	g.mu.Unlock()
	if known {
		return skip, nil
	}
	skip, foreign := kindOf(fd)
	g.mu.Lock()
	t.devices[dev] = skip
	g.mu.Unlock()
	if foreign != "" {
		g.stopWatching(fmt.Sprintf("part of it is on a network file system or an unknown one (%s)", foreign))
	}
	return skip, nil
}

// lowerPriority lowers the priority of the calling goroutine for the rest of its life; idle: it only runs when the processor is
// idle.
func lowerPriority(idle bool) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	deprioritize(idle)
}
