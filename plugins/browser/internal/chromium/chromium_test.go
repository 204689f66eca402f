//go:build unix

package chromium_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium"
)

func TestMain(m *testing.M) {
	if chromium.Wanted(os.Args) {
		os.Exit(chromium.Main(os.Args))
	}
	os.Exit(m.Run())
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := chromium.Find(""); !errors.Is(err, chromium.ErrNone) {
		t.Error(err)
	}
	for _, name := range []string{"google-chrome", "chromium", "chromium-headless-shell"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		if got, err := chromium.Find(""); got != path || err != nil {
			t.Errorf("%s, %v; want %s", got, err, path)
		}
	}
	if got, err := chromium.Find("google-chrome"); filepath.Base(got) != "google-chrome" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := chromium.Find("/nowhere"); err == nil || !strings.Contains(err.Error(), "`chromium`") {
		t.Error(err)
	}
}

func TestArguments(t *testing.T) {
	argv := chromium.Options{Executable: "x"}.Argv()
	for _, want := range []string{"--remote-debugging-pipe", "--site-per-process", "--window-size=1280,800"} {
		if !slices.Contains(argv, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, no := range []string{"--no-sandbox", "--disable-site-isolation-trials", "--disable-blink-features=AutomationControlled"} {
		if slices.Contains(argv, no) {
			t.Errorf("%s is given", no)
		}
	}
	argv = chromium.Options{Executable: "x", NoSandbox: true, Profile: "/p", Proxy: "127.0.0.1:1"}.Argv()
	for _, want := range []string{"--no-sandbox", "--user-data-dir=/p", "--proxy-server=http://127.0.0.1:1", "--proxy-bypass-list=<-loopback>"} {
		if !slices.Contains(argv, want) {
			t.Errorf("no %s", want)
		}
	}
}

// The helper becomes the program, which has the pipes at 3 and 4; what it prints is no answer.
func TestBecome(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := chromium.Helper(self, []string{"/bin/sh", "-c", "read x <&3; echo printed; echo \"$x $$\" >&4; cat"})
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
