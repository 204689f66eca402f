package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// overseen gives options a model that writes down what it is asked.
func overseen(t *testing.T, more string) (opts host.Options, asked func() []map[string]any) {
	t.Helper()
	opts = playing(t, `
[[step]]
when = { since_user = 0 }
times = -1
do = [{ call = "exec_command", args = { cmd = "echo hello", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	log := filepath.Join(t.TempDir(), "requests.jsonl")
	file := filepath.Join(opts.Home, "gantry.hcl")
	hcl, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(hcl), "  script_text", fmt.Sprintf("  log = %q\n  script_text", log), 1) + more
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, ds := config.Load(t.Context(), config.Options{Home: opts.Home, Dir: t.TempDir(), System: "-"})
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	opts.Config = cfg
	return opts, func() (out []map[string]any) {
		b, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			var l struct{ Request map[string]any }
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatal(err)
			}
			out = append(out, l.Request)
		}
		return out
	}
}

func in(text string) thread.Submission {
	return thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: text}}}}
}

// within runs f with a host of its own, as one command does.
func within(t *testing.T, opts host.Options, f func(h *host.Host)) {
	t.Helper()
	h, err := host.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	f(h)
}

func same(t *testing.T, what string, p *host.Prepared, sent map[string]any) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(p.Body, &got); err != nil {
		t.Fatal(err)
	}
	a, b := asText(t, got), asText(t, sent)
	if a != b {
		t.Errorf("%s: prepared\n%s\nsent\n%s", what, a, b)
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What is shown is what is sent then: of a new thread, and of one that is stored.
func TestPrepare(t *testing.T) {
	opts, asked := overseen(t, "")
	cwd := t.TempDir()
	var first, second, blank *host.Prepared
	var id event.ThreadID
	prepare := func(h *host.Host, p host.PrepareParams) *host.Prepared {
		t.Helper()
		got, err := h.Prepare(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	within(t, opts, func(h *host.Host) {
		first = prepare(h, host.PrepareParams{Cwd: cwd, Submission: in("one")})
		if first.Method != "SCRIPT" || first.Model.Provider != "scripted" || len(first.Headers) != 1 {
			t.Errorf("%+v", first)
		}
		if all, err := h.Store().Threads(t.Context(), store.Filter{}); err != nil || len(all) > 0 {
			t.Errorf("it left threads: %v, %v", all, err)
		}
	})
	if sent := asked(); len(sent) > 0 {
		t.Fatalf("it was sent: %v", sent)
	}
	within(t, opts, func(h *host.Host) {
		th, err := h.StartThread(t.Context(), host.Params{Cwd: cwd, Source: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), th, "one"); err != nil {
			t.Fatal(err)
		}
		id = th.ID()
		_, err = h.Prepare(t.Context(), host.PrepareParams{Thread: id, Submission: in("two")})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d is running thread %s", os.Getpid(), id)) {
			t.Errorf("of a thread that runs: %v", err)
		}
	})
	sent := asked()
	sent[0]["promptCacheKey"] = ids(first)["promptCacheKey"] // each thread has its own
	same(t, "first", first, sent[0])

	within(t, opts, func(h *host.Host) {
		second = prepare(h, host.PrepareParams{Thread: id, Submission: in("two")})
		blank = prepare(h, host.PrepareParams{Thread: id})
	})
	within(t, opts, func(h *host.Host) {
		th, err := h.ResumeThread(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t.Context(), th, "two"); err != nil {
			t.Fatal(err)
		}
	})
	sent = asked()
	same(t, "second", second, sent[2])
	messages := sent[2]["messages"].([]any)
	sent[2]["messages"] = messages[:len(messages)-1]
	same(t, "without a task", blank, sent[2])
}

func ids(p *host.Prepared) map[string]any {
	var out map[string]any
	_ = json.Unmarshal(p.Body, &out)
	return out
}

func TestPrepareThatCantBe(t *testing.T) {
	opts, _ := overseen(t, `
model "odd" {
  provider = "scripted"
  name     = "odd"
}
provider "gone" {
  source = "./gone"
}
model "lost" {
  provider = "gone"
  name     = "x"
  fallback = ["odd"]
}
`)
	within(t, opts, func(h *host.Host) {
		for _, tt := range []struct {
			name string
			p    host.PrepareParams
			want string
		}{
			{"no task", host.PrepareParams{Cwd: "/"}, "without a task"},
			{"no such model", host.PrepareParams{Cwd: "/", Submission: thread.Submission{Input: in("x").Input, Change: thread.Change{Model: "defualt"}}}, "defualt"},
			{"no such thread", host.PrepareParams{Thread: event.NewThreadID(), Submission: in("x")}, "no events"},
			{"no thread's id", host.PrepareParams{Thread: "../x", Submission: in("x")}, "not an id"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				if _, err := h.Prepare(t.Context(), tt.p); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %s", err, tt.want)
				}
			})
		}
		// Another model that would stand in is shown, and why.
		got, err := h.Prepare(t.Context(), host.PrepareParams{Cwd: "/", Submission: thread.Submission{Input: in("x").Input, Change: thread.Change{Model: "lost"}}})
		if err != nil {
			t.Fatal(err)
		}
		if got.Model.ModelName != "odd" || len(got.Notices) != 1 || !strings.Contains(got.Notices[0].Text, "gone") {
			t.Errorf("%+v, %+v", got.Model, got.Notices)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		if _, err := h.Prepare(ctx, host.PrepareParams{Cwd: "/", Submission: in("x")}); !errors.Is(err, enough) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
