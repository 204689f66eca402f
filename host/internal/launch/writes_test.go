package launch

import (
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/config/glob"
)

// A sandbox that was created before a file was protected could change it.
func TestCouldChange(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, "hooks", "a[1].sh")
	for _, tc := range []struct {
		name     string
		grant    Grant
		readOnly bool
		ended    bool
		want     bool
	}{
		{"before", Grant{Mode: "workspace-write", WritableRoots: []string{root}}, false, false, true},
		{"holds it", Grant{Mode: "workspace-write", WritableRoots: []string{root}, DenyWrite: []string{glob.Quote(path)}}, false, false, false},
		{"holds its folder", Grant{Mode: "workspace-write", WritableRoots: []string{root}, DenyWrite: []string{glob.Quote(filepath.Dir(path))}}, false, false, false},
		{"holds another", Grant{Mode: "workspace-write", WritableRoots: []string{root}, DenyWrite: []string{glob.Quote(path + "x"), glob.Quote(filepath.Join(root, "hook"))}}, false, false, true},
		{"elsewhere", Grant{Mode: "workspace-write", WritableRoots: []string{root + "x"}}, false, false, false},
		{"reads", Grant{Mode: "read-only"}, false, false, false},
		{"only looks", Grant{Mode: "workspace-write", WritableRoots: []string{root}}, true, false, false},
		{"full access", Grant{Mode: FullAccess, WritableRoots: []string{root}}, false, false, false},
		{"ended", Grant{Mode: "workspace-write", WritableRoots: []string{root}}, false, true, false},
	} {
		l := &Launcher{}
		p := &Process{spec: Spec{Grant: tc.grant, ReadOnly: tc.readOnly, Owner: Owner{Call: "c"}}}
		p.status.ended = tc.ended
		l.mu.procs = map[string]*Process{"p": p}
		if owner, found := l.CouldChange([]string{path}); found != tc.want || found && owner.Call != "c" {
			t.Errorf("%s: %v, %v", tc.name, owner, found)
		}
	}
}
