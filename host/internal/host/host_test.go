package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/store/storetest"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// binaries finds what `make build` made; these tests run real plugins.
func binaries(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("GANTRY_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "bin")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "gantry-provider-scripted")); err != nil {
		t.Skip("the plugin binaries are missing: run `make build` first")
	}
	return dir
}

const script = `
[[step]]
when = { since_user = 0 }
times = -1
do = [{ call = "exec_command", args = { cmd = "echo ${user}", login = false } }]
[[step]]
when = { since_user = 1 }
times = -1
capture = [{ pattern = 'Output:\n(?P<said>.*)' }]
do = [{ text = "it said ${said}" }]
`

func options(t testing.TB, name string) host.Options {
	t.Helper()
	return optionsWith(t, name, script)
}

// optionsWith is for a host whose model plays a script.
func optionsWith(t testing.TB, name, script string) host.Options {
	t.Helper()
	home, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(home, "gantry.hcl")
	hcl := fmt.Sprintf(`
provider "scripted" {
  source      = "builtin/scripted"
  script_text = %q
}
model "default" {
  provider = "scripted"
  name     = "scripted"
}
approval {
  policy = "never"
}
`, script)
	hcl = strings.ReplaceAll(hcl, "${", "$${") // a template's braces are the script's
	if err := os.WriteFile(file, []byte(hcl), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, ds := config.Load(t.Context(), config.Options{Home: home, Dir: t.TempDir(), System: "-"})
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	return host.Options{
		Home: home, BinDir: binaries(t), Version: "0.0.0-test", Config: cfg, Logger: hclog.NewNullLogger(),
		Environ: []string{"PATH=" + os.Getenv("PATH"), "WHO=" + name},
	}
}

// ask runs a turn to its end and returns the last message.
func ask(ctx context.Context, th *thread.Thread, text string) (string, error) {
	sub, err := th.Subscribe(ctx, thread.Lossless)
	if err != nil {
		return "", err
	}
	defer sub.Close()
	if _, err := th.Submit(ctx, thread.Submission{Input: turn.Input{Parts: []llm.Part{&llm.Text{Text: text}}}}); err != nil {
		return "", err
	}
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			return "", err
		}
		if end, ok := e.Body.(event.TurnEnded); ok {
			if end.Status != event.TurnCompleted {
				return "", fmt.Errorf("turn %s: %+v", end.Status, end.Error)
			}
			return end.LastMessage, nil
		}
	}
}

// Two hosts in one process share nothing: each has its store, plugins and threads.
func TestTwoHostsInOneProcess(t *testing.T) {
	var work sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		opts := options(t, name)
		work.Go(func() {
			h, err := host.New(t.Context(), opts)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			}()
			th, err := h.StartThread(t.Context(), host.Params{Cwd: t.TempDir(), Source: "test"})
			if err != nil {
				t.Error(err)
				return
			}
			for range 3 {
				if got, err := ask(t.Context(), th, "$WHO"); err != nil || got != "it said "+name {
					t.Errorf("host %s: %q, %v", name, got, err)
				}
			}
		})
	}
	work.Wait()
}

// The store is a sink: turns, calls and their journal work on a store that refuses every read.
func TestNothingOnTheHotPathReadsTheLog(t *testing.T) {
	h, err := host.New(t.Context(), host.TuningStore(options(t, "blind"), storetest.RefuseReads))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	th, err := h.StartThread(t.Context(), host.Params{Cwd: t.TempDir(), Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		got, err := ask(t.Context(), th, fmt.Sprint("turn ", i))
		if err != nil || got != fmt.Sprint("it said turn ", i) {
			t.Errorf("turn %d: %q, %v", i, got, err)
		}
	}
	if _, err := h.ResumeThread(t.Context(), event.NewThreadID()); err == nil || strings.Contains(err.Error(), "not a UUID") {
		t.Errorf("the store was read: %v", err)
	}
}

func TestUnknownModelIsNamed(t *testing.T) {
	h, err := host.New(t.Context(), options(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if _, err := h.StartThread(t.Context(), host.Params{Cwd: "/", Model: "defualt"}); err == nil || !strings.Contains(err.Error(), "defualt") {
		t.Errorf("error = %v", err)
	}
}
