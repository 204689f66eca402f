//go:build unix

package chromium_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium"
)

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
