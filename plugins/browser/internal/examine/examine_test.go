//go:build unix

package examine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gantry-agent/gantry/plugins/browser/internal/examine"
)

// Each thing that a browser needs is a finding of its own, with what to do where it is missing.
func TestChecks(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	good := examine.Machine{
		Files: fstest.MapFS{"usr/share/fonts/truetype/a.ttf": file(""), "proc/sys/user/max_user_namespaces": file("1000\n")}, Sandbox: true,
		Version: func(context.Context, string) (string, error) { return "Chromium 1.2\n", nil },
	}
	show := func(m examine.Machine) string {
		var b strings.Builder
		for _, c := range m.Checks(t.Context()) {
			b.WriteString(c.Status + ": " + c.Text + " | " + c.Next + "\n")
		}
		return b.String()
	}
	if got := show(good); !strings.Contains(got, "error: there is no Chromium on this machine | install chromium-headless-shell") || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
	path := filepath.Join(dir, "chromium")
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := show(good); got != "ok: Chromium 1.2 ("+path+") | \nok: the system lets Chromium use its own sandbox | \nok: there are fonts in /usr/share/fonts | \n" {
		t.Error(got)
	}
	for name, row := range map[string]struct {
		change func(m *examine.Machine)
		want   string
	}{
		"broken": {func(m *examine.Machine) {
			m.Version = func(context.Context, string) (string, error) { return "", errors.New("no libnss3.so") }
		}, "error: " + path + " does not start: no libnss3.so | install it again"},
		"no sandbox": {func(m *examine.Machine) { m.Sandbox = false }, "warning: Chromium's own sandbox is off"},
		"no namespaces": {func(m *examine.Machine) {
			m.Files = fstest.MapFS{"proc/sys/user/max_user_namespaces": file("0\n")}
			m.Root = true
		}, "max_user_namespaces is 0 | sysctl"},
		"restricted": {func(m *examine.Machine) {
			m.Files = fstest.MapFS{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": file("1")}
		}, "error: Chromium's own sandbox can't start"},
		"not for root": {func(m *examine.Machine) {
			m.Files, m.Root = fstest.MapFS{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": file("1")}, true
		}, "ok: the system lets"},
		"no fonts": {func(m *examine.Machine) { m.Files = fstest.MapFS{"usr/share/fonts/readme.txt": file("")} }, "warning: there are no fonts"},
	} {
		m := good
		row.change(&m)
		if got := show(m); !strings.Contains(got, row.want) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}
