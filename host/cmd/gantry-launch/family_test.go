package main

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func pids(ks []entry) []int {
	var out []int
	for _, k := range ks {
		out = append(out, k.pid)
	}
	slices.Sort(out)
	return out
}

func TestTree(t *testing.T) {
	t.Parallel()
	marks := map[int]bool{}
	asked := map[int]int{}
	f := newTree(10, 9, func(pid int) (bool, bool) { asked[pid]++; return marks[pid], true })
	// 9 is the launcher, 10 the target; 20 a stranger, 1 the first process.
	table := func(more ...entry) []entry {
		return append([]entry{{pid: 1}, {pid: 9, parent: 5, session: 9}, {pid: 20, parent: 1, session: 20, started: 50}}, more...)
	}
	target := entry{pid: 10, parent: 9, group: 10, session: 10, started: 100}
	for i, tc := range []struct {
		table []entry
		want  []int
		fresh []int
	}{
		{table(target), []int{10}, nil},
		{table(entry{pid: 11, parent: 10, group: 10, session: 10, started: 101}, target), []int{10, 11}, []int{11}},
		// 11 has ended, its child made a session of its own and lost its parent: it was seen before.
		{table(target, entry{pid: 11, parent: 10, session: 10, started: 101}, entry{pid: 12, parent: 11, session: 12, started: 102}), []int{10, 11, 12}, []int{12}},
		{table(target, entry{pid: 12, parent: 1, session: 12, started: 102}), []int{10, 12}, nil},
		// What it starts in its session, and who left that at once, but for a mark.
		{table(target, entry{pid: 13, parent: 1, session: 12, started: 103}, entry{pid: 14, parent: 1, session: 14, started: 104}), []int{10, 13}, []int{13}},
		{table(target, entry{pid: 13, parent: 1, session: 12, started: 103}, entry{pid: 15, parent: 1, session: 15, started: 105}), []int{10, 13, 15}, []int{15}},
		// The target has ended; a stranger has got its number, and another that of a session that nobody is in any more.
		{table(entry{pid: 10, parent: 1, session: 10, started: 200}, entry{pid: 13, parent: 1, session: 12, started: 103}), []int{10, 13}, []int{10}},
		{table(entry{pid: 16, parent: 1, session: 12, started: 300}), []int{16}, []int{16}},
	} {
		marks[15] = true
		if i == 6 { // as long as somebody is in a session its number is nobody else's
			f.learn(table(entry{pid: 13, parent: 1, session: 12, started: 103}))
			tc.want, tc.fresh = []int{13}, nil
		}
		if i == 7 {
			f.learn(table())
			tc.want, tc.fresh = nil, nil
		}
		alive, fresh := f.learn(tc.table)
		if got := pids(alive); !slices.Equal(got, tc.want) || !slices.Equal(fresh, tc.fresh) {
			t.Errorf("%d: alive %v, want %v; new %v, want %v", i, got, tc.want, fresh, tc.fresh)
		}
	}
	if asked[14] != 1 || asked[20] != 0 {
		t.Errorf("looked into strangers: %v", asked)
	}
}

// The variables of a process can't be read during an execve.
func TestOrphanIsExaminedAgain(t *testing.T) {
	t.Parallel()
	asked, shows := 0, 3
	f := newTree(10, 9, func(int) (bool, bool) { asked++; return asked >= shows, asked >= shows })
	table := []entry{{pid: 10, parent: 9, session: 10, started: 1}, {pid: 11, parent: 1, session: 11, started: 2}}
	for i := 1; i <= shows; i++ {
		alive, _ := f.learn(table)
		if found := len(alive) == 2; found != (i == shows) || f.unsure == found || asked != i {
			t.Errorf("look %d: alive %v, unsure %v, asked %d times", i, pids(alive), f.unsure, asked)
		}
	}
	f = newTree(10, 9, func(int) (bool, bool) { return false, false })
	for i := 1; i <= maxGuesses; i++ {
		if f.learn(table); f.unsure != (i < maxGuesses) {
			t.Errorf("look %d: unsure %v", i, f.unsure)
		}
	}
}

func TestDeadProcessesAreNotAlive(t *testing.T) {
	t.Parallel()
	f := newTree(10, 9, func(int) (bool, bool) { return false, true })
	dead := entry{pid: 10, parent: 9, session: 10, started: 1, dead: true}
	if alive, _ := f.learn([]entry{dead, {pid: 11, parent: 10, session: 11, started: 2}}); !slices.Equal(pids(alive), []int{11}) {
		t.Errorf("alive: %v", alive)
	}
}

// However a tree grows: who is looked at while it has a parent in it, or the mark, is found as long as it lives, and no stranger is.
func TestTreeIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		type proc struct {
			entry
			ours, marked bool
		}
		procs := map[int]*proc{
			1: {entry: entry{pid: 1}}, 9: {entry: entry{pid: 9, parent: 1, session: 9, started: 1}}, 10: {entry: entry{pid: 10, parent: 9, session: 10, started: 2}, ours: true, marked: true},
			8: {entry: entry{pid: 8, parent: 1, session: 8, started: 1}},
		}
		f := newTree(10, 9, func(pid int) (bool, bool) { return procs[pid].marked, true })
		next, now := 30, uint64(3)
		look := func() {
			var table []entry
			var want []int
			for _, p := range procs {
				table = append(table, p.entry)
				if p.ours {
					want = append(want, p.pid)
				}
			}
			slices.Sort(want)
			alive, _ := f.learn(table)
			if got := pids(alive); !slices.Equal(got, want) {
				r.Fatalf("alive %v, want %v", got, want)
			}
		}
		look()
		for range rapid.IntRange(1, 30).Draw(r, "events") {
			var all []int
			for pid := range procs {
				if pid != 1 && pid != 9 {
					all = append(all, pid)
				}
			}
			if len(all) == 0 {
				break
			}
			slices.Sort(all)
			p := procs[rapid.SampledFrom(all).Draw(r, "who")]
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0, 1: // fork, perhaps into a session of its own, perhaps with the variable gone: that is seen at once
				now++
				c := &proc{entry: entry{pid: next, parent: p.pid, session: p.session, started: now}, ours: p.ours, marked: p.marked}
				procs[next] = c
				next++
				if rapid.Bool().Draw(r, "setsid") {
					c.session = c.pid
				}
				if rapid.Bool().Draw(r, "unmarked") {
					c.marked = false
				}
				if !c.marked {
					look()
				}
			case 2: // end; orphans go to the first
				if p.pid == 10 && len(all) == 1 {
					continue
				}
				delete(procs, p.pid)
				for _, c := range procs {
					if c.parent == p.pid {
						c.parent = 1
					}
				}
			case 3:
				look()
			}
		}
		look()
	})
}

func TestLadder(t *testing.T) {
	t.Parallel()
	var l ladder
	now := time.Unix(1000, 0)
	if s, wait := l.next(now); s != stepRest || wait >= 0 {
		t.Errorf("before the end: %v, %v", s, wait)
	}
	l.end(now, 100*time.Millisecond)
	l.end(now, time.Minute) // never longer
	var asks, kills int
	for {
		s, wait := l.next(now)
		switch s {
		case stepAsk:
			asks++
			if kills > 0 {
				t.Fatal("asked after it has killed")
			}
		case stepKill:
			kills++
		case stepGiveUp:
			if d := now.Sub(time.Unix(1000, 0)); asks < 4 || kills < 20 || d < 2*time.Second || d > 2500*time.Millisecond {
				t.Errorf("asked %d times, killed %d, gave up after %v", asks, kills, d)
			}
			return
		}
		if wait <= 0 || wait > longRound {
			t.Fatalf("waits for %v", wait)
		}
		now = now.Add(wait)
	}
}

func TestLadderWithoutGrace(t *testing.T) {
	t.Parallel()
	var l ladder
	now := time.Unix(1000, 0)
	l.end(now, time.Minute)
	l.next(now)
	l.end(now, 0)
	if s, _ := l.next(now); s != stepKill {
		t.Errorf("without grace: %v", s)
	}
}
