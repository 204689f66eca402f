package main

import "time"

// If the kernel can't make gantry-launch the parent of a tree's orphans, the processes of the tree are found by scanning the process table:
// by their parents, their sessions, and a variable that only processes of this tree were started with. This file decides which processes
// those are; the files for each system scan and wait.

// entry is a process in the process table.
type entry struct {
	pid, parent, group, session int
	started                     uint64 // increasing; together with the pid it identifies a process
	dead                        bool
}

// tree is a process and its descendants.
type tree struct {
	top    int // the first process
	self   int // gantry-launch, which is not part of the tree
	since  uint64
	known  map[int]uint64 // start times of the processes that belong to the tree
	judged map[int]guess  // orphans that were examined and do not
	leads  map[int]bool   // sessions of the tree
	// marked reports whether a process was started with the tree's variable, and whether that could be read.
	marked func(int) (marked, sure bool)
	unsure bool // the last scan could not decide about a process
	alive  []entry
}

// guess is the decision that an orphan does not belong to the tree.
type guess struct {
	started uint64
	times   int // how often it was examined; after maxGuesses the decision is final
}

// maxGuesses is how often an orphan is examined if its variables can't be read. They can't during an execve.
const maxGuesses = 4

func newTree(top, self int, marked func(int) (marked, sure bool)) *tree {
	return &tree{top: top, self: self, known: map[int]uint64{}, judged: map[int]guess{}, leads: map[int]bool{top: true}, marked: marked}
}

// learn updates the tree from the process table. It returns the processes that are alive, parents before their children, and the ids of
// processes that were not known before.
func (t *tree) learn(table []entry) (alive []entry, fresh []int) {
	byPID := make(map[int]entry, len(table))
	for _, e := range table {
		byPID[e.pid] = e
	}
	if top, ok := byPID[t.top]; ok && t.since == 0 {
		t.since = top.started
		t.known[t.top] = top.started
	}
	t.unsure = false
	in, asked := make(map[int]bool), make(map[int]bool)
	var list []entry
	add := func(e entry) {
		in[e.pid] = true
		list = append(list, e)
		if was, ok := t.known[e.pid]; !ok || was != e.started {
			t.known[e.pid] = e.started
			fresh = append(fresh, e.pid)
		}
		if e.session == e.pid {
			t.leads[e.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, e := range table {
			if e.pid == t.self || in[e.pid] || !t.belongs(e, in, asked) {
				continue
			}
			add(e)
			grown = true
		}
	}
	for pid := range t.known { // ids are reused
		if !in[pid] {
			delete(t.known, pid)
		}
	}
	for pid, g := range t.judged {
		if e, ok := byPID[pid]; !ok || e.started != g.started {
			delete(t.judged, pid)
		}
	}
	used := make(map[int]bool)
	for _, e := range list {
		used[e.session] = true
		if !e.dead {
			alive = append(alive, e)
		}
	}
	for s := range t.leads {
		if !used[s] { // the session is empty, so its id may be reused
			delete(t.leads, s)
		}
	}
	t.alive = alive
	return alive, fresh
}

// belongs reports whether a process belongs to the tree. in are those that do; asked are the orphans that this scan has examined.
func (t *tree) belongs(e entry, in, asked map[int]bool) bool {
	started, known := t.known[e.pid]
	switch {
	case known && started == e.started, in[e.parent], t.leads[e.session] && e.started >= t.since:
		return true
	case e.parent != 1 || e.dead || e.started < t.since || t.since == 0 || asked[e.pid]:
		return false
	}
	g := t.judged[e.pid]
	if g.started != e.started {
		g = guess{started: e.started}
	}
	if g.times >= maxGuesses {
		return false
	}
	asked[e.pid] = true
	marked, sure := t.marked(e.pid)
	if marked {
		return true
	}
	if g.times++; sure {
		g.times = maxGuesses
	}
	t.judged[e.pid] = g
	t.unsure = t.unsure || g.times < maxGuesses
	return false
}

// step is the next action to end a tree.
type step int

const (
	stepRest   step = iota // nothing
	stepAsk                // SIGTERM to processes that have not got it
	stepKill               // SIGKILL to all
	stepGiveUp             // SIGKILL once more, and report how many are left
)

// ladder schedules the signals that end a tree: SIGTERM first, then SIGKILL. The zero value schedules none.
type ladder struct {
	askUntil, killUntil time.Time
	round               time.Duration
}

// The time between two rounds increases from briefRound to longRound. The next round reaches processes that were forked during a round.
const (
	briefRound, longRound = 5 * time.Millisecond, 80 * time.Millisecond
	killingTime           = 2 * time.Second // what is left after it belongs to another user, or hangs in the kernel
)

// end starts to end the tree, or shortens the grace.
func (l *ladder) end(now time.Time, grace time.Duration) {
	if until := now.Add(grace); l.askUntil.IsZero() || until.Before(l.askUntil) {
		l.askUntil = until
	}
}

// next returns what to do now, and how long to wait afterwards; negative: no limit.
func (l *ladder) next(now time.Time) (step, time.Duration) {
	if l.askUntil.IsZero() {
		return stepRest, -1
	}
	if l.killUntil.IsZero() && !now.Before(l.askUntil) {
		l.killUntil, l.round = now.Add(killingTime), 0
	}
	l.round = min(max(2*l.round, briefRound), longRound)
	switch {
	case l.killUntil.IsZero():
		return stepAsk, min(l.round, l.askUntil.Sub(now))
	case now.After(l.killUntil):
		return stepGiveUp, 0
	}
	return stepKill, l.round
}
