//go:build unix

package browserproc_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/browserproc"
)

func TestMain(m *testing.M) {
	if browserproc.Wanted(os.Args) {
		os.Exit(browserproc.Main(os.Args))
	}
	os.Exit(m.Run())
}

// The helper becomes the program, which has the pipes at 3 and 4; what it prints is no answer.
func TestBecome(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := browserproc.Argv(self, t.TempDir(), []string{"/bin/sh", "-c", "read x <&3; echo printed; echo \"$x $$\" >&4; cat"})
	cmd := exec.Command(argv[0], argv[1:]...)
	var printed strings.Builder
	cmd.Stderr = &printed
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "hello\n")
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	name, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
	if name != "hello" || pid != strconv.Itoa(cmd.Process.Pid) || printed.String() != "printed\n" {
		t.Errorf("%q, printed %q", line, printed.String())
	}
}
