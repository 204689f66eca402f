package grants

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// permitWorld is a folder with some things in it, without symbolic links on the way.
func permitWorld(t *testing.T) (dir string, g Granter) {
	t.Helper()
	top, err := os.MkdirTemp("/var/tmp", "gantry-permit-") // a box's /tmp is its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	if dir, err = filepath.EvalSymlinks(top); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"home/data", "ws/sub", "out/deep"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "out", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "out"), filepath.Join(dir, "ws", "link")); err != nil {
		t.Fatal(err)
	}
	return dir, Granter{Config: &config.Config{}, Home: filepath.Join(dir, "home"), Environ: []string{"HOME=" + filepath.Join(dir, "out")}}
}

func TestResolvingPermissions(t *testing.T) {
	t.Parallel()
	dir, g := permitWorld(t)
	in := func(p string) string { return filepath.Join(dir, p) }
	for _, tc := range []struct {
		name        string
		asked, want policy.Permissions
		says        string
	}{
		{"folders and files", policy.Permissions{Write: []string{in("out")}, Read: []string{in("out/file")}, Network: true},
			policy.Permissions{Write: []string{in("out")}, Read: []string{in("out/file")}, Network: true}, ""},
		{"a relative path", policy.Permissions{Write: []string{"sub"}}, policy.Permissions{Write: []string{in("ws/sub")}}, ""},
		{"the user's home", policy.Permissions{Write: []string{"~/deep"}}, policy.Permissions{Write: []string{in("out/deep")}}, ""},
		{"a link is what it leads to", policy.Permissions{Write: []string{"link"}}, policy.Permissions{Write: []string{in("out")}}, ""},
		{"the same twice", policy.Permissions{Write: []string{"link", in("out")}}, policy.Permissions{Write: []string{in("out")}}, ""},
		{"a file can't be written", policy.Permissions{Write: []string{in("out/file")}}, policy.Permissions{}, "it is not a folder; ask for its folder"},
		{"what is not there", policy.Permissions{Read: []string{in("none")}}, policy.Permissions{}, "it does not exist"},
		{"everything", policy.Permissions{Write: []string{"/"}}, policy.Permissions{}, "the whole file system"},
		{"gantry's own", policy.Permissions{Write: []string{in("home")}}, policy.Permissions{}, "it belongs to gantry"},
		{"what lies in gantry's own", policy.Permissions{Read: []string{in("home/data")}}, policy.Permissions{}, "it belongs to gantry"},
		{"a zero byte", policy.Permissions{Read: []string{"a\x00b"}}, policy.Permissions{}, "zero byte"},
	} {
		got, err := g.Resolve(in("ws"), tc.asked)
		switch {
		case tc.says == "" && (err != nil || !reflect.DeepEqual(got, tc.want)):
			t.Errorf("%s: %+v, %v, want %+v", tc.name, got, err, tc.want)
		case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestPermissionsWidenAGrant(t *testing.T) {
	t.Parallel()
	dir, g := permitWorld(t)
	ws, out := filepath.Join(dir, "ws"), filepath.Join(dir, "out")
	all := policy.Permissions{Write: []string{out}, Read: []string{filepath.Join(out, "file")}, Network: true}
	for _, mode := range []string{box.ReadOnly, box.WorkspaceWrite} {
		got := WithPermissions(For(g.Config, mode, ws, ""), all)
		inside := box.Reach(got, filepath.Join(ws, "x"))
		if box.Reach(got, filepath.Join(out, "x")) != box.AccessWrite || box.Reach(got, filepath.Join(out, ".git", "x")) != box.AccessRead ||
			(inside == box.AccessWrite) != (mode == box.WorkspaceWrite) || !got.Network || len(got.Shown) != 1 {
			t.Errorf("%s: %+v", mode, got)
		}
	}
	if got := WithPermissions(launch.Grant{Mode: box.WorkspaceWrite, Proxied: true}, all); got.Network {
		t.Error("who has a proxy does not go around it")
	}
	if got := WithPermissions(launch.Grant{Mode: box.WorkspaceWrite, ReadableRoots: []string{ws}}, all); len(got.ReadableRoots) != 2 {
		t.Errorf("readable: %v", got.ReadableRoots)
	}
	if !g.Writable(orchestrate.GrantRequest{Sandbox: box.WorkspaceWrite, Cwd: ws, Permitted: all}, filepath.Join(out, "new")) {
		t.Error("a patch would be asked about again")
	}
	// Somebody puts a link into the place of what was given.
	if err := os.Rename(out, out+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", out); err != nil {
		t.Fatal(err)
	}
	if got := WithPermissions(For(g.Config, box.WorkspaceWrite, ws, ""), all); len(got.WritableRoots) != 1 || len(got.Shown) != 0 {
		t.Errorf("behind a link: %+v", got)
	}
}

// A patch that was approved opens the file and no more than its folder.
func TestAnApprovedFileOpensItsFolder(t *testing.T) {
	t.Parallel()
	dir, _ := permitWorld(t)
	file := filepath.Join(dir, "out", "deep", "none", "new")
	got := withEffects(launch.Grant{Mode: box.ReadOnly}, []contract.Effect{contract.WriteEffect{Paths: []string{file}}})
	if got.Mode != box.WorkspaceWrite || len(got.WritableRoots) != 1 || got.WritableRoots[0] != filepath.Join(dir, "out", "deep") || got.Opened[0] != file {
		t.Errorf("%+v", got)
	}
}
