//go:build linux || darwin

package tree

import "slices"

// none is no node.
const none = int32(-1)

// node is a folder. There may be a million, so that it is small: what is noted of few lies elsewhere.
type node struct {
	parent, first, next int32 // first child, next sibling
	watch               int32 // its notifications' number; 0: none
	name                string
	id                  Identity
	entry               uint64 // the number by which its parent lists it: not its own where something is mounted
	marks               uint8
	hot                 bool // changes to files' content matter as well
	dead                bool // free to be another
	adrift              bool // not below its parent any more
	shut                bool // it can't be opened, and therefore not be watched
}

// extra is what is noted of a folder.
type extra struct {
	named  []string
	links  []Link
	rights []string
	closed bool
}

// onlyLinks reports whether nothing is noted but links.
func (e *extra) onlyLinks() bool {
	return e != nil && len(e.links) > 0 && len(e.named) == 0 && len(e.rights) == 0 && !e.closed
}

func (e *extra) empty() bool {
	return e == nil || len(e.named) == 0 && len(e.links) == 0 && len(e.rights) == 0 && !e.closed
}

// add makes a node. The caller holds t.mu, as with all that follows.
func (t *Tree) add(parent int32, name string, entry uint64) int32 {
	n := node{parent: parent, first: none, next: none, name: name, entry: entry}
	var at int32
	if k := len(t.free); k > 0 {
		at, t.free = t.free[k-1], t.free[:k-1]
		t.nodes[at] = n
	} else {
		at = int32(len(t.nodes))
		t.nodes = append(t.nodes, n)
	}
	t.live++
	if parent != none {
		t.attach(at, parent, name)
	}
	return at
}

func (t *Tree) attach(at, parent int32, name string) {
	n := &t.nodes[at]
	n.parent, n.name, n.adrift = parent, name, false
	n.next = t.nodes[parent].first
	t.nodes[parent].first = at
}

// detach takes a node from its parent. It stays known until the end of the operation: it may turn up elsewhere.
func (t *Tree) detach(at int32) {
	n := &t.nodes[at]
	if n.parent == none || n.adrift {
		return
	}
	for p := &t.nodes[n.parent].first; *p != none; p = &t.nodes[*p].next {
		if *p == at {
			*p = n.next
			break
		}
	}
	n.next, n.adrift = none, true
	t.touchBelow(at)
}

// touchBelow notes that paths of what is noted below a node have changed.
func (t *Tree) touchBelow(at int32) {
	if len(t.noted) == 0 {
		return
	}
	t.below(at, func(n int32) {
		if t.isNoted(n) {
			t.changed(n)
		}
	})
}

// below calls f for a node and all below it.
func (t *Tree) below(at int32, f func(int32)) {
	stack := []int32{at}
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for c := t.nodes[n].first; c != none; c = t.nodes[c].next {
			stack = append(stack, c)
		}
		f(n)
	}
}

// drop forgets a node and all below it.
func (t *Tree) drop(at int32) {
	if t.nodes[at].dead {
		return
	}
	t.detach(at)
	t.below(at, func(n int32) {
		x := &t.nodes[n]
		if x.watch != 0 {
			delete(t.watches, x.watch)
			t.unwatch(x.watch)
		}
		if t.isNoted(n) {
			t.changed(n)
			delete(t.noted, n)
		}
		delete(t.pending, n)
		delete(t.parked, n)
		*x = node{parent: none, first: none, next: none, dead: true}
		t.free = append(t.free, n)
		t.live--
	})
}

// changed notes that what is noted of a node is not what it was.
func (t *Tree) changed(n int32) {
	t.version++
	if e := t.noted[n]; e != nil && len(e.links) > 0 {
		t.linkVersion++
	}
}

func (t *Tree) isNoted(n int32) bool {
	_, ok := t.noted[n]
	return ok
}

// connected reports whether a node is below the root.
func (t *Tree) connected(n int32) bool {
	for ; n != none; n = t.nodes[n].parent {
		if t.nodes[n].dead || t.nodes[n].adrift {
			return false
		}
		if n == 0 {
			return true
		}
	}
	return false
}

// reachable reports whether a node can be looked at. One that has lost its place is, once it has turned up elsewhere.
func (t *Tree) reachable(n int32) bool {
	if t.nodes[n].dead {
		return false
	}
	if !t.connected(n) {
		t.parked[n] = true
		return false
	}
	return true
}

// rel is a node's path below the root, or below what has lost its place; empty: the root's.
func (t *Tree) rel(n int32) string {
	size := 0
	for at := n; at > 0; at = t.nodes[at].parent {
		size += len(t.nodes[at].name) + 1
		if t.nodes[at].adrift {
			break
		}
	}
	if size == 0 {
		return ""
	}
	b := make([]byte, size-1)
	end := len(b)
	for at := n; end > 0; at = t.nodes[at].parent {
		name := t.nodes[at].name
		copy(b[end-len(name):], name)
		if end -= len(name) + 1; end > 0 {
			b[end] = '/'
		}
	}
	return string(b)
}

func (t *Tree) path(n int32) string {
	if n == 0 {
		return t.root
	}
	return t.root + "/" + t.rel(n)
}

// heats reports whether the content of files in a folder matters: what is noted by name, repositories, and the folders in both.
func (t *Tree) heats(n int32) bool {
	x := &t.nodes[n]
	of := func(x *node) bool { return slices.Contains(t.rules.Names, x.name) || t.rules.shaped(x.marks) }
	return of(x) || x.parent > none && of(&t.nodes[x.parent])
}
