package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const nobody = 65534

// programs are those that tests run as an ordinary user need.
var programs = []string{"gantry", "gantry-launch", "gantry-tool-shell", "gantry-tool-browser", "gantry-tool-mcp", "gantry-tool-python", "gantry-codemode", "gantry-provider-scripted", "gantry-provider-compatible"}

// AsOrdinaryUser runs tests of the calling test program again, as a user without any rights: the kernel treats root differently. run is a
// pattern as -test.run takes it, name is what the program is called. prepare may put more into the folder of programs, which that user can
// read, and returns further variables; nil: nothing. Only root can do this; for others the test is skipped, since their own run was one.
func AsOrdinaryUser(t *testing.T, name, run string, prepare func(dir string) []string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	dir, err := os.MkdirTemp("/var/tmp", "gantry-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		CopyProgram(t, filepath.Join(Bin(t), name), filepath.Join(dir, name), 0o755)
	}
	self := filepath.Join(dir, name)
	CopyProgram(t, "/proc/self/exe", self, 0o755)
	cmd := exec.CommandContext(t.Context(), self, "-test.run", run)
	cmd.Args[0] = name + ".test"
	cmd.Dir = "/"
	// Folders of root's in PATH would turn "not found" into "permission denied".
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PATH=") || strings.HasPrefix(kv, "HOME=") })
	cmd.Env = append(env, "PATH="+strings.Join(slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), closed), ":"), "HOME=/nonexistent", "GANTRY_BIN="+dir)
	if prepare != nil {
		cmd.Env = append(cmd.Env, prepare(dir)...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || strings.Contains(text, "no tests to run") || !strings.Contains(text, "PASS") {
		t.Errorf("%v\n%s", err, text)
	}
}

// closed reports whether other users can't reach a folder.
func closed(dir string) bool {
	for ; len(dir) > 1; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return true
		}
	}
	return false
}

// CopyProgram copies a program and gives it a mode.
func CopyProgram(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err == nil {
		err = os.Chmod(to, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
