package binary

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func copies(t *testing.T) Copies {
	dir := t.TempDir()
	return Copies{Dir: filepath.Join(dir, "programs"), Records: Records{Dir: filepath.Join(dir, "digests")}}
}

// opened opens a copy that is closed with the test.
func (s Copies) opened(t *testing.T, path string) *Copy {
	t.Helper()
	c, err := s.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func contentOf(t *testing.T, c *Copy) string {
	t.Helper()
	if err := os.Chmod(c.Name, 0o500); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestACopyIsMadeOnce(t *testing.T) {
	t.Parallel()
	s, path := copies(t), program(t, "\x7fELF one")
	first := s.opened(t, path)
	if info, err := os.Stat(first.Name); err != nil || info.Mode().Perm() != executeOnly {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	second := s.opened(t, path)
	if first.id != second.id || !first.Unchanged() || second.Path != path {
		t.Errorf("%+v, then %+v", first, second)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if c := s.opened(t, link); c.id != first.id || c.Path != path {
		t.Errorf("by a link: %+v", c)
	}
	if got := contentOf(t, first); got != "\x7fELF one" {
		t.Errorf("content = %q", got)
	}
}

func TestChangedCopyIsReplaced(t *testing.T) {
	t.Parallel()
	for name, touch := range map[string]func(program, made string) error{
		"made readable": func(_, made string) error { return os.Chmod(made, 0o755) },
		"made readable for a while": func(_, made string) error {
			return errors.Join(os.Chmod(made, 0o755), os.Chmod(made, executeOnly))
		},
		"removed": func(_, made string) error { return os.Remove(made) },
		"replaced": func(_, made string) error {
			return errors.Join(os.Remove(made), os.WriteFile(made, []byte("other"), executeOnly))
		},
		"a link":          func(program, made string) error { return errors.Join(os.Remove(made), os.Symlink(program, made)) },
		"record damaged":  func(_, made string) error { return os.WriteFile(made+".json", []byte("{"), 0o600) },
		"another program": func(program, _ string) error { return os.WriteFile(program, []byte("\x7fELF two"), 0o700) },
		"a program beside": func(_, made string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(made), ".new-left"), nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := copies(t), program(t, "\x7fELF one")
			before := s.opened(t, path)
			if err := touch(path, before.Name); err != nil {
				t.Fatal(err)
			}
			after := s.opened(t, path)
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if remains := name == "a program beside"; (after.id == before.id) != remains || !after.Unchanged() {
				t.Errorf("%+v, then %+v", before, after)
			}
			if got := contentOf(t, after); got != string(want) {
				t.Errorf("content = %q, want %q", got, want)
			}
			if after.Unchanged() { // contentOf has made it readable
				t.Error("a readable copy counts as unchanged")
			}
		})
	}
}

// Hosts that start at once use one copy: another under its name would be in the way of those that have opened it.
func TestCopiesAtOnce(t *testing.T) {
	t.Parallel()
	s, path := copies(t), program(t, "\x7fELF"+strings.Repeat("x", 1<<20))
	var all [8]*Copy
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			c, err := s.Open(path)
			if err != nil {
				t.Error(err)
			}
			all[i] = c
		})
	}
	wg.Wait()
	for _, c := range all {
		if c == nil {
			continue
		}
		if c.id != all[0].id || !c.Unchanged() {
			t.Errorf("%+v beside %+v", c, all[0])
		}
		_ = c.Close()
	}
}

func TestNoCopyWithoutAFolder(t *testing.T) {
	t.Parallel()
	s := Copies{Dir: filepath.Join(program(t, "x"), "below a file")}
	if _, err := s.Open(program(t, "\x7fELF")); err == nil || errors.Is(err, ErrNoCopies) {
		t.Errorf("err = %v", err)
	}
}

// loaderOf is the loader that a program names, without links; itself where it has none.
func loaderOf(t *testing.T, path string) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err != nil {
				t.Fatal(err)
			}
			path = strings.TrimRight(string(b), "\x00")
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func TestImages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return p
	}
	shell, env := loaderOf(t, "/bin/sh"), loaderOf(t, "/usr/bin/env")
	self := loaderOf(t, "/proc/self/exe")
	if self == shell { // the race detector's programs have a loader
		self = ""
	}
	alone := script("alone", "\x7fELF and nothing of one")
	for name, tc := range map[string]struct {
		path string
		want []string
	}{
		"a program":                    {"/bin/sh", []string{shell}},
		"one without a loader":         {self, []string{self}},
		"one that can't be read":       {alone, []string{alone}},
		"a script":                     {script("a", "#!/bin/sh -e\nexit\n"), []string{shell}},
		"a script of a script":         {script("b", "#! "+script("c", "#!/bin/sh\n")+"\n"), []string{shell}},
		"by env":                       {script("d", "#!/usr/bin/env -S A=1 alone -x\n"), []string{env, alone}},
		"by env, of nothing":           {script("e", "#!/usr/bin/env nothing-there\n"), []string{env}},
		"a script that calls itself":   {script("f", "#!"+filepath.Join(dir, "f")+"\n"), nil},
		"neither program nor script":   {script("g", "MZ"), nil},
		"a script without a program":   {script("h", "#!\n"), nil},
		"env alone":                    {script("i", "#!/usr/bin/env\n"), []string{env}},
		"a script by another's loader": {script("j", "#!"+alone+"\n"), []string{alone}},
	} {
		if tc.path == "" {
			continue
		}
		slices.Sort(tc.want)
		if got, err := Images(tc.path, "/nowhere:"+dir); err != nil || !slices.Equal(got, slices.Compact(tc.want)) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
	if _, err := Images(filepath.Join(dir, "none"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
}
