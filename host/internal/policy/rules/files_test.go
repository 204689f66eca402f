package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if got, err := Read(filepath.Join(dir, "none")); err != nil || got != nil {
		t.Errorf("no folder: %v, %v", got, err)
	}
	write(t, filepath.Join(dir, "b.rules"), "B")
	write(t, filepath.Join(dir, "a.rules"), "A")
	write(t, filepath.Join(dir, "a.txt"), "X")
	got, err := Read(dir)
	if err != nil || len(got) != 2 || got[0].Text != "A" || got[1].Path != filepath.Join(dir, "b.rules") {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Read(filepath.Join(dir, "a.txt")); err == nil || !strings.Contains(err.Error(), "must be a folder") {
		t.Errorf("a file: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "c.rules"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder in the place of a file: %v", err)
	}
}

func TestAppend(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "rules", Written)
	line := PrefixLine([]string{"git", "status"})
	for range 2 {
		if err := Append(t.Context(), name, line); err != nil {
			t.Fatal(err)
		}
	}
	other := NetworkLine("h", "https_connect", "allow")
	if err := Append(t.Context(), name, other); err != nil {
		t.Fatal(err)
	}
	want := `prefix_rule(pattern=["git", "status"], decision="allow")` + "\n" +
		`network_rule(host="h", protocol="https_connect", decision="allow", justification="Allow https_connect access to h")` + "\n"
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestAppendCompletesTheLastLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), Written)
	write(t, name, "# mine")
	if err := Append(t.Context(), name, PrefixLine([]string{"a"})); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(name); string(got) != "# mine\nprefix_rule(pattern=[\"a\"], decision=\"allow\")\n" {
		t.Errorf("%q", got)
	}
}

func TestAppendDoesNotChangeAnInvalidFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), Written)
	const broken = "prefix_rule(pattern=["
	write(t, name, broken)
	if err := Append(t.Context(), name, PrefixLine([]string{"a"})); err == nil || !strings.Contains(err.Error(), name+":") {
		t.Errorf("%v", err)
	}
	if got, _ := os.ReadFile(name); string(got) != broken {
		t.Errorf("%q", got)
	}
	if err := Append(t.Context(), name, "a\nb"); err == nil {
		t.Error("two lines are taken for one")
	}
}

// Concurrent writers lose nothing.
func TestAppendConcurrently(t *testing.T) {
	name := filepath.Join(t.TempDir(), Written)
	var all sync.WaitGroup
	const writers = 16
	for i := range writers {
		all.Go(func() {
			if err := Append(t.Context(), name, PrefixLine([]string{fmt.Sprint(i)})); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	sources, err := Read(filepath.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Load(sources); err != nil || s.Len() != writers {
		t.Errorf("%d rules, %v", s.Len(), err)
	}
}
