//go:build linux || darwin

package transport

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Of another user's process nothing is read, even if it can open the socket. Only root can become another user.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	home := home(t)
	path := filepath.Join(home, "s")
	r := start(t, Config{Address: Address{Kind: Unix, Path: path}}, echo)
	program := filepath.Join(home, "client") // the folder of the test's program is private
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(program, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{home, path} { // as if the user had made them accessible
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-test.run=^TestOtherUserProcess$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = []string{"GANTRY_TEST_OTHER=" + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %.2000s", err, out)
	}
	echoes(t, r.client(), "hello")
}

// TestOtherUserProcess is the program of the test above.
func TestOtherUserProcess(t *testing.T) {
	path := os.Getenv("GANTRY_TEST_OTHER")
	if path == "" {
		t.Skip("not a test")
	}
	if os.Getuid() != 65534 {
		t.Fatal("not another user")
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the socket is not accessible, which this test is not about: %v", err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, plain("GET", "/healthz", "localhost", ""))
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Errorf("an answer: %.80q", b)
	}
}
