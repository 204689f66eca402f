package grants

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// A declared process has what its block says, whatever commands have, and it is not ended for running long.
func TestDeclared(t *testing.T) {
	t.Parallel()
	dir, g := permitWorld(t)
	ws, out := filepath.Join(dir, "ws"), filepath.Join(dir, "out")
	l, err := launch.New(launch.Config{LauncherPath: "/bin/sh", Confiners: []launch.Confiner{launch.Unconfined{}, anyBox{}}})
	if err != nil {
		t.Fatal(err)
	}
	g.Launcher, g.Tmp = l, func() (string, error) { return filepath.Join(dir, "tmp"), nil }
	c := g.Config
	c.Dir, c.Sandbox.Network, c.Sandbox.WritableRoots, c.Sandbox.DenyRead = ws, true, []string{out}, []string{"/secret"}
	c.Limits.CPUTime, c.Limits.OutputBytes, c.Limits.OpenFiles, c.Limits.Pids = time.Second, 10, 20, 30
	host, err := hosts.ParsePattern("api.test")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		p    config.Process
		dir  string
		want launch.Grant
	}{
		"nothing": {config.Process{}, ws, launch.Grant{Mode: box.ReadOnly, Limits: launch.Limits{OpenFiles: 20, MaxPids: 30}}},
		"a folder, hosts and roots": {
			config.Process{Cwd: out, Sandbox: config.ProcessSandbox{Network: []hosts.Pattern{host}, WritableRoots: []string{ws}, ReadableRoots: []string{"/opt"}}}, out,
			launch.Grant{
				Mode: box.WorkspaceWrite, WritableRoots: []string{ws}, ReadableRoots: []string{out, ws, "/opt"}, Proxied: true, Hosts: []string{"api.test"},
				Tmp: filepath.Join(dir, "tmp"), Limits: launch.Limits{OpenFiles: 20, MaxPids: 30},
			},
		},
		"limits": {
			config.Process{Limits: config.Limits{MemoryBytes: 1, Pids: 40, CPUTime: time.Minute, FileBytes: 3}}, ws,
			launch.Grant{Mode: box.ReadOnly, Limits: launch.Limits{MemoryBytes: 1, MaxPids: 40, CPUSeconds: 60, OpenFiles: 20, FileBytes: 3}},
		},
	} {
		got, at, err := g.Declared(tc.p)
		tc.want.DenyRead = []string{"/secret"}
		if err != nil || at != tc.dir || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: in %s\n%+v, want in %s\n%+v (%v)", name, at, got, tc.dir, tc.want, err)
		}
	}
	c.Sandbox.DenyRead, c.Sandbox.DenyWrite = []string{"*.pem"}, []string{"*.lock"}
	own, _, err := g.Declared(config.Process{Sandbox: config.ProcessSandbox{WritableRoots: []string{"/data"}, ReadableRoots: []string{"/opt"}, DenyRead: []string{"private", "/keys"}}})
	if want := []string{ws + "/*.pem", out + "/*.pem", "/data/*.pem", "/opt/*.pem", ws + "/private", "/data/private", "/opt/private", "/keys"}; err != nil || !reflect.DeepEqual(own.DenyRead, want) {
		t.Errorf("it can't read %q, want %q (%v)", own.DenyRead, want, err)
	}
	if want := []string{ws + "/*.lock", out + "/*.lock", "/data/*.lock", "/opt/*.lock"}; !reflect.DeepEqual(own.DenyWrite, want) {
		t.Errorf("it can't write %q, want %q", own.DenyWrite, want)
	}
	script := filepath.Join(out, "file")
	started, _, err := g.Declared(config.Process{Argv: []string{"/bin/sh", script, "missing", "sub"}, Sandbox: config.ProcessSandbox{WritableRoots: []string{"/data"}}})
	if want := []string{ws, "/bin/sh", "/bin", script, out, filepath.Join(ws, "sub")}; err != nil || !reflect.DeepEqual(started.Near, want) {
		t.Errorf("of the machine's /tmp it sees %q, want %q (%v)", started.Near, want, err)
	}
	c.Sandbox.DenyRead, c.Sandbox.DenyWrite = nil, nil
	full, _, err := g.Declared(config.Process{Sandbox: config.ProcessSandbox{FullAccess: true, Network: []hosts.Pattern{host}}})
	if err != nil || full.Mode != launch.FullAccess || !full.Network || full.Proxied || full.Hosts != nil {
		t.Errorf("full access: %+v, %v", full, err)
	}
}

// anyBox enforces every mode in theory.
type anyBox struct{ launch.Unconfined }

// Enforces accepts all.
func (anyBox) Enforces(launch.Grant) bool { return true }
