package secret

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ring is a keyring in memory.
type ring struct {
	mu     sync.Mutex
	value  string
	broken bool
}

func (r *ring) Get() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.broken:
		return "", errors.New("no keyring here")
	case r.value == "":
		r.mu.Unlock()
		for range 100 { // others look, too
			runtime.Gosched()
		}
		r.mu.Lock()
		return "", ErrNotFound
	}
	return r.value, nil
}

func (r *ring) Put(v string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return errors.New("no keyring here")
	}
	r.value = v
	return nil
}

func (r *ring) Delete() error { r.value = ""; return nil }

func TestStore(t *testing.T) {
	for name, keyring := range map[string]Keyring{"keyring": &ring{}, "no keyring": nil, "broken keyring": &ring{broken: true}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "secrets")
			s := Open(dir, keyring)
			if _, err := s.Get("user/openai"); !errors.Is(err, ErrNotFound) || !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("before anything: %v", err)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("reading made a folder")
			}
			long := strings.Repeat("tok", 5000)
			for name, v := range map[string]string{"user/openai": "sk-1", "plugin/x/oauth": long} {
				if err := s.Put(name, v); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Put("user/openai", "sk-2"); err != nil {
				t.Fatal(err)
			}
			again := Open(dir, keyring)
			if v, err := again.Get("user/openai"); err != nil || v != "sk-2" {
				t.Errorf("read %q, %v", v, err)
			}
			if v, err := again.Get("plugin/x/oauth"); err != nil || v != long {
				t.Errorf("read %d bytes, %v", len(v), err)
			}
			if names, err := again.Names(); err != nil || !slices.Equal(names, []string{"plugin/x/oauth", "user/openai"}) {
				t.Errorf("names %v, %v", names, err)
			}
			if err := again.Delete("user/openai"); err != nil {
				t.Error(err)
			}
			if err := again.Delete("user/openai"); !errors.Is(err, ErrNotFound) {
				t.Errorf("delete twice: %v", err)
			}
			files, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			hasKey := false
			for _, f := range files {
				info, err := f.Info()
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %v, %v", f.Name(), info.Mode(), err)
				}
				b, err := os.ReadFile(filepath.Join(dir, f.Name()))
				if err != nil || bytes.Contains(b, []byte("toktok")) {
					t.Errorf("%s shows the secret, %v", f.Name(), err)
				}
				hasKey = hasKey || f.Name() == "key"
			}
			if hasKey == (name == "keyring") {
				t.Errorf("key in a file: %v", hasKey)
			}
		})
	}
}

// Where the key lies can be told before and after there is one, and nothing is made by asking.
func TestLies(t *testing.T) {
	full := &ring{}
	for name, tt := range map[string]struct {
		keyring Keyring
		then    func() Keyring // who looks later; nil: the same
		where   string         // "file" or "keyring", before
		later   string
		lost    bool // it can't be read any more
	}{
		"keyring":              {keyring: full, where: "keyring", later: "keyring"},
		"none":                 {where: "file", later: "file"},
		"broken":               {keyring: &ring{broken: true}, where: "file", later: "file"},
		"file, then a keyring": {where: "file", then: func() Keyring { return &ring{} }, later: "file"},
		"keyring, then none":   {keyring: &ring{}, where: "keyring", then: func() Keyring { return nil }, lost: true},
		"keyring, then locked": {keyring: &ring{}, where: "keyring", then: func() Keyring { return &ring{broken: true} }, lost: true},
		"keyring, then empty":  {keyring: &ring{}, where: "keyring", then: func() Keyring { return &ring{} }, lost: true},
		"keyring, then spoiled": {
			keyring: &ring{}, where: "keyring", then: func() Keyring { return &ring{value: "x"} }, lost: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "secrets")
			words := map[string]string{"file": filepath.Join(dir, "key"), "keyring": inKeyring}
			if where, found, err := Open(dir, tt.keyring).KeyLocation(); where != words[tt.where] || found || err != nil {
				t.Errorf("before: %q, %v, %v", where, found, err)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("looking made a folder")
			}
			if err := Open(dir, tt.keyring).Put("a", "one"); err != nil {
				t.Fatal(err)
			}
			later := tt.keyring
			if tt.then != nil {
				later = tt.then()
			}
			where, found, err := Open(dir, later).KeyLocation()
			if tt.lost {
				if _, get := Open(dir, later).Get("a"); err == nil || get == nil || get.Error() != err.Error() {
					t.Errorf("lost: %q, %v, %v; reading says %v", where, found, err, get)
				}
			} else if where != words[tt.later] || !found || err != nil {
				t.Errorf("later: %q, %v, %v", where, found, err)
			}
		})
	}
}

func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir, nil)
	if err := s.Put("a", "one"); err != nil {
		t.Fatal(err)
	}
	if err := s.Put("b", "two"); err != nil {
		t.Fatal(err)
	}
	pathA, _ := s.path("a")
	pathB, _ := s.path("b")
	sealed, err := os.ReadFile(pathA)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		if v, err := Open(dir, nil).Get("b"); err == nil || !strings.Contains(err.Error(), "again") {
			t.Errorf("%s: %q, %v", what, v, err)
		}
	}
	write := func(path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(pathB, sealed)
	refused("another name's file")
	write(pathB, sealed[:5])
	refused("a file that was cut")
	write(pathB, append(slices.Clone(sealed[:20]), sealed[21:]...))
	refused("a byte is missing")
	write(filepath.Join(dir, "key"), []byte("x"))
	refused("a damaged key")
	if err := os.Remove(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	refused("no key")
}

func TestNames(t *testing.T) {
	s := Open(t.TempDir(), nil)
	for _, bad := range []string{"", "a\nb", strings.Repeat("x", maxName+1), "\xff"} {
		if err := s.Put(bad, "v"); err == nil {
			t.Errorf("took the name %q", bad)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", maxValue+1)} {
		if err := s.Put("a", bad); err == nil {
			t.Errorf("took a value of %d bytes", len(bad))
		}
	}
	for _, odd := range []string{"../../etc/passwd", "ключ", "a b", strings.Repeat("x", maxName)} {
		if err := s.Put(odd, "v"); err != nil {
			t.Errorf("%q: %v", odd, err)
		}
		if v, err := s.Get(odd); err != nil || v != "v" {
			t.Errorf("%q: %q, %v", odd, v, err)
		}
	}
}

// TestFirstSecretsAtOnce lets stores that know nothing of each other make the key at the same time.
func TestFirstSecretsAtOnce(t *testing.T) {
	for name, keyring := range map[string]Keyring{"keyring": &ring{}, "no keyring": nil} {
		dir := t.TempDir()
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				if err := Open(dir, keyring).Put(string(rune('a'+i)), "v"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		for i := range 16 {
			if v, err := Open(dir, keyring).Get(string(rune('a' + i))); err != nil || v != "v" {
				t.Errorf("%s: %c: %q, %v", name, 'a'+i, v, err)
			}
		}
	}
}

func TestSystem(t *testing.T) {
	off := func(string) string { return "" }
	if System("/home", off) != nil {
		t.Error("a keyring without a bus")
	}
	if System("/home", func(n string) string {
		return map[string]string{"GANTRY_KEYRING": "off", "DBUS_SESSION_BUS_ADDRESS": "x"}[n]
	}) != nil {
		t.Error("a keyring that was switched off")
	}
	if System("/home", func(n string) string { return map[string]string{"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}[n] }) == nil {
		t.Error("no keyring although there is a bus")
	}
}
