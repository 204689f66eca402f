package grants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// What programs print names the path that the sandbox kept from them, and only where the grant says the same.
func TestDenials(t *testing.T) {
	t.Parallel()
	dir, g := permitWorld(t)
	ws, out := filepath.Join(dir, "ws"), filepath.Join(dir, "out")
	g.Config.Sandbox.DenyRead = []string{filepath.Join(out, "file")}
	grant := For(g.Config, box.WorkspaceWrite, ws, "")
	for _, d := range []string{".git", ".githooks"} {
		if err := os.Mkdir(filepath.Join(ws, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(ws, ".git/config"), []byte("[core]\n\thooksPath = .githooks\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const erofs, eperm, eacces = "read_only_file_system", "operation_not_permitted", "permission_denied"
	for name, tc := range map[string]struct {
		text string
		want event.Denial
	}{
		"touch":                  {"touch: cannot touch '" + out + "/q': Read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"touch, typographic":     {"touch: cannot touch ‘" + out + "/q’: Read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"a relative path":        {"touch: cannot touch '../out/q': Read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"a name in a link":       {"mkdir: cannot create directory 'link/q': Read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"a shell":                {"bash: line 1: " + out + "/q: Read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"a shell by its path":    {"/usr/bin/bash: line 1: " + out + "/q: Read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"python":                 {"Traceback\n  x\nOSError: [Errno 30] Read-only file system: '" + out + "/q'", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"go":                     {"open " + out + "/q: read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"node":                   {"Error: EROFS: read-only file system, open '" + out + "/q'", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"a terminal's lines":     {"rm: cannot remove '" + out + "/q': Read-only file system\r\n", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"something protected":    {"fatal: could not open '.git/config': Read-only file system", event.Denial{Reason: erofs, Path: ws + "/.git/config", Access: "write", Why: "files there are executed later, or say what agents and other programs may do"}},
		"a lock of git's":        {"fatal: Unable to create '" + ws + "/.git/index.lock': Read-only file system", event.Denial{Reason: erofs, Path: ws + "/.git/index.lock", Access: "write", Why: "files there are executed later, or say what agents and other programs may do"}},
		"what settings name":     {"sh: 1: cannot create .githooks/x: Read-only file system", event.Denial{Reason: erofs, Path: ws + "/.githooks/x", Access: "write", Why: "git would execute it, because of core.hookspath in " + ws + "/.git/config"}},
		"what is denied":         {"cat: " + out + "/file: Permission denied", event.Denial{Reason: eacces, Path: out + "/file", Access: "read"}},
		"what is not":            {"cat: " + out + "/other: Permission denied", event.Denial{Reason: eacces}},
		"what may be written":    {"touch: cannot touch 'x': Operation not permitted", event.Denial{Reason: eperm}},
		"no path":                {"ping: socket: Operation not permitted", event.Denial{Reason: eperm}},
		"where nothing is":       {"touch: cannot touch '/none/at/all': Read-only file system", event.Denial{Reason: erofs}},
		"no words":               {"Bad system call", event.Denial{Reason: "unknown"}},
		"an output without end":  {strings.Repeat("x", 1<<20) + "\nopen " + out + "/q: read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
		"the first that is sure": {"a: Permission denied\ntouch: cannot touch '" + out + "/q': Read-only file system", event.Denial{Reason: erofs, Path: out + "/q", Access: "write"}},
	} {
		tc.want.Sandbox = box.WorkspaceWrite
		if got := Denial(g.Environ, grant, ws, tc.text); *got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, *got, tc.want)
		}
	}
}
