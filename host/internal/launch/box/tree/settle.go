//go:build linux || darwin

package tree

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var errClosed = errors.New("the index is closed")

// Tree keeps track of the folders below a root. Its methods may be called concurrently.
type Tree struct {
	g        *graph
	initials [256]bool // the bytes with which names that the rules mention begin
	cache    string
	step     int // see adoptStep

	closing    atomic.Bool
	waiting    atomic.Int32  // number of goroutines that wait for op
	lastSettle atomic.Int64  // Unix time in nanoseconds
	stop       chan struct{} // closed with closing
	ready      chan struct{} // closed when the first reading has ended
	idle       chan struct{} // closed when the background work has ended
	changes    chan struct{} // receives one value after changes

	// op is held by the operation that reads folders: one at a time changes what is known, which g.mu guards.
	op     sync.Mutex
	filled bool // guarded by op

	// The rest is guarded by g.mu.

	devices map[uint64]bool // the file systems that were seen; true: nothing on them is read
	loaded  bool            // the folders came from the tree's file
	saved   uint64          // g.looks when the file was written

	sorted struct {
		version uint64
		list    []Folder
	}
}

// Open starts reading the folders below root in the background.
func Open(root string, o Options) (*Tree, error) {
	dir := -1
	if err := retry(func() (err error) {
		dir, err = unix.Open(root, openPath|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	}); err != nil {
		return nil, rootError(err)
	}
	t := &Tree{
		g: newGraph(root, o.Rules, dir), cache: o.Cache, step: cmp.Or(o.step, adoptStep),
		stop: make(chan struct{}), ready: make(chan struct{}), idle: make(chan struct{}), changes: make(chan struct{}, 1),
		devices: map[uint64]bool{},
	}
	for _, n := range slices.Concat(o.Rules.Names, o.Rules.Marks) {
		t.initials[strings.ToLower(n)[0]], t.initials[strings.ToUpper(n)[0]] = true, true
	}
	if o.Walk {
		t.g.why = "comparing was requested"
	} else {
		t.g.mu.Lock()
		t.g.in, t.g.why = newNotifier(t.g, t.notify)
		t.g.mu.Unlock()
	}
	go t.background() // owned by the tree, ended by Close
	return t, nil
}

// open opens a folder below the root. It does not need mu.
func (g *graph) open(rel string, flags int) (fd int, err error) {
	err = retry(func() error { fd, err = openAt(g.dir, rel, flags); return err })
	return fd, err
}

// background reads the folders, and does what can be done later.
func (t *Tree) background() {
	defer close(t.idle)
	t.op.Lock()
	var err error
	if !t.filled { // otherwise a Settle has read them
		err = t.fill(true)
	}
	t.op.Unlock()
	t.lastSettle.Store(time.Now().UnixNano())
	close(t.ready)
	if err != nil {
		return // Settle tries again and returns the error
	}
	t.g.mu.Lock()
	loaded := t.loaded
	t.g.mu.Unlock()
	if loaded {
		if differed, _ := t.adopt(true); differed {
			t.notify()
		}
		t.recheck()
	}
	t.save()
}

// fill reads everything. If the tree's file can be trusted it is loaded instead, and Settle compares the folders until they are
// watched, which gentle leaves to background. gentle also lowers the priority. The caller holds t.op.
func (t *Tree) fill(gentle bool) error {
	g := t.g
	t.filled = false
	g.mu.Lock()
	var queue []int32
	g.reset()
	loaded := t.load()
	t.loaded = loaded
	if !loaded {
		queue = []int32{g.add(none, "", 0)}
	}
	g.mu.Unlock()
	var err error
	if loaded {
		err = t.devicesLoaded()
	}
	if err == nil {
		_, err = t.scan(queue, gentle)
	}
	if err == nil && loaded && !gentle {
		_, err = t.adopt(false)
	}
	g.mu.Lock()
	if g.lost && err == nil {
		err = ErrGone
	}
	if !loaded || err != nil {
		g.watching = g.in != nil && err == nil
	}
	g.mu.Unlock()
	g.endWatching()
	t.filled = err == nil
	return err
}

// reset forgets everything.
func (g *graph) reset() {
	for w := range g.watches {
		g.unwatch(w)
	}
	clear(g.watches)
	clear(g.noted)
	clear(g.pending)
	clear(g.parked)
	g.nodes, g.free, g.adrift, g.live, g.lost, g.watching = nil, nil, nil, 0, false, false
	g.version++
	g.linkVersion++
}

// Changes receives a value when something has changed that Settle would find.
func (t *Tree) Changes() <-chan struct{} { return t.changes }

// assist helps a scan that is running in the background.
func (t *Tree) assist() {
	t.g.mu.Lock()
	s := t.g.scanning
	t.g.mu.Unlock()
	if s != nil {
		s.run(workers*64, false)
	}
}

// rounds bounds how often changing folders are read again in one Settle.
const rounds = 32

// Settle brings the tree up to date: when it returns without an error, everything that happened before the call is known.
func (t *Tree) Settle() (Result, error) {
	g := t.g
	t.lastSettle.Store(time.Now().UnixNano())
	t.waiting.Add(1)
	t.assist()
	t.op.Lock()
	t.waiting.Add(-1)
	defer t.op.Unlock()
	if t.closing.Load() {
		return Result{}, errClosed
	}
	if !t.filled {
		if err := t.fill(false); err != nil {
			return Result{}, err
		}
	}
	moved, err := t.settle()
	if err != nil {
		t.filled = false // read everything again
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return Result{Links: g.linkVersion, Moved: moved}, err
}

func (t *Tree) settle() (moved bool, err error) {
	g := t.g
	if err := t.checkRoot(); err != nil {
		return false, err
	}
	for range rounds {
		// Events that are queued by now belong to changes that Settle has to know.
		g.mu.Lock()
		watching := g.watching
		if g.in != nil {
			g.in.read()
		}
		// Without complete notifications every folder is compared.
		all := g.in == nil || g.why != "" || g.overflow
		if all {
			watching, g.overflow = false, false
		}
		g.mu.Unlock()
		var queue []int32
		if !watching {
			if queue, err = t.verify(all); err != nil {
				return false, err
			}
		}
		var single []int32
		g.mu.Lock()
		for n, names := range g.pending {
			if names == nil {
				queue = append(queue, n)
			} else {
				single = append(single, n)
			}
		}
		pending := maps.Clone(g.pending)
		clear(g.pending)
		g.mu.Unlock()
		if len(queue) == 0 && len(single) == 0 {
			g.dropAdrift()
			return false, nil
		}
		r := t.reader()
		n := 0
		for _, at := range single {
			switch err := r.checkNames(at, pending[at]); {
			case errors.Is(err, errMoved):
				n++
				g.misplaced(at)
			case err != nil:
				queue = append(queue, at)
			}
		}
		found, err := t.scan(queue, false)
		if err == nil && g.isLost() {
			err = ErrGone
		}
		if err != nil {
			return false, err
		}
		g.endWatching()
		moved = n+found > 0
		// Comparing is complete after one round, unless folders were being moved. Watched folders are done when a round finds
		// nothing to read.
		if !watching && !moved {
			break
		}
	}
	g.dropAdrift()
	return moved, nil
}

// checkRoot returns an error if another folder is at the root's path.
func (t *Tree) checkRoot() error {
	var at, is unix.Stat_t
	if err := retry(func() error { return unix.Lstat(t.g.root, &at) }); err != nil {
		return rootError(err)
	}
	if err := retry(func() error { return unix.Fstat(t.g.dir, &is) }); err != nil || at.Dev != is.Dev || at.Ino != is.Ino {
		return ErrGone
	}
	return nil
}

// isLost reports whether the root is no longer at its path. It takes mu.
func (g *graph) isLost() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost
}

// dropAdrift drops the detached nodes that have not turned up elsewhere. It takes mu.
func (g *graph) dropAdrift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.adrift {
		if g.nodes[n].adrift && !g.nodes[n].dead {
			g.drop(n)
		}
	}
	g.adrift = g.adrift[:0]
}

// pend records that a name in a folder has changed, or, for "", that the whole folder has to be read.
func (g *graph) pend(n int32, name string) {
	const most = 32
	if name == "" {
		g.pending[n] = nil
		return
	}
	names, ok := g.pending[n]
	switch {
	case ok && (names == nil || slices.Contains(names, name)):
	case len(names) >= most:
		g.pending[n] = nil
	default:
		g.pending[n] = append(names, name)
	}
}

// whenIdle calls do for each folder while no Settle is waiting, so that a Settle waits for one folder at most. It reports whether
// it got to the end.
func (t *Tree) whenIdle(do func(n int32) error) bool {
	g := t.g
	for n := int32(0); ; {
		t.op.Lock()
		for t.waiting.Load() == 0 {
			g.mu.Lock()
			for int(n) < len(g.nodes) && (g.nodes[n].dead || g.nodes[n].adrift) {
				n++
			}
			end := int(n) >= len(g.nodes)
			g.mu.Unlock()
			if end || t.closing.Load() || !t.filled {
				t.op.Unlock()
				return end
			}
			if err := do(n); err != nil && !errors.Is(err, errMoved) {
				t.filled = false
				t.op.Unlock()
				return false
			}
			n++
		}
		t.op.Unlock()
		t.op.Lock()
		//lint:ignore SA2001 it lets those who wait for the lock go first
		t.op.Unlock()
	}
}

// recheck reads the folders that were loaded from the tree's file: another name of a file is created without a change to the folder
// of the first.
func (t *Tree) recheck() {
	const rest, most = time.Second, 30 * time.Second
	for began := time.Now(); time.Since(began) < most; { // commands come first
		left := rest - time.Since(time.Unix(0, t.lastSettle.Load()))
		if left <= 0 {
			break
		}
		pause := time.NewTimer(left)
		select {
		case <-pause.C:
		case <-t.stop:
			pause.Stop()
			return
		}
	}
	var thread sync.WaitGroup
	thread.Go(func() { // waited for below
		lowerPriority(true)
		r := t.reader()
		t.whenIdle(func(n int32) error {
			fresh, err := r.read(n)
			if err == nil && len(fresh) > 0 {
				_, err = t.scan(fresh, false)
			}
			if errors.Is(err, errMoved) {
				t.g.misplaced(n)
			}
			return err
		})
	})
	thread.Wait()
}

// Noted returns the folders of which something is noted, ordered by path. The caller must not change the result.
func (t *Tree) Noted() []Folder {
	g := t.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.sorted.version == g.version && t.sorted.list != nil {
		return t.sorted.list
	}
	list := []Folder{}
	for n, e := range g.noted {
		if e.onlyLinks() && !g.rules.shaped(g.nodes[n].marks) || !g.connected(n) {
			continue
		}
		f := Folder{Path: g.path(n), ID: g.nodes[n].id, Marks: g.nodes[n].marks}
		if e != nil {
			f.Named, f.Rights, f.Closed = e.named, e.rights, e.closed
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Folder) int { return cmp.Compare(a.Path, b.Path) })
	t.sorted.version, t.sorted.list = g.version, list
	return list
}

// HasLinks reports whether Linked would return a folder.
func (t *Tree) HasLinks() bool {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	for _, e := range t.g.noted {
		if e != nil && len(e.links) > 0 {
			return true
		}
	}
	return false
}

// Linked returns the folders with files that have other names.
func (t *Tree) Linked() []Linked {
	g := t.g
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []Linked
	for n, e := range g.noted {
		if e != nil && len(e.links) > 0 && g.connected(n) {
			list = append(list, Linked{g.path(n), g.nodes[n].id.Dev, e.links})
		}
	}
	return list
}

// Again makes the next Settle read a folder, changed or not.
func (t *Tree) Again(path string) {
	g := t.g
	rel, ok := strings.CutPrefix(path, g.root)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.find(strings.TrimPrefix(rel, "/")); n != none {
		g.pend(n, "")
	}
}

// find returns the node of a path below the root.
func (g *graph) find(rel string) int32 {
	if len(g.nodes) == 0 {
		return none
	}
	at := int32(0)
	for name := range strings.SplitSeq(rel, "/") {
		if name == "" {
			continue
		}
		c := g.nodes[at].first
		for c != none && g.nodes[c].name != name {
			c = g.nodes[c].next
		}
		if at = c; at == none {
			return none
		}
	}
	return at
}

// Stats returns how the tree is kept current.
func (t *Tree) Stats() Stats {
	g := t.g
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{Folders: g.live, Watched: g.watching, Why: g.why, Loaded: t.loaded}
}

// Close ends the background work and writes the tree's file.
func (t *Tree) Close() error {
	g := t.g
	if t.closing.Swap(true) {
		return nil
	}
	close(t.stop)
	<-t.idle
	t.op.Lock()
	defer t.op.Unlock()
	t.store()
	g.mu.Lock()
	in := g.in
	g.in, g.watching = nil, false
	g.mu.Unlock()
	if in != nil {
		in.close()
	}
	return unix.Close(g.dir)
}

// stopWatching gives up notifications: from now on folders are compared. It takes mu.
func (g *graph) stopWatching(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.why == "" {
		g.why = why
	}
	g.watching = false
}

// endWatching closes notifications that were given up. It takes mu; no scan may be running.
func (g *graph) endWatching() {
	g.mu.Lock()
	in := g.in
	if in == nil || g.why == "" {
		g.mu.Unlock()
		return
	}
	g.in = nil
	clear(g.watches)
	for n := range g.nodes {
		g.nodes[n].watch = 0
	}
	g.mu.Unlock()
	in.close()
}

// notify makes Changes receive a value.
func (t *Tree) notify() {
	select {
	case t.changes <- struct{}{}:
	default:
	}
}
