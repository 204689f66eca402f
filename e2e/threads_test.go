package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// talk is a model that answers whatever it is asked.
const talk = `
[[step]]
times = -1
usage = { input = 100, output = 10 }
do    = [{ text = "fine" }]
`

// thread is a thread of the listing.
type thread struct {
	ID, Name, Preview, Status, ForkedFrom string
	Turns                                 int
	Tokens                                struct{ Total int64 }
}

func listed(t *testing.T, r *rig.Rig, flags ...string) []thread {
	t.Helper()
	var out []thread
	if err := json.Unmarshal([]byte(r.OK(append([]string{"threads", "list", "--json"}, flags...)...).Stdout), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// saw is what the model was shown last.
func saw(t *testing.T, r *rig.Rig) string {
	t.Helper()
	return layout(r.Last())
}

func TestRollback(t *testing.T) {
	t.Parallel()
	r := rig.New(t, talk)
	r.OK("exec", "first")
	r.OK("resume", "--last", "second")
	r.OK("resume", "--last", "third")
	id := listed(t, r)[0].ID
	if res := r.OK("threads", "rollback", id, "2"); !strings.Contains(res.Stderr, "rolled back 2 turns") {
		t.Errorf("people are told:\n%s", res.Stderr)
	}
	if l := listed(t, r)[0]; l.Turns != 1 || l.Tokens.Total != 110 || l.Status != "completed" {
		t.Errorf("listed as %+v", l)
	}
	r.OK("resume", "--last", "fourth")
	if l := saw(t, r); l != "context first fine fourth" {
		t.Errorf("the model saw %s", l)
	}
	if l := listed(t, r)[0]; l.Turns != 2 || l.Tokens.Total != 220 {
		t.Errorf("listed as %+v", l)
	}
	// What was taken back is there for people, and hidden from who does not ask.
	if out := r.OK("threads", "show", id).Stdout; strings.Contains(out, "second") || !strings.Contains(out, "rolled back 2 turns") || !strings.Contains(out, "fourth") {
		t.Errorf("shown:\n%s", out)
	}
	if out := r.OK("threads", "show", id, "--reverted").Stdout; strings.Count(out, "this turn was rolled back") != 2 || !strings.Contains(out, "> second") {
		t.Errorf("shown with what was taken back:\n%s", out)
	}
	if out := r.OK("threads", "turns", id, "--reverted").Stdout; strings.Count(out, "rolled back") != 2 || strings.Count(out, "\n") != 5 {
		t.Errorf("turns:\n%s", out)
	}
	// All of it: what is left is what every conversation begins with.
	r.OK("threads", "rollback", id, "99")
	r.OK("resume", "--last", "fifth")
	if l := saw(t, r); l != "context fifth" {
		t.Errorf("the model saw %s", l)
	}
	if l := listed(t, r)[0]; l.Preview != "fifth" {
		t.Errorf("listed as %+v", l)
	}
	for _, n := range []string{"0", "-1", "x"} {
		if res := r.Gantry("threads", "rollback", "--", id, n); res.Code != 2 || !strings.Contains(res.Stderr, "invalid number of turns") {
			t.Errorf("rollback %s: exit %d\n%s", n, res.Code, res.Stderr)
		}
	}
}

func TestRevertBeforeATurn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, talk)
	r.OK("exec", "first")
	r.OK("resume", "--last", "second")
	r.OK("resume", "--last", "third")
	id := listed(t, r)[0].ID
	var turns []struct {
		Number int
		ID     string
	}
	if err := json.Unmarshal([]byte(r.OK("threads", "turns", id, "--json").Stdout), &turns); err != nil || len(turns) != 3 {
		t.Fatal(turns, err)
	}
	r.OK("threads", "revert", id, "--before", turns[1].ID)
	r.OK("resume", "--last", "fourth")
	if l := saw(t, r); l != "context first fine fourth" {
		t.Errorf("the model saw %s", l)
	}
	if res := r.Gantry("threads", "revert", id, "--before", turns[2].ID); res.Code != 1 || !strings.Contains(res.Stderr, "has already been reverted") {
		t.Errorf("a turn that was taken back: exit %d\n%s", res.Code, res.Stderr)
	}
	if res := r.Gantry("threads", "revert", id, "--before", "9"); res.Code != 1 || !strings.Contains(res.Stderr, "turn not found") {
		t.Errorf("a turn that is not there: exit %d\n%s", res.Code, res.Stderr)
	}
	// A fork goes on from what was taken back.
	fork := strings.TrimSpace(r.OK("fork", id, "--through", turns[2].ID).Stdout)
	r.OK("resume", fork, "fifth")
	if l := saw(t, r); l != "context first fine second fine third fine fifth" {
		t.Errorf("the model saw %s", l)
	}
}

// Threads are taken back over compactions, wherever these stand.
func TestRollbackOverCompactions(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when  = { user = "middle" }
usage = { input = 5000, output = 20 }
do    = [{ call = "exec_command", id = "c1", args = { cmd = "seq 1 3000" } }]
[[step]]
when  = { user = "middle" }
usage = { input = 5100, output = 30 }
do    = [{ text = "so far" }]
[[step]]
times = -1
usage = { input = 100, output = 10 }
do    = [{ text = "fine`+long+`" }]
`)
	r.Config(atTokens)
	r.OK("exec", "first")
	r.OK("resume", "--last", "middle")
	r.OK("threads", "rollback", listed(t, r)[0].ID)
	r.OK("resume", "--last", "second")
	if l := saw(t, r); !strings.HasPrefix(l, "context first fine") || !strings.HasSuffix(l, " second") || strings.Contains(l, "account") {
		t.Errorf("over a compaction in the middle of a turn the model saw %s", l)
	}
	r.OK("compact", "--last")
	r.OK("resume", "--last", "third")
	r.OK("threads", "rollback", listed(t, r)[0].ID)
	r.OK("resume", "--last", "fourth")
	if l := saw(t, r); !strings.Contains(l, "account(") || !strings.HasSuffix(l, " fourth") || strings.Contains(l, "third") {
		t.Errorf("behind a compaction the model saw %s", l)
	}
	r.OK("threads", "rollback", listed(t, r)[0].ID, "2")
	r.OK("resume", "--last", "fifth")
	if l := saw(t, r); !strings.HasPrefix(l, "context first fine") || !strings.HasSuffix(l, " fifth") || strings.Contains(l, "second") {
		t.Errorf("over a compaction by the user the model saw %s", l)
	}
}

func TestForkOfAThread(t *testing.T) {
	t.Parallel()
	r := rig.New(t, talk)
	r.OK("exec", "first")
	r.OK("resume", "--last", "second")
	id := listed(t, r)[0].ID
	r.OK("threads", "name", id, "The work")
	fork := strings.TrimSpace(r.OK("threads", "fork", id, "--through", "1").Stdout)
	r.OK("resume", fork, "other")
	if l := saw(t, r); l != "context first fine other" {
		t.Errorf("the model saw %s", l)
	}
	res := r.OK("fork", id, "--name", "copy", "--json", "third")
	if l := saw(t, r); l != "context first fine second fine third" {
		t.Errorf("the model saw %s", l)
	}
	copied, _, _ := strings.Cut(res.Stdout, "\n")
	all := listed(t, r)
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	for _, l := range all {
		switch l.ID {
		case fork:
			if l.ForkedFrom != id || l.Turns != 2 || l.Tokens.Total != 220 || l.Preview != "first" || l.Name != "" {
				t.Errorf("the fork: %+v", l)
			}
		case id:
			if l.ForkedFrom != "" || l.Turns != 2 || l.Name != "The work" {
				t.Errorf("the thread: %+v", l)
			}
		default:
			if l.ForkedFrom != id || l.Turns != 3 || l.Name != "copy" || !strings.Contains(copied, l.ID) {
				t.Errorf("the copy: %+v, told as %s", l, copied)
			}
		}
	}
	// Without the thread, the fork has everything, also elsewhere.
	r.OK("threads", "delete", id)
	export := r.OK("threads", "export", fork).Stdout
	r.OK("threads", "delete", fork)
	r.Write("fork.jsonl", export)
	r.OK("threads", "import", "fork.jsonl")
	r.OK("threads", "rollback", fork, "2")
	r.OK("resume", fork, "again")
	if l := saw(t, r); l != "context again" {
		t.Errorf("the model saw %s", l)
	}
	if res := r.Gantry("fork", fork, "--through", "1", "--before", "1"); res.Code != 2 {
		t.Errorf("two points: exit %d\n%s", res.Code, res.Stderr)
	}
}

// slow is a model whose task "slow" runs a command until the file "go" is there.
const slow = `
[[step]]
when  = { user = "slow" }
do    = [{ call = "exec_command", id = "c1", args = { cmd = "touch started; until [ -e go ]; do sleep 0.05; done; echo over", yield_time_ms = 30000 } }]
[[step]]
times = -1
usage = { input = 100, output = 10 }
do    = [{ text = "fine" }]
`

// A thread that runs elsewhere can be forked in the middle of a turn; turns are taken back between turns only.
func TestThreadsThatRunElsewhere(t *testing.T) {
	t.Parallel()
	r := rig.New(t, slow)
	r.OK("exec", "first")
	id := listed(t, r)[0].ID
	run := r.Start("resume", id, "slow")
	r.Until("the command runs", func() bool { return exists(r.Dir, "started") })
	for _, args := range [][]string{{"rollback", id}, {"revert", id, "--before", "1"}, {"archive", id}} {
		if res := r.Gantry(append([]string{"threads"}, args...)...); res.Code != 1 || !strings.Contains(res.Stderr, "a turn of the thread is running") {
			t.Errorf("%v: exit %d\n%s", args, res.Code, res.Stderr)
		}
	}
	r.OK("threads", "name", id, "busy")
	fork := strings.TrimSpace(r.OK("fork", "busy").Stdout)
	if res := r.Gantry("fork", id, "--through", "2"); res.Code != 1 || !strings.Contains(res.Stderr, "has not ended") {
		t.Errorf("behind a turn that runs: exit %d\n%s", res.Code, res.Stderr)
	}
	r.OK("resume", fork, "second")
	if l := saw(t, r); l != "context first fine slow call-c1 output-c1 <turn_aborted> second" {
		t.Errorf("the fork's model saw %s", l)
	}
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 || strings.TrimSpace(res.Stdout) != "fine" {
		t.Errorf("the thread: exit %d\n%s\n%s", res.Code, res.Stdout, res.Stderr)
	}
	if l := saw(t, r); l != "context first fine slow call-c1 output-c1" {
		t.Errorf("the thread's model saw %s", l)
	}
	r.OK("threads", "rollback", id)
	r.OK("resume", id, "third")
	if l := saw(t, r); l != "context first fine third" {
		t.Errorf("after a rollback the model saw %s", l)
	}
}

// A thread that is not stored can be kept by a fork; nothing of it can be taken back.
func TestForkOfAThreadThatIsNotStored(t *testing.T) {
	t.Parallel()
	r := rig.New(t, slow)
	run := r.Start("exec", "--ephemeral", "--events", "slow")
	r.Until("the command runs", func() bool { return exists(r.Dir, "started") })
	id := rig.Events(t, run.Stdout())[0].Thread
	if all := listed(t, r); len(all) != 0 {
		t.Errorf("stored: %+v", all)
	}
	for _, args := range [][]string{{"rollback", id}, {"revert", id, "--before", "1"}, {"archive", id}} {
		if res := r.Gantry(append([]string{"threads"}, args...)...); res.Code != 1 || !strings.Contains(res.Stderr, "is ephemeral") {
			t.Errorf("%v: exit %d\n%s", args, res.Code, res.Stderr)
		}
	}
	fork := strings.TrimSpace(r.OK("threads", "fork", id, "--name", "kept").Stdout)
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("the thread: exit %d\n%s", res.Code, res.Stderr)
	}
	if all := listed(t, r); len(all) != 1 || all[0].ID != fork || all[0].ForkedFrom != id || all[0].Name != "kept" {
		t.Errorf("stored: %+v", all)
	}
	r.OK("resume", "kept", "second")
	if l := saw(t, r); l != "context slow call-c1 output-c1 <turn_aborted> second" {
		t.Errorf("the model saw %s", l)
	}
	if res := r.Gantry("threads", "fork", id); res.Code != 1 || !strings.Contains(res.Stderr, "no thread") {
		t.Errorf("after its end: exit %d\n%s", res.Code, res.Stderr)
	}
}

func TestArchivedThreads(t *testing.T) {
	t.Parallel()
	r := rig.New(t, talk)
	r.OK("exec", "first")
	id := listed(t, r)[0].ID
	r.OK("threads", "archive", id)
	if all, archived := listed(t, r), listed(t, r, "--archived"); len(all) != 0 || len(archived) != 1 || archived[0].ID != id {
		t.Errorf("listed %+v, archived %+v", all, archived)
	}
	for _, args := range [][]string{{"resume", id, "second"}, {"fork", id}, {"fork", id, "second"}, {"compact", id}} {
		if res := r.Gantry(args...); res.Code != 1 || !strings.Contains(res.Stderr, "gantry threads unarchive "+id) {
			t.Errorf("%v: exit %d\n%s", args, res.Code, res.Stderr)
		}
	}
	if res := r.Gantry("resume", "--last", "second"); res.Code != 1 {
		t.Errorf("the newest one: exit %d", res.Code)
	}
	if out := r.OK("threads", "show", id).Stdout; !strings.Contains(out, "first") {
		t.Errorf("it can't be read:\n%s", out)
	}
	if res := r.OK("threads", "archive", id); !strings.Contains(res.Stderr, "already") {
		t.Errorf("again: %s", res.Stderr)
	}
	// It stays archived elsewhere.
	r.Write("a.jsonl", r.OK("threads", "export", id).Stdout)
	r.OK("threads", "delete", id)
	r.OK("threads", "import", "a.jsonl")
	if all := listed(t, r, "--archived"); len(all) != 1 {
		t.Errorf("after an import: %+v", all)
	}
	r.OK("threads", "unarchive", id)
	r.OK("resume", "--last", "second")
	if l := saw(t, r); l != "context first fine second" {
		t.Errorf("the model saw %s", l)
	}
}

func TestNamesAndSearch(t *testing.T) {
	t.Parallel()
	r := rig.New(t, talk)
	r.OK("exec", "repair the parser")
	r.OK("exec", "paint the shed")
	shed := listed(t, r)[0].ID
	r.OK("threads", "name", shed, "  Garden work ")
	if all := listed(t, r, "--name", "garden"); len(all) != 1 || all[0].Name != "Garden work" {
		t.Errorf("listed by name: %+v", all)
	}
	if all := listed(t, r, "--name", "PARSER", "--cwd", "."); len(all) != 1 || all[0].Preview != "repair the parser" {
		t.Errorf("listed by task: %+v", all)
	}
	if all := listed(t, r, "--cwd", "/nowhere"); len(all) != 0 {
		t.Errorf("listed of another folder: %+v", all)
	}
	if out := r.OK("threads", "search", "the", "pars").Stdout; strings.Count(out, "\n") != 2 || !strings.Contains(out, "user   repair the parser") {
		t.Errorf("found:\n%s", out)
	}
	if out := r.OK("threads", "search", "garden").Stdout; !strings.Contains(out, shed) {
		t.Errorf("found by name:\n%s", out)
	}
	var hits []struct {
		Thread   thread
		Passages []struct{ TurnID, Role, Snippet string }
	}
	if err := json.Unmarshal([]byte(r.OK("threads", "search", "fine", "--json").Stdout), &hits); err != nil || len(hits) != 2 || hits[0].Passages[0].Role != "agent" {
		t.Errorf("found: %+v, %v", hits, err)
	}
	if res := r.OK("threads", "search", "nothing like it"); res.Stdout != "" || !strings.Contains(res.Stderr, "no such threads here") {
		t.Errorf("nothing found: %s%s", res.Stdout, res.Stderr)
	}
	for _, bad := range [][]string{{"name", shed, " "}, {"name", shed, "two\nlines"}, {"search", " "}, {"list", "--limit", "-1"}} {
		if res := r.Gantry(append([]string{"threads"}, bad...)...); res.Code != 2 {
			t.Errorf("%v: exit %d\n%s", bad, res.Code, res.Stderr)
		}
	}
}
