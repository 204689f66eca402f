//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// Nothing of a program is started before its user has agreed to it, and what is locked is what they have agreed to.
func TestPluginAddAsksFirst(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		args    []string
		answer  string // on a terminal; empty: there is none
		started bool
	}{
		{name: "without a terminal"},
		{name: "no", answer: "n\n"},
		{name: "nothing", answer: "\n"},
		{name: "yes", answer: "y\n", started: true},
		{name: "--yes", args: []string{"--yes"}, started: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, "")
			// Who runs takes the byte out of the pipe, which a confined process may read.
			pipe := filepath.Join(r.Home, "bin", "started")
			program := r.Program("odd", "#!/bin/sh\nhead -c 1 <"+pipe+" >/dev/null\nexit 3\n")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			fd, err := syscall.Open(pipe, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(fd)
			if _, err := syscall.Write(fd, []byte("x")); err != nil {
				t.Fatal(err)
			}
			args := append(append([]string{"plugin", "add"}, tc.args...), program)
			var out string
			if tc.answer == "" {
				res := r.Gantry(args...)
				out = res.Stdout + res.Stderr
			} else {
				run := r.Terminal(args...)
				run.Sees("Start and add it? [y/N] ")
				run.Type(tc.answer)
				res := run.Wait()
				out = res.Stdout
				if !strings.Contains(out, program) || !strings.Contains(out, "sha256:") {
					t.Errorf("the question does not say what is started:\n%s", out)
				}
			}
			if tc.started != strings.Contains(out, "status 3") || tc.started == strings.Contains(out, "was not started") {
				t.Errorf("started %v:\n%s", tc.started, out)
			}
			var b [1]byte
			if n, _ := syscall.Read(fd, b[:]); tc.started != (n != 1) {
				t.Errorf("the byte is there: %v, want started: %v", n == 1, tc.started)
			}
			if strings.Contains(r.Read(filepath.Join(r.Home, "gantry.hcl")), "odd") {
				t.Error("a block was added")
			}
		})
	}
}

// What is exchanged between the question and the lock is not locked.
func TestPluginAddLocksWhatWasAgreedTo(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := r.Program("odd", fmt.Sprintf("#!/bin/sh\n%s=fast exec %q \"$@\"\n", oddMode, self))
	run := r.Terminal("plugin", "add", program)
	run.Sees("Start and add it? [y/N] ")
	r.Program("odd", fmt.Sprintf("#!/bin/sh\n# another one\n%s=fast exec %q \"$@\"\n", oddMode, self))
	run.Type("y\n")
	if res := run.Wait(); res.Code == 0 || !strings.Contains(res.Stdout, "sha256") {
		t.Errorf("exit %d:\n%s", res.Code, res.Stdout)
	}
	if _, err := os.Stat(filepath.Join(r.Home, "gantry.lock.hcl")); err == nil && strings.Contains(r.Read(filepath.Join(r.Home, "gantry.lock.hcl")), "odd") {
		t.Error("it was locked")
	}
}
