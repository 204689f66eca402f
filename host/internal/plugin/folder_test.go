//go:build linux

package plugin_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/plugin/socketdir"
)

func TestALongRuntimeFolderIsNotUsedForSockets(t *testing.T) {
	short, err := os.MkdirTemp("/tmp", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	h := build(t, func(c *plugin.Config) {
		c.RuntimeDir = "/tmp/" + strings.Repeat("long", 30)
		plugin.SetEnv(c, func(k string) (string, bool) {
			if k == "XDG_RUNTIME_DIR" {
				return short, true
			}
			return os.LookupEnv(k)
		})
	}, withServices(make(chan plugin.Identity, 1)))
	l := acquire(t, h.add(spec(t, "serve")))
	defer l.Release()
	f := factsOf(t, l)
	dir := filepath.Dir(f.Socket)
	if !strings.HasPrefix(dir, filepath.Join(short, "gantry")) || len(dir) > socketdir.MaxProcessDir {
		t.Errorf("sockets in %s (%d bytes)", dir, len(dir))
	}
	for _, d := range []string{dir, filepath.Dir(dir), filepath.Join(short, "gantry")} {
		if info, err := os.Stat(d); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, info, err)
		}
	}
}

func TestASocketFolderThatOthersCouldUseIsClosedOrRefused(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "g")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	h := build(t, func(c *plugin.Config) { c.RuntimeDir = base })
	acquire(t, h.add(spec(t, "serve"))).Release()
	if info, err := os.Stat(base); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode = %v, %v", info, err)
	}
	link := base + "l"
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(link)
	elsewhere, err := os.MkdirTemp("/tmp", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(elsewhere)
	cfg := plugin.Config{RuntimeDir: link}
	plugin.SetEnv(&cfg, func(k string) (string, bool) { return elsewhere, k == "XDG_RUNTIME_DIR" })
	other, err := plugin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	p, err := other.Add(spec(t, "serve"))
	if err != nil {
		t.Fatal(err)
	}
	acquire(t, p).Release()
	if left, _ := filepath.Glob(filepath.Join(base, "h*")); len(left) != 1 {
		t.Errorf("a folder was made behind a symbolic link: %v", left)
	}
}
