package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// atTokens is a configuration under which a thread is compacted early.
const atTokens = "history {\n  compact_at_tokens = 4000\n}\n"

// layout is what a request is made of, item by item: "context" for what the host tells, "account" and "question" for those of
// a compaction, calls, outputs, and everything else as it was said, cut to its first words.
func layout(q rig.Request) string {
	var out []string
	for _, m := range q.Request.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				switch {
				case m.Role == llm.RoleSystem, strings.HasPrefix(p.Text, "<environment_context>"):
					if len(out) == 0 || out[len(out)-1] != "context" {
						out = append(out, "context")
					}
				case strings.HasPrefix(p.Text, "<context_summary>") && strings.HasSuffix(p.Text, "\n</context_summary>"):
					lines := strings.Split(p.Text, "\n")
					out = append(out, "account("+lines[len(lines)-2]+")")
				case strings.HasPrefix(p.Text, "Stop here. This conversation is about to be replaced"):
					out = append(out, "question")
				default:
					out = append(out, strings.Join(strings.Fields(p.Text)[:1], " "))
				}
			case *llm.ToolCall:
				out = append(out, "call-"+p.ID)
			case *llm.ToolResult:
				out = append(out, "output-"+p.ID)
			}
		}
	}
	return strings.Join(out, " ")
}

func wantLayouts(t *testing.T, r *rig.Rig, want ...string) {
	t.Helper()
	var got []string
	for _, q := range r.Requests() {
		got = append(got, layout(q))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the model saw:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// long is a text that is worth an account.
var long = strings.Repeat(" lorem ipsum dolor", 500)

func TestCompactionInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
usage = { input = 5000, output = 20 }
do    = [{ call = "exec_command", id = "c1", args = { cmd = "seq 1 3000" } }]
[[step]]
usage = { input = 5100, output = 30 }
do    = [{ text = "listed 3000 numbers" }]
[[step]]
usage = { input = 900, output = 5 }
do    = [{ text = "done" }]
`)
	r.Config(atTokens)
	res := r.OK("exec", "--events", "go")
	wantLayouts(t, r, "context go", "context go call-c1 output-c1 question", "context go account(listed 3000 numbers)")
	if before, q := r.Requests()[0], r.Requests()[1]; !slices.Equal(q.Offered(), before.Offered()) || q.Request.ParallelToolCalls != before.Request.ParallelToolCalls {
		t.Errorf("the request for a summary has the tools %v", q.Offered())
	}
	var kinds []string
	var before, after int64
	for _, e := range rig.Events(t, res.Stdout) {
		switch e.Kind {
		case "history.compacted":
			var b struct {
				Before, After int64
				Phase         string
			}
			e.Into(t, &b)
			before, after = b.Before, b.After
			kinds = append(kinds, b.Phase)
		case "item.started", "item.completed":
			var b struct{ Item struct{ Type, Status string } }
			e.Into(t, &b)
			if b.Item.Type == "compaction" {
				kinds = append(kinds, b.Item.Status)
			}
		case "turn.ended":
			var b struct{ TurnUsage sums }
			e.Into(t, &b)
			if b.TurnUsage != (sums{11_000, 55, 11_055}) {
				t.Errorf("the turn used %+v, want all three answers", b.TurnUsage)
			}
		}
	}
	if got := strings.Join(kinds, " "); got != "in_progress mid_turn completed" {
		t.Errorf("events: %s", got)
	}
	if before < 5020 || after <= 0 || after >= 4000 {
		t.Errorf("compacted from %d tokens to %d", before, after)
	}
}

// What a turn begins with has to fit; the thread then goes on from its checkpoint, in any process.
func TestCompactionBeforeATurnAndResume(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
usage = { input = 5000, output = 20 }
do    = [{ text = "one`+long+`" }]
[[step]]
do    = [{ text = "so far" }]
[[step]]
times = -1
usage = { input = 900, output = 5 }
do    = [{ text = "fine" }]
`)
	r.Config(atTokens)
	id := rig.Events(t, r.OK("exec", "--events", "first").Stdout)[0].Thread
	r.OK("resume", "--last", "second")
	r.OK("resume", "--last", "third")
	got := r.Requests()
	for i, want := range []string{"context first", "context first one question", "context first account(so far) second"} {
		if l := layout(got[i]); l != want {
			t.Errorf("request %d: %s, want %s", i+1, l, want)
		}
	}
	if l := layout(got[3]); len(got) != 4 || !strings.HasPrefix(l, "context first account(so far) second fine") || !strings.HasSuffix(l, " third") {
		t.Errorf("after a resume the model saw %s", l)
	}
	// The log still has everything.
	if out := r.OK("threads", "export", id).Stdout; !strings.Contains(out, "lorem ipsum") {
		t.Error("what was compacted is gone from the log")
	}
}

func TestCompactionByTheUser(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
do = [{ text = "one`+long+`" }]
[[step]]
do = [{ text = "two" }]
[[step]]
do = [{ text = "so far" }]
[[step]]
do = [{ text = "fine" }]
`)
	r.OK("exec", "first")
	r.OK("resume", "--last", "second")
	if res := r.OK("compact", "--last"); !strings.Contains(res.Stderr, "compact the conversation") || !strings.Contains(res.Stderr, " tokens became ") {
		t.Errorf("people are told:\n%s", res.Stderr)
	}
	r.OK("resume", "--last", "third")
	got := r.Requests()
	if l := layout(got[2]); !strings.HasSuffix(l, "second two question") {
		t.Errorf("the account is asked about %s", l)
	}
	if l := layout(got[3]); l != "first context second account(so far) third" {
		t.Errorf("after it the model saw %s", l)
	}
	// Nothing new was said since the answer to the third task but that answer: an account would be longer.
	if res := r.Gantry("compact", "nothing-like-it"); res.Code != 1 {
		t.Errorf("a thread that is not there: exit %d\n%s", res.Code, res.Stderr)
	}
}

// A model that refuses a request for its length does not end the turn.
func TestOverflowInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
usage = { input = 100, output = 20 }
do    = [{ call = "exec_command", id = "c1", args = { cmd = "seq 1 3000" } }]
[[step]]
error = { code = "context-overflow", message = "too long" }
[[step]]
do = [{ text = "listed" }]
[[step]]
do = [{ text = "done" }]
`)
	if res := r.OK("exec", "go"); strings.TrimSpace(res.Stdout) != "done" {
		t.Errorf("last message %q", res.Stdout)
	}
	wantLayouts(t, r, "context go", "context go call-c1 output-c1", "context go call-c1 output-c1 question", "context go account(listed)")
}

// Who compacts a thread that another process runs stops its turn; the process stays until the thread is compacted.
func TestCompactionOfAThreadThatRunsElsewhere(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { user = "second" }
do   = [{ text = "done" }]
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "seq 1 3000" } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "touch started; sleep 600", yield_time_ms = 30000 } }]
[[step]]
do = [{ text = "so far" }]
`)
	run := r.Start("exec", "--events", "first")
	r.Until("the command runs", func() bool { return exists(r.Dir, "started") })
	if res := r.OK("compact", "--last"); !strings.Contains(res.Stderr, "another process runs this thread") {
		t.Errorf("people are told:\n%s", res.Stderr)
	}
	if res := run.Wait(); res.Code != 1 || !strings.Contains(res.Stdout, "replaced by another task") || !strings.Contains(res.Stdout, "history.compacted") {
		t.Errorf("the other process: exit %d\n%s", res.Code, res.Stderr)
	}
	r.OK("resume", "--last", "second")
	wantLayouts(t, r, "context first", "context first call-c1 output-c1", "context first call-c1 output-c1 call-c2 output-c2 question",
		"context first account(so far) second")
}
