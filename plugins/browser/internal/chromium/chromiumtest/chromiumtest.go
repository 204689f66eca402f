//go:build unix

// Package chromiumtest starts a browser for a test.
//
// It owns: the browser's process and its folder. It must not know: the protocol.
//
// Start with [Start].
package chromiumtest

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
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

// Listen starts a browser as a user does who wants others to control it, and returns the host and port at which it is controlled.
func Listen(tb testing.TB) string {
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
	for i, a := range argv {
		if a == "--remote-debugging-pipe" {
			argv[i] = "--remote-debugging-port=0"
		}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	printed, err := cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir) // descendants may still be writing
	})
	lines := bufio.NewScanner(printed)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "listening on ws://"); ok {
			host, _, _ := strings.Cut(rest, "/")
			go func() { _, _ = io.Copy(io.Discard, printed) }() // owned by the browser: ends with it
			return host
		}
	}
	tb.Fatal("the browser does not say where it is controlled")
	return ""
}
