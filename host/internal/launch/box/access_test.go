package box_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// TestReach checks the access to paths against codex's vectors, with gantry's own where it is stricter.
func TestReach(t *testing.T) {
	t.Parallel()
	const none, read, write = box.AccessNone, box.AccessRead, box.AccessWrite
	ws := launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: []string{"/ws", "/extra"}}
	nested := launch.Grant{Mode: box.WorkspaceWrite, ReadableRoots: []string{"/a"}, WritableRoots: []string{"/a/b"}, DenyRead: []string{"/a/b/c"}}
	same := launch.Grant{Mode: box.WorkspaceWrite, ReadableRoots: []string{"/s"}, WritableRoots: []string{"/s"}, DenyRead: []string{"/s"}}
	open := launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: []string{"/ws", "/ws/.git", "/ws/d/in"}, DenyRead: []string{"/ws/**/*.env", "/ws/d"}, DenyWrite: []string{"/ws/vendor", "/ws/**/*.lock"}}
	full := launch.Grant{Mode: launch.FullAccess, DenyRead: []string{"/keys"}, DenyWrite: []string{"/ws/vendor"}, ReadableRoots: []string{"/ws"}}
	for _, tc := range []struct {
		name  string
		grant launch.Grant
		paths map[string]box.Access
	}{
		{"workspace-write", ws, map[string]box.Access{
			"/ws": write, "/ws/a": write, "/ws/sub/a": write, "/tmp/a": write, "/extra/a": write, "/wsx": read, "/ws/../x": read, "/": read,
			"/ws/.git": read, "/ws/.git/x": read, "/ws/.codex/x": read, "/ws/.agents/x": read, "/ws/.aws/x": read, "/ws/.gantry/x": read,
			"/ws/AGENTS.md": write, "/ws/.GIT/x": write, "/ws/.vscode/x": write, "/ws/.envrc": write, "/ws/.mcp.json": write, "/ws/.gitignore": write,
			"/tmp/.git": read, "/tmp/.codex": read, "/out/x": read, "/home/x": read, "/var/tmp/x": read, "/run/x": read, "/etc/x": read,
			// codex 0.169 lets all of a repository further down be written: what is executed there is executed later.
			"/ws/sub/.git/x": write, "/ws/sub/.git": read, "/ws/sub/.git/hooks/x": read, "/ws/sub/.git/config": read, "/ws/sub/.codex/x": read,
			"/ws/a/b/.gantry/x": read, "/ws/a/.aws/x": write, "relative": none,
		}},
		{"nearest counts", nested, map[string]box.Access{"/a/x": read, "/a/b/x": write, "/a/b/c/x": none, "/a/b/c": none, "/z": none, "/": none, "/usr/bin/x": read, "/etc/x": read}},
		{"strictest of the same", same, map[string]box.Access{"/s": none, "/s/x": none}},
		{"read-only", launch.Grant{Mode: box.ReadOnly, WritableRoots: []string{"/ws"}}, map[string]box.Access{"/ws/a": read, "/tmp/a": read}},
		{"exceptions", open, map[string]box.Access{
			"/ws/.git/index": write, "/ws/.git/hooks/x": write, "/ws/.codex/x": read, "/ws/a.env": none, "/ws/sub/A.ENV": none, "/ws/a.env/below": none,
			"/ws/d": none, "/ws/d/x": none, "/ws/d/in": write, "/ws/d/in/x": write, "/ws/d/in/x.env": none,
			"/ws/vendor": read, "/ws/vendor/x": read, "/ws/go.lock": read, "/ws/vendors": write,
		}},
		{"full access", full, map[string]box.Access{"/keys/x": none, "/etc/x": write, "/ws/.git/x": write, "/ws/vendor/x": write}},
		{"a pattern that can't be read", launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: []string{"/ws"}, DenyRead: []string{"x"}}, map[string]box.Access{"/ws/a": none, "/etc/x": none}},
	} {
		for path, want := range tc.paths {
			if got := box.Reach(tc.grant, path); got != want {
				t.Errorf("%s: %s is %v, want %v", tc.name, path, got, want)
			}
		}
	}
}

func TestHidden(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, dir := range []string{".ssh", ".gantry/plugins", "ws"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b := box.New(box.Config{Home: filepath.Join(home, ".gantry"), UserHome: home, KeyFiles: func() []string { return []string{home + "/ws/key"} }})
	ws := launch.Grant{Mode: box.WorkspaceWrite, WritableRoots: []string{home + "/ws"}}
	shown := launch.Grant{Mode: box.ReadOnly, Shown: []string{home + "/.ssh/config"}}
	for _, tc := range []struct {
		grant launch.Grant
		paths map[string]bool
	}{
		{ws, map[string]bool{
			home + "/.ssh": true, home + "/.ssh/id": true, home + "/.gantry": true, home + "/.gantry/secrets": true,
			home + "/.gantry/plugins/x": false, home + "/ws/a": false, home + "/ws/key": true, "/etc/hosts": false,
		}},
		{shown, map[string]bool{home + "/.ssh/config": false, home + "/.ssh/id": true, home + "/.sshx": false}},
		{launch.Grant{Mode: launch.FullAccess}, map[string]bool{home + "/.ssh/id": false, "/proc/1/environ": false}},
	} {
		for path, want := range tc.paths {
			if got := b.Hidden(tc.grant)(path); got != want {
				t.Errorf("%s in mode %s: hidden %v, want %v", path, tc.grant.Mode, got, want)
			}
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	for path, want := range map[string]bool{
		"/proc/1/environ": true, "/dev/sda": true, "/run/user/1000/bus": true, "/run/systemd/resolve/resolv.conf": false, "/tmp/other": true, "/usr/bin": false,
	} {
		if got := b.Hidden(ws)(path); got != want {
			t.Errorf("%s: hidden %v, want %v", path, got, want)
		}
	}
	if b.Hidden(launch.Grant{Mode: box.ReadOnly})("/tmp/other") {
		t.Error("read-only commands see the machine's /tmp")
	}
}
