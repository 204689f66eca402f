// Package attacks_test tries what somebody would try who wants out: each row of the list of attacks, against the real
// programs, as root and as an ordinary user.
//
// It owns: the list, what has to come of each row, what codex 0.169.0 made of it, and docs/attacks.md, which is the list for
// people. It must not know: anything inside gantry; rows that need that name the test that holds them.
//
// Start with [row] and [TestAttacks]. A try is a script or a system call that ends with status 0 when the attack has worked.
// All of one kind of sandbox run in one process there, and each once more without a sandbox, where it has to work: what
// fails everywhere proves nothing.
package attacks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// row is one attack.
type row struct {
	id       string
	attempt  string // what is tried
	required string // what has to come of it
	codex    string // what came of it with codex 0.169.0; empty: nobody has measured it
	escaped  bool   // with codex it worked
	ours     string // what comes of it here, for readers; empty: what the tries say
	tries    []try
	flow     func(t *testing.T, w *world) // runs of its own
	tests    []string                     // other tests that hold it: folder and name
	// spellings are ways to write what a rule forbids: see spelled.
	spellings []string
}

// try is one way to do it.
type try struct {
	do      string  // a script of sh, in the workspace
	call    string  // or one of calls
	box     string  // which sandbox: one of boxes
	says    string  // a part of what is read when it is refused
	outside outside // what comes of it without a sandbox
	works   bool    // it has to work, or does no harm: what lies outside is compared anyway
}

// outside is what comes of a try without a sandbox.
type outside int

const (
	worked  outside = iota // for everybody
	asRoot                 // for root; others can't anyway
	depends                // on the machine and the container that the tests run in
	untried                // it would do harm, or there is nothing to compare with
)

// boxes are the kinds of sandbox, with their settings.
var boxes = map[string][]string{
	"":          {"-c", "sandbox.mode=workspace-write"},
	"read-only": {"-c", "sandbox.mode=read-only"},
	"proxy":     {"-c", "sandbox.mode=workspace-write", "-c", "network.mode=proxy", "-c", `network.allow=["127.0.0.1", "*.allowed.test"]`, "-c", `network.deny=["denied.test"]`},
	"network":   {"-c", "sandbox.mode=workspace-write", "-c", "network.mode=full"},
	caged:       nil, // a plugin's own process
	networked:   nil,
}

// table is the whole list, in its order.
var table = slices.Concat(
	files,
	metadata, later,
	indexed,
	reads, athome,
	kernel, reach,
	network, proxied,
	starts, reviewed, peers,
	commands, ruled,
	patches,
	races, reused,
	guards,
	effects,
	consented,
	cageRows,
	clients,
	code,
	mcpServers,
	browsers, pages,
)

// sections are the letters that rows begin with, and how many there are of each.
var sections = []struct {
	letter, title string
	count         int
}{
	{"F", "Files", 25},
	{"M", "What is executed later", 59},
	{"I", "The index", 23},
	{"D", "What must not be read", 23},
	{"P", "Processes and the kernel", 19},
	{"N", "The network", 30},
	{"E", "Start and environment", 33},
	{"X", "Approval and rules", 58},
	{"T", "Patches", 5},
	{"R", "Races", 5},
	{"B", "A sandbox that serves again", 12},
	{"H", "Hooks and trust", 5},
	{"G", "The reviewer", 4},
	{"A", "What plugins say and ask for", 25},
	{"S", "Consent to content", 30},
	{"C", "Plugins' processes", 34},
	{"W", "Clients of the app server", 10},
	{"K", "Code that calls tools", 14},
	{"V", "MCP servers", 46},
	{"L", "Browsers", 20},
	{"U", "What pages reach", 15},
}

// The list is complete, in order, and each row is tried somehow.
func TestTableIsComplete(t *testing.T) {
	t.Parallel()
	var want []string
	for _, s := range sections {
		for n := range s.count {
			want = append(want, fmt.Sprintf("%s%d", s.letter, n+1))
		}
	}
	ordinary, err := os.ReadFile("../user_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range table {
		got = append(got, r.id)
		if r.attempt == "" || r.required == "" || len(r.tries) == 0 && r.flow == nil && len(r.tests) == 0 {
			t.Errorf("%s says too little, or is not tried", r.id)
		}
		if r.ours == "" && len(r.tries) == 0 {
			t.Errorf("%s does not say what comes of it", r.id)
		}
		for i, a := range r.tries {
			if _, ok := boxes[a.box]; !ok || (a.do == "") == (a.call == "") || a.call != "" && calls[a.call] == nil {
				t.Errorf("%s: try %d is none: %+v", r.id, i, a)
			}
		}
		for _, name := range r.tests {
			folder, test, ok := strings.Cut(name, " ")
			switch {
			case !ok || !hasTest(filepath.Join("../..", folder), test):
				t.Errorf("%s names a test that is not there: %s", r.id, name)
			case folder == "e2e" && !strings.Contains(string(ordinary), `"`+test+`"`):
				t.Errorf("%s names a test that is not run as an ordinary user: add %s to e2e/user_test.go", r.id, test)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are\n%q, want\n%q", got, want)
	}
}

// hasTest reports whether a folder has a test.
func hasTest(folder, name string) bool {
	list, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
	is := regexp.MustCompile(`(?m)^func ` + name + `\(`)
	return slices.ContainsFunc(list, func(p string) bool {
		b, err := os.ReadFile(p)
		return err == nil && is.Match(b)
	})
}

// TestAttacks tries the whole list, as whoever runs it.
func TestAttacks(t *testing.T) {
	t.Parallel()
	w := prepare(t)
	w.once.rows = table
	before := w.snapshot(t)
	results := w.runBoxes(t)
	inCages := w.runCages(t)
	if after := w.snapshot(t); after != before {
		t.Errorf("what lies outside of the sandbox has changed:\n%s\nwas:\n%s", after, before)
	}
	w.services.quiet(t)
	for _, r := range table {
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			for i, a := range r.tries {
				if boxes[a.box] != nil {
					w.judge(t, r, i, a, results)
				} else {
					w.judgeOutside(t, r, i, a)
				}
				w.judgeCage(t, r.id, i, a, inCages)
			}
			if r.flow != nil {
				r.flow(t, w)
			}
		})
	}
}

// judge compares what came of a try in its box, and outside.
func (w *world) judge(t *testing.T, r row, i int, a try, results map[string]result) {
	t.Helper()
	name := key(r.id, i)
	in, ok := results[name]
	switch {
	case !ok:
		t.Errorf("%s did not run:\n%s%s", name, a.do, a.call)
	case a.works && in.status != 0:
		t.Errorf("%s has to work: status %d, %q:\n%s%s", name, in.status, in.output, a.do, a.call)
	case !a.works && in.status == 0:
		t.Errorf("%s WORKED: %q:\n%s%s", name, in.output, a.do, a.call)
	case !strings.Contains(in.output, a.says):
		t.Errorf("%s: status %d, %q, want %q:\n%s%s", name, in.status, in.output, a.says, a.do, a.call)
	}
	w.judgeOutside(t, r, i, a)
}

// judgeOutside tells whether a try works without a sandbox.
func (w *world) judgeOutside(t *testing.T, r row, i int, a try) {
	t.Helper()
	name, root := key(r.id, i), os.Geteuid() == 0
	if a.outside == untried || a.outside == asRoot && !root {
		return
	}
	out := w.control(t, name, a)
	switch {
	case out.status == 0:
	case a.outside == depends || a.outside == asRoot && !powerful() || a.call != "" && filtered():
		t.Logf("%s does not work here without a sandbox either: %q", name, out.output)
	default:
		t.Errorf("%s does not work without a sandbox either, so that it proves nothing: status %d, %q:\n%s%s", name, out.status, out.output, a.do, a.call)
	}
}

// programsEnv names the folder with the programs, where they are there already; suidEnv a program that runs as root.
const programsEnv, suidEnv = "GANTRY_TEST_PROGRAMS", "GANTRY_TEST_SUID"

// The kernel treats root differently in much of this, so all of it is tried again.
func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	rig.AsOrdinaryUser(t, "attacker", "^TestAttacks$", func(dir string) []string {
		suid := filepath.Join(dir, "suid-id")
		rig.CopyProgram(t, "/usr/bin/id", suid, 0o755|os.ModeSetuid)
		return []string{programsEnv + "=" + dir, suidEnv + "=" + suid}
	})
}
