//go:build unix

package tools_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-agent/gantry/sdk/process/processtest"
	"github.com/gantry-agent/gantry/sdk/process/shellstate"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// loginRig has a user whose profile says so in a file each time it is read.
func loginRig(t *testing.T, config, profile string) *rig {
	t.Helper()
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("no bash here")
	}
	home := t.TempDir()
	profile = "echo read >>" + home + "/log\nexport PAGER=less TERM=xterm EDITOR=vi\nf() { echo of the profile; }\n" + profile
	put(t, home, ".bash_profile", profile)
	put(t, home, ".zprofile", profile)
	r := newRig(t, rigOptions{config: config, host: processtest.Options{Service: func(h *processtest.Host) gantryv1.HostServiceServer {
		return &homeHost{h, home}
	}}})
	r.home = home
	return r
}

// homeHost gives programs a home.
type homeHost struct {
	*processtest.Host
	home string
}

func (h *homeHost) Spawn(ctx context.Context, req *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, error) {
	if req.Env == nil { // of a helper
		req.Env = map[string]string{}
	}
	req.Env["HOME"], req.Env["PATH"] = h.home, "/usr/bin:/bin"
	return h.Host.Spawn(ctx, req)
}

func (r *rig) profileRead() int { return strings.Count(get(r.t, r.home, "log"), "read\n") }

func TestLoginIsReadOnce(t *testing.T) {
	for _, shell := range []string{"/bin/bash", "/bin/zsh"} {
		t.Run(shell, func(t *testing.T) { testLoginIsReadOnce(t, shell) })
	}
}

func testLoginIsReadOnce(t *testing.T, shell string) {
	if _, err := os.Stat(shell); err != nil {
		t.Skipf("no %s here", shell)
	}
	r := loginRig(t, `{"shell":"`+shell+`"}`, "")
	const cmd = `echo "$PAGER $TERM $EDITOR"; f; echo "$GANTRY_TOOL_CALL_ID"; env | grep -c GANTRY_SHELL`
	for range 3 {
		if a := r.call("exec_command", object{"cmd": cmd}); !strings.HasSuffix(a.tail(), "Output:\ncat dumb vi\nof the profile\ncall\n0\n") {
			t.Errorf("text = %q", a.text())
		}
	}
	if n := r.profileRead(); n != 1 {
		t.Errorf("the profile was read %d times", n)
	}
	// A command without it is as it was.
	if a := r.call("exec_command", plain("f; echo ${EDITOR-none}")); !strings.HasSuffix(a.text(), "none\n") || !strings.Contains(a.text(), "not found") {
		t.Errorf("without a login: %q", a.text())
	}
	if n := r.profileRead(); n != 1 {
		t.Errorf("the profile was read %d times", n)
	}
	// Another folder may make another profile of it.
	if a := r.call("exec_command", object{"cmd": "f", "workdir": "/"}); !strings.HasSuffix(a.text(), "of the profile\n") || r.profileRead() != 2 {
		t.Errorf("elsewhere: %q, read %d times", a.text(), r.profileRead())
	}
}

// Without a snapshot, too, output is for reading.
func TestProfileDoesNotOverrideTheEnvironment(t *testing.T) {
	for _, tt := range []struct{ name, config, profile string }{
		{"switched off", `{"shell":"/bin/bash","snapshot":false}`, ""},
		{"can't be repeated", `{"shell":"/bin/bash"}`, "trap 'true' EXIT"},
		{"switched off for zsh", `{"shell":"/bin/zsh","snapshot":false}`, ""},
		{"a shell that has none", `{"shell":"/bin/sh"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := os.Stat("/bin/zsh"); err != nil && strings.Contains(tt.config, "zsh") {
				t.Skip("no zsh here")
			}
			r := loginRig(t, tt.config, tt.profile)
			put(t, r.home, ".profile", "export PAGER=less TERM=xterm\n") // for a shell that is no bash
			for range 2 {
				if a := r.call("exec_command", object{"cmd": `echo "$PAGER $TERM"`}); !strings.HasSuffix(a.tail(), "Output:\ncat dumb\n") {
					t.Errorf("text = %q", a.text())
				}
			}
		})
	}
}

func TestAChangedProfileIsReadAgain(t *testing.T) {
	r := loginRig(t, `{"shell":"/bin/bash"}`, "")
	says := func(want string) {
		t.Helper()
		if a := r.call("exec_command", object{"cmd": "echo $NEW"}); !strings.HasSuffix(a.tail(), "Output:\n"+want+"\n") {
			t.Errorf("text = %q, want %q", a.text(), want)
		}
	}
	says("")
	r.call("exec_command", object{"cmd": "echo 'export NEW=1' >>~/.bash_profile"})
	says("1")
	r.call("apply_patch", "*** Begin Patch\n*** Update File: "+r.home+"/.bash_profile\n@@\n-export NEW=1\n+export NEW=2\n*** End Patch")
	says("2")
}

func TestMissingFolderIsNotAProfileFailure(t *testing.T) {
	r := loginRig(t, `{"shell":"/bin/bash"}`, "")
	if a := r.call("exec_command", object{"cmd": "f", "workdir": "missing"}); !strings.Contains(a.text(), "No such file or directory (os error 2)") {
		t.Errorf("text = %q", a.text())
	}
	put(t, r.cwd, "missing/x", "")
	for range 2 {
		if a := r.call("exec_command", object{"cmd": "f", "workdir": "missing"}); !strings.HasSuffix(a.text(), "of the profile\n") {
			t.Errorf("text = %q", a.text())
		}
	}
	if n := r.profileRead(); n != 1 {
		t.Errorf("the profile was read %d times", n)
	}
}

// A host that decided on one command starts no other: what leaves the sandbox runs as it was approved, without anything
// before it. So does what a policy lets out, of which the plugin learns when it is refused.
func TestApprovedCommandIsNotRewritten(t *testing.T) {
	var refuse atomic.Bool
	var spawned sync.Map
	r := newRig(t, rigOptions{config: `{"shell":"/bin/bash"}`, host: processtest.Options{Refuse: func(req *gantryv1.SpawnRequest) *gantryv1.SpawnError {
		argv := req.GetArgv()
		spawned.Store(strings.Join(argv, " "), true)
		if refuse.Load() && argv[len(argv)-1] != "echo hello" {
			return &gantryv1.SpawnError{Message: "the call was approved for another command"}
		}
		return nil
	}}})
	for _, args := range []object{{"cmd": "echo hello", "sandbox_permissions": "require_escalated", "justification": "x"}, {"cmd": "echo hello"}} {
		refuse.Store(true)
		if a := r.call("exec_command", args); !strings.HasSuffix(a.text(), "hello\n") { // behind what the profile says
			t.Errorf("%v: %q", args, a.text())
		}
	}
	// What only has something before it is of the form that hosts know.
	refuse.Store(false)
	r.call("exec_command", object{"cmd": "echo hello", "shell": "/bin/sh"})
	r.call("exec_command", object{"cmd": "echo hello"})
	spawned.Range(func(line, _ any) bool {
		argv := strings.SplitN(line.(string), " ", 3)
		command, ok := shellstate.Command(argv)
		if (!ok || command != "" && command != "echo hello") && argv[2] != "echo hello" {
			t.Errorf("started %q", line)
		}
		return true
	})
}
