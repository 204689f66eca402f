package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// installed is a rig whose binaries are copies that a test may damage.
func installed(t *testing.T) *rig.Rig {
	t.Helper()
	r := rig.New(t, say)
	dir := t.TempDir()
	for _, name := range []string{"gantry", "gantry-launch", "gantry-tool-shell", "gantry-provider-scripted"} {
		b, err := os.ReadFile(filepath.Join(r.Bin, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.Bin = dir
	return r
}

// A launcher that is not there, or not right, is a finding among the others, with what to do.
func TestDoctorAndTheLauncher(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage     func(path string) error
		text, next string
	}{
		"missing":           {os.Remove, "gantry-launch is missing", "reinstall gantry"},
		"not executable":    {func(path string) error { return os.Chmod(path, 0o644) }, "gantry-launch is not executable", "chmod 755"},
		"of another system": {func(path string) error { return os.WriteFile(path, []byte("junk\n"), 0o755) }, "exec format error", "reinstall gantry"},
		"another program":   {func(path string) error { return os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755) }, "can't start a process", "reinstall gantry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := installed(t)
			if err := tc.damage(filepath.Join(r.Bin, "gantry-launch")); err != nil {
				t.Fatal(err)
			}
			res := r.Gantry("doctor")
			if res.Code != 1 || !strings.Contains(res.Stdout, "✗ launcher: ") || !strings.Contains(res.Stdout, tc.text) || !strings.Contains(res.Stdout, tc.next) {
				t.Errorf("exit %d, want a finding with %q and %q:\n%s%s", res.Code, tc.text, tc.next, res.Stdout, res.Stderr)
			}
			for _, other := range []string{"✓ home", "✓ database", "✓ configuration"} {
				if !strings.Contains(res.Stdout, other) {
					t.Errorf("there is no finding %q:\n%s", other, res.Stdout)
				}
			}
		})
	}
}

// A home that can't be written is told once, with its reason, and nothing that follows from it.
func TestDoctorAndTheDisk(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ mount, text, next string }{
		"read-only": {"mount -t tmpfs -o size=1m,mode=700 tmpfs $H && mount -o remount,ro $H", "is mounted read-only", "mount it writable"},
		"full":      {"mount -t tmpfs -o size=64k,mode=700 tmpfs $H", "is full", "free up space"},
		"in a folder that is read-only": {"mount -t tmpfs -o size=1m,mode=700 tmpfs $H && mount -o remount,ro $H && GANTRY_HOME=$H/below",
			"can't create the home folder", "GANTRY_HOME"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, say)
			home := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c",
				tc.mount+` || exit 77; export GANTRY_HOME; exec "$0" doctor`, filepath.Join(r.Bin, "gantry"))
			cmd.Env = append(r.Env, "H="+home, "GANTRY_HOME="+home)
			out, _ := cmd.CombinedOutput() // its status is looked at
			if code := cmd.ProcessState.ExitCode(); code == 77 || strings.Contains(string(out), "unshare") {
				t.Skipf("nothing can be mounted here: %s", out)
			}
			if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "✗ home: ") || !strings.Contains(string(out), tc.text) || !strings.Contains(string(out), tc.next) {
				t.Errorf("exit %d, want a finding with %q and %q:\n%s", code, tc.text, tc.next, out)
			}
			if !strings.HasSuffix(strings.TrimSpace(string(out)), "1 check failed") {
				t.Errorf("one cause is told more than once:\n%s", out)
			}
		})
	}
}

// Where nobody on its way knew better, an error of the system has a next step of its own.
func TestReadOnlyHome(t *testing.T) {
	t.Parallel()
	r := rig.New(t, say)
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c",
		`mount -t tmpfs -o size=1m,mode=700,ro tmpfs $H || exit 77; "$0" init; "$0" plugin add --label other builtin/shell`,
		filepath.Join(r.Bin, "gantry"))
	cmd.Env = append(r.Env, "H="+home, "GANTRY_HOME="+home)
	out, _ := cmd.CombinedOutput() // its status is looked at
	if code := cmd.ProcessState.ExitCode(); code == 77 || strings.Contains(string(out), "unshare") {
		t.Skipf("nothing can be mounted here: %s", out)
	}
	if n := strings.Count(string(out), "\n  Next: "); n != 2 || strings.Count(string(out), "read-only file system\n") != 2 {
		t.Errorf("%d next steps, want one for each of the two errors:\n%s", n, out)
	}
}

// The process that runs scripts is examined if it is there or needed.
func TestDoctorAndScripts(t *testing.T) {
	t.Parallel()
	r := installed(t)
	if res := r.Gantry("doctor"); strings.Contains(res.Stdout, "scripts:") {
		t.Errorf("it is neither there nor needed:\n%s", res.Stdout)
	}
	r.Config("codemode {\n  mode = \"on\"\n}\n")
	path := filepath.Join(r.Bin, "gantry-codemode")
	if res := r.Gantry("doctor"); res.Code != 1 || !strings.Contains(res.Stdout, "✗ scripts: "+path) || !strings.Contains(res.Stdout, "reinstall gantry") {
		t.Errorf("it is missing: exit %d\n%s", res.Code, res.Stdout)
	}
	rig.CopyProgram(t, filepath.Join(rig.Bin(t), "gantry-codemode"), path, 0o755)
	if res := r.Gantry("doctor"); res.Code != 0 || !strings.Contains(res.Stdout, "✓ scripts: "+path+" ran a script, locked, in ") {
		t.Errorf("it works: exit %d\n%s", res.Code, res.Stdout)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if res := r.Gantry("doctor"); res.Code != 1 || !strings.Contains(res.Stdout, "✗ scripts: "+path) {
		t.Errorf("it is another program: exit %d\n%s", res.Code, res.Stdout)
	}
}
