//go:build linux || darwin

package tree

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// workers is the number of threads that read folders. More only wait for each other in the kernel.
const workers = 2

// scan reads folders and the folders below them.
type scan struct {
	t     *Tree
	mu    sync.Mutex
	more  *sync.Cond
	queue []int32
	busy  int
	err   error
	moved int       // folders that were no longer at their paths
	until time.Time // when to give up; zero: never
}

// maxScan bounds how long new folders are followed, so that a process that creates them continuously does not block the tree.
const maxScan = time.Minute

var errEndless = errors.New("folders are created in it faster than they can be read; end the process that creates them")

// scan reads folders and what is new below them. gentle lowers the priority. Callers of Settle may assist meanwhile.
func (t *Tree) scan(queue []int32, gentle bool) (moved int, err error) {
	g := t.g
	s := &scan{t: t, queue: queue}
	if t.filled { // the first scan takes as long as there are folders
		s.until = time.Now().Add(maxScan)
	}
	s.more = sync.NewCond(&s.mu)
	g.mu.Lock()
	g.scanning = s
	g.mu.Unlock()
	s.run(len(queue), gentle)
	g.mu.Lock()
	g.scanning = nil
	clear(g.stray)
	g.mu.Unlock()
	return s.moved, s.err
}

// run reads until nothing is left, on as many threads as pay off.
func (s *scan) run(size int, gentle bool) {
	if size < 64 && !gentle {
		s.work(false)
		return
	}
	var threads sync.WaitGroup
	for range workers {
		threads.Go(func() { s.work(gentle) }) // waited for below
	}
	threads.Wait()
}

// work takes folders from the queue until nothing is left.
func (s *scan) work(gentle bool) {
	if gentle {
		lowerPriority(false)
	}
	r := s.t.reader()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.queue) == 0 && s.busy > 0 && s.err == nil {
			s.more.Wait()
		}
		if len(s.queue) == 0 || s.err != nil {
			s.more.Broadcast()
			return
		}
		n := s.queue[len(s.queue)-1]
		s.queue = s.queue[:len(s.queue)-1]
		s.busy++
		s.mu.Unlock()
		fresh, err := r.read(n)
		if errors.Is(err, errMoved) {
			s.t.g.misplaced(n)
		}
		s.mu.Lock()
		s.busy--
		switch {
		case s.t.closing.Load():
			s.err = errClosed
		case s.err == nil && !s.until.IsZero() && len(fresh) > 0 && time.Now().After(s.until):
			s.err = errEndless
		case errors.Is(err, errMoved):
			s.moved++
		case err != nil && s.err == nil:
			s.err = s.t.problem(n, err)
		}
		s.queue = append(s.queue, fresh...)
		if len(fresh) > 1 || s.busy == 0 || s.err != nil {
			s.more.Broadcast()
		} else if len(fresh) > 0 {
			s.more.Signal()
		}
	}
}

// problem returns an error that says which folder could not be read.
func (t *Tree) problem(n int32, err error) error {
	g := t.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[n].dead {
		return err
	}
	return fmt.Errorf("%s can't be read: %w", g.path(n), err)
}

// misplaced has a folder that is no longer at its path read again, and its parent, because it may turn up elsewhere. It takes mu.
func (g *graph) misplaced(n int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.nodes[n].parent; p != none && !g.nodes[n].dead {
		g.pend(p, "")
		g.pend(n, "")
	} else if n == 0 {
		g.lost = true
	}
}

// verify returns the folders that have changed, comparing what the kernel says of them. Unless all is set, watched folders are
// skipped.
func (t *Tree) verify(all bool) (queue []int32, err error) {
	g := t.g
	g.mu.Lock()
	var above []int32 // folders with subfolders to compare
	whole := !all     // every folder that can be watched is watched
	for n := range g.nodes {
		x := &g.nodes[n]
		if x.dead || x.adrift {
			continue
		}
		whole = whole && (x.watch != 0 || x.unreadable)
		for c := x.first; c != none; c = g.nodes[c].next {
			if all || g.nodes[c].watch == 0 {
				above = append(above, int32(n))
				break
			}
		}
	}
	if whole && g.in != nil && g.why == "" { // a Settle has watched what adopt could not
		g.watching = true
	}
	nodes := g.nodes // the caller holds t.op, so none is added meanwhile
	g.mu.Unlock()
	var st unix.Stat_t
	if err := retry(func() error { return unix.Lstat(g.root, &st) }); err != nil {
		return nil, rootError(err)
	}
	if identityOf(&st) != nodes[0].id {
		queue = append(queue, 0)
	}
	parts := make([][]int32, workers)
	errs := make([]error, workers)
	var threads sync.WaitGroup
	step := max(1, (len(above)+workers-1)/workers)
	for i, some := range slices.Collect(slices.Chunk(above, step)) {
		threads.Go(func() { parts[i], errs[i] = t.verifyIn(nodes, some, all) }) // waited for below
	}
	threads.Wait()
	return slices.Concat(append(parts, queue)...), errors.Join(errs...)
}

func rootError(err error) error {
	if errors.Is(classify(err), errMoved) {
		return ErrGone
	}
	return err
}

// verifyIn compares the subfolders of some folders.
func (t *Tree) verifyIn(nodes []node, above []int32, all bool) (queue []int32, err error) {
	g := t.g
	var st unix.Stat_t
	for _, p := range above {
		g.mu.Lock()
		rel := g.rel(p)
		g.mu.Unlock()
		fd, err := g.open(rel, openPath)
		if err != nil {
			queue = append(queue, p, max(0, nodes[p].parent))
			continue
		}
		lacks := false
		for c := nodes[p].first; c != none; c = nodes[c].next {
			if !all && nodes[c].watch != 0 {
				continue
			}
			if err := fstatat(fd, nodes[c].name, &st); err != nil {
				lacks = true
			} else if identityOf(&st) != nodes[c].id || nodes[c].id.Changed == 0 {
				queue = append(queue, c)
			}
		}
		unix.Close(fd)
		if lacks {
			queue = append(queue, p)
		}
		if t.closing.Load() {
			return nil, errClosed
		}
	}
	return queue, nil
}
