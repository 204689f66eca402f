//go:build unix

package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A snapshot is taken once for all processes, until something changes on which it depends.
func TestDisk(t *testing.T) {
	t.Parallel()
	h := newHome(t, map[string]string{".bash_profile": "export WHO=first; greet() { echo hello $WHO; }\n"})
	dir := filepath.Join(t.TempDir(), "login")
	logins := 0
	run := func(ctx context.Context, argv, env []string) ([]byte, error) {
		if slices.Contains(argv, "-lc") {
			logins++
		}
		return h.run(ctx, argv, env)
	}
	take := func(variant string) string {
		t.Helper()
		s, err := Disk{dir}.Take(t.Context(), bash, variant, run)
		if err != nil {
			t.Fatal(err)
		}
		return h.command(t, s, "greet")
	}
	only := func() string {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v, %v", entries, err)
		}
		if info, err := entries[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		return filepath.Join(dir, entries[0].Name())
	}
	step := func(what, variant, want string, n int) {
		t.Helper()
		logins = 0
		if out := take(variant); strings.TrimSpace(out) != want || logins != n {
			t.Errorf("%s: %q after %d logins, want %q after %d", what, out, logins, want, n)
		}
	}
	step("the first process", "sandbox", "hello first", 1)
	file := only()
	step("another process", "sandbox", "hello first", 0)
	if err := os.WriteFile(file, []byte("snapsh"), 0o600); err != nil {
		t.Fatal(err)
	}
	step("an incomplete file", "sandbox", "hello first", 1)
	old := time.Now().Add(-maxDiskAge - time.Minute)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	step("an old file", "sandbox", "hello first", 1)
	only()
	step("other permissions", "no network", "hello first", 1)
	h.write(t, ".bash_profile", "export WHO=second; greet() { echo hello $WHO; }\n")
	step("another profile", "sandbox", "hello second", 1)
	step("another process", "sandbox", "hello second", 0)
	h.write(t, ".bash_aliases", "x")
	step("a file that a profile may read", "sandbox", "hello second", 1)
}
