//go:build unix

// Package chromiumtest starts a browser for a test.
//
// It owns: the browser's process and its folder. It must not know: the protocol.
//
// Start with [Start].
package chromiumtest

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium"
)

// Start starts a browser without its sandbox, because tests may run as root, and returns its answers and its input. It ends with the test.
// Without a browser on this machine, the test is skipped.
func Start(tb testing.TB) (io.ReadCloser, io.WriteCloser) {
	tb.Helper()
	path, err := chromium.Find("")
	if errors.Is(err, chromium.ErrNone) {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "browser-*")
	if err != nil {
		tb.Fatal(err)
	}
	argv := chromium.Options{Executable: path, NoSandbox: true, Profile: dir}.Argv()
	in, w, err1 := os.Pipe()
	r, out, err2 := os.Pipe()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.ExtraFiles = []*os.File{in, out} // 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(err1, err2); err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	_ = in.Close()
	_ = out.Close()
	tb.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir) // descendants may still be writing
	})
	return r, w
}
