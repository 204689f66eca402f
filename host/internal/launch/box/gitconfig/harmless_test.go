//go:build linux

package gitconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzHarmlessLines(f *testing.F) {
	for _, s := range []string{
		"[core]\n\tbare = false\n", "[core]\n\tfsmonitor = x\n", "[alias]\n\tx = !ls\n", "[remote \"o\"]\n\turl = ext::sh -c x\n",
		"[user]\n\tname = a\\\n\tb\n", "[core] fsmonitor=x\n", "[include]\n\tpath = x\n", "; c \\\n[core]\n",
	} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, s string) {
		kept := string(HarmlessLines([]byte(s), filepath.IsLocal))
		if again := string(HarmlessLines([]byte(kept), filepath.IsLocal)); again != kept {
			t.Fatalf("%q keeps %q, which keeps %q", s, kept, again)
		}
		// What git makes of it names nothing that is executed.
		file := filepath.Join(dir, "config")
		if err := os.WriteFile(file, []byte(kept), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("git", "config", "--file", file, "--no-includes", "--list", "--name-only").Output()
		if err != nil {
			return // git refuses it
		}
		for _, name := range strings.Fields(strings.ToLower(string(out))) {
			for _, bad := range []string{"alias.", "core.fsmonitor", "core.hookspath", "core.sshcommand", "core.pager", "core.editor", "include", "filter.", "credential", "gpg", "pager."} {
				if strings.HasPrefix(name, bad) {
					t.Fatalf("%q keeps %s", s, name)
				}
			}
		}
	})
}
