package crash_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// pass is a point as a command passes it.
type pass struct {
	name    string // with its detail
	nth     int    // time that the command passes it
	command int    // of the workload, from 1
}

// String names it for people.
func (p pass) String() string {
	s := p.name
	if p.nth > 1 {
		s += fmt.Sprintf("#%d", p.nth)
	}
	if p.command > 1 {
		s += fmt.Sprintf(" of command %d", p.command)
	}
	return s
}

// death is where hosts die, one after the other, in the life of a workload's thread. The first one runs the workload, the
// others go on with the thread.
type death struct {
	work   workload
	passes []pass
}

// String names it for people.
func (d death) String() string {
	var at []string
	for _, p := range d.passes {
		at = append(at, p.String())
	}
	return d.work.name + ": " + strings.Join(at, ", then ")
}

// lastCall is where a host dies so that there is something to repair.
var lastCall = pass{name: "call.returned", nth: 1, command: 1}

// TestPoints kills the host at each point that it passes, once; with GANTRY_SOAK=N in N lives, at points drawn from all the
// times that they are passed, half of them with a second death while the thread is resumed. GANTRY_SEED repeats a draw.
func TestPoints(t *testing.T) {
	t.Parallel()
	var works []workload
	var lives, resumes [][]pass // in their order, by workload
	var kinds [][]string        // of events
	t.Run("rehearsal", func(t *testing.T) {
		works = workloads()
		lives, resumes, kinds = make([][]pass, len(works)), make([][]pass, len(works)), make([][]string, len(works))
		for i, w := range works {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				lives[i], resumes[i], kinds[i] = rehearse(t, w)
			})
		}
	})
	if t.Failed() {
		return
	}
	covered(t, slices.Concat(slices.Concat(lives...), slices.Concat(resumes...)), slices.Concat(kinds...))
	var deaths []death
	if s := os.Getenv("GANTRY_SOAK"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("GANTRY_SOAK: %v", err)
		}
		deaths = drawn(t, works, lives, resumes, n)
	} else {
		deaths = eachOnce(works, lives, resumes)
	}
	var mu sync.Mutex
	missed := 0
	t.Run("lives", func(t *testing.T) {
		for _, d := range deaths {
			t.Run(d.String(), func(t *testing.T) {
				t.Parallel()
				if !d.lead(t) {
					mu.Lock()
					defer mu.Unlock()
					missed++
				}
			})
		}
	})
	// How events fall into batches differs from run to run, so a late occurrence may not come. Most do.
	t.Logf("%d lives, in %d of them a host did not come to its point", len(deaths), missed)
	if missed*5 > len(deaths) {
		t.Errorf("of %d lives %d did not end where they should", len(deaths), missed)
	}
}

// rehearse lists the points that a workload passes, and those that going on with its thread after a death passes; and the
// kinds of its events.
func rehearse(t *testing.T, w workload) (life, resume []pass, kinds []string) {
	r := w.rig(t)
	p := &play{t: t, r: r, trace: filepath.Join(r.Home, "life")}
	w.play(p)
	life = p.passes()
	p.task("resume", "--events", "--last", "go on to the end")
	check(t, r, w, p.said)
	for _, id := range list(t, r) {
		for _, e := range rig.Events(t, r.OK("threads", "show", "--reverted", "--events", id).Stdout) {
			kinds = append(kinds, e.Kind)
		}
	}

	r = w.rig(t)
	p = &play{t: t, r: r, at: lastCall}
	w.play(p)
	if !p.died {
		t.Fatalf("the host does not pass %v", lastCall)
	}
	r.Write("go", "")
	p = &play{t: t, r: r, trace: filepath.Join(r.Home, "resume")}
	p.task("resume", "--events", "--last", "go on")
	return life, p.passes(), kinds
}

// passes reads the traces of the commands so far.
func (p *play) passes() []pass {
	p.t.Helper()
	var out []pass
	for command := 1; command <= p.commands; command++ {
		b, err := os.ReadFile(p.traceOf(command))
		if err != nil {
			p.t.Fatal(err)
		}
		times := map[string]int{}
		for name := range strings.Lines(string(b)) {
			name = strings.TrimSuffix(name, "\n")
			times[name]++
			out = append(out, pass{name, times[name], command})
		}
	}
	return out
}

// eachOnce takes the first time that a point is passed, in the first workload that passes it; and a third of a resume's. In each
// workload a host dies when a call has ended, too: by then its user has said what he had to say. Where a workload says so, it dies at each
// of its points, but for those at which the store is made.
func eachOnce(works []workload, lives, resumes [][]pass) []death {
	var out []death
	seen := map[string]bool{}
	for i, w := range works {
		own := map[string]bool{}
		for _, p := range lives[i] {
			first := !own[p.name]
			own[p.name] = true
			if !seen[p.name] || p == lastCall || w.everywhere && first && !strings.HasPrefix(p.name, "migrated ") {
				seen[p.name] = true
				out = append(out, death{w, []pass{p}})
			}
		}
	}
	clear(seen)
	for _, p := range resumes[0] {
		if !seen[p.name] {
			seen[p.name] = true
			if len(seen)%3 == 0 { // the long form takes them all
				out = append(out, death{works[0], []pass{lastCall, p}})
			}
		}
	}
	return out
}

// drawn takes lives at random.
func drawn(t *testing.T, works []workload, lives, resumes [][]pass, n int) []death {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("GANTRY_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("GANTRY_SEED: %v", err)
		}
	}
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	pick := func(trace []pass) pass { return trace[rnd.IntN(len(trace))] }
	var out []death
	for len(out) < n {
		i := len(out) % len(works)
		d := death{works[i], []pass{pick(lives[i])}}
		if rnd.IntN(2) == 0 {
			d.passes = append(d.passes, pick(resumes[i]))
		}
		out = append(out, d)
	}
	return out
}

// lead leads a life from death to death and on to its end, and checks the invariants after each. false: a host did not come
// to its point.
func (d death) lead(t *testing.T) (hit bool) {
	r := d.work.rig(t)
	hit = true
	var said []string
	for n, at := range d.passes {
		p := &play{t: t, r: r, at: at}
		if n == 0 {
			d.work.play(p)
		} else {
			r.Write("go", "")
			p.task(again(t, r, fmt.Sprintf("go on, after death %d", n))...)
		}
		if d.work.copies {
			for _, id := range list(t, r, "--archived") {
				r.OK("threads", "unarchive", id)
			}
		}
		hit = hit && p.died
		said = append(said, p.said...)
	}
	r.Write("go", "")
	p := &play{t: t, r: r}
	p.task(again(t, r, "go on to the end")...)
	reads(t, r, d.work, said)
	// What was repaired stays repaired: once more changes nothing of what was told before.
	before := r.Last().Outputs()
	p.task("resume", "--events", "--last", "is that all?")
	for id, text := range r.Last().Outputs() {
		if was, ok := before[id]; ok && was != text {
			t.Errorf("the model read of %s first %q, then %q", id, was, text)
		}
	}
	check(t, r, d.work, said)
	if d.work.undone {
		cleared(t, r)
	}
	r.NothingLeft()
	return hit
}

// cleared asks for an undo once more: whatever one that was killed has left, the files are whole then, and nothing lies beside them.
func cleared(t *testing.T, r *rig.Rig) {
	t.Helper()
	if res := r.Gantry("undo"); res.Code != 0 && !strings.Contains(res.Stderr, "Next: ") {
		t.Errorf("undo: exit %d\n%s", res.Code, res.Stderr)
	}
	if f := r.Read("f"); f != "before\n" && f != "after\n" {
		t.Errorf("f is torn: %q", f)
	}
	if left, err := filepath.Glob(filepath.Join(r.Dir, ".gantry-undo-*")); err != nil || len(left) > 0 {
		t.Errorf("an undo has left %q, %v", left, err)
	}
}

// An undo of an undo may be cut off where nothing else is left to undo: what it left beside the files goes all the same, and people
// are told how the rest of it is done.
func TestBringingBackIsCutOff(t *testing.T) {
	t.Parallel()
	for _, w := range workloads() {
		if !w.undone {
			continue
		}
		for _, name := range []string{"files.staged", "file.swapped"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := w.rig(t)
				p := &play{t: t, r: r, at: pass{name: name, nth: 1, command: 3}}
				w.play(p)
				if !p.died {
					t.Fatal("the host does not come to its point")
				}
				if res := r.Gantry("undo"); res.Code == 0 || !strings.Contains(res.Stderr, "gantry undo --redo") {
					t.Errorf("undo: exit %d\n%s", res.Code, res.Stderr)
				}
				cleared(t, r)
				r.OK("undo", "--redo")
				if f := r.Read("f"); f != "after\n" {
					t.Errorf("f is %q", f)
				}
				cleared(t, r)
				r.NothingLeft()
			})
		}
	}
}

// again is the command that goes on with the thread, or begins it where nothing of it was stored.
func again(t *testing.T, r *rig.Rig, task string) []string {
	t.Helper()
	thread, known := stored(t, r)
	// What is committed is a moment behind what happens, but never behind an effect, and never behind what the model saw.
	if ran, asked := r.Read("ran"), lines(r.Log); !known && (asked > 0 || ran != "") {
		t.Fatalf("the task is not stored, but the model was asked %d times and %q ran", asked, ran)
	}
	switch {
	case !thread:
		return []string{"exec", "--events", theTask}
	case !known:
		return []string{"resume", "--events", "--last", theTask}
	}
	return []string{"resume", "--events", "--last", task}
}

// rig makes the workload's world.
func (w workload) rig(t *testing.T) *rig.Rig {
	t.Helper()
	r := rig.New(t, w.script)
	if w.setup != nil {
		w.setup(t, r)
	}
	return mortal(t, r)
}

// play plays the workload.
func (w workload) play(p *play) {
	if w.drive != nil {
		w.drive(p)
		return
	}
	p.task("exec", "--events", theTask)
}

// Kinds of events that are never stored, and those that no workload has, with the reason.
var (
	transient = []string{"item.delta", "session.output", "plugin.state", "source.changed", "turn.diff"}
	without   = map[string]string{
		"settings.changed":   "a command ends with its turn, and settings change between turns",
		"hook.started":       "no workload has hooks; they are stored like the notices beside them",
		"hook.completed":     "as hook.started",
		"network.decision":   "no workload has a sandbox",
		"session.controlled": "no workload has a person who takes control; it is stored like the notices beside it",
		"thread.described":   "no workload has a client that describes its repository",
		// A model in a person's place would ask in a thread of its own, which is a workload of its own.
		"approval.review.started": "no workload has a reviewer",
		"approval.review.ended":   "no workload has a reviewer",
	}
)

// covered checks that every declared point is passed, and that the workloads have every kind of event.
func covered(t *testing.T, trace []pass, stored []string) {
	t.Helper()
	_, root, err := folders()
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]bool{}
	for _, p := range trace {
		point, _, _ := strings.Cut(p.name, " ")
		points[point] = true
	}
	for _, p := range declaredPoints(t, filepath.Join(root, "host/internal/crashpoint/point.go")) {
		if !points[p] {
			t.Errorf("no workload passes the point %q", p)
		}
	}
	for _, k := range declaredKinds(t, filepath.Join(root, "host/internal/event")) {
		_, exempt := without[k]
		if has := slices.Contains(stored, k); has == exempt && !slices.Contains(transient, k) {
			t.Errorf("a workload has the event %q: %v, and it is among the exceptions: %v", k, has, exempt)
		}
	}
}

// declaredPoints reads the constants of the type Point.
func declaredPoints(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			name, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, name)
		}
		return true
	})
	if len(out) < 20 {
		t.Fatalf("only %d points are declared in %s: %q", len(out), path, out)
	}
	return out
}

// declaredKinds reads what the methods Kind of the events return.
func declaredKinds(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	method := regexp.MustCompile(`(?m)^func \(\w+\) Kind\(\) string +\{ return "([a-z.]+)" \}$`)
	found := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range method.FindAllStringSubmatch(string(b), -1) {
			found[m[1]] = true
		}
	}
	if len(found) < 20 {
		t.Fatalf("only %d kinds are declared in %s", len(found), dir)
	}
	return slices.Sorted(maps.Keys(found))
}
