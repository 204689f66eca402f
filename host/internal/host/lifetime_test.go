package host_test

import (
	"errors"
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
	if left, err := filepath.Glob(filepath.Join(opts.Home, "run", "*.sock")); err != nil || len(left) > 0 {
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
