package main

import "time"

// Where there is no way to have the kernel hand over a tree's orphans, the tree is kept together by looking: at who started whom, at
// sessions, and at a variable that only this tree's processes were started with. This file decides; looking and waiting are the
// system's own files' concern.

// kin is a line of the process table.
type kin struct {
	pid, parent, group, session int
	started                     uint64 // with the number it names one process for ever; later is larger
	dead                        bool
}

// family is a process and all that it has started.
type family struct {
	top    int // the first of it
	self   int // us, who are no part of it
	since  uint64
	known  map[int]uint64 // when each was started that was seen to belong to it
	judged map[int]guess  // orphans that were looked into and do not
	leads  map[int]bool   // sessions of its own
	// marked reports whether a process was started with the family's variable, and whether that could be seen.
	marked func(int) (marked, sure bool)
	unsure bool // of somebody, the last time
	alive  []kin
}

// guess is what is known of an orphan that seems to be a stranger.
type guess struct {
	started uint64
	times   int // it was looked into; guesses: for good
}

// guesses is how often an orphan is looked into that shows nothing: while it executes something there is nothing to be seen.
const guesses = 4

func newFamily(top, self int, marked func(int) (marked, sure bool)) *family {
	return &family{top: top, self: self, known: map[int]uint64{}, judged: map[int]guess{}, leads: map[int]bool{top: true}, marked: marked}
}

// learn takes in a table. It returns who is alive, parents before their children, and which of them were not known before.
func (f *family) learn(table []kin) (alive []kin, fresh []int) {
	byPID := make(map[int]kin, len(table))
	for _, k := range table {
		byPID[k.pid] = k
	}
	if top, ok := byPID[f.top]; ok && f.since == 0 {
		f.since = top.started
		f.known[f.top] = top.started
	}
	f.unsure = false
	in, asked := make(map[int]bool), make(map[int]bool)
	var list []kin
	add := func(k kin) {
		in[k.pid] = true
		list = append(list, k)
		if was, ok := f.known[k.pid]; !ok || was != k.started {
			f.known[k.pid] = k.started
			fresh = append(fresh, k.pid)
		}
		if k.session == k.pid {
			f.leads[k.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, k := range table {
			if k.pid == f.self || in[k.pid] || !f.belongs(k, in, asked) {
				continue
			}
			add(k)
			grown = true
		}
	}
	for pid := range f.known { // numbers come round again
		if !in[pid] {
			delete(f.known, pid)
		}
	}
	for pid, g := range f.judged {
		if k, ok := byPID[pid]; !ok || k.started != g.started {
			delete(f.judged, pid)
		}
	}
	used := make(map[int]bool)
	for _, k := range list {
		used[k.session] = true
		if !k.dead {
			alive = append(alive, k)
		}
	}
	for s := range f.leads {
		if !used[s] { // nobody is left in it, so that the number may become somebody else's
			delete(f.leads, s)
		}
	}
	f.alive = alive
	return alive, fresh
}

// belongs decides about one process. asked are those that were looked into now.
func (f *family) belongs(k kin, in, asked map[int]bool) bool {
	started, known := f.known[k.pid]
	switch {
	case known && started == k.started, in[k.parent], f.leads[k.session] && k.started >= f.since:
		return true
	case k.parent != 1 || k.dead || k.started < f.since || f.since == 0 || asked[k.pid]:
		return false
	}
	g := f.judged[k.pid]
	if g.started != k.started {
		g = guess{started: k.started}
	}
	if g.times >= guesses {
		return false
	}
	asked[k.pid] = true
	marked, sure := f.marked(k.pid)
	if marked {
		return true
	}
	if g.times++; sure {
		g.times = guesses
	}
	f.judged[k.pid] = g
	f.unsure = f.unsure || g.times < guesses
	return false
}

// step is what the end of a tree asks for next.
type step int

const (
	stepRest   step = iota // nothing
	stepAsk                // SIGTERM to whoever has not got it
	stepKill               // SIGKILL to all
	stepGiveUp             // SIGKILL once more, and say how many are left
)

// ladder is the way down: asking, then killing. The zero ladder rests.
type ladder struct {
	askUntil, killUntil time.Time
	round               time.Duration
}

// The time between two rounds grows from the first to the last: what was being forked in one is met in the next.
const (
	briefRound, longRound = 5 * time.Millisecond, 80 * time.Millisecond
	killingTime           = 2 * time.Second // what is left then is another user's, or hangs in the kernel
)

// end begins the way down, or shortens it.
func (l *ladder) end(now time.Time, grace time.Duration) {
	if until := now.Add(grace); l.askUntil.IsZero() || until.Before(l.askUntil) {
		l.askUntil = until
	}
}

// next is what to do now, and how long to wait then; negative is for ever.
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
