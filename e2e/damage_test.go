package e2e_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
	_ "github.com/glebarez/go-sqlite" // damages databases from outside
)

// patched changes a text in a file to another one of the same length, everywhere.
func patched(t *testing.T, path, old, new string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(old)) || len(old) != len(new) {
		t.Fatalf("%q is not in %s", old, path)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte(old), []byte(new)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runsSQL runs a statement on a database that nobody has open.
func runsSQL(t *testing.T, path, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A thread is damaged on the disk: nobody goes on with it by mistake, everybody is told the same, other threads are not touched,
// and what is whole goes on as a thread of its own.
func TestDamagedThread(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage  func(t *testing.T, db, thread string)
		says    string
		counted bool // the doctor sees it, too
	}{
		"bytes of an event": {func(t *testing.T, db, _ string) { patched(t, db, "xylophone", "xylofonos") }, "is not what was written", false},
		"rows of the middle": {func(t *testing.T, db, thread string) {
			runsSQL(t, db, `DELETE FROM events WHERE thread_id = ? AND seq IN
				(SELECT seq FROM events WHERE thread_id = ? AND body LIKE '%xylophone%')`, thread, thread)
		}, "is missing", true},
		"the end": {func(t *testing.T, db, thread string) {
			runsSQL(t, db, `DELETE FROM events WHERE thread_id = ? AND seq >=
				(SELECT MIN(seq) FROM events WHERE thread_id = ? AND body LIKE '%xylophone%')`, thread, thread)
		}, "is missing", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, say)
			r.OK("exec", "the first task")
			id := threads(t, r)[0].ID
			r.OK("resume", id, "remember the xylophone")
			r.OK("exec", "another thread")
			other := threads(t, r)[0].ID
			db := filepath.Join(r.Home, "threads.db")
			tc.damage(t, db, id)

			asked := len(r.Requests())
			for _, args := range [][]string{{"resume", id, "go on"}, {"resume", "--events", id, "go on"}, {"fork", id, "go on"}, {"threads", "export", id}, {"threads", "show", id}} {
				res := r.Gantry(args...)
				for _, want := range []string{"thread " + id + " is damaged in " + db, tc.says, "it is intact up to event ", "Next: `gantry threads recover " + id} {
					if res.Code != 1 || strings.Count(res.Stderr, want) != 1 {
						t.Errorf("gantry %v: exit %d, want once %q:\n%s", args, res.Code, want, res.Stderr)
					}
				}
				if args[1] == "show" && (!strings.Contains(res.Stdout, "the first task") || strings.Contains(res.Stdout, "xylo")) {
					t.Errorf("what is whole is shown, and nothing else:\n%s", res.Stdout)
				}
			}
			if n := len(r.Requests()); n != asked {
				t.Errorf("the model was asked %d times meanwhile", n-asked)
			}
			r.OK("resume", other, "here all is well")
			if n := len(threads(t, r)); n != 2 {
				t.Errorf("%d threads are listed", n)
			}

			res := r.Gantry("threads", "check")
			if res.Code != 1 || strings.Count(res.Stdout, "✗") != 1 || !strings.Contains(res.Stdout, "thread "+id+" is damaged") || !strings.Contains(res.Stdout, "2 threads, ") {
				t.Errorf("check: exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
			}
			if res := r.OK("threads", "check", other); !strings.Contains(res.Stdout, "1 thread, ") || !strings.Contains(res.Stdout, ": all whole") {
				t.Errorf("check of the other thread:\n%s", res.Stdout)
			}
			var found struct {
				Threads []struct {
					Thread string
					Wrong  []struct{ Text, Next string }
				}
			}
			if err := json.Unmarshal([]byte(r.Gantry("threads", "check", "--json", id).Stdout), &found); err != nil || len(found.Threads) != 1 ||
				len(found.Threads[0].Wrong) != 1 || !strings.Contains(found.Threads[0].Wrong[0].Next, "recover") {
				t.Errorf("check for programs: %+v, %v", found, err)
			}
			if res := r.Gantry("doctor"); (res.Code == 1) != tc.counted || tc.counted && !strings.Contains(res.Stdout, "✗ threads: missing events in 1 thread") {
				t.Errorf("doctor: exit %d\n%s", res.Code, res.Stdout)
			}

			res = r.OK("threads", "recover", id)
			fresh := strings.TrimSpace(res.Stdout)
			if !strings.Contains(res.Stderr, "were copied: event ") {
				t.Errorf("recover says %q", res.Stderr)
			}
			r.OK("resume", fresh, "are you there?")
			texts := r.Last().Texts(llm.RoleUser)
			if !slices.Contains(texts, "the first task") || slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "xylo") }) ||
				!slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "<record_lost>") }) {
				t.Errorf("the model reads %q", texts)
			}
			if res := r.Gantry("threads", "recover", fresh); res.Code != 1 || !strings.Contains(res.Stderr, "is not damaged") {
				t.Errorf("recovering what is whole: exit %d\n%s", res.Code, res.Stderr)
			}
			r.OK("threads", "delete", id)
			r.OK("threads", "check")
			r.OK("doctor")
			r.NothingLeft()
		})
	}
}

// The file is cut off, as a disk that was full or a copy that broke off leaves it. It is set aside as it is, gantry goes on with a new one,
// and says so once.
func TestTruncatedDatabase(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	for range 3 {
		r.OK("exec", "a task with "+strings.Repeat("many words ", 2000))
	}
	path := filepath.Join(r.Home, "threads.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const warning = "the database was damaged; it was set aside"
	seen := map[string]bool{}
	for i, size := range []int{len(whole) - 4096, len(whole) / 2, 5000, 100} {
		cut := whole[:size]
		if err := os.WriteFile(path, cut, 0o600); err != nil {
			t.Fatal(err)
		}
		if res := r.OK("exec", "go"); !strings.Contains(res.Stderr, warning) || !strings.Contains(res.Stderr, path+".damaged-") {
			t.Errorf("%d bytes: exec says\n%s", size, res.Stderr)
		}
		if res := r.OK("resume", "--last", "go on"); strings.Contains(res.Stderr, warning) {
			t.Errorf("%d bytes: resume says\n%s", size, res.Stderr)
		}
		asides, err := filepath.Glob(path + ".damaged-*")
		if err != nil || len(asides) != i+1 {
			t.Fatalf("%d bytes: set aside %q, %v", size, asides, err)
		}
		for _, aside := range asides {
			if now, err := os.ReadFile(aside); !seen[aside] && (err != nil || !bytes.Equal(now, cut)) {
				t.Errorf("%d bytes: the file was changed (%d bytes, %v)", size, len(now), err)
			}
			seen[aside] = true
		}
		if n := len(threads(t, r)); i == 0 && n < 3 {
			t.Errorf("without the last page, %d of the threads are left", n-1)
		}
	}
	r.NothingLeft()
}

// An index that says other things than the rows: it is told, and made anew.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	r.OK("exec", "the task")
	id := threads(t, r)[0].ID
	path := filepath.Join(r.Home, "threads.db")
	// The index alone loses its entries: it is another one while rows go and come back.
	runsSQL(t, path, `PRAGMA writable_schema = ON;
		CREATE TABLE kept AS SELECT * FROM events WHERE seq = 4;
		UPDATE sqlite_master SET sql = replace(sql, '(thread_id, seq)', '(thread_id, seq) WHERE seq <> 4') WHERE name = 'events_thread'`)
	runsSQL(t, path, `DELETE FROM events WHERE seq = 4; REINDEX events_thread; INSERT INTO events SELECT * FROM kept; DROP TABLE kept;
		PRAGMA writable_schema = ON;
		UPDATE sqlite_master SET sql = replace(sql, ' WHERE seq <> 4', '') WHERE name = 'events_thread'`)
	res := r.Gantry("threads", "check")
	if res.Code != 1 || !strings.Contains(res.Stdout, "index") || !strings.Contains(res.Stdout, "Next: `gantry threads check --reindex`") {
		t.Errorf("check: exit %d\n%s", res.Code, res.Stdout)
	}
	if res := r.Gantry("resume", id, "go on"); res.Code != 1 || !strings.Contains(res.Stderr, "event 4 is missing") {
		t.Errorf("resume: exit %d\n%s", res.Code, res.Stderr)
	}
	r.OK("threads", "check", "--reindex")
	r.OK("resume", id, "go on")
	r.NothingLeft()
}

// An artifact that is not what its digest says is found, and given to nobody.
func TestDamagedArtifacts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { since_user = 0 }
do = [{ call = "apply_patch", id = "c1", freeform = """
*** Begin Patch
*** Update File: f
@@
-before
+after
*** End Patch
""" }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	r.Write("f", "before\n")
	r.OK("exec", "patch it")
	id := threads(t, r)[0].ID
	kept, err := filepath.Glob(filepath.Join(r.Home, "artifacts", "??", "*"))
	if err != nil || len(kept) == 0 {
		t.Fatal("nothing was kept", err)
	}
	for _, path := range kept {
		r.Write(path, "damaged")
	}
	res := r.Gantry("threads", "check", id)
	if res.Code != 1 || strings.Count(res.Stdout, "✗ read artifact: artifact ") != min(len(kept), 5) || !strings.Contains(res.Stdout, "is damaged") {
		t.Errorf("check: exit %d\n%s", res.Code, res.Stdout)
	}
	if res := r.Gantry("undo"); res.Code != 1 || !strings.Contains(res.Stderr, "is damaged") || r.Read("f") != "after\n" {
		t.Errorf("undo: exit %d, f is %q\n%s", res.Code, r.Read("f"), res.Stderr)
	}
	r.OK("resume", id, "go on") // the conversation does not need them
	for _, path := range kept {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if res := r.Gantry("threads", "check", id); res.Code != 1 || !strings.Contains(res.Stdout, "no artifact ") {
		t.Errorf("check: exit %d\n%s", res.Code, res.Stdout)
	}
	r.NothingLeft()
}
