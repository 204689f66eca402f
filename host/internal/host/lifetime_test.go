package host_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// with replaces the configuration of options by one that has more blocks.
func with(t *testing.T, opts host.Options, blocks string) host.Options {
	t.Helper()
	file := filepath.Join(opts.Home, "gantry.hcl")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, blocks...), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, ds := config.Load(t.Context(), config.Options{Home: opts.Home, Dir: t.TempDir(), System: "-"})
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	opts.Config = cfg
	return opts
}

func TestClosedHostBeginsNothing(t *testing.T) {
	opts := options(t, "closed")
	h, err := host.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() { // some begin before the end and some do not; none is left over
			_, _ = h.StartThread(t.Context(), host.Params{Cwd: t.TempDir()})
		})
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	starts.Wait()
	if _, err := h.StartThread(t.Context(), host.Params{Cwd: t.TempDir()}); err == nil {
		t.Error("a closed host started a thread")
	} else if !errors.Is(err, thread.ErrClosed) && !strings.Contains(err.Error(), "closed") {
		t.Errorf("error = %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(opts.Home, "run", "*.[sp]*")); err != nil || len(left) > 0 {
		t.Errorf("sockets left: %v, %v", left, err)
	}
	if err := h.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// A plugin that does not start is named at the beginning of the turn, and costs nothing else.
func TestBrokenPluginIsNamedAndTheTurnGoesOn(t *testing.T) {
	opts := options(t, "whole")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho 'no handshake from me'\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	opts = with(t, opts, "\nplugin \"broken\" {\n  source = \""+broken+"\"\n}\n")
	h, err := host.New(t.Context(), opts)
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
	if got, err := ask(t.Context(), th, "hello"); err != nil || got != "it said hello" {
		t.Errorf("%q, %v", got, err)
	}
	var kinds []string
	var notice event.Notice
	for {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Body.Kind())
		if n, ok := e.Body.(event.Notice); ok {
			notice = n
		}
		if _, ok := e.Body.(event.TurnEnded); ok {
			break
		}
	}
	if i := strings.Join(kinds, " "); !strings.Contains(i, "turn.started notice") {
		t.Errorf("events: %s", i)
	}
	if notice.Level != "error" || !strings.Contains(notice.Text, "broken") || notice.Next == "" {
		t.Errorf("notice = %+v", notice)
	}
}

// withFragile adds a plugin that starts only where the file "healthy" is.
func withFragile(t *testing.T, opts host.Options) (_ host.Options, healthy string) {
	t.Helper()
	dir := t.TempDir()
	program, healthy := filepath.Join(dir, "fragile"), filepath.Join(dir, "healthy")
	script := fmt.Sprintf("#!/bin/sh\n[ -e %q ] || exit 3\nexec %q \"$@\"\n", healthy, filepath.Join(opts.BinDir, "gantry-tool-shell"))
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return with(t, opts, "\nplugin \"fragile\" {\n  source = \""+program+"\"\n}\n"), healthy
}

// turns runs turns of a thread and returns the notices that came in each, as level and text.
func turns(t *testing.T, th *thread.Thread, n int) (notices []string) {
	t.Helper()
	sub, err := th.Subscribe(t.Context(), thread.Lossless)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for i := range n {
		if _, err := ask(t.Context(), th, "hello"); err != nil {
			t.Fatal(err)
		}
		for {
			e, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if b, ok := e.Body.(event.Notice); ok {
				notices = append(notices, fmt.Sprintf("turn %d, %s: %s", i+1, b.Level, b.Text))
			}
			if _, ok := e.Body.(event.TurnEnded); ok {
				break
			}
		}
	}
	return notices
}

// A broken plugin is told of when it breaks, when it is given up, and when it works again; not in every turn.
func TestBrokenPluginIsToldOncePerChange(t *testing.T) {
	opts, healthy := withFragile(t, options(t, "fragile"))
	h, err := host.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	begin := func() *thread.Thread {
		th, err := h.StartThread(t.Context(), host.Params{Cwd: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return th
	}
	check := func(got []string, want ...string) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("notices %q, want %q", got, want)
		}
		for i, w := range want {
			if begins, holds, _ := strings.Cut(w, "…"); !strings.HasPrefix(got[i], begins) || !strings.Contains(got[i], holds) {
				t.Errorf("notice %q, want %q", got[i], w)
			}
		}
	}
	th := begin()
	// In which turn it is given up depends on how often it was warmed up meanwhile.
	check(turns(t, th, 6), "turn 1, error: …did not start: it ended without a handshake", "turn …it failed 3 times")
	other := begin() // has not heard of it
	check(turns(t, other, 2), "turn 1, error: …it failed 3 times")
	if err := os.WriteFile(healthy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Plugins().ReloadPlugin(t.Context(), "fragile", ""); err != nil {
		t.Fatal(err)
	}
	check(turns(t, th, 2), "turn 1, info: …plugin \"fragile\" works again")
	check(turns(t, other, 2), "turn 1, info: …plugin \"fragile\" works again")
}
