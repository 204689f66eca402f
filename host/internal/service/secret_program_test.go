package service_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/host/internal/service"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// What a program prints is a plugin's secret; what goes wrong is told in words that say which program and why.
func TestSecretsThatProgramsPrint(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	shell := func(script string) service.Program {
		return service.Program{Argv: []string{"sh", "-c", script}, Dir: dir, Timeout: time.Minute}
	}
	brief := shell("echo half; exec sleep 600")
	brief.Timeout = 200 * time.Millisecond
	w.programs = map[string]service.Program{
		"plain":       shell("printf '  key 1\\n\\n'"),
		"stdin":       shell("cat; echo key"),
		"folder":      shell("pwd"),
		"environment": shell("echo $KEEP"),
		"relative":    {Argv: []string{filepath.Join(dir, "print")}, Dir: dir, Timeout: time.Minute},
		"nothing":     shell("echo; echo why >&2"),
		"fails":       shell("echo key; echo 'not logged in' >&2; echo 'run x login' >&2; exit 3"),
		"killed":      shell("kill -9 $$"),
		"binary":      shell("printf '\\377\\376'"),
		"large":       shell("head -c 100000 /dev/zero | tr '\\0' x"),
		"late":        brief,
		"missing":     {Argv: []string{"no-such-program"}, Dir: dir, Timeout: time.Minute},
		"no folder":   {Argv: []string{"true"}, Dir: filepath.Join(dir, "none"), Timeout: time.Minute},
		"leaves":      shell("sleep 600 & echo key"),
	}
	if err := os.WriteFile(filepath.Join(dir, "print"), []byte("#!/bin/sh\necho from a file\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	mine := w.client("mine")
	for handle, want := range map[string]string{
		"plain": "key 1", "stdin": "key", "folder": dir, "environment": "1", "relative": "from a file", "leaves": "key",
		"nothing":   `!the program "sh" printed nothing`,
		"fails":     `!the program "sh" ended with status 3: not logged in run x login`,
		"killed":    `!the program "sh" ended with status 137`,
		"binary":    `!the program "sh" printed invalid UTF-8`,
		"large":     `!the program "sh" printed more than 65536 bytes, which is too long for a secret`,
		"late":      `!the program "sh" printed no secret within 200ms; next: run it yourself, or raise its timeout`,
		"missing":   `!the program "no-such-program" did not start: `,
		"no folder": `!the program "true" did not start: `,
	} {
		res, err := mine.Secret(t.Context(), &gantryv1.SecretRequest{Handle: handle})
		text, failed := strings.CutPrefix(want, "!")
		if !failed && (err != nil || res.GetValue() != text) {
			t.Errorf("%s: %q, %v, want %q", handle, res.GetValue(), err, text)
		}
		if failed && (code(err) != codes.FailedPrecondition || !strings.HasPrefix(status.Convert(err).Message(), text)) {
			t.Errorf("%s: %v, want %q", handle, err, text)
		}
		if err != nil && (strings.Contains(err.Error(), "half") || strings.Contains(err.Error(), "xxx")) {
			t.Errorf("%s: %q shows what was printed", handle, err)
		}
	}
	if res, err := w.client("other").Secret(t.Context(), &gantryv1.SecretRequest{Handle: "plain"}); code(err) != codes.PermissionDenied {
		t.Errorf("another plugin reads %q, %v", res.GetValue(), err)
	}
	if n := w.launcher.Count(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// Who gives up ends the program.
func TestSecretsThatNobodyWaitsFor(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	began, over := filepath.Join(dir, "began"), filepath.Join(dir, "over")
	w.programs = map[string]service.Program{"slow": {
		Argv: []string{"sh", "-c", "trap ': > over; exit 1' TERM; : > began; sleep 600 & wait"}, Dir: dir, Timeout: time.Minute,
	}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // owned by the test, whose request ends with it
		defer cancel()
		until(t, "the program runs", func() bool { _, err := os.Stat(began); return err == nil })
	}()
	if _, err := w.client("mine").Secret(ctx, &gantryv1.SecretRequest{Handle: "slow"}); code(err) != codes.Canceled {
		t.Errorf("error = %v", err)
	}
	until(t, "the program has ended", func() bool { return w.launcher.Count() == 0 })
	if _, err := os.Stat(over); err != nil {
		t.Errorf("it was not asked to end: %v", err)
	}
}

// until waits for the world outside, which sends no events.
func until(t *testing.T, what string, ok func() bool) {
	deadline := time.After(20 * time.Second)
	for tick := time.Tick(time.Millisecond); !ok(); {
		select {
		case <-tick:
		case <-deadline:
			t.Errorf("waited in vain until %s", what)
			return
		}
	}
}
