package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/hashicorp/go-hclog"
)

// page is a front end that is no terminal.
type page struct {
	answer bool
	asked  []string
	steps  []Step
}

func (p *page) Confirm(_ context.Context, question string) bool {
	p.asked = append(p.asked, question)
	return p.answer
}

func (p *page) Show(s Step) { p.steps = append(p.steps, s) }

// newHome makes a home with a program that leaves a mark when it is started, and opens it.
func newHome(t *testing.T, settings string, front Front) (p *Programs, home string) {
	t.Helper()
	home = t.TempDir()
	put := func(name, text string, perm os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), perm); err != nil {
			t.Fatal(err)
		}
	}
	put("weather", "#!/bin/sh\ntouch "+filepath.Join(home, "started")+"\n", 0o755)
	put("gantry.hcl", settings, 0o600)
	load := func(ctx context.Context) (*config.Config, error) {
		cfg, ds := config.Load(ctx, config.Options{Home: home, Dir: home, System: "-", LookupEnv: func(string) (string, bool) { return "", false }})
		return cfg, ds.Err()
	}
	cfg, err := load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in := Installation{Home: home, Bin: home, Dir: home, Version: "0.0.0", Builtins: map[string]string{"gantry-provider-scripted": "00", "gantry-tool-shell": "00"}, Logger: hclog.NewNullLogger(), Front: front, Load: load}
	if p, err = in.Open(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p, home
}

// untouched checks that nothing was started or recorded.
func untouched(t *testing.T, home, settings string) {
	t.Helper()
	for _, name := range []string{"started", "gantry.lock.hcl"} {
		if _, err := os.Stat(filepath.Join(home, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(home, "gantry.hcl")); err != nil || string(text) != settings {
		t.Errorf("gantry.hcl is %q, %v", text, err)
	}
}

const configured = "plugin \"weather\" {\n  source = \"./weather\"\n}\n"

func TestLockAsksBeforeItStartsAProgram(t *testing.T) {
	front := &page{}
	p, home := newHome(t, configured, front)
	b, err := p.Block("weather")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lock(t.Context(), b, false, ""); err == nil || !strings.Contains(err.Error(), "was not accepted") {
		t.Errorf("the error is %v", err)
	}
	if len(front.asked) != 1 || !strings.Contains(front.asked[0], filepath.Join(home, "weather")) || !strings.Contains(front.asked[0], "sha256") {
		t.Errorf("asked: %q", front.asked)
	}
	if len(front.steps) > 0 {
		t.Errorf("shown: %+v", front.steps)
	}
	untouched(t, home, configured)
}

func TestAddAsksBeforeItStartsAProgram(t *testing.T) {
	front := &page{}
	p, home := newHome(t, "", front)
	if _, err := p.Add(t.Context(), "./weather", "", false, false); err == nil || !strings.Contains(err.Error(), "was not added") {
		t.Errorf("the error is %v", err)
	}
	if len(front.asked) != 1 || !strings.Contains(front.asked[0], "./weather is new") {
		t.Errorf("asked: %q", front.asked)
	}
	untouched(t, home, "")
}

func TestVerifyAsksAboutWhatIsNotLocked(t *testing.T) {
	front := &page{}
	p, home := newHome(t, configured, front)
	if _, err := p.Verify(t.Context(), p.cfg); err == nil || !strings.Contains(err.Error(), "not locked") {
		t.Errorf("the error is %v", err)
	}
	if len(front.asked) != 1 || !strings.Contains(front.asked[0], "is not locked yet") {
		t.Errorf("asked: %q", front.asked)
	}
	untouched(t, home, configured)
}

// Remove shows its steps, and needs no consent.
func TestRemoveShowsWhatItDid(t *testing.T) {
	front := &page{}
	p, home := newHome(t, configured, front)
	if err := p.Remove(t.Context(), "weather", false); err != nil {
		t.Fatal(err)
	}
	if len(front.asked) > 0 || len(front.steps) != 1 || front.steps[0].Kind != StepRemoved || front.steps[0].File != filepath.Join(home, "gantry.hcl") {
		t.Errorf("asked %q, shown %+v", front.asked, front.steps)
	}
	untouched(t, home, "")
}

func TestAnArgumentThatCantBeUsed(t *testing.T) {
	p, home := newHome(t, "", &page{answer: true})
	_, err := p.Add(t.Context(), "builtin/nothing", "", false, false)
	if _, ok := errors.AsType[*ArgumentError](err); !ok {
		t.Errorf("the error is %v", err)
	}
	_, err = NewPlugin{Name: "Weather", Dir: filepath.Join(home, "new"), From: home, Version: "0.1.0"}.Write()
	if _, ok := errors.AsType[*ArgumentError](err); !ok {
		t.Errorf("the error is %v", err)
	}
	untouched(t, home, "")
}
