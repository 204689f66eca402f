package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// bench is an engine whose commands are functions.
type bench struct {
	mu      sync.Mutex
	run     map[string]func(context.Context, Command) Printed // by line; others are silent
	agreed  map[string]string
	inputs  map[string][]string
	bodies  []event.Body
	kept    string
	keepErr error
}

func (b *bench) Publish(_ context.Context, _ event.TurnID, bodies ...event.Body) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bodies = append(b.bodies, bodies...)
	return 0, nil
}

// log is what was published: event, hook and status of each that ended.
func (b *bench) log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for _, body := range b.bodies {
		if c, ok := body.(event.HookCompleted); ok {
			out = append(out, fmt.Sprintf("%s %s %s", c.Run.Event, c.Run.Hook, c.Status))
		}
	}
	return strings.Join(out, ", ")
}

func (b *bench) keep(text string) (string, error) {
	b.kept = text
	return "/tmp/kept.txt", b.keepErr
}

func (b *bench) thread(t *testing.T, ds ...Definition) *Thread {
	t.Helper()
	if b.agreed == nil {
		b.agreed = map[string]string{}
		for _, d := range ds {
			digest, _, err := d.Digest("/w", nil)
			if err != nil {
				t.Fatal(err)
			}
			b.agreed[d.Key] = digest
		}
	}
	b.inputs = map[string][]string{}
	e, err := New(Config{
		Definitions: ds, Agreed: func() (map[string]string, error) { return b.agreed, nil }, Environ: func() []string { return []string{"A=b"} },
		Logger: hclog.NewNullLogger(),
		Run: func(ctx context.Context, c Command) Printed {
			b.mu.Lock()
			b.inputs[c.Line] = append(b.inputs[c.Line], string(c.Input))
			f := b.run[c.Line]
			b.mu.Unlock()
			if f == nil {
				return Printed{}
			}
			return f(ctx, c)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return e.Thread("t1", "startup", b, b.keep)
}

var scene = TurnInfo{Turn: "u1", Cwd: "/w", Model: "m"}

func prints(p Printed) func(context.Context, Command) Printed {
	return func(context.Context, Command) Printed { return p }
}

func hookOf(key string, ev Event) Definition {
	return Definition{Key: key, Event: ev, Command: key, Scope: User, Source: "/f"}
}

func call(input string) Call {
	return Call{Thread: "t1", Turn: "u1", ID: "c1", Tool: "Bash", Aliases: []string{"exec_command"}, Input: json.RawMessage(input), Cwd: "/w"}
}

func rewrites(s string) Printed {
	return Printed{Stdout: `{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"` + s + `"},"additionalContext":"` + s + `"}}`}
}

// However they end in time, several answers become one in the order of the configuration.
func TestSeveralHooks(t *testing.T) {
	refuse := func(s string) Printed { return Printed{Code: 2, Stderr: s} }
	for _, tt := range []struct {
		name  string
		a, b  Printed
		deny  string
		input string
		told  string
	}{
		{"both silent", Printed{}, Printed{}, "", "", ""},
		{"both rewrite", rewrites("A"), rewrites("B"), "", `{"command":"B"}`, "A B"},
		{"one rewrites", rewrites("A"), Printed{}, "", `{"command":"A"}`, "A"},
		{"one refuses", rewrites("A"), refuse("no"), "no", "", "A"},
		{"both refuse", refuse("first"), refuse("second"), "first", "", ""},
		{"one fails", Printed{Code: 1}, refuse("no"), "no", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			second := make(chan struct{})
			b := &bench{run: map[string]func(context.Context, Command) Printed{
				"a": func(context.Context, Command) Printed { <-second; return tt.a }, // the first one ends last
				"b": func(context.Context, Command) Printed { defer close(second); return tt.b },
			}}
			th := b.thread(t, hookOf("a", PreToolUse), hookOf("b", PreToolUse), hookOf("c", PostToolUse))
			defer th.End(t.Context(), "/w")
			v, err := th.Turn(scene).PreToolUse(t.Context(), call(`{"command":"ls"}`))
			if err != nil || v.Deny != (tt.deny != "") || string(v.Input) != tt.input || strings.Join(v.Context, " ") != tt.told {
				t.Errorf("verdict = %+v, %v", v, err)
			}
			if want := "Command blocked by PreToolUse hook: " + tt.deny + ". Command: ls"; v.Deny && v.Message != want {
				t.Errorf("the model reads %q, want %q", v.Message, want)
			}
		})
	}
}

// Of several before a call a no is more than a question, and a question more than a yes.
func TestSeveralThatPermit(t *testing.T) {
	says := func(s string) Printed {
		return Printed{Stdout: `{"hookSpecificOutput":{"permissionDecision":"` + s + `","permissionDecisionReason":"because"}}`}
	}
	yes, ask, no, stop := says("allow"), says("ask"), says("deny"), Printed{Stdout: `{"continue":false,"stopReason":"because"}`}
	refused := "Command blocked by PreToolUse hook: because. Command: ls"
	for _, tt := range []struct {
		name string
		a, b Printed
		want Verdict
	}{
		{"yes", yes, Printed{}, Verdict{Allow: true}},
		{"yes, and a failure", yes, Printed{Code: 1}, Verdict{Allow: true}},
		{"yes and a question", yes, ask, Verdict{Ask: true, Message: "because"}},
		{"a question and yes", ask, yes, Verdict{Ask: true, Message: "because"}},
		{"a question and no", ask, no, Verdict{Deny: true, Message: refused}},
		{"yes and no", yes, no, Verdict{Deny: true, Message: refused}},
		{"yes and the end", yes, stop, Verdict{Deny: true, Stop: true, Message: refused}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{run: map[string]func(context.Context, Command) Printed{
				"a": func(context.Context, Command) Printed { return tt.a }, "b": func(context.Context, Command) Printed { return tt.b },
			}}
			th := b.thread(t, hookOf("a", PreToolUse), hookOf("b", PreToolUse))
			defer th.End(t.Context(), "/w")
			v, err := th.Turn(scene).PreToolUse(t.Context(), call(`{"command":"ls"}`))
			if err != nil || !reflect.DeepEqual(v, tt.want) {
				t.Errorf("verdict = %+v, %v; want %+v", v, err, tt.want)
			}
		})
	}
}

func TestPermissions(t *testing.T) {
	allow := Printed{Stdout: `{"hookSpecificOutput":{"decision":{"behavior":"allow"}}}`}
	deny := Printed{Stdout: `{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"M"}}}`}
	for name, tt := range map[string]struct {
		a, b Printed
		want Permission
	}{
		"silence":        {Printed{}, Printed{}, Permission{}},
		"one allows":     {Printed{}, allow, Permission{Allow: true}},
		"one of each":    {allow, deny, Permission{Deny: true, Message: "M"}},
		"allow, failure": {allow, Printed{Code: 1}, Permission{Allow: true}},
		"failure alone":  {Printed{Code: 1}, Printed{}, Permission{}},
	} {
		b := &bench{run: map[string]func(context.Context, Command) Printed{"a": prints(tt.a), "b": prints(tt.b)}}
		th := b.thread(t, hookOf("a", PermissionRequest), hookOf("b", PermissionRequest))
		nested := call(`{"command":"ls"}`)
		nested.Chain = []string{"python", "exec_command"}
		got, err := th.Turn(scene).PermissionRequest(t.Context(), Request{Call: nested, Description: "why", Retry: true})
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if in := b.inputs["a"][0]; !strings.Contains(in, `"tool_input":{"command":"ls","description":"why"}`) || strings.Contains(in, "tool_use_id") || !strings.Contains(in, `"tool_chain":["python","exec_command"]`) {
			t.Errorf("%s: the hook reads %s", name, in)
		}
		if run := b.bodies[0].(event.HookStarted).Run; run.Call != "c1:retry" || run.ID != "permission-request:0:/f" {
			t.Errorf("%s: run = %+v", name, run)
		}
		th.End(t.Context(), "/w")
	}
}

// What a failure means: by default nothing, for the machine's guards no, and always what the hook itself says.
func TestFailures(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		name  string
		scope Scope
		block *bool
		deny  bool
	}{
		{"user", User, nil, false}, {"project", Project, nil, false}, {"managed", Managed, nil, true},
		{"user, block", User, &yes, true}, {"managed, proceed", Managed, &no, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{run: map[string]func(context.Context, Command) Printed{"a": prints(Printed{Err: errors.New("crashed")})}}
			d := hookOf("a", PreToolUse)
			d.Scope, d.Block = tt.scope, tt.block
			th := b.thread(t, d)
			defer th.End(t.Context(), "/w")
			if v, _ := th.Turn(scene).PreToolUse(t.Context(), call(`{}`)); v.Deny != tt.deny || tt.deny && !strings.Contains(v.Message, "crashed") {
				t.Errorf("verdict = %+v", v)
			}
		})
	}
	d := hookOf("a", PostToolUse)
	d.Block = &yes
	b := &bench{run: map[string]func(context.Context, Command) Printed{"a": prints(Printed{Code: 1})}}
	th := b.thread(t, d)
	defer th.End(t.Context(), "/w")
	if r, _ := th.Turn(scene).PostToolUse(t.Context(), call(`{}`), contract.Text("secret")); r.Replace == nil || strings.Contains(*r.Replace, "secret") {
		t.Errorf("review = %+v", r)
	}
}

func TestHooksThatMayNotRun(t *testing.T) {
	yes := true
	for _, tt := range []struct {
		name   string
		scope  Scope
		block  *bool
		agreed map[string]string
		deny   string
	}{
		{"untrusted", User, nil, map[string]string{}, ""},
		{"modified", User, nil, map[string]string{"a": "x"}, ""},
		{"untrusted, block", User, &yes, map[string]string{}, "not trusted yet"},
		{"modified, block", User, &yes, map[string]string{"a": "x"}, "has changed since you trusted it"},
		{"a project's, untrusted, block", Project, &yes, map[string]string{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &bench{agreed: tt.agreed}
			d := hookOf("a", PreToolUse)
			d.Scope, d.Block = tt.scope, tt.block
			th := b.thread(t, d)
			defer th.End(t.Context(), "/w")
			turn := th.Turn(scene)
			if v, _ := turn.PreToolUse(t.Context(), call(`{}`)); v.Deny != (tt.deny != "") || !strings.Contains(v.Message, tt.deny) {
				t.Errorf("verdict = %+v", v)
			}
			if len(b.inputs) > 0 {
				t.Error("it ran")
			}
			if n := turn.Notices(); len(n) != 1 || !strings.Contains(n[0].Next, "gantry hooks trust") {
				t.Errorf("notices = %+v", n)
			}
			if n := th.Turn(scene).Notices(); len(n) != 0 {
				t.Errorf("people are told again: %+v", n)
			}
		})
	}
}

// A guard that was trusted and is changed while the thread runs is no way around it.
func TestGuardThatIsChanged(t *testing.T) {
	b := &bench{}
	th := b.thread(t, hookOf("a", PreToolUse), hookOf("b", PostToolUse))
	defer th.End(t.Context(), "/w")
	turn := th.Turn(scene)
	if v, _ := turn.PreToolUse(t.Context(), call(`{}`)); v.Deny {
		t.Fatalf("verdict = %+v", v)
	}
	b.agreed["a"], b.agreed["b"] = "other", "other"
	if v, _ := turn.PreToolUse(t.Context(), call(`{}`)); !v.Deny {
		t.Errorf("verdict = %+v", v)
	}
	if r, _ := turn.PostToolUse(t.Context(), call(`{}`), contract.Text("x")); r.Replace != nil {
		t.Errorf("review = %+v: it guards nothing", r)
	}
}

func TestWhatTurnsAreTold(t *testing.T) {
	b := &bench{run: map[string]func(context.Context, Command) Printed{
		"start":   prints(Printed{Stdout: "hello"}),
		"prompt":  prints(Printed{Stdout: `{"decision":"block","reason":"R"}`}),
		"compact": prints(Printed{Stdout: `{"continue":false,"stopReason":"S"}`}),
	}}
	th := b.thread(t, hookOf("start", SessionStart), hookOf("prompt", UserPromptSubmit), hookOf("compact", PreCompact), hookOf("after", PostCompact),
		hookOf("stop", Interrupt), hookOf("end", SessionEnd))
	turn := th.Turn(TurnInfo{Turn: "u1", Cwd: "/w", Model: "m", Never: true})
	if s := turn.Begin(t.Context()); !slices.Equal(s.Context, []string{"hello"}) || s.Stop {
		t.Errorf("begin = %+v", s)
	}
	if s := turn.Begin(t.Context()); s.Context != nil {
		t.Errorf("it begins twice: %+v", s)
	}
	if s := turn.Prompt(t.Context(), "words"); !s.Stop || s.Reason != "R" {
		t.Errorf("prompt = %+v", s)
	}
	if s := turn.Compacting(t.Context(), "auto"); !s.Stop || s.Reason != "S" {
		t.Errorf("compacting = %+v", s)
	}
	if s := turn.Compacted(t.Context(), "auto"); s.Stop {
		t.Errorf("compacted = %+v", s)
	}
	turn.Begin(t.Context()) // of what the compaction left
	turn.Interrupted(t.Context(), "interrupted")
	th.End(t.Context(), "/w")
	common := `"cwd":"/w",`
	for line, want := range map[string][]string{
		"start": {
			`{` + common + `"hook_event_name":"SessionStart","model":"m","permission_mode":"bypassPermissions","session_id":"t1","source":"startup","transcript_path":null}`,
			`{` + common + `"hook_event_name":"SessionStart","model":"m","permission_mode":"bypassPermissions","session_id":"t1","source":"compact","transcript_path":null}`,
		},
		"prompt":  {`{` + common + `"hook_event_name":"UserPromptSubmit","model":"m","permission_mode":"bypassPermissions","prompt":"words","session_id":"t1","transcript_path":null,"turn_id":"u1"}`},
		"compact": {`{` + common + `"hook_event_name":"PreCompact","model":"m","permission_mode":"bypassPermissions","session_id":"t1","transcript_path":null,"trigger":"auto","turn_id":"u1"}`},
		"after":   {`{` + common + `"hook_event_name":"PostCompact","model":"m","permission_mode":"bypassPermissions","session_id":"t1","transcript_path":null,"trigger":"auto","turn_id":"u1"}`},
		"stop":    {`{` + common + `"hook_event_name":"Interrupt","model":"m","permission_mode":"bypassPermissions","reason":"interrupted","session_id":"t1","transcript_path":null,"turn_id":"u1"}`},
		"end":     {`{` + common + `"hook_event_name":"SessionEnd","reason":"other","session_id":"t1","transcript_path":null}`},
	} {
		var got []string
		for _, in := range b.inputs[line] {
			got = append(got, strings.TrimSpace(in))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s reads\n%s\nwant\n%s", line, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestStop(t *testing.T) {
	block := Printed{Stdout: `{"decision":"block","reason":"go on"}`}
	for name, tt := range map[string]struct {
		a, b Printed
		want StopVerdict
	}{
		"silence":              {Printed{}, Printed{}, StopVerdict{}},
		"one":                  {Printed{}, block, StopVerdict{Block: true, Reason: "go on", Run: "stop:1:/f"}},
		"both":                 {block, block, StopVerdict{Block: true, Reason: "go on\n\ngo on", Run: "stop:0:/f"}},
		"a stop beats a block": {block, Printed{Stdout: `{"continue":false,"stopReason":"S"}`}, StopVerdict{}},
		"failure":              {Printed{Stdout: "text"}, Printed{}, StopVerdict{}},
		"nothing to go on":     {Printed{Stdout: `{"decision":"block"}`}, Printed{}, StopVerdict{Block: true, Run: "stop:0:/f"}},
	} {
		b := &bench{run: map[string]func(context.Context, Command) Printed{"a": prints(tt.a), "b": prints(tt.b)}}
		th := b.thread(t, hookOf("a", Stop), hookOf("b", Stop))
		got, err := th.Turn(scene).Stop(t.Context(), Ending{Active: true, LastMessage: "last"})
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, tt.want)
		}
		if in := b.inputs["a"][0]; !strings.Contains(in, `"stop_hook_active":true`) || !strings.Contains(in, `"last_assistant_message":"last"`) {
			t.Errorf("%s: it reads %s", name, in)
		}
		th.End(t.Context(), "/w")
	}
}

// A question is told beside it: the person sees it at once, and no answer of a hook means anything.
func TestNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := &bench{}
		b.run = map[string]func(context.Context, Command) Printed{"a": func(context.Context, Command) Printed {
			<-release
			return Printed{Code: 2, Stderr: "no"}
		}}
		only := hookOf("b", Notification)
		only.Matcher = "permission_prompt"
		th := b.thread(t, hookOf("a", Notification), only)
		th.Notify(event.QuestionAsked{About: event.QuestionApproval, Title: "before any turn"})
		th.Turn(scene)
		th.Notify(event.QuestionAsked{About: event.QuestionApproval, Call: "c1", Title: "make install"})
		th.Notify(event.QuestionAsked{About: event.QuestionChoice, Title: "Which one?"})
		synctest.Wait()
		close(release)
		th.End(t.Context(), "/w")
		const about = `{"cwd":"/w","hook_event_name":"Notification","message":"%s","model":"m","notification_type":"%s","permission_mode":"default","session_id":"t1","title":"gantry","transcript_path":null,"turn_id":"u1"}` + "\n"
		asks := []string{fmt.Sprintf(about, "gantry needs your permission: make install", "permission_prompt"), fmt.Sprintf(about, "gantry has a question: Which one?", "elicitation_dialog")}
		for line, want := range map[string][]string{"a": asks, "b": asks[:1]} {
			slices.Sort(b.inputs[line]) // they run side by side
			if !slices.Equal(b.inputs[line], slices.Sorted(slices.Values(want))) {
				t.Errorf("%s reads\n%s\nwant\n%s", line, b.inputs[line], want)
			}
		}
		if got := b.log(); strings.Count(got, "Notification a failed") != 2 || !strings.Contains(got, "Notification b completed") {
			t.Errorf("log: %s", got)
		}
	})
}

// At most eight run that nobody waits for; they decide nothing, what they say comes later, and the thread's end is theirs.
func TestHooksThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		running := 0
		b := &bench{}
		b.run = map[string]func(context.Context, Command) Printed{"a": func(ctx context.Context, _ Command) Printed {
			b.mu.Lock()
			running++
			b.mu.Unlock()
			select {
			case <-release:
			case <-ctx.Done():
				return Printed{Err: ctx.Err()}
			}
			return Printed{Stdout: `{"decision":"block","reason":"no","hookSpecificOutput":{"additionalContext":"late"}}`}
		}}
		d := hookOf("a", PostToolUse)
		d.Async = true
		th := b.thread(t, d)
		turn := th.Turn(scene)
		for range maxAsync + 2 {
			if r, err := turn.PostToolUse(t.Context(), call(`{}`), contract.Text("x")); err != nil || r.Replace != nil {
				t.Errorf("review = %+v, %v", r, err)
			}
		}
		synctest.Wait()
		if running != maxAsync || strings.Count(b.log(), "failed") != 2 {
			t.Errorf("%d run; %s", running, b.log())
		}
		release <- struct{}{}
		synctest.Wait()
		if late := turn.Late(); !slices.Equal(late, []string{"late"}) || turn.Late() != nil {
			t.Errorf("late = %q", late)
		}
		th.End(t.Context(), "/w")
		if n := strings.Count(b.log(), "PostToolUse"); n != maxAsync+2 {
			t.Errorf("%d ended, want all: %s", n, b.log())
		}
	})
}

func TestLongTexts(t *testing.T) {
	long := strings.Repeat("é", 30_000)
	zero, ten := int64(0), int64(10)
	for name, tt := range map[string]struct {
		limit   *int64
		keepErr error
		want    func(string) bool
	}{
		"default":  {nil, nil, func(s string) bool { return len(s) < 10_200 && strings.Contains(s, "/tmp/kept.txt") }},
		"no limit": {&zero, nil, func(s string) bool { return s == long }},
		"small":    {&ten, nil, func(s string) bool { return len(s) < 200 && strings.HasPrefix(s, "éééé") }},
		"not kept": {nil, errors.New("read-only"), func(s string) bool { return len(s) < 10_200 && !strings.Contains(s, "/tmp") }},
	} {
		b := &bench{keepErr: tt.keepErr, run: map[string]func(context.Context, Command) Printed{"a": prints(Printed{Stdout: long})}}
		d := hookOf("a", UserPromptSubmit)
		d.ContextTokens = tt.limit
		th := b.thread(t, d)
		s := th.Turn(scene).Prompt(t.Context(), "x")
		if len(s.Context) != 1 || !tt.want(s.Context[0]) {
			t.Errorf("%s: %d bytes", name, len(strings.Join(s.Context, "")))
		}
		if name == "default" && b.kept != long {
			t.Error("not all of it is kept")
		}
		th.End(t.Context(), "/w")
	}
}

// A hook whose script a command could still change, because that runs since before the answer, does not run; a guard refuses meanwhile.
func TestHookThatCouldStillBeChanged(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "guard.sh", "x", 0o755)
	at := TurnInfo{Turn: "u1", Cwd: dir, Model: "m"}
	ran := 0
	b := &bench{agreed: map[string]string{}, run: map[string]func(context.Context, Command) Printed{
		"./guard.sh": func(context.Context, Command) Printed { ran++; return Printed{} },
	}}
	d := Definition{Key: "a", Event: PreToolUse, Command: "./guard.sh", Scope: User, Source: "/f"}
	late := d
	late.Key, late.Event = "b", PostToolUse
	for _, d := range []Definition{d, late} {
		digest, _, err := d.Digest(dir, []string{"A=b"})
		if err != nil {
			t.Fatal(err)
		}
		b.agreed[d.Key] = digest
	}
	th := b.thread(t, d, late)
	defer th.End(t.Context(), dir)
	exposed := true
	th.engine.cfg.Exposed = func(paths []string) bool { return exposed && slices.Equal(paths, []string{dir + "/guard.sh"}) }
	turn := th.Turn(at)
	v, _ := turn.PreToolUse(t.Context(), call(`{}`))
	if _, err := turn.PostToolUse(t.Context(), call(`{}`), contract.Text("x")); err != nil || !v.Deny || !strings.Contains(v.Message, "before you agreed") || ran != 0 {
		t.Errorf("verdict = %+v, %v; it ran %d times", v, err, ran)
	}
	if n := turn.Notices(); len(n) != 1 || !strings.Contains(n[0].Text, "before you agreed") {
		t.Errorf("notices = %+v", n)
	}
	exposed = false
	if v, _ := turn.PreToolUse(t.Context(), call(`{}`)); v.Deny || ran != 1 {
		t.Errorf("afterwards: %+v, it ran %d times", v, ran)
	}
}
