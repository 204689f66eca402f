//go:build linux

package plugin_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

func TestAManifestComesFromTheCacheWithoutAProcess(t *testing.T) {
	var cache string
	remember := func(c *plugin.Config) {
		if cache == "" {
			cache = c.CachePath
		}
		c.CachePath = cache
	}
	h := build(t, remember)
	p := h.add(spec(t, "serve"))
	m, err := p.Manifest(t.Context())
	if err != nil || m.Name != "under-test" {
		t.Fatalf("manifest = %v, %v", m, err)
	}
	if got := p.Status().Starts; got != 1 {
		t.Errorf("starts = %d", got)
	}
	files, _ := filepath.Glob(filepath.Join(cache, "manifests", "*.json"))
	if len(files) != 1 {
		t.Fatalf("cache = %v", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}

	again := build(t, remember).add(spec(t, "hang")) // the same binary, which can't start in this mode
	if m, err = again.Manifest(t.Context()); err != nil || m.Name != "under-test" {
		t.Fatalf("manifest = %v, %v", m, err)
	}
	if got := again.Status().Starts; got != 0 {
		t.Errorf("starts = %d", got)
	}

	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := build(t, remember).add(spec(t, "serve"))
	if _, err = damaged.Manifest(t.Context()); err != nil {
		t.Errorf("with a damaged cache: %v", err)
	}
}

// Plugins with the same interpreter are told apart by their arguments, by the content of the script among these, and by the
// variables that change which code is loaded. Other variables don't matter.
func TestTheCacheTellsProgramsOfOneInterpreterApart(t *testing.T) {
	var cache string
	remember := func(c *plugin.Config) {
		if cache == "" {
			cache = c.CachePath
		}
		c.CachePath = cache
	}
	script := filepath.Join(t.TempDir(), "main.py")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	for i, c := range []struct {
		name   string
		change func(*plugin.Spec)
		starts int // whether the plugin was started to get its manifest
	}{
		{"no arguments", func(*plugin.Spec) {}, 1},
		{"a script", func(s *plugin.Spec) { s.Args = []string{"-u", script} }, 1},
		{"the same script", func(s *plugin.Spec) { s.Args = []string{"-u", script} }, 0},
		{"the same script, configured", func(s *plugin.Spec) { s.Args, s.Env["COLOUR"] = []string{"-u", script}, "red" }, 0},
		{"another argument", func(s *plugin.Spec) { s.Args = []string{"-u", script, "--more"} }, 1},
		{"arguments that join alike", func(s *plugin.Spec) { s.Args = []string{"-u" + script} }, 1},
		{"another way to find code", func(s *plugin.Spec) {
			s.Args, s.UnsafeEnv, s.Env["PYTHONPATH"] = []string{"-u", script}, true, "/elsewhere"
		}, 1},
		{"the script was edited", func(s *plugin.Spec) { write("two"); s.Args = []string{"-u", script} }, 1},
		{"and was not", func(s *plugin.Spec) { write("one"); s.Args = []string{"-u", script} }, 0},
	} {
		s := spec(t, "serve", "VERSION=1.0."+strconv.Itoa(i))
		c.change(&s)
		p := build(t, remember).add(s)
		if _, err := p.Manifest(t.Context()); err != nil {
			t.Errorf("%s: %v", c.name, explain(err))
		}
		if got := p.Status().Starts; got != c.starts {
			t.Errorf("%s: %d starts, want %d", c.name, got, c.starts)
		}
	}
}

func TestAManifestThatDiffersFromTheCachedOneIsAnError(t *testing.T) {
	var cache string
	remember := func(c *plugin.Config) {
		if cache == "" {
			cache = c.CachePath
		}
		c.CachePath = cache
	}
	acquire(t, build(t, remember).add(spec(t, "serve"))).Release()
	_, err := build(t, remember).add(spec(t, "serve", "VERSION=2.0.0", "CAPABILITIES=spawn,network")).Acquire(t.Context())
	e, ok := asError(err)
	if !ok || e.Phase != plugin.PhaseDescribe {
		t.Fatalf("err = %v", err)
	}
	for _, part := range []string{`version: "1.0.0" became "2.0.0"`, "differs from the one that the same binary returned before"} {
		if !strings.Contains(e.Error(), part) {
			t.Errorf("%q is not in %q", part, e.Error())
		}
	}
}

func TestTheLockedManifest(t *testing.T) {
	m := testManifest()
	h := build(t)
	s := spec(t, "serve")
	s.ManifestDigest = m.Digest()
	acquire(t, h.add(s)).Release()

	s.Label = "grown"
	s.Env["CAPABILITIES"] = "network"
	_, err := h.add(s).Acquire(t.Context())
	e, ok := asError(err)
	if !ok || !strings.Contains(e.Error(), "differs from the one in the lock file") || !strings.Contains(e.Error(), "new capabilities: network") ||
		!strings.Contains(e.Next, "gantry plugin lock grown") {
		t.Errorf("err = %v", err)
	}

	fresh := build(t).add(s) // without a cache, only the digests are known
	if _, err := fresh.Acquire(t.Context()); err == nil || !strings.Contains(err.Error(), s.ManifestDigest) {
		t.Errorf("err = %v", err)
	}
}

func TestARebuiltBinaryIsAnotherOne(t *testing.T) {
	h := build(t)
	s := spec(t, "serve")
	self, err := os.ReadFile(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	s.Path = filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(s.Path, self, 0o700); err != nil {
		t.Fatal(err)
	}
	p := h.add(s)
	acquire(t, p).Release()
	first := p.Status().SHA256
	// Like an installer, replace the file. The appended bytes have no effect on the program.
	if err := os.WriteFile(s.Path+".new", append(self, time.Now().String()...), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.Path+".new", s.Path); err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(t.Context(), ""); err != nil {
		t.Fatal(explain(err))
	}
	if second := p.Status().SHA256; second == first || len(second) != 64 {
		t.Errorf("digests = %s, %s", first, second)
	}
}

func TestKnownStartsNothing(t *testing.T) {
	s, err := plugin.New(plugin.Config{CachePath: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	if m := s.Known("00"); m != nil {
		t.Errorf("an unknown program has the manifest %v", m)
	}
}
