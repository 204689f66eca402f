package binary

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func program(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// open opens, and returns the digest that was found.
func open(t *testing.T, path string, r Records) string {
	t.Helper()
	f, err := Open(path, r)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.SHA256
}

// age makes the file look old enough to be remembered, as far as that can be done: the time of its last change can't be
// set, so the record of it is written as if the file had been hashed later.
func remember(t *testing.T, path string, r Records, sum string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	id, ok := identify(info)
	if !ok {
		t.Skip("files have no identity here")
	}
	r.write(path, record{id, sum})
}

func TestOpen(t *testing.T) {
	f, err := Open(program(t, "#!/bin/sh\n"), Records{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.Script || f.SHA256 != digest("#!/bin/sh\n") {
		t.Errorf("script %v, digest %s", f.Script, f.SHA256)
	}
	g, err := Open(program(t, "\x7fELF"), Records{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.Script {
		t.Error("a program passes for a script")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Records{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
}

func TestAnUnchangedFileIsNotHashedAgain(t *testing.T) {
	path := program(t, "content")
	r := Records{Dir: filepath.Join(t.TempDir(), "digests")}
	remember(t, path, r, strings.Repeat("a", 64)) // recognisable: no hash of anything
	if got := open(t, path, r); got != strings.Repeat("a", 64) {
		t.Errorf("it was hashed: %s", got)
	}
	if got := open(t, path, Records{Dir: r.Dir, Always: true}); got != digest("content") {
		t.Errorf("it was not hashed although that was asked for: %s", got)
	}
}

func TestAChangedFileIsHashedAgain(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"content of the same size and time": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return errors.Join(os.WriteFile(path, []byte("CONTENT"), 0o700), os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
		"another file under the name": func(path string) error {
			return errors.Join(os.WriteFile(path+"2", []byte("CONTENT"), 0o700), os.Rename(path+"2", path))
		},
		"appended": func(path string) error {
			return os.WriteFile(path, []byte("content2"), 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := program(t, "content")
			r := Records{Dir: t.TempDir()}
			remember(t, path, r, strings.Repeat("a", 64))
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := open(t, path, r); got != digest(string(b)) {
				t.Errorf("the old digest is believed: %s", got)
			}
		})
	}
}

func TestRecentlyChangedFileIsNotRecorded(t *testing.T) {
	path := program(t, "content")
	r := Records{Dir: t.TempDir()}
	open(t, path, r)
	if _, found := r.read(path); found {
		t.Error("a change within the clock's tick would go unseen")
	}
	// With times in the past it still isn't: the time of the change itself can't be set back.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	open(t, path, r)
	if _, found := r.read(path); found {
		t.Error("a file with a forged time is remembered")
	}
}

func TestOldFileIsRecorded(t *testing.T) {
	id := identity{Mtime: time.Now().Add(-time.Hour).UnixNano(), Ctime: time.Now().Add(-time.Hour).UnixNano()}
	if !id.older(time.Now().Add(-settled)) {
		t.Error("an hour is not enough")
	}
	id.Ctime = time.Now().UnixNano()
	if id.older(time.Now().Add(-settled)) {
		t.Error("a fresh change counts as old")
	}
	// The Go tool itself is older than any test run.
	path := "/bin/sh"
	if _, err := os.Stat(path); err != nil {
		t.Skip("no shell")
	}
	r := Records{Dir: filepath.Join(t.TempDir(), "made", "as", "needed")}
	sum := open(t, path, r)
	if rec, found := r.read(path); !found || rec.SHA256 != sum {
		t.Errorf("record = %+v, %v", rec, found)
	}
	if got := open(t, path, r); got != sum {
		t.Errorf("digests = %s, %s", sum, got)
	}
}

func TestADamagedRecordCountsAsNone(t *testing.T) {
	path := program(t, "content")
	for _, damage := range []string{"", "{", "null", `{"sha256":"short"}`} {
		r := Records{Dir: t.TempDir()}
		if err := os.WriteFile(r.file(path), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := open(t, path, r); got != digest("content") {
			t.Errorf("%q: %s", damage, got)
		}
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "f")
	for _, content := range []string{"one", "two"} {
		if err := WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != content {
			t.Errorf("%q, %v", b, err)
		}
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".new-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := WriteFile(filepath.Join(path, "below-a-file"), nil); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("err = %v", err)
	}
}

func TestDiagnose(t *testing.T) {
	for content, want := range map[string]string{
		"":                          "too short",
		"hello world":               "neither a program nor a script",
		"MZ\x90\x00":                "Windows",
		"\xcf\xfa\xed\xfe":          "macOS",
		"\x7fELF":                   "damaged ELF",
		"#!/no/such/interpreter -x": "interpreter /no/such/interpreter is missing",
		"#! \n":                     "names no interpreter",
		"#!/bin/sh\r\n":             "carriage return",
	} {
		if got := Diagnose(program(t, content)); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if got := Diagnose(self); got != "" {
		t.Errorf("this very program: %q", got)
	}
}

func BenchmarkOpenRemembered(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(self)
	if err != nil {
		b.Fatal(err)
	}
	r := Records{Dir: b.TempDir()}
	id, _ := identify(info)
	r.write(self, record{id, strings.Repeat("a", 64)})
	for b.Loop() {
		f, err := Open(self, r)
		if err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
	}
}
