package crash_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
	_ "github.com/glebarez/go-sqlite" // looks at the databases from outside
)

// stored looks at what a death left: the databases are whole, and the rig's thread can be listed, shown and exported, if there
// is one. task tells whether it has the task.
func stored(t *testing.T, r *rig.Rig) (thread, task bool) {
	t.Helper()
	for _, name := range []string{"threads.db", "state.db"} {
		intact(t, filepath.Join(r.Home, name))
	}
	ids := list(t, r)
	if len(ids) == 0 {
		return false, false
	}
	shown := r.OK("threads", "show", "--events", ids[0]).Stdout
	last := rig.Gapless(t, rig.Events(t, shown), 1)
	exported := rig.Events(t, r.OK("threads", "export", ids[0]).Stdout)
	if n := uint64(len(exported)); n != last+1 || exported[last].Kind != "export.ended" {
		t.Errorf("%d events are shown, and %d lines exported", last, n)
	}
	return true, strings.Contains(shown, `"`+theTask+`"`)
}

// intact checks a database as SQLite finds it after a crash. It looks at a copy: looking repairs.
func intact(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "copy"+suffix), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Fatalf("%s: %q, %v", path, verdict, err)
	}
}

func list(t *testing.T, r *rig.Rig, flags ...string) []string {
	t.Helper()
	var all []struct{ ID string }
	if err := json.Unmarshal([]byte(r.OK(append([]string{"threads", "list", "--json"}, flags...)...).Stdout), &all); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range all {
		out = append(out, a.ID)
	}
	return out
}

// check holds the invariants against the last request, the files and the log. said are texts that the host has acknowledged.
func check(t *testing.T, r *rig.Rig, w workload, said []string) {
	t.Helper()
	reads(t, r, w, said)
	if ids := list(t, r); len(ids) != 1 && (!w.copies || len(ids) != 2) {
		t.Errorf("threads %v, want one", ids)
	}
	stored(t, r)
}

// reads is check for what the model reads, and what came of it.
func reads(t *testing.T, r *rig.Rig, w workload, said []string) {
	t.Helper()
	q := r.Last()
	paired(t, q, w)
	truthful(t, r, q, w)
	texts := q.Texts(llm.RoleUser)
	for _, want := range append([]string{theTask}, said...) {
		n := 0
		for _, text := range texts {
			if text == want || strings.HasSuffix(text, "\nPayload:\n"+want+"\n</agent_message>") { // mail stands in an element
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q stands %d times in what the model reads: %q", want, n, texts)
		}
	}
}

// calls are all that the workload's model wants.
func (w workload) calls() []string {
	if w.patch {
		return append(slices.Clone(w.effects), "c3")
	}
	return w.effects
}

// paired: each call has exactly one output, after it, and each output a call.
func paired(t *testing.T, q rig.Request, w workload) {
	t.Helper()
	calls, outputs := map[string]int{}, map[string]int{}
	for _, m := range q.Request.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.ToolCall:
				calls[p.ID]++
				if calls[p.ID] > 1 {
					t.Errorf("the call %s is there %d times", p.ID, calls[p.ID])
				}
			case *llm.ToolResult:
				outputs[p.ID]++
				if calls[p.ID] == 0 {
					t.Errorf("an output of %s comes before its call", p.ID)
				}
			}
		}
	}
	for id := range calls {
		if outputs[id] != 1 {
			t.Errorf("the call %s has %d outputs", id, outputs[id])
		}
	}
	for _, id := range w.calls() {
		if calls[id] == 0 && !w.shrinks {
			t.Errorf("the call %s was never made", id)
		}
	}
}

// What the model may be told of a call, and how often the call can then have had its effect.
var told = []struct {
	text     string
	min, max int
}{
	{"outcome unknown", 0, 1},
	{"whether it had an effect is unknown", 0, 1},
	{"aborted by user", 0, 1},
	{"had no effect", 0, 0},
	{"did not reach its plugin", 0, 0},
	{"unsupported", 0, 0}, // the plugin never came up, so its tools were not there
	{"Process exited with code 0", 1, 1},
	{"Success. Updated the following files", 1, 1},
	{"made ", 1, 1},
	{"Script completed", 1, 1},
	{"Script running", 0, 1}, // its call waits for the next one that observes it
	{"Wall time: ", 1, 1},
}

// truthful: no effect is repeated, and none contradicts what the model was told of it.
func truthful(t *testing.T, r *rig.Rig, q rig.Request, w workload) {
	t.Helper()
	effects := map[string]int{}
	for _, id := range strings.Fields(r.Read("ran")) {
		effects[id]++
	}
	switch f := r.Read("f"); {
	case !w.patch || f == "before\n":
	case f == "after\n":
		effects["c3"] = 1
	default:
		t.Errorf("f is torn: %q", f)
	}
	out := q.Outputs()
	for _, id := range w.calls() {
		text, ok := out[id]
		if !ok && w.shrinks {
			if effects[id] > 1 {
				t.Errorf("%s had its effect %d times", id, effects[id])
			}
			continue
		}
		i := slices.IndexFunc(told, func(k struct {
			text     string
			min, max int
		}) bool {
			return strings.Contains(text, k.text)
		})
		if i < 0 {
			t.Errorf("the model reads of %s: %q, which says nothing of its effect", id, text)
			continue
		}
		if id == "c3" && w.undone {
			continue // whichever of the two f is
		}
		if n := effects[id]; n < told[i].min || n > told[i].max {
			t.Errorf("%s had its effect %d times; the model reads %q", id, n, text)
		}
		kept(t, r, text)
	}
}

var madeDigest = regexp.MustCompile(`^made ([0-9a-f]{64})$`)

// kept: an artifact that an output names is there, as it was.
func kept(t *testing.T, r *rig.Rig, output string) {
	t.Helper()
	m := madeDigest.FindStringSubmatch(output)
	if m == nil {
		return
	}
	b, err := os.ReadFile(filepath.Join(r.Home, "artifacts", m[1][:2], m[1]))
	if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != m[1] {
		t.Errorf("the model reads of an artifact that is not there: %v", err)
	}
}
