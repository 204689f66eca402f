//go:build linux || darwin

package tree

import (
	"slices"
	"sync"
)

// none is not a node.
const none = int32(-1)

// node is a folder. There may be a million, so it is small: what is noted of the few is kept in extra.
type node struct {
	parent, first, next int32 // the first child, the next sibling
	watch               int32 // the watch descriptor; 0: none
	name                string
	id                  Identity
	entry               uint64 // the inode number by which its parent lists it, which is not its own at a mount point
	marks               uint8
	watchContent        bool // changes to the content of its files matter
	dead                bool // may be reused
	adrift              bool // detached from its parent
	unreadable          bool // it can't be opened, and so not be watched
}

// extra is what is noted of a folder.
type extra struct {
	named  []string
	links  []Link
	rights []string
	closed bool
}

// onlyLinks reports whether nothing but links is noted.
func (e *extra) onlyLinks() bool {
	return e != nil && len(e.links) > 0 && len(e.named) == 0 && len(e.rights) == 0 && !e.closed
}

func (e *extra) empty() bool {
	return e == nil || len(e.named) == 0 && len(e.links) == 0 && len(e.rights) == 0 && !e.closed
}

// graph is what is known of the folders below a root: which there are, what is noted of them, which are watched, and which have to
// be read again. It reads no folders. The caller of its methods holds mu unless stated otherwise.
type graph struct {
	root  string
	rules Rules
	dir   int // a descriptor of the root

	mu          sync.Mutex
	nodes       []node  // the first one is the root
	free        []int32 // dead nodes to reuse
	live        int
	noted       map[int32]*extra
	adrift      []int32            // detached nodes
	parked      map[int32]bool     // nodes that had to be read while they were detached
	pending     map[int32][]string // by folder, the names that have changed; nil: all of it has to be read
	lost        bool               // the root is no longer at its path
	version     uint64             // incremented when what is noted changes
	linkVersion uint64             // incremented when links change
	looks       uint64             // number of folders that were read

	in       *notifier // nil: there are no notifications
	watches  map[int32]int32
	watching bool           // every folder is watched
	why      string         // why not every folder is watched
	overflow bool           // notifications were lost
	scanning *scan          // the running scan, or nil
	stray    map[int32]bool // watch descriptors with events for folders that are not known yet
}

func newGraph(root string, rules Rules, dir int) *graph {
	return &graph{
		root: root, rules: rules, dir: dir, noted: map[int32]*extra{}, watches: map[int32]int32{}, stray: map[int32]bool{},
		pending: map[int32][]string{}, parked: map[int32]bool{},
	}
}

// add adds a node.
func (g *graph) add(parent int32, name string, entry uint64) int32 {
	n := node{parent: parent, first: none, next: none, name: name, entry: entry}
	var at int32
	if k := len(g.free); k > 0 {
		at, g.free = g.free[k-1], g.free[:k-1]
		g.nodes[at] = n
	} else {
		at = int32(len(g.nodes))
		g.nodes = append(g.nodes, n)
	}
	g.live++
	if parent != none {
		g.attach(at, parent, name)
	}
	return at
}

func (g *graph) attach(at, parent int32, name string) {
	n := &g.nodes[at]
	n.parent, n.name, n.adrift = parent, name, false
	n.next = g.nodes[parent].first
	g.nodes[parent].first = at
}

// detach takes a node from its parent. It stays known until the end of the operation, because it may turn up elsewhere.
func (g *graph) detach(at int32) {
	n := &g.nodes[at]
	if n.parent == none || n.adrift {
		return
	}
	for p := &g.nodes[n.parent].first; *p != none; p = &g.nodes[*p].next {
		if *p == at {
			*p = n.next
			break
		}
	}
	n.next, n.adrift = none, true
	g.touchBelow(at)
}

// touchBelow records that the paths of noted folders below a node have changed.
func (g *graph) touchBelow(at int32) {
	if len(g.noted) == 0 {
		return
	}
	g.below(at, func(n int32) {
		if g.isNoted(n) {
			g.changed(n)
		}
	})
}

// below calls f for a node and all nodes below it.
func (g *graph) below(at int32, f func(int32)) {
	stack := []int32{at}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for c := g.nodes[n].first; c != none; c = g.nodes[c].next {
			stack = append(stack, c)
		}
		f(n)
	}
}

// drop removes a node and all nodes below it.
func (g *graph) drop(at int32) {
	if g.nodes[at].dead {
		return
	}
	g.detach(at)
	g.below(at, func(n int32) {
		x := &g.nodes[n]
		if x.watch != 0 {
			delete(g.watches, x.watch)
			g.unwatch(x.watch)
		}
		if g.isNoted(n) {
			g.changed(n)
			delete(g.noted, n)
		}
		delete(g.pending, n)
		delete(g.parked, n)
		*x = node{parent: none, first: none, next: none, dead: true}
		g.free = append(g.free, n)
		g.live--
	})
}

// changed records that what is noted of a node has changed.
func (g *graph) changed(n int32) {
	g.version++
	if e := g.noted[n]; e != nil && len(e.links) > 0 {
		g.linkVersion++
	}
}

func (g *graph) isNoted(n int32) bool {
	_, ok := g.noted[n]
	return ok
}

// connected reports whether a node is below the root.
func (g *graph) connected(n int32) bool {
	for ; n != none; n = g.nodes[n].parent {
		if g.nodes[n].dead || g.nodes[n].adrift {
			return false
		}
		if n == 0 {
			return true
		}
	}
	return false
}

// reachable reports whether a node has a path. A detached one will be read once it has turned up elsewhere.
func (g *graph) reachable(n int32) bool {
	if g.nodes[n].dead {
		return false
	}
	if !g.connected(n) {
		g.parked[n] = true
		return false
	}
	return true
}

// rel returns the path of a node relative to the root, or to the detached node above it; "" for the root.
func (g *graph) rel(n int32) string {
	size := 0
	for at := n; at > 0; at = g.nodes[at].parent {
		size += len(g.nodes[at].name) + 1
		if g.nodes[at].adrift {
			break
		}
	}
	if size == 0 {
		return ""
	}
	b := make([]byte, size-1)
	end := len(b)
	for at := n; end > 0; at = g.nodes[at].parent {
		name := g.nodes[at].name
		copy(b[end-len(name):], name)
		if end -= len(name) + 1; end > 0 {
			b[end] = '/'
		}
	}
	return string(b)
}

func (g *graph) path(n int32) string {
	if n == 0 {
		return g.root
	}
	return g.root + "/" + g.rel(n)
}

// contentMatters reports whether changes to the content of a folder's files matter: in repositories, in folders with a name of the
// rules, and directly below both.
func (g *graph) contentMatters(n int32) bool {
	x := &g.nodes[n]
	of := func(x *node) bool { return slices.Contains(g.rules.Names, x.name) || g.rules.shaped(x.marks) }
	return of(x) || x.parent > none && of(&g.nodes[x.parent])
}
