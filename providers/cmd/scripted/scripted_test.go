package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// start makes the provider as Configure would, without a process.
func start(t *testing.T, cfg config, dataDir string) *scripted {
	t.Helper()
	if cfg.Models == nil {
		cfg.Models = []string{"scripted"}
	}
	p, err := newScripted(t.Context(), provider.Env{Config: &cfg, DataDir: dataDir, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	s := p.(*scripted)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func user(texts ...string) *llm.Request {
	r := &llm.Request{Model: "scripted", System: []string{"base"}}
	for i, text := range texts {
		role := llm.RoleUser
		if i%2 == 1 {
			role = llm.RoleAssistant
		}
		r.Messages = append(r.Messages, llm.Message{Role: role, Parts: llm.Parts{&llm.Text{Text: text}}})
	}
	return r
}

// ask streams one request and returns the folded answer. An error of Stream becomes the fold's, as the SDK does it.
func ask(ctx context.Context, s *scripted, thread string, r *llm.Request) (*llm.Fold, error) {
	f := &llm.Fold{}
	err := s.Stream(ctx, &provider.StreamRequest{Request: r, MaxAttempts: 5, ThreadID: thread, TurnID: "turn"}, func(e llm.Event) error {
		f.Add(e)
		return ctx.Err()
	})
	return f, err
}

const twoSteps = "[[step]]\ndo=[{text=\"one\"}]\n[[step]]\ndo=[{text=\"two\"}]\n[[step]]\ndo=[{text=\"three\"}]"

func TestThreadsHaveTheirOwnPosition(t *testing.T) {
	t.Parallel()
	s := start(t, config{ScriptText: twoSteps}, "")
	for _, q := range []struct{ thread, want string }{{"a", "one"}, {"a", "two"}, {"b", "one"}, {"a", "three"}, {"b", "two"}, {"", "one"}, {"", "one"}} {
		f, err := ask(t.Context(), s, q.thread, user("?"))
		if err != nil || f.Message().Text() != q.want {
			t.Errorf("thread %q: %q, %v; want %q", q.thread, f.Message().Text(), err, q.want)
		}
	}
}

func TestANewProcessGoesOnWhereTheOldOneWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := `[[step]]
		do = [{text = "one"}]
		[[step]]
		error = {code = "overloaded"}
		[[step]]
		do = [{text = "half of it"}]
		break = {}
		[[step]]
		do = [{text = "four"}]`
	req := user("?")
	for i, want := range []string{"one", "", "half of it", "four"} {
		s := start(t, config{ScriptText: text}, dir)
		f, err := ask(t.Context(), s, "t", req)
		if got := f.Message().Text(); got != want {
			t.Fatalf("request %d: %q, %v; want %q", i+1, got, err, want)
		}
		if f.Done() {
			req.Messages = append(req.Messages, *f.Message())
		} // the rest leaves nothing in the conversation, only a note in the data folder
	}
	if notes, err := os.ReadDir(filepath.Join(dir, "positions")); err != nil || len(notes) != 0 {
		t.Errorf("after a whole answer there are notes left: %v, %v", notes, err)
	}
}

func TestCancelledAnswerIsBehindUs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "[[step]]\nchunk_delay_ms=3600000\ndo=[{text=\"one\"}]\n[[step]]\ndo=[{text=\"two\"}]"
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	s := start(t, config{ScriptText: text}, dir)
	err := s.Stream(ctx, &provider.StreamRequest{Request: user("?"), ThreadID: "t"}, func(e llm.Event) error {
		if llm.EventName(e) == "text-start" {
			cancel(interrupted)
		}
		return nil
	})
	if !errors.Is(err, interrupted) {
		t.Errorf("err = %v, want the cause", err)
	}
	f, err := ask(t.Context(), start(t, config{ScriptText: text}, dir), "t", user("?"))
	if err != nil || f.Message().Text() != "two" {
		t.Errorf("a new process answers %q, %v", f.Message().Text(), err)
	}
}

func TestDelaysTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, config{ScriptText: `[[step]]
			delay_ms = 1000
			chunk = 1
			chunk_delay_ms = 250
			attempts = {failures = 1, delay_ms = 500}
			do = [{text = "abcd"}]`}, "")
		begin := time.Now()
		if _, err := ask(t.Context(), s, "t", user("?")); err != nil {
			t.Fatal(err)
		}
		if got, want := time.Since(begin), 2500*time.Millisecond; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
	})
}

func TestHangEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, config{ScriptText: "[[step]]\ndo=[{text=\"so\"}]\nbreak={how=\"hang\"}"}, "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f, err := ask(ctx, s, "t", user("?"))
		if !errors.Is(err, context.DeadlineExceeded) || f.Done() || f.Message().Text() != "so" {
			t.Errorf("%q, done %t, err %v", f.Message().Text(), f.Done(), err)
		}
	})
}

func TestEndsOfTheProcess(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"exit", "kill"} {
		s := start(t, config{ScriptText: "[[step]]\nbreak={how=\"" + how + "\",code=7,delay_ms=0.1}"}, t.TempDir())
		var got string
		var code int
		died := errors.New("died")
		s.end = func(how string, c int) error { got, code = how, c; return died }
		if _, err := ask(t.Context(), s, "t", user("?")); !errors.Is(err, died) || got != how || code != 7 {
			t.Errorf("%s: %q with %d, %v", how, got, code, err)
		}
	}
	s := start(t, config{ScriptText: "[[step]]\nbreak={how=\"panic\"}"}, "")
	defer func() {
		if v := recover(); v != "the script asked for a panic in step step-1" {
			t.Errorf("panic: %v", v)
		}
	}()
	_, err := ask(t.Context(), s, "t", user("?"))
	t.Errorf("no panic, err %v", err)
}

func TestLogHasEachRequestWhole(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "requests.jsonl")
	s := start(t, config{ScriptText: "[[step]]\nname=\"only\"\nwhen={user=\"<b>\"}\ndo=[{text=\"one\"}]", Log: name}, "")
	s.clock = func() (time.Time, time.Duration) { return time.Unix(1700000000, 5), 42 }
	req := user("<b> & more")
	req.Tools = []llm.Tool{{Name: "a", InputSchema: json.RawMessage(`{"type":"object", "properties":{}}`)}}
	for range 2 {
		_, _ = ask(t.Context(), s, "t1", req)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines:\n%s", len(lines), b)
	}
	const body = `"request":{"generation":{},"messages":[{"parts":[{"text":"<b> & more","type":"text"}],"role":"user"}],"model":"scripted",` +
		`"system":["base"],"toolChoice":{},"tools":[{"inputSchema":{"properties":{},"type":"object"},"name":"a"}]}`
	if !strings.Contains(lines[0], strings.NewReplacer(`"generation":{},`, "", `"toolChoice":{},`, "").Replace(body)) {
		t.Errorf("line 1: %s", lines[0])
	}
	var l requestLine
	if err := json.Unmarshal([]byte(lines[0]), &l); err != nil {
		t.Fatal(err)
	}
	if l.Time != "2023-11-14T22:13:20.000000005Z" || l.Monotonic != 42 || l.Thread != "t1" || l.Turn != "turn" || l.N != 1 || l.Step != "only" || l.Process != os.Getpid() || l.MaxAttempts != 5 || l.Refused != "" {
		t.Errorf("line 1: %+v", l)
	}
	var back llm.Request
	if err := json.Unmarshal(l.Request, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := canonical(&back); err != nil || !bytes.Equal(again, l.Request) {
		t.Errorf("the logged request does not come back: %s, %v", again, err)
	}
	l = requestLine{}
	if err := json.Unmarshal([]byte(lines[1]), &l); err != nil || !strings.Contains(l.Refused, "all 1 steps are used up") {
		t.Errorf("line 2: %+v, %v", l, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestConfigurationErrorsPointAtTheirAttribute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(bad, []byte("[[step]]\ntext = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name      string
		cfg       config
		attribute string
		want      string
	}{
		{"two sources", config{Script: "/a", ScriptText: "b"}, "", "both script and script_text are set"},
		{"missing script", config{Script: filepath.Join(dir, "none.toml")}, "script", "no such file"},
		{"folder", config{Script: dir}, "script", "is no file"},
		{"bad script", config{Script: bad}, "script", `script bad.toml: step 1: unknown key "text"`},
		{"bad inline script", config{ScriptText: "x"}, "script_text", "line 1"},
		{"log nowhere", config{Log: filepath.Join(dir, "none", "log")}, "log", "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := newScripted(t.Context(), provider.Env{Config: &tc.cfg, Logger: hclog.NewNullLogger()})
			d, ok := errors.AsType[*contract.Diagnostic](err)
			if !ok {
				t.Fatalf("err = %v", err)
			}
			attribute := ""
			if len(d.Path) > 0 {
				attribute = d.Path[0].Name
			}
			if attribute != tc.attribute || !strings.Contains(d.Summary+" "+d.Detail, tc.want) || d.Next == "" {
				t.Errorf("%q: %s: %s\nNext: %s", attribute, d.Summary, d.Detail, d.Next)
			}
		})
	}
}

func TestPrepareAndModels(t *testing.T) {
	t.Parallel()
	s := start(t, config{ContextWindow: 1000, Models: []string{"small", "large"}}, "")
	p, err := s.Prepare(t.Context(), user("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Method != "SCRIPT" || p.URL != "script://demo/otherwise" || !json.Valid(p.Body) || !strings.Contains(string(p.Body), `"text":"hello"`) {
		t.Errorf("%s %s %s", p.Method, p.URL, p.Body)
	}
	rows, err := s.Models(t.Context())
	if err != nil || len(rows) != 2 || rows[1].ID != "large" || rows[1].ContextWindow != 1000 {
		t.Errorf("%+v, %v", rows, err)
	}
}
