package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// steps is a model that wants commands, one after the other.
func steps(cmds ...string) string {
	var b strings.Builder
	for i, c := range cmds {
		fmt.Fprintf(&b, "[[step]]\ndo = [{ call = \"exec_command\", id = \"c%d\", args = { cmd = %q, login = false } }]\n", i+1, c)
	}
	return b.String() + "[[step]]\ntimes = -1\ndo = [{ text = \"finished\" }]\n"
}

func policied(r *rig.Rig, policy, mode string) {
	r.Write("policy.hcl", fmt.Sprintf("approval {\n  policy = %q\n}\nsandbox {\n  mode = %q\n}\n", policy, mode))
}

func rulesFile(t *testing.T, r *rig.Rig, name, text string) string {
	t.Helper()
	dir := filepath.Join(r.Home, "rules")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// "Always" writes the rule that was shown; from then on, and in the next thread, nobody is asked about such a command.
func TestAlwaysWritesARule(t *testing.T) {
	t.Parallel()
	r := rig.New(t, steps("touch a", "touch a", "touch b"))
	policied(r, "untrusted", "full-access")
	run := r.Terminal("exec", "--config", "policy.hcl", "go")
	run.Sees("answer: ")
	const line = `prefix_rule(pattern=["touch", "a"], decision="allow")`
	path := filepath.Join(r.Home, "rules", "default.rules")
	if shown := run.Output(); !strings.Contains(shown, line) || !strings.Contains(strings.ReplaceAll(shown, "\r\n", ""), filepath.Base(path)) {
		t.Errorf("the question does not show the rule:\n%s", shown)
	}
	run.Type("always\n")
	run.SeesTimes("answer: ", 2)
	run.Type("deny\n")
	if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 2 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != line+"\n" {
		t.Errorf("%q, %v, want %q", got, err, line)
	}
	if out := r.Last().Outputs()["c3"]; !strings.Contains(out, "rejected by user") {
		t.Errorf("another command was let pass by the rule: %q", out)
	}
	// Without a terminal nobody could be asked.
	r.OK("exec", "--config", "policy.hcl", "go")
	if out := r.Last().Outputs(); strings.Contains(out["c1"], "rejected") || !strings.Contains(out["c3"], "nobody to ask") {
		t.Errorf("in the next thread: %q", out)
	}
}

// An answer for the turn is not asked about again in it, and is in the next one.
func TestApprovalForTheTurn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
times = 2
do = [{ call = "exec_command", args = { cmd = "echo same >> ran", login = false } }]
[[step]]
do = [{ text = "finished" }]
[[step]]
do = [{ call = "exec_command", args = { cmd = "echo same >> ran", login = false } }]
[[step]]
do = [{ text = "finished" }]
`)
	policied(r, "untrusted", "full-access")
	run := r.Terminal("exec", "--config", "policy.hcl", "go")
	run.Sees("answer: ")
	run.Type("turn\n")
	if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 1 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	r.OK("resume", "--last", "--config", "policy.hcl", "go on")
	if got := r.Read("ran"); got != "same\nsame\n" {
		t.Errorf("ran %q", got)
	}
}

// What is forbidden does not run, however it is written, and the model reads why. What is allowed runs outside of the sandbox, if it
// is nothing else.
func TestRulesDecide(t *testing.T) {
	t.Parallel()
	r := boxed(t, steps("factor 13", `X=1 env 'fact'or 13 > f`, "bash -c 'factor 13'", "touch ../out/free", "touch ../out/held && true", "rm -f ../out/free"))
	path := rulesFile(t, r, "mine.rules", `
prefix_rule(pattern=["factor", "13"], decision="forbidden", justification="no primes")
prefix_rule(pattern=["touch", "../out/free"])
`)
	policied(r, "never", "workspace-write")
	r.OK("exec", "--config", "policy.hcl", "go")
	out := r.Last().Outputs()
	for _, id := range []string{"c1", "c2", "c3"} {
		if !strings.Contains(out[id], "rejected: no primes") {
			t.Errorf("%s: %q", id, out[id])
		}
	}
	if !strings.Contains(out["c6"], "rm -f style commands are not permitted") {
		t.Errorf("c6: %q", out["c6"])
	}
	for name, want := range map[string]bool{"free": true, "held": false} {
		if _, err := os.Stat(filepath.Join(r.Dir, "..", "out", name)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v: %q", name, err, want, out)
		}
	}
	// Each decision is an event, with the rule that led to it.
	type decided struct {
		Call, Verdict, By, Reason string
		Allowed, Unsandboxed      bool
		Rules                     []string
	}
	got := map[string]decided{}
	for _, e := range rig.Events(t, r.OK("threads", "show", "--events", threads(t, r)[0].ID).Stdout) {
		if e.Kind == "call.decided" {
			var d decided
			e.Into(t, &d)
			got[d.Call] = d
		}
	}
	if d := got["c1"]; d.Verdict != "forbid" || d.Allowed || d.By != "policy" || len(d.Rules) != 1 || d.Rules[0] != path+":2" || !strings.Contains(d.Reason, "no primes") {
		t.Errorf("c1 was decided: %+v", d)
	}
	if d := got["c4"]; d.Verdict != "run" || !d.Allowed || !d.Unsandboxed || len(d.Rules) != 1 || d.Rules[0] != path+":3" {
		t.Errorf("c4 was decided: %+v", d)
	}
	if d := got["c5"]; d.Verdict != "run" || !d.Allowed || d.Unsandboxed || d.Reason == "" {
		t.Errorf("c5 was decided: %+v", d)
	}
	r.NothingLeft()
}

// A rules file with a mistake lets nothing pass, says where the mistake is, and counts again once it is corrected.
func TestBrokenRulesLetNothingPass(t *testing.T) {
	t.Parallel()
	r := rig.New(t, steps("echo ran"))
	rulesFile(t, r, "mine.rules", "prefix_rule(pattern=[\"echo\"])\nprefix_rule(pattern=[\"x\"], decision=\"maybe\")\n")
	policied(r, "never", "full-access")
	res := r.OK("exec", "--config", "policy.hcl", "go")
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "mine.rules:2") || strings.Contains(out, "Exit code") {
		t.Errorf("the model reads %q", out)
	}
	if !strings.Contains(res.Stderr, "mine.rules:2") || !strings.Contains(res.Stderr, "invalid decision: maybe") {
		t.Errorf("the user reads %q", res.Stderr)
	}
	rulesFile(t, r, "mine.rules", "prefix_rule(pattern=[\"echo\"])\n")
	r.OK("exec", "--config", "policy.hcl", "go")
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "ran") || strings.Contains(out, "rules") {
		t.Errorf("with a file that is right again the model reads %q", out)
	}
}

// Rules of a project count once the user trusts it, and only as he has seen them.
func TestRulesOfAProject(t *testing.T) {
	t.Parallel()
	r := rig.New(t, steps("touch a"))
	policied(r, "untrusted", "full-access")
	r.Write(".gantry/rules/team.rules", "prefix_rule(pattern=[\"touch\", \"a\"])\n")
	refused := func(when string, want bool) {
		t.Helper()
		r.OK("exec", "--config", "policy.hcl", "go")
		if out := r.Last().Outputs()["c1"]; strings.Contains(out, "nobody to ask") != want {
			t.Errorf("%s the model reads %q", when, out)
		}
	}
	refused("before it is trusted", true)
	if res := r.OK("trust", "--yes"); !strings.Contains(res.Stdout, `prefix_rule(pattern=["touch", "a"])`) {
		t.Errorf("what is trusted is not shown: %q", res.Stdout)
	}
	refused("once it is trusted", false)
	r.Write(".gantry/rules/team.rules", "prefix_rule(pattern=[\"touch\"])\n")
	refused("after a change", true)
}

// A forbidden command that is typed in pieces is refused with the piece that makes it one, and never entered.
func TestRulesHoldForWhatIsTypedInPieces(t *testing.T) {
	t.Parallel()
	write := func(id, chars string) string {
		return fmt.Sprintf("[[step]]\ndo = [{ call = \"write_stdin\", id = %q, raw = '{\"session_id\": ${id}, \"chars\": \"%s\", \"yield_time_ms\": 250}' }]\n", id, chars)
	}
	r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "cat > typed", login = false, tty = true, yield_time_ms = 250 } }]
`+strings.Replace(write("c2", "touch pre"), "do =", "capture = [{ call = \"c1\", pattern = 'session ID (?P<id>\\d+)' }]\ndo =", 1)+write("c3", "cious")+write("c4", "\\n")+write("c5", "x\\u0015touch plain\\n")+write("c6", "\\u0004")+`
[[step]]
times = -1
do = [{ text = "done" }]
`)
	policied(r, "on-request", "full-access")
	rulesFile(t, r, "mine.rules", `prefix_rule(pattern=["touch", "precious"], decision="forbidden", justification="leave it")`+"\n")
	r.OK("exec", "--config", "policy.hcl", "go")
	outs := r.Last().Outputs()
	if !strings.Contains(outs["c3"], "leave it") || strings.Contains(outs["c2"], "leave it") {
		t.Errorf("typed in pieces: %q, %q", outs["c2"], outs["c3"])
	}
	if got := r.Read("typed"); got != "touch pre\ntouch plain\n" {
		t.Errorf("entered: %q; %q", got, outs)
	}
}

// A rule that no longer lets all that begins like it out of the sandbox is named once, with the rule that would.
func TestRuleThatDoesNotApplyIsNamed(t *testing.T) {
	t.Parallel()
	r := boxed(t, steps("sort -o sorted file", "sort -o more file", "sort file"))
	r.Write("file", "b\na\n")
	rulesFile(t, r, "my.rules", `prefix_rule(pattern=["sort"])`)
	policied(r, "on-request", "workspace-write")
	res := r.OK("exec", "--config", "policy.hcl", "go")
	said := strings.Join(strings.Fields(res.Stderr), " ")
	if n := strings.Count(said, "my.rules:1 does not apply to a command that begins with the same words"); n != 1 {
		t.Errorf("it is named %d times:\n%s", n, res.Stderr)
	}
	if !strings.Contains(said, `prefix_rule(pattern=["sort", "-o", "sorted", "file"], decision="allow")`) {
		t.Errorf("no rule is named that would:\n%s", res.Stderr)
	}
	if r.Read("sorted") != "a\nb\n" {
		t.Errorf("it does not run in the sandbox: %q", r.Last().Outputs()["c1"])
	}
}
