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

// Tree is what is known of the folders below one. Its methods may be called concurrently.
type Tree struct {
	root  string
	rules Rules
	first [256]bool // bytes with which names begin that have to do with the rules
	cache string
	dir   int // the root
	step  int // see adoptStep

	closing atomic.Bool
	waiting atomic.Int32  // who needs op
	asked   atomic.Int64  // when it was last, in nanoseconds
	ended   chan struct{} // closed with closing
	ready   chan struct{} // closed when the folders were read once, or could not be
	grown   chan struct{} // closed when nothing happens in the background any more
	stirred chan struct{} // holds one when something has changed

	// op is held by whoever reads folders: one at a time makes what it finds known. mu guards what is known.
	op     sync.Mutex
	filled bool  // guarded by op
	broken error // guarded by op: why the folders could not be read

	mu       sync.Mutex
	nodes    []node // the first is the root
	free     []int32
	live     int
	noted    map[int32]*extra
	adrift   []int32
	devices  map[uint64]bool // that were seen; true: nothing in them is looked at
	scanning *scan
	lost     bool // the root is not where it was
	version  uint64
	linkVersion, stir,
	looks uint64
	loaded bool
	saved  uint64 // looks, when it was written to its file

	in       *notifier // nil: there are no notifications
	watches  map[int32]int32
	watching bool   // every folder is watched
	why      string // it is not
	overflow bool   // notifications were lost
	stray    map[int32]bool
	parked   map[int32]bool     // folders that had to be read when they had lost their place
	pending  map[int32][]string // by folder: names that have changed; nil: all of it

	sorted struct {
		version uint64
		list    []Folder
	}
}

// Open begins to read the folders below root, in the background.
func Open(root string, o Options) (*Tree, error) {
	dir := -1
	if err := retry(func() (err error) {
		dir, err = unix.Open(root, openPath|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	}); err != nil {
		return nil, classified(err)
	}
	t := &Tree{
		root: root, rules: o.Rules, cache: o.Cache, dir: dir, step: cmp.Or(o.step, adoptStep),
		ended: make(chan struct{}), ready: make(chan struct{}), grown: make(chan struct{}), stirred: make(chan struct{}, 1),
		noted: map[int32]*extra{}, devices: map[uint64]bool{}, watches: map[int32]int32{}, stray: map[int32]bool{}, pending: map[int32][]string{}, parked: map[int32]bool{},
	}
	for _, n := range slices.Concat(o.Rules.Names, o.Rules.Marks) {
		t.first[strings.ToLower(n)[0]], t.first[strings.ToUpper(n)[0]] = true, true
	}
	if o.Walk {
		t.why = "it was asked for"
	} else {
		t.mu.Lock()
		t.in, t.why = newNotifier(t)
		t.mu.Unlock()
	}
	go t.grow() // owned by the tree, ended by Close
	return t, nil
}

// open opens a folder below the root.
func (t *Tree) open(rel string, flags int) (fd int, err error) {
	err = retry(func() error { fd, err = openAt(t.dir, rel, flags); return err })
	return fd, err
}

// grow reads the folders, and does what can be done later.
func (t *Tree) grow() {
	defer close(t.grown)
	t.op.Lock()
	var err error
	if !t.filled { // else somebody could not wait
		err = t.fill(true)
	}
	t.op.Unlock()
	t.asked.Store(time.Now().UnixNano())
	close(t.ready)
	if err != nil {
		return // Settle tries again, and says why
	}
	t.mu.Lock()
	loaded := t.loaded
	t.mu.Unlock()
	if loaded {
		if differed, _ := t.adopt(true); differed {
			t.poke()
		}
		t.lookAgain()
	}
	t.save()
}

// fill reads everything. Where the tree's file is to be believed, that is loaded instead: Settle compares its folders until they are watched,
// which gentle leaves to grow; gentle also gives way to others. The caller holds t.op.
func (t *Tree) fill(gentle bool) error {
	t.filled, t.broken = false, nil
	t.mu.Lock()
	var queue []int32
	t.reset()
	loaded := t.load()
	t.loaded = loaded
	if !loaded {
		queue = []int32{t.add(none, "", 0)}
	}
	t.mu.Unlock()
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
	t.mu.Lock()
	if t.lost && err == nil {
		err = ErrGone
	}
	if !loaded || err != nil {
		t.watching = t.in != nil && err == nil
	}
	t.mu.Unlock()
	t.endWatching()
	t.broken, t.filled = err, err == nil
	return err
}

// reset forgets everything.
func (t *Tree) reset() {
	for w := range t.watches {
		t.unwatch(w)
	}
	clear(t.watches)
	clear(t.noted)
	clear(t.pending)
	clear(t.parked)
	t.nodes, t.free, t.adrift, t.live, t.lost, t.watching = nil, nil, nil, 0, false, false
	t.version++
	t.linkVersion++
}

// Ready waits until the folders were read once.
func (t *Tree) Ready() <-chan struct{} { return t.ready }

// Changes receives when something has changed that Settle would find.
func (t *Tree) Changes() <-chan struct{} { return t.stirred }

// help reads folders for the one that reads them in the background.
func (t *Tree) help() {
	t.mu.Lock()
	s := t.scanning
	t.mu.Unlock()
	if s != nil {
		s.run(workers*64, false)
	}
}

// rounds are how often folders are looked at that change meanwhile.
const rounds = 32

// Settle finds out what has changed until now. Everything that happened before it was called is known when it returns; an error says that
// it is not.
func (t *Tree) Settle() (Result, error) {
	t.asked.Store(time.Now().UnixNano())
	t.waiting.Add(1)
	t.help()
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
		t.filled = false // all of it is read again
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return Result{Version: t.version, Links: t.linkVersion, Moved: moved}, err
}

func (t *Tree) settle() (moved bool, err error) {
	if err := t.inPlace(); err != nil {
		return false, err
	}
	for range rounds {
		t.mu.Lock()
		watching := t.watching
		if t.in != nil {
			t.in.read()
		}
		all := t.in == nil || t.why != "" || t.overflow
		if all {
			watching, t.overflow = false, false
		}
		t.mu.Unlock()
		var queue []int32
		if !watching {
			if queue, err = t.verify(all); err != nil {
				return false, err
			}
		}
		var single []int32
		t.mu.Lock()
		for n, names := range t.pending {
			if names == nil {
				queue = append(queue, n)
			} else {
				single = append(single, n)
			}
		}
		pending := maps.Clone(t.pending)
		clear(t.pending)
		t.mu.Unlock()
		if len(queue) == 0 && len(single) == 0 {
			t.settled()
			return false, nil
		}
		r := t.reader()
		n := 0
		for _, at := range single {
			switch err := r.touch(at, pending[at]); {
			case errors.Is(err, errMoved):
				n++
				t.gone(at)
			case err != nil:
				queue = append(queue, at)
			}
		}
		found, err := t.scan(queue, false)
		if err == nil && t.isLost() {
			err = ErrGone
		}
		if err != nil {
			return false, err
		}
		t.endWatching()
		moved = n+found > 0
		if !watching && !moved {
			break
		}
	}
	t.settled()
	return moved, nil
}

// inPlace makes sure that the root is still what its path leads to.
func (t *Tree) inPlace() error {
	var at, is unix.Stat_t
	if err := retry(func() error { return unix.Lstat(t.root, &at) }); err != nil {
		return classified(err)
	}
	if err := retry(func() error { return unix.Fstat(t.dir, &is) }); err != nil || at.Dev != is.Dev || at.Ino != is.Ino {
		return ErrGone
	}
	return nil
}

func (t *Tree) isLost() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// settled forgets folders that have not turned up elsewhere.
func (t *Tree) settled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.adrift {
		if t.nodes[n].adrift && !t.nodes[n].dead {
			t.drop(n)
		}
	}
	t.adrift = t.adrift[:0]
}

// pend notes that a name in a folder has changed; empty: that all of it has to be read.
func (t *Tree) pend(n int32, name string) {
	const most = 32
	if name == "" {
		t.pending[n] = nil
		return
	}
	names, ok := t.pending[n]
	switch {
	case ok && (names == nil || slices.Contains(names, name)):
	case len(names) >= most:
		t.pending[n] = nil
	default:
		t.pending[n] = append(names, name)
	}
}

// later does something for each folder while nobody waits: whoever needs the tree waits for one folder at most. It reports whether it was
// done for all.
func (t *Tree) later(do func(n int32) error) bool {
	for n := int32(0); ; {
		t.op.Lock()
		for t.waiting.Load() == 0 {
			t.mu.Lock()
			for int(n) < len(t.nodes) && (t.nodes[n].dead || t.nodes[n].adrift) {
				n++
			}
			end := int(n) >= len(t.nodes)
			t.mu.Unlock()
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

// lookAgain reads what came from the tree's file: other names of files are made without a change to the folder that they lie in.
func (t *Tree) lookAgain() {
	const rest, most = time.Second, 30 * time.Second
	for began := time.Now(); time.Since(began) < most; { // commands come first
		left := rest - time.Since(time.Unix(0, t.asked.Load()))
		if left <= 0 {
			break
		}
		pause := time.NewTimer(left)
		select {
		case <-pause.C:
		case <-t.ended:
			pause.Stop()
			return
		}
	}
	var thread sync.WaitGroup
	thread.Go(func() { // waited for below
		lowered(true)
		r := t.reader()
		t.later(func(n int32) error {
			fresh, err := r.look(n)
			if err == nil && len(fresh) > 0 {
				_, err = t.scan(fresh, false)
			}
			if errors.Is(err, errMoved) {
				t.gone(n)
			}
			return err
		})
	})
	thread.Wait()
}

// Noted are the folders of which something is noted, in the order of their paths. It is not to be changed.
func (t *Tree) Noted() []Folder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sorted.version == t.version && t.sorted.list != nil {
		return t.sorted.list
	}
	list := []Folder{}
	for n, e := range t.noted {
		if e.onlyLinks() && !t.rules.shaped(t.nodes[n].marks) || !t.connected(n) {
			continue
		}
		f := Folder{Path: t.path(n), ID: t.nodes[n].id, Marks: t.nodes[n].marks}
		if e != nil {
			f.Named, f.Rights, f.Closed = e.named, e.rights, e.closed
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Folder) int { return cmp.Compare(a.Path, b.Path) })
	t.sorted.version, t.sorted.list = t.version, list
	return list
}

// HasLinks reports whether there is a folder of Linked.
func (t *Tree) HasLinks() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.noted {
		if e != nil && len(e.links) > 0 {
			return true
		}
	}
	return false
}

// Linked are the folders with files that have other names as well.
func (t *Tree) Linked() []Linked {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []Linked
	for n, e := range t.noted {
		if e != nil && len(e.links) > 0 && t.connected(n) {
			list = append(list, Linked{t.path(n), t.nodes[n].id.Dev, e.links})
		}
	}
	return list
}

// Again has a folder read by the next Settle whatever the kernel says of it.
func (t *Tree) Again(path string) {
	rel, ok := strings.CutPrefix(path, t.root)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.find(strings.TrimPrefix(rel, "/")); n != none {
		t.pend(n, "")
	}
}

// find is the node of a path below the root.
func (t *Tree) find(rel string) int32 {
	if len(t.nodes) == 0 {
		return none
	}
	at := int32(0)
	for name := range strings.SplitSeq(rel, "/") {
		if name == "" {
			continue
		}
		c := t.nodes[at].first
		for c != none && t.nodes[c].name != name {
			c = t.nodes[c].next
		}
		if at = c; at == none {
			return none
		}
	}
	return at
}

// Stirs counts changes after which something of note may be other than it was, though no folder says so: to the content of files in
// folders of note.
func (t *Tree) Stirs() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stir + t.version
}

// Stats say how the tree is kept.
func (t *Tree) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Folders: t.live, Watched: t.watching, Why: t.why, Loaded: t.loaded}
}

// Close ends what happens in the background.
func (t *Tree) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	close(t.ended)
	<-t.grown
	t.op.Lock()
	defer t.op.Unlock()
	t.store()
	t.mu.Lock()
	in := t.in
	t.in, t.watching = nil, false
	t.mu.Unlock()
	if in != nil {
		in.close()
	}
	return unix.Close(t.dir)
}

// stopWatching gives notifications up; the folders are compared from then on.
func (t *Tree) stopWatching(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why == "" {
		t.why = why
	}
	t.watching = false
}

// endWatching closes notifications that were given up, once nobody uses them.
func (t *Tree) endWatching() {
	t.mu.Lock()
	in := t.in
	if in == nil || t.why == "" {
		t.mu.Unlock()
		return
	}
	t.in = nil
	clear(t.watches)
	for n := range t.nodes {
		t.nodes[n].watch = 0
	}
	t.mu.Unlock()
	in.close()
}

// poke says that something has changed.
func (t *Tree) poke() {
	select {
	case t.stirred <- struct{}{}:
	default:
	}
}

// Wait waits until nothing happens in the background any more, for tests and measurements.
func (t *Tree) Wait(most time.Duration) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-t.grown:
		return true
	case <-late.C:
		return false
	}
}
