package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// asking is a model that wants two commands, one after the other.
const asking = `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo one >> ran", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "echo two >> ran", login = false } }]
[[step]]
times = -1
do = [{ text = "finished" }]
`

// person is a rig whose user is asked before everything.
func person(t *testing.T, script string) *rig.Rig {
	r := rig.New(t, script)
	r.Write("asks.hcl", "approval {\n  policy = \"untrusted\"\n}\n")
	return r
}

func TestApprovalOnATerminal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		answers []string
		code    int
		ran     string
		refused []string // calls
	}{
		{name: "a number is no answer", answers: []string{"1\ny\n", "yes\n"}, ran: "one\ntwo\n"},
		{name: "approve by word", answers: []string{"y\n", "approve\n"}, ran: "one\ntwo\n"},
		{name: "deny the first", answers: []string{"deny\n", "y\n"}, ran: "two\n", refused: []string{"c1"}},
		{name: "a word that is no answer is asked again", answers: []string{"perhaps\nn\n", "y\n"}, ran: "two\n", refused: []string{"c1"}},
		{name: "abort", answers: []string{"y\n", "abort\n"}, ran: "one\n", code: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := person(t, asking)
			run := r.Terminal("exec", "--config", "asks.hcl", "go")
			for i, answer := range tc.answers {
				run.SeesTimes("answer: ", i+1)
				run.Type(answer)
			}
			res := run.Wait()
			if res.Code != tc.code {
				t.Fatalf("exit %d, want %d:\n%s", res.Code, tc.code, res.Stdout)
			}
			if !strings.Contains(res.Stdout, "echo one >> ran") || !strings.Contains(res.Stdout, "untrusted") {
				t.Errorf("the question does not say what and why:\n%s", res.Stdout)
			}
			if got := r.Read("ran"); got != tc.ran {
				t.Errorf("ran %q, want %q", got, tc.ran)
			}
			for _, id := range tc.refused {
				if out := r.Last().Outputs()[id]; !strings.Contains(out, "rejected by user") {
					t.Errorf("the model reads of %s: %q", id, out)
				}
			}
			r.NothingLeft()
			if tc.code == 0 {
				return
			}
			// The turn was aborted; the thread goes on.
			r.OK("resume", "--last", "go on")
			if out := r.Last().Outputs()["c2"]; !strings.Contains(out, "rejected by user") {
				t.Errorf("the model reads of the aborted call: %q", out)
			}
		})
	}
}

// Two calls at once ask one after the other: an answer never belongs to a question that is not on the screen.
func TestQuestionsComeOneAtATime(t *testing.T) {
	t.Parallel()
	r := person(t, `
[[step]]
do = [
  { call = "exec_command", id = "c1", args = { cmd = "echo one >> one", login = false } },
  { call = "exec_command", id = "c2", args = { cmd = "echo two >> two", login = false } },
]
[[step]]
do = [{ text = "finished" }]
`)
	run := r.Terminal("exec", "--config", "asks.hcl", "go")
	asked(t, r, 2) // both wait
	run.Sees("answer: ")
	shown := run.Output()
	if strings.Count(shown, "y) approve") != 1 {
		t.Errorf("more than one question is on the screen:\n%s", shown)
	}
	one1st := strings.Contains(shown, "? echo one")
	run.Type("deny\n")
	run.SeesTimes("answer: ", 2)
	run.Type("y\n")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	want := [2]string{"one\n", ""}
	if one1st {
		want = [2]string{"", "two\n"}
	}
	if got := [2]string{r.Read("one"), r.Read("two")}; got != want {
		t.Errorf("the first question was denied, the second approved, but the commands left %q, want %q", got, want)
	}
}

// asked waits until so many questions of the only thread are stored.
func asked(t *testing.T, r *rig.Rig, n int) {
	t.Helper()
	storedTimes(t, r, `"question.asked"`, n)
}

// storedTimes waits until a text is in so many events of the only thread.
func storedTimes(t *testing.T, r *rig.Rig, text string, n int) {
	t.Helper()
	r.Until("the events are stored: "+text, func() bool {
		all := threads(t, r)
		return len(all) == 1 && strings.Count(r.OK("threads", "show", "--events", all[0].ID).Stdout, text) >= n
	})
}

// What is typed before a question is on the screen is no answer to it.
func TestTypedAhead(t *testing.T) {
	t.Parallel()
	r := person(t, `
[[step]]
do = [
  { call = "exec_command", id = "c1", args = { cmd = "echo one >> ran", login = false } },
  { call = "exec_command", id = "c2", args = { cmd = "echo one >> ran", login = false } },
]
[[step]]
do = [{ text = "finished" }]
`)
	run := r.Terminal("exec", "--config", "asks.hcl", "go")
	run.Type("y\n") // before anything is asked
	asked(t, r, 2)
	run.Sees("answer: ")
	run.Type("y\ny\ny") // one answers the question that is there; the others come too early, also the one without an end
	run.SeesTimes("answer: ", 2)
	run.Type("deny\n")
	if res := run.Wait(); res.Code != 0 || strings.Contains(res.Stdout, "answer with a number") {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	if got := r.Read("ran"); got != "one\n" {
		t.Errorf("ran %q, want one of the two commands", got)
	}
}

// While a question is on the screen nothing else is; what happened meanwhile comes behind the answer, under its name.
func TestOutputWaitsForTheAnswer(t *testing.T) {
	t.Parallel()
	r := person(t, `
[[step]]
do = [
  { call = "exec_command", id = "c1", args = { cmd = "until [ -e go ]; do sleep 0.01; done; echo out of the first", login = false, yield_time_ms = 30000 } },
  { call = "exec_command", id = "c2", args = { cmd = "until [ -e go ]; do sleep 0.01; done; echo out of the first", login = false, yield_time_ms = 30000 } },
]
[[step]]
do = [{ text = "finished" }]
`)
	run := r.Terminal("exec", "--config", "asks.hcl", "go")
	run.SeesTimes("answer: ", 1)
	run.Type("y\n")
	run.SeesTimes("answer: ", 2)
	r.Write("go", "")
	storedTimes(t, r, `"item.completed"`, 2) // the task's own, and the first command's
	if shown := run.Output(); !strings.HasSuffix(shown, "answer: ") {
		t.Errorf("something came behind the question:\n%s", shown)
	}
	run.Type("y\n")
	res := run.Wait()
	if res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	shown := strings.ReplaceAll(res.Stdout, "\r", "")
	_, behind, _ := strings.Cut(shown[strings.LastIndex(shown, "answer: "):], "\n")
	if strings.Count(behind, "out of the first") < 2 || strings.Count(behind, "\n· $ until") < 1 {
		t.Errorf("behind the answer stands, without a name for the outputs:\n%s", behind)
	}
}

func TestApprovalForTheSession(t *testing.T) {
	t.Parallel()
	r := person(t, `
[[step]]
times = 3
do = [{ call = "exec_command", args = { cmd = "echo same >> ran", login = false } }]
[[step]]
do = [{ text = "finished" }]
`)
	run := r.Terminal("exec", "--config", "asks.hcl", "go")
	run.Sees("answer: ")
	run.Type("s\n")
	if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 1 {
		t.Errorf("exit %d, asked %d times:\n%s", res.Code, strings.Count(res.Stdout, "answer: "), res.Stdout)
	}
	if got := r.Read("ran"); got != "same\nsame\nsame\n" {
		t.Errorf("ran %q", got)
	}
}

// Without a terminal nobody is asked, nothing hangs, and the model can go on.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	r := person(t, asking)
	r.OK("exec", "--config", "asks.hcl", "go")
	out := r.Last().Outputs()
	for _, id := range []string{"c1", "c2"} {
		if !strings.Contains(out[id], "nobody to ask") {
			t.Errorf("the model reads of %s: %q", id, out[id])
		}
	}
	if got := r.Read("ran"); got != "" {
		t.Errorf("ran %q", got)
	}
}

// Ctrl-C at a question interrupts the turn; the question does not hold the program.
func TestCtrlCAtAQuestion(t *testing.T) {
	t.Parallel()
	r := person(t, asking)
	run := r.Terminal("exec", "--config", "asks.hcl", "go")
	run.Sees("answer: ")
	run.Type("\x03")
	if res := run.Wait(); res.Code != 1 {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
	if got := r.Read("ran"); got != "" {
		t.Errorf("ran %q", got)
	}
	r.NothingLeft()
}

// A host that is killed while it asks: the question is over, the call was never started, and the model is told so.
func TestResumeAfterAPendingQuestion(t *testing.T) {
	t.Parallel()
	r := person(t, asking)
	run := r.Terminal("exec", "--config", "asks.hcl", "go")
	run.Sees("answer: ")
	// What is shown may be a moment ahead of the disk.
	asked(t, r, 1)
	rig.Kill(t, run.Cmd.Process.Pid)
	run.Wait()
	r.OK("resume", "--last", "go on")
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "had no effect") {
		t.Errorf("the model reads of the call: %q", out)
	}
	if got := r.Read("ran"); got != "two\n" {
		t.Errorf("ran %q, want what the resumed turn did", got)
	}
	questions, resolved := map[string]bool{}, map[string]string{}
	for _, e := range rig.Events(t, r.OK("threads", "show", "--events", threads(t, r)[0].ID).Stdout) {
		var q struct{ ID, By string }
		switch e.Kind {
		case "question.asked":
			e.Into(t, &q)
			questions[q.ID] = true
		case "question.resolved":
			e.Into(t, &q)
			resolved[q.ID] = q.By
		}
	}
	for id := range questions {
		if resolved[id] != "cancelled" {
			t.Errorf("the question ended by %q, want cancelled", resolved[id])
		}
	}
	if len(questions) != 1 {
		t.Errorf("%d questions are recorded, want 1", len(questions))
	}
}

// What a patch would change stands above its question.
func TestDiffAboveItsQuestion(t *testing.T) {
	t.Parallel()
	r := person(t, `
[[step]]
do = [{ call = "apply_patch", freeform = "*** Begin Patch\n*** Add File: new.txt\n+a line of the patch\n*** End Patch\n" }]
[[step]]
do = [{ text = "finished" }]
`)
	run := r.Terminal("exec", "--config", "asks.hcl", "go")
	run.Sees("answer: ")
	shown := run.Output()
	diff, question := strings.Index(shown, "+a line of the patch"), strings.Index(shown, "? ")
	if diff < 0 || question < diff || !strings.Contains(shown, "writes: ") || strings.Contains(shown, `{"paths"`) {
		t.Errorf("the diff does not stand above the question:\n%s", shown)
	}
	run.Type("n\n")
	if res := run.Wait(); res.Code != 0 || r.Read("new.txt") != "" {
		t.Errorf("exit %d, new.txt is %q", res.Code, r.Read("new.txt"))
	}
}
