package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// playing gives options a model that plays script.
func playing(t *testing.T, script string) host.Options {
	t.Helper()
	opts := options(t, "x")
	hcl := fmt.Sprintf("provider \"scripted\" {\n  source = \"builtin/scripted\"\n  script_text = %q\n}\n"+
		"model \"default\" {\n  provider = \"scripted\"\n  name = \"scripted\"\n}\napproval {\n  policy = \"never\"\n}\n", script)
	if err := os.WriteFile(filepath.Join(opts.Home, "gantry.hcl"), []byte(hcl), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, ds := config.Load(t.Context(), config.Options{Home: opts.Home, Dir: t.TempDir(), System: "-"})
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	opts.Config = cfg
	return opts
}

// An answer that breaks the contract, or a provider that dies in it, costs that answer: the model is asked again, and
// what was whole is neither lost nor said twice as if it were new.
func TestAnswersThatBreak(t *testing.T) {
	steps := map[string]string{}
	for _, m := range []string{
		"after-finish", "block-after-step-finish", "delta-after-end", "delta-without-start", "end-without-start", "error-after-finish",
		"late-attempt", "no-end", "no-finish", "no-step-finish", "no-step-start", "nothing", "two-ends", "two-finishes",
		"two-starts", "two-step-finishes", "two-step-starts",
	} {
		steps["malformed "+m] = fmt.Sprintf("malformed = %q\ndo = [{ text = \"half\" }]", m)
	}
	steps["malformed two-calls"] = "malformed = \"two-calls\"\ndo = [{ call = \"nope\" }]"
	for _, how := range []string{"incomplete", "eof", "exit", "kill", "panic"} {
		steps["break "+how] = fmt.Sprintf("break = { how = %q, after_bytes = 2 }\ndo = [{ text = \"half\", chunk = 1 }]", how)
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := host.New(t.Context(), playing(t, "[[step]]\n"+step+"\n[[step]]\ntimes = -1\ndo = [{ text = \"whole\" }]\n"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			}()
			th, err := h.StartThread(t.Context(), host.Params{Cwd: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			sub, err := th.Subscribe(t.Context(), thread.Lossless)
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			for i := range 2 { // the next turn works like any other
				got, err := ask(t.Context(), th, "go")
				// What ends behind the finish is not noticed by asking again.
				if err != nil || got != "whole" && (i > 0 || got != "half") {
					t.Errorf("turn %d: %q, %v", i, got, err)
				}
			}
			open := map[event.ItemID]bool{}
			for turns := 0; turns < 2; {
				e, err := sub.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				switch b := e.Body.(type) {
				case event.ItemStarted:
					open[b.Item.ID] = true
				case event.ItemCompleted:
					delete(open, b.Item.ID)
				case event.TurnEnded:
					turns++
				case event.StreamRetried:
					if strings.TrimSpace(b.Cause) == "" {
						t.Errorf("asked again without a cause: %+v", b)
					}
				}
			}
			if len(open) > 0 {
				t.Errorf("%d items are still open", len(open))
			}
		})
	}
}
