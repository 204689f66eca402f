package hook

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/hashicorp/go-hclog"
)

func TestJudgements(t *testing.T) {
	for _, tt := range []struct {
		text   string
		status event.HookStatus
		reason string
	}{
		{`{"ok": true}`, event.HookDone, ""},
		{"Let me see.\n```json\n{\"ok\": true, \"reason\": \"fine\"}\n```\n", event.HookDone, ""},
		{`{"ok": false, "reason": "R"}`, event.HookBlocked, "R"},
		{`{"ok": false}`, event.HookBlocked, "the hook gave no reason"},
		{`{"decision": "approve"}`, event.HookDone, ""},
		{`{"decision": "block", "reason": "R"}`, event.HookBlocked, "R"},
		{`{"ok": false, "decision": "approve", "reason": "R"}`, event.HookBlocked, "R"},
		{``, event.HookFailed, "JSON"},
		{`yes`, event.HookFailed, "JSON"},
		{`} {`, event.HookFailed, "JSON"},
		{`{"ok": "true"}`, event.HookFailed, "invalid JSON"},
		{`{"ok": true} and {"ok": false}`, event.HookFailed, "invalid JSON"},
		{`{}`, event.HookFailed, `no "ok"`},
		{`{"decision": "allow"}`, event.HookFailed, `no "ok"`},
		{`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"allow"}}}`, event.HookFailed, `no "ok"`},
	} {
		a := readJudgement(tt.text)
		if a.status != tt.status || !strings.Contains(a.reason, tt.reason) || a.allow || a.input != nil || a.context != nil {
			t.Errorf("%q: %+v, want %s %q", tt.text, a, tt.status, tt.reason)
		}
	}
}

// Whatever a model says, it allows nothing and changes nothing.
func FuzzJudgement(f *testing.F) {
	for _, s := range []string{`{"ok":true}`, `x{"ok":false,"reason":"\u0000"}y`, `{"decision":"block"}`, `{"ok":null}`, "{{}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := readJudgement(text)
		if a.allow || a.input != nil || a.context != nil || a.status == event.HookFailed && a.reason == "" {
			t.Errorf("%+v", a)
		}
		if a.status == event.HookDone && !strings.Contains(text, "{") {
			t.Errorf("%q is a yes", text)
		}
	})
}

// judges is a thread whose hooks ask a function.
func judges(t *testing.T, ask func(context.Context, Question) (string, event.ThreadID, error), ds ...Definition) (*bench, *Thread) {
	t.Helper()
	b := &bench{agreed: map[string]string{}}
	for _, d := range ds {
		digest, _, err := d.Digest("/w", nil)
		if err != nil {
			t.Fatal(err)
		}
		b.agreed[d.Key] = digest
	}
	e, err := New(Config{
		Definitions: ds, Agreed: func() (map[string]string, error) { return b.agreed, nil }, Environ: func() []string { return nil },
		Run: func(context.Context, Command) Printed { panic("a command ran") }, Ask: ask, Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b, e.Thread("t1", "startup", b, b.keep)
}

func prompt(key string, ev Event, text string) Definition {
	return Definition{Key: key, Event: ev, Prompt: text, Scope: User, Source: "/f"}
}

// A model judges what the hook's prompt says, and its no is a hook's no in every event that has one.
func TestModelsJudge(t *testing.T) {
	var mu sync.Mutex // handlers ask at the same time
	var asked []Question
	answer := `{"ok": false, "reason": "R"}`
	looks := prompt("looks", PreToolUse, "Is $ARGUMENTS fine?")
	looks.Looks, looks.Model, looks.Matcher = true, "small", "Write"
	b, th := judges(t, func(_ context.Context, q Question) (string, event.ThreadID, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q)
		return answer, "child", nil
	}, prompt("before", PreToolUse, "Look closely."), looks, prompt("asks", PermissionRequest, "p"), prompt("after", PostToolUse, "p"),
		prompt("said", UserPromptSubmit, "p"), prompt("end", Stop, "p"))
	defer th.End(t.Context(), "/w")
	turn := th.Turn(scene)
	if v, _ := turn.PreToolUse(t.Context(), call(`{"command":"=== x"}`)); !v.Deny || !strings.Contains(v.Message, "R") {
		t.Errorf("before: %+v", v)
	}
	q := asked[0]
	mark := strings.Fields(q.Text)[6]
	mark = strings.TrimSuffix(mark, ".")
	if q.Thread != "t1" || q.Looks || q.Model != "" || !strings.Contains(q.Text, "Look closely.\n\n=== "+mark+": what happens begins ===\n{") || !strings.Contains(q.Text, `"command":"=== x"`) {
		t.Errorf("asked: %+v", q)
	}
	write := call(`{}`)
	write.Tool, write.Aliases = "Write", nil
	_, _ = turn.PreToolUse(t.Context(), write)
	q = asked[len(asked)-1]
	if asked[1].Looks {
		q = asked[1]
	}
	if !q.Looks || q.Model != "small" || !strings.Contains(q.Text, "Is === ") || !strings.HasSuffix(q.Text, "=== fine?") || strings.Contains(q.Text, "$ARGUMENTS") {
		t.Errorf("asked: %+v", q)
	}
	if p, _ := turn.PermissionRequest(t.Context(), Request{Call: call(`{}`)}); !p.Deny {
		t.Errorf("permission: %+v", p)
	}
	if s := turn.Prompt(t.Context(), "x"); !s.Stop || s.Reason != "R" {
		t.Errorf("prompt: %+v", s)
	}
	if v, _ := turn.Stop(t.Context(), Ending{}); !v.Block || v.Reason != "R" {
		t.Errorf("stop: %+v", v)
	}
	if !strings.Contains(b.log(), "PreToolUse before blocked") || b.bodies[0].(event.HookStarted).Run.Type != "prompt" || b.bodies[1].(event.HookCompleted).Thread != "child" {
		t.Errorf("published: %s", b.log())
	}
	// A yes lets it pass, and answers no question that a person would be asked.
	answer = `{"ok": true}`
	if p, _ := turn.PermissionRequest(t.Context(), Request{Call: call(`{}`)}); p.Deny || p.Allow {
		t.Errorf("permission: %+v", p)
	}
}

// What goes wrong with a model is a hook's failure: it lets things go on, or blocks, as the hook says.
func TestModelsThatFail(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		for name, ask := range map[string]func(context.Context, Question) (string, event.ThreadID, error){
			"noise":    func(context.Context, Question) (string, event.ThreadID, error) { return "sure!", "", nil },
			"an error": func(context.Context, Question) (string, event.ThreadID, error) { return "", "", errors.New("no key") },
			"nobody":   nil,
		} {
			d := prompt("p", PreToolUse, "p")
			d.Block = &blocks
			b, th := judges(t, ask, d)
			v, _ := th.Turn(scene).PreToolUse(t.Context(), call(`{}`))
			if v.Deny != blocks || !strings.Contains(b.log(), "failed") {
				t.Errorf("%s, %v: %+v, %s", name, blocks, v, b.log())
			}
			th.End(t.Context(), "/w")
		}
	}
	_, th := judges(t, func(context.Context, Question) (string, event.ThreadID, error) { return `{"ok":true}`, "", nil }, prompt("p", PreToolUse, "p"))
	defer th.End(t.Context(), "/w")
	turn := th.Turn(scene)
	if a, _ := turn.ask(t.Context(), turn.engine.hooks[0], make([]byte, maxJudged+1)); a.status != event.HookFailed {
		t.Errorf("too much was judged: %+v", a)
	}
}

// A model has its time, and no more.
func TestModelsThatTakeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := prompt("p", PreToolUse, "p")
		looks := d
		looks.Looks = true
		short := looks
		short.Timeout = 5 * time.Second
		for _, tt := range []struct {
			d    Definition
			want time.Duration
		}{{d, 30 * time.Second}, {looks, time.Minute}, {short, 5 * time.Second}} {
			_, th := judges(t, func(ctx context.Context, _ Question) (string, event.ThreadID, error) {
				<-ctx.Done()
				return `{"ok": true}`, "", nil
			}, tt.d)
			began := time.Now()
			turn := th.Turn(scene)
			a, _ := turn.ask(t.Context(), turn.engine.hooks[0], nil)
			if took := time.Since(began); took != tt.want || a.status != event.HookFailed || !strings.Contains(a.reason, "timed out") {
				t.Errorf("after %v: %+v, want %v", took, a, tt.want)
			}
			th.End(t.Context(), "/w")
		}
	})
}

// Consent is to the prompt, too; and who bypasses it runs what nobody has agreed to, but not what is left out of that.
func TestPromptsNeedConsent(t *testing.T) {
	ask := func(context.Context, Question) (string, event.ThreadID, error) {
		return `{"ok": false, "reason": "R"}`, "", nil
	}
	d, other := prompt("p", PreToolUse, "p"), prompt("theirs", PreToolUse, "p")
	b, th := judges(t, ask, d, other)
	defer th.End(t.Context(), "/w")
	for _, change := range []func(*Definition){
		func(d *Definition) { d.Prompt = "q" }, func(d *Definition) { d.Looks = true }, func(d *Definition) { d.Model = "m" },
	} {
		changed := d
		change(&changed)
		if st := changed.Trust(b.agreed, "/w", nil); st != Modified {
			t.Errorf("%+v is %s", changed, st)
		}
	}
	b.agreed = map[string]string{}
	turn := th.Turn(scene)
	if v, _ := turn.PreToolUse(t.Context(), call(`{}`)); v.Deny || len(turn.Notices()) == 0 {
		t.Errorf("without consent: %+v", v)
	}
	th.engine.cfg.Unasked = func(d *Definition) bool { return d.Key == "p" }
	b.bodies = nil
	if v, _ := th.Turn(scene).PreToolUse(t.Context(), call(`{}`)); !v.Deny || strings.Contains(b.log(), "theirs") {
		t.Errorf("bypassed: %+v, %s", v, b.log())
	}
}
