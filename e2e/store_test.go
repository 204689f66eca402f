package e2e_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// stored is a thread as `threads list --json` prints it.
type stored struct {
	ID     string
	Status string
	Turns  int
}

// threads lists the threads of the rig's project.
func threads(t testing.TB, r *rig.Rig) []stored {
	t.Helper()
	var out []stored
	if err := json.Unmarshal([]byte(r.OK("threads", "list", "--json").Stdout), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// piped runs gantry to its end with a text on its standard input.
func piped(t *testing.T, r *rig.Rig, text string, args ...string) rig.Result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.Bin, "gantry"), args...)
	var out, err strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Dir, r.Env, strings.NewReader(text), &out, &err
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return rig.Result{Stdout: out.String(), Stderr: err.String(), Code: cmd.ProcessState.ExitCode()}
}

// The listing for programs: its names and times are those of JSON.
func TestListOfThreadsForPrograms(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	if out := r.OK("threads", "list", "--json").Stdout; out != "[]\n" {
		t.Errorf("no threads are %q", out)
	}
	r.OK("exec", "go")
	var all []map[string]any
	if err := json.Unmarshal([]byte(r.OK("threads", "list", "--json").Stdout), &all); err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	for name, v := range all[0] {
		if first := name[0]; first < 'a' || first > 'z' {
			t.Errorf("a field is named %q", name)
		}
		if text, ok := v.(string); ok && (text == "" || strings.HasPrefix(text, "0001-")) {
			t.Errorf("%s is %q although it is not known", name, text)
		}
	}
	for name, want := range map[string]any{"cwd": r.Dir, "turns": 1.0, "status": "completed", "preview": "go", "archived": nil} {
		if got := all[0][name]; got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"created", "updated"} {
		if _, err := time.Parse(time.RFC3339, fmt.Sprint(all[0][name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Hosts that run at once share a database: each thread is whole, and the listing has all of them.
func TestHostsSideBySide(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when  = { since_user = "<5" }
times = -1
do    = [{ call = "exec_command", args = { cmd = "echo ${thread} >> ran", login = false } }]
[[step]]
when  = { since_user = 5 }
times = -1
do    = [{ text = "done" }]
`)
	const hosts = 4
	var runs []*rig.Run
	for range hosts {
		runs = append(runs, r.Start("exec", "--events", "go"))
	}
	seen := map[string]bool{}
	for _, run := range runs {
		res := run.Wait()
		if res.Code != 0 {
			t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
		}
		events := rig.Events(t, res.Stdout)
		rig.Gapless(t, events, 1)
		id := events[0].Thread
		seen[id] = true
		if n := strings.Count(r.Read("ran"), id); n != 5 {
			t.Errorf("thread %s ran %d commands, want 5", id, n)
		}
		stored := rig.Events(t, r.OK("threads", "show", "--events", id).Stdout)
		rig.Gapless(t, stored, 1)
		if a, b := kinds(events), kinds(stored); !slices.Equal(a, b) {
			t.Errorf("thread %s printed\n%v\nand stored\n%v", id, a, b)
		}
	}
	if all := threads(t, r); len(all) != hosts || len(seen) != hosts {
		t.Errorf("%d threads are listed, %d ran, want %d", len(all), len(seen), hosts)
	}
	r.NothingLeft()
}

// A database that a later gantry has migrated is left alone, with a message.
func TestOlderBinaryOnANewerDatabase(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	r.OK("exec", "go")
	path := filepath.Join(r.Home, "threads.db")
	if exists(r.Home, "threads.db-wal") {
		t.Fatal("the last host left its write-ahead log, so the header can't be changed by hand")
	}
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(db[60:], 4711) // SQLite's user_version
	if err := os.WriteFile(path, db, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"exec", "go"}, {"resume", "--last", "go"}, {"threads", "list"}} {
		res := r.Gantry(args...)
		if res.Code != 1 {
			t.Errorf("gantry %v: exit %d", args, res.Code)
		}
		for _, want := range []string{"schema version 4711", "update gantry", "GANTRY_HOME"} {
			if !strings.Contains(res.Stderr, want) {
				t.Errorf("gantry %v does not say %q:\n%s", args, want, res.Stderr)
			}
		}
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(db, after) {
		t.Error("the database was written to")
	}
	if n := len(r.Requests()); n != 1 {
		t.Errorf("the model was asked %d times, want once before", n)
	}
	r.NothingLeft()
}

// A database that is no database is set aside, and said.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	r.Write(filepath.Join(r.Home, "threads.db"), strings.Repeat("this is no database\n", 100))
	res := r.Gantry("exec", "go")
	if res.Code != 0 || !strings.Contains(res.Stderr, "the database was damaged; it was set aside") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	aside, err := filepath.Glob(filepath.Join(r.Home, "threads.db.damaged-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("set aside are %q, %v", aside, err)
	}
	if b, err := os.ReadFile(aside[0]); err != nil || string(b) != strings.Repeat("this is no database\n", 100) {
		t.Errorf("what was set aside has changed: %q, %v", b, err)
	}
	r.NothingLeft()
}

// What is printed while it happens is what is stored, transient events aside; files are the user's alone.
func TestEventsArePrintedAsTheyAreStored(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [
  { reasoning = "let me see", chunk = 3 },
  { text = "I run something.", chunk = "word" },
  { call = "exec_command", id = "c1", args = { cmd = "for i in 1 2 3; do echo $i; done", login = false } },
  { call = "exec_command", id = "c2", args = { cmd = "exit 4", login = false } },
]
[[step]]
times = -1
do = [{ text = "all of it", chunk = 1 }]
`)
	var printed []rig.Event
	next := uint64(1)
	for i, args := range [][]string{{"exec", "--events", "go"}, {"resume", "--events", "--last", "and on"}} {
		events := rig.Events(t, r.OK(args...).Stdout)
		next = rig.Gapless(t, events, next) + 1
		printed = append(printed, events...)
		if i == 0 && events[0].Kind != "thread.started" {
			t.Errorf("the first event is %s", events[0].Kind)
		}
		if last := events[len(events)-1]; last.Kind != "turn.ended" {
			t.Errorf("the last event is %s", last.Kind)
		}
	}
	deltas := 0
	for _, e := range printed {
		if e.Kind == "item.delta" {
			deltas++
			if e.Seq != 0 {
				t.Errorf("a delta has the number %d", e.Seq)
			}
		}
	}
	if deltas < 10 {
		t.Errorf("%d deltas, want many small ones", deltas)
	}
	id := printed[0].Thread
	stored := rig.Events(t, r.OK("threads", "show", "--events", id).Stdout)
	if a, b := kinds(printed), kinds(stored); !slices.Equal(a, b) {
		t.Errorf("printed\n%v\nstored\n%v", a, b)
	}
	if shown := r.OK("threads", "show", id).Stdout; !strings.Contains(shown, "\n  1\n  2\n  3\n") {
		t.Errorf("threads show leaves out what a command printed:\n%s", shown)
	}
	// Exported, deleted, imported: the same thread.
	out := filepath.Join(r.Home, "thread.jsonl")
	r.OK("threads", "export", "-o", out, id)
	r.OK("threads", "delete", id)
	if n := len(threads(t, r)); n != 0 {
		t.Errorf("%d threads after the only one was deleted", n)
	}
	r.OK("threads", "import", out)
	again := rig.Events(t, r.OK("threads", "show", "--events", id).Stdout)
	if !slices.EqualFunc(stored, again, func(a, b rig.Event) bool {
		return a.Seq == b.Seq && a.Kind == b.Kind && string(a.Body) == string(b.Body)
	}) {
		t.Errorf("the imported thread differs")
	}
	r.OK("resume", "--last", "still there?")
	// The same through pipes.
	text := r.OK("threads", "export", "-o", "-", id).Stdout
	if exists(r.Dir, "-") || strings.Count(text, "\n") < len(stored) {
		t.Errorf("the export on standard output has %d lines; a file called -: %v", strings.Count(text, "\n"), exists(r.Dir, "-"))
	}
	r.OK("threads", "delete", id)
	for text, code := range map[string]int{text[:len(text)/2]: 1, "": 1, text: 0} {
		if res := piped(t, r, text, "threads", "import", "-"); res.Code != code || code == 1 && !strings.Contains(res.Stderr, "Next: ") {
			t.Errorf("import of %d bytes: exit %d\n%s", len(text), res.Code, res.Stderr)
		}
	}
	if all := threads(t, r); len(all) != 1 || all[0].ID != id {
		t.Errorf("threads after the import: %+v", all)
	}
	for _, name := range []string{"threads.db"} {
		info, err := os.Stat(filepath.Join(r.Home, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
	}
}
