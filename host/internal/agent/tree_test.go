package agent

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var usual = Limits{Threads: 4, Total: 64, Depth: 8, Hops: 16}

// Three agents work beside the root; a fourth is refused, and the refusal says who works.
func TestPlaces(t *testing.T) {
	tr := newTree(usual, "r")
	root := tr.members[Root]
	var all []*member
	for _, name := range []string{"a", "b", "c"} {
		m, evict, err := tr.spawn(root, name)
		if err != nil || evict != nil {
			t.Fatal(name, evict, err)
		}
		m.opening, m.loaded = false, true
		all = append(all, m)
	}
	_, _, err := tr.spawn(root, "d")
	if err == nil || !strings.Contains(err.Error(), "collab spawn failed: agent thread limit reached") || !strings.Contains(err.Error(), "/root/b (running)") {
		t.Fatal(err)
	}
	if tr.members["/root/d"] != nil || tr.spawned != 3 {
		t.Error("the refused agent is there")
	}
	if _, _, err := tr.spawn(root, "a"); err == nil || !strings.Contains(err.Error(), "/root/a already exists") {
		t.Error(err)
	}
	// Whoever is idle gives up its place in memory, the one that was addressed first before the others.
	all[0].busy, all[2].busy = false, false
	d, evict, err := tr.spawn(root, "d")
	if err != nil || evict != all[0] {
		t.Fatal(evict, err)
	}
	d.opening, d.loaded = false, true
	all[1].busy = false
	if evict, err = tr.admit(all[0]); err != nil || evict != all[1] {
		t.Fatal(evict, err)
	}
	all[0].opening, all[0].loaded = false, true
	// One that has somebody at work below it stays, to get the answer.
	all[0].busy, d.busy, all[2].busy = false, false, true
	e, evict, err := tr.spawn(all[2], "e")
	if err != nil || evict != d {
		t.Fatal(evict, err)
	}
	e.opening, e.loaded, all[2].busy = false, true, false
	if evict, err = tr.admit(all[1]); err != nil || evict != all[0] {
		t.Fatal(evict, err)
	}
}

func TestBounds(t *testing.T) {
	tr := newTree(Limits{Threads: 100, Total: 5, Depth: 2, Hops: 3}, "r")
	at := tr.members[Root]
	for i := range 2 {
		m, _, err := tr.spawn(at, fmt.Sprint("n", i))
		if err != nil {
			t.Fatal(err)
		}
		at = m
	}
	if _, _, err := tr.spawn(at, "deeper"); err == nil || !strings.Contains(err.Error(), "2 deep") {
		t.Error(err)
	}
	for i := range 3 {
		if _, _, err := tr.spawn(tr.members[Root], fmt.Sprint("m", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := tr.spawn(tr.members[Root], "more"); err == nil || !strings.Contains(err.Error(), "5 agents") {
		t.Error(err)
	}
	m := tr.members["/root/m0"]
	m.hops = 4
	if _, err := tr.admit(m); err == nil || !strings.Contains(err.Error(), "in a row") {
		t.Error(err)
	}
	tr.began(m, false) // a person's word
	if _, err := tr.admit(m); err != nil {
		t.Error(err)
	}
}

func TestStatus(t *testing.T) {
	for want, s := range map[string]Status{
		`"running"`: {State: Running}, `"pending_init"`: {State: Pending}, `"interrupted"`: {State: Interrupted}, `"not_found"`: {State: NotFound},
		`{"completed":"done"}`: {Completed, "done"}, `{"completed":null}`: {State: Completed}, `{"errored":"why"}`: {Errored, "why"},
	} {
		if b, err := json.Marshal(s); err != nil || string(b) != want {
			t.Errorf("%s %v, want %s", b, err, want)
		}
	}
}

func TestList(t *testing.T) {
	tr := newTree(usual, "r")
	a, _, _ := tr.spawn(tr.members[Root], "a")
	if _, _, err := tr.spawn(tr.members[Root], "ab"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tr.spawn(a, "x"); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]string{"/root": "/root /root/a /root/a/x /root/ab", "/root/a": "/root/a /root/a/x", "/root/none": ""} {
		var got []string
		for _, l := range tr.list(prefix) {
			got = append(got, l.Name)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", prefix, s, want)
		}
	}
	if _, err := tr.find("/root", "nosuch"); err == nil || !strings.Contains(err.Error(), "/root/nosuch") {
		t.Error(err)
	}
	var order []string
	for _, m := range tr.below(Root) {
		order = append(order, m.path)
	}
	if s := strings.Join(order, " "); s != "/root/a/x /root/a /root/ab" {
		t.Error("leaves first:", s)
	}
}

// Whatever is asked for, no more agents than allowed are at work or loaded.
func TestPlacesHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		tr := newTree(Limits{Threads: 2 + r.IntN(4), Total: 20, Depth: 3, Hops: 16}, "r")
		for range 200 {
			ms := append(tr.all(), tr.members[Root])
			m := ms[r.IntN(len(ms))]
			switch r.IntN(4) {
			case 0:
				if n, _, err := tr.spawn(m, fmt.Sprint("n", r.IntN(8))); err == nil {
					n.opening, n.loaded = false, true
				}
			case 1:
				if m.path != Root {
					if _, err := tr.admit(m); err == nil {
						m.opening, m.loaded = false, true
					}
				}
			default:
				m.busy, m.hops = false, 0
			}
			busy, loaded := 0, 0
			for _, m := range tr.all() {
				if m.busy {
					busy++
				}
				if m.loaded {
					loaded++
				}
				if m.busy && !m.loaded {
					t.Fatalf("%s is at work and not loaded", m.path)
				}
			}
			if most := tr.limits.Threads - 1; busy > most || loaded > most || tr.spawned > 20 {
				t.Fatalf("%d at work, %d loaded of %d; %d spawned", busy, loaded, most, tr.spawned)
			}
		}
	}
}
