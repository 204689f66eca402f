package e2e_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// critic is a model that answers its user, and as a reviewer looks with a command before it gives its findings.
const critic = `
[[step]]
when = { system = "You are a reviewer", since_user = 0 }
times = -1
do = [
  { text = "I look at it." },
  { call = "exec_command", id = "look", args = { cmd = "cat a.txt", login = false } },
]
[[step]]
when = { system = "You are a reviewer", since_user = 1 }
times = -1
do = [{ text = '''Here it is: {"findings":[{"title":"[P1] It is wrong","body":"Because.","confidence_score":0.9,"priority":1,
"code_location":{"absolute_file_path":"/w/a.txt","line_range":{"start":2,"end":2}}}],
"overall_correctness":"patch is incorrect","overall_explanation":"One line is wrong.","overall_confidence_score":0.8}''' }]
[[step]]
times = -1
do = [{ text = "answer to ${user}" }]
`

// repository makes the project a git repository with a commit, a branch "main" and a change that is not committed.
func repository(t *testing.T, r *rig.Rig) {
	t.Helper()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = r.Dir
		cmd.Env = append(r.Env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	git("init", "-q", "-b", "main")
	r.Write("a.txt", "one\n")
	git("add", "a.txt")
	git("commit", "-q", "-m", "first")
	git("checkout", "-q", "-b", "work")
	r.Write("a.txt", "one\ntwo\n")
	git("commit", "-q", "-a", "-m", "second")
	r.Write("a.txt", "one\ntwo\nthree\n")
}

// ofReviewer are the requests that the reviewer made.
func ofReviewer(r *rig.Rig) (out []rig.Request) {
	for _, q := range r.Requests() {
		if len(q.Request.System) > 0 && strings.Contains(q.Request.System[0], "You are a reviewer") {
			out = append(out, q)
		}
	}
	return out
}

// A review prints its findings, for people and for programs, and the thread that it was made for can act on them.
func TestReview(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args  []string
		asked []string // stands in the reviewer's question
	}{
		"what is not committed": {nil, []string{"+three", "git diff HEAD"}},
		"beyond a branch":       {[]string{"--base", "main"}, []string{"+two", "+three", `beyond "main"`}},
		"a commit":              {[]string{"--commit", "HEAD"}, []string{"+two", `("second")`}},
		"in words":              {[]string{"the spelling of a.txt"}, []string{"the spelling of a.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, critic)
			repository(t, r)
			res := r.OK(append([]string{"review"}, tc.args...)...)
			if want := "One line is wrong.\n\nVerdict: patch is incorrect\nOne finding:\n\n- [P1] It is wrong\n  /w/a.txt:2\n  Because.\n"; res.Stdout != want {
				t.Errorf("printed:\n%s\nwant:\n%s", res.Stdout, want)
			}
			for _, want := range []string{"• review: ", "I look at it.", "$ cat a.txt", "1 finding"} {
				if !strings.Contains(res.Stderr, want) {
					t.Errorf("%q is not in what people see:\n%s", want, res.Stderr)
				}
			}
			if strings.Contains(res.Stderr, "Here it is") {
				t.Errorf("people see the raw result:\n%s", res.Stderr)
			}
			all := ofReviewer(r)
			if len(all) != 2 {
				t.Fatalf("the reviewer asked %d times", len(all))
			}
			users := all[0].Texts(llm.RoleUser)
			for _, want := range tc.asked {
				if !strings.Contains(users[len(users)-1], want) {
					t.Errorf("%q is not in the question:\n%s", want, users[len(users)-1])
				}
			}
			if out := all[1].Outputs()["look"]; !strings.Contains(out, "three") {
				t.Errorf("the reviewer's command gave %q", out)
			}
			// The reviewer's thread is not among those of the user; the findings are in the one that is.
			if list := threads(t, r); len(list) != 1 {
				t.Errorf("%d threads are listed, want 1", len(list))
			}
			r.OK("resume", "--last", "repair it")
			last := r.Last()
			if last.Request.System[0] == all[0].Request.System[0] {
				t.Error("the thread goes on as a reviewer")
			}
			users = last.Texts(llm.RoleUser)
			if i := slices.IndexFunc(users, func(s string) bool { return strings.HasPrefix(s, "<review_result>") }); i < 0 || !strings.Contains(users[i], "[P1] It is wrong") {
				t.Errorf("the thread knows nothing of the findings: %q", users)
			}
			r.NothingLeft()
		})
	}
}

func TestReviewForPrograms(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critic)
	repository(t, r)
	var found struct {
		Findings []struct {
			Title, Body, Path   string
			FirstLine, LastLine int
			Priority            *int
		}
		Verdict string
	}
	res := r.OK("review", "--json")
	if err := json.Unmarshal([]byte(res.Stdout), &found); err != nil {
		t.Fatalf("%v:\n%s", err, res.Stdout)
	}
	if len(found.Findings) != 1 || found.Findings[0].Path != "/w/a.txt" || found.Findings[0].FirstLine != 2 || found.Verdict != "patch is incorrect" {
		t.Errorf("%+v", found)
	}
	var shapes []string
	for _, e := range rig.Events(t, r.OK("review", "--events", "again").Stdout) {
		var b struct{ Item struct{ Type, Status string } }
		if e.Kind == "item.completed" && json.Unmarshal(e.Body, &b) == nil {
			shapes = append(shapes, b.Item.Type)
		}
	}
	if got, want := strings.Join(shapes, " "), "entered_review_mode agent_message command exited_review_mode agent_message"; got != want {
		t.Errorf("items %s, want %s", got, want)
	}
}

// The question has nothing of a file that deny_read names.
func TestReviewLeavesOutWhatIsDenied(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critic)
	repository(t, r)
	r.Write("conf/key.pem", "s3cret\n")
	cmd := exec.Command("git", "add", "conf")
	cmd.Dir, cmd.Env = r.Dir, r.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.OK("review", "-c", `sandbox.deny_read=["**/*.pem"]`)
	users := ofReviewer(r)[0].Texts(llm.RoleUser)
	question := users[len(users)-1]
	if strings.Contains(question, "s3cret") || !strings.Contains(question, "+three") || !strings.Contains(question, "Left out, since sandbox { deny_read } names them: conf/key.pem.") {
		t.Errorf("the question:\n%s", question)
	}
}

// A reviewer asks nobody. Where its user wants to be asked, it may look from inside a box that keeps everything as it is, and where
// there is no such box run nothing at all: the change itself stands in the question.
func TestReviewUnderAPolicyThatAsks(t *testing.T) {
	t.Parallel()
	r := rig.New(t, strings.Replace(critic, "cat a.txt", "cat a.txt; echo x >> a.txt; echo x > made", 1))
	repository(t, r)
	r.OK("review", "-c", "approval.policy=untrusted")
	if out := ofReviewer(r)[1].Outputs()["look"]; !strings.Contains(out, "three") && !strings.Contains(out, "nobody can be asked here") {
		t.Errorf("the reviewer's command gave %q", out)
	}
	if got := r.Read("a.txt"); got != "one\ntwo\nthree\n" || exists(r.Dir, "made") {
		t.Errorf("the reviewer has changed the change: %q", got)
	}
}

// A review by another model than the thread's.
func TestModelThatReviews(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critic)
	repository(t, r)
	r.Config(`
model "critic" {
  provider = "scripted"
  name     = "careful"
}
review {
  model = "critic"
}
`)
	r.OK("exec", "hello")
	r.OK("review", "--thread", string(threads(t, r)[0].ID))
	r.OK("resume", "--last", "go on")
	var models []string
	for _, q := range r.Requests() {
		models = append(models, q.Request.Model)
	}
	if got, want := strings.Join(models, " "), "scripted careful careful scripted"; got != want {
		t.Errorf("models %s, want %s", got, want)
	}
}

// What can't be reviewed is refused before there is a thread.
func TestReviewOfNothing(t *testing.T) {
	t.Parallel()
	r := rig.New(t, critic)
	for _, tc := range []struct {
		args []string
		says string
		code int
	}{
		{nil, "not a git repository", 1},
		{[]string{"--base", "nope"}, "not a git repository", 1},
		{[]string{"--base", "a", "--commit", "b"}, "--base", 2},
		{[]string{"--uncommitted", "words"}, "both select what to review", 2},
		{[]string{""}, "empty", 2},
	} {
		if res := r.Gantry(append([]string{"review"}, tc.args...)...); res.Code != tc.code || !strings.Contains(res.Stderr, tc.says) {
			t.Errorf("review %q: exit %d, want %d with %q:\n%s", tc.args, res.Code, tc.code, tc.says, res.Stderr)
		}
	}
	repository(t, r)
	if res := r.Gantry("review", "--base", "nope"); res.Code != 1 || !strings.Contains(res.Stderr, `no branch "nope"`) {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if list := threads(t, r); len(list) != 0 {
		t.Errorf("%d threads were begun", len(list))
	}
}

// Ctrl-C stops a review, and with it all that the reviewer has begun.
func TestCtrlCStopsAReview(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { system = "You are a reviewer" }
do = [{ call = "wait_for", id = "c1", args = { file = "go" } }]
[[step]]
times = -1
do = [{ text = "answer" }]
`)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("review", "look at it")
	r.Until("the reviewer's call runs", func() bool { return exists(r.Dir, "go.waiting") })
	run.Signal(syscall.SIGINT)
	res := run.Wait()
	if res.Code != 1 || !strings.Contains(res.Stderr, "no result") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	r.OK("resume", "--last", "what came of it?")
	users := strings.Join(r.Last().Texts(llm.RoleUser), "\n")
	if !strings.Contains(users, "and stopped it") || !strings.Contains(users, "<turn_aborted>") {
		t.Errorf("the thread knows:\n%s", users)
	}
	r.NothingLeft()
}

// A thread that runs elsewhere is asked: its turn is stopped for the review, and nothing that was said to it is lost.
func TestReviewOfAThreadThatRunsElsewhere(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { system = "You are a reviewer" }
times = -1
do = [{ text = '{"findings":[]}' }]
[[step]]
do = [{ call = "wait_for", id = "c1", args = { file = "go" } }]
[[step]]
times = -1
do = [{ text = "answer" }]
`)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "go")
	r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
	id := string(threads(t, r)[0].ID)
	res := r.OK("review", "--thread", id, "--json", "look at it")
	if !strings.Contains(res.Stdout, `"findings": []`) || !strings.Contains(res.Stderr, "another process runs this thread") {
		t.Errorf("stdout:\n%s\nstderr:\n%s", res.Stdout, res.Stderr)
	}
	if host := run.Wait(); host.Code != 1 || !strings.Contains(host.Stderr, "replaced by another task") {
		t.Errorf("exit %d:\n%s", host.Code, host.Stderr)
	}
}
