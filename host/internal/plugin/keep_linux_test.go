package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeeper(t *testing.T) {
	t.Parallel()
	cache, host, dir := t.TempDir(), t.TempDir(), t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := &launcher{cfg: Config{CachePath: cache}, hostDir: host}
	try := func(name, where string) {
		t.Helper()
		own := filepath.Join(dir, name)
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		keep, err := l.keeper("/bin/sh", program, own, nil)()
		if err != nil {
			t.Fatal(err)
		}
		if len(keep.Over) != 1 || keep.Over[0].Path != program || !strings.HasPrefix(keep.Over[0].Name, where) || !strings.HasPrefix(keep.Launcher.Name, where) {
			t.Errorf("%s: %+v", name, keep)
		}
		if _, err := os.Stat(keep.Stands); err != nil {
			t.Error(err)
		}
		for _, u := range append(keep.Over, keep.Launcher) {
			_ = u.Close()
		}
	}
	try("first", cache)
	if err := os.RemoveAll(filepath.Join(cache, "programs")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cache, "programs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	try("without the cache", host)
	l.hostDir = program
	if _, err := l.keeper("/bin/sh", program, dir, nil)(); err == nil {
		t.Error("copies lie nowhere")
	}
	l.cfg.CachePath = ""
	if l.keeper("/bin/sh", program, dir, nil) != nil {
		t.Error("copies are made where nothing is remembered")
	}
}
