//go:build linux

package plugin_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// hostVariable makes the test binary a host that waits to be killed. Its value is the folder for sockets.
const hostVariable = "HOST_UNDER_TEST"

// helperHost starts some plugins, one of them with children, reports that, and waits to be killed.
func helperHost(dir string) int {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	s, err := plugin.New(plugin.Config{RuntimeDir: dir, NoNamespaces: os.Getenv("SCAN") != ""})
	if err != nil {
		panic(err)
	}
	for i, mode := range []string{"serve", "stubborn", "serve"} {
		p, err := s.Add(plugin.Spec{
			Label: fmt.Sprint("p", i), Path: self, Env: map[string]string{modeVariable: mode, "TAG": os.Getenv("TAG")},
		})
		if err != nil {
			panic(err)
		}
		l, err := p.Acquire(context.Background())
		if err != nil {
			panic(err)
		}
		if i == 0 && os.Getenv("SCAN") == "" {
			for _, how := range []string{"", "setsid"} {
				if _, err := command(context.Background(), l, "child", how); err != nil {
					panic(err)
				}
			}
		}
	}
	fmt.Println("ready")
	select {}
}

func TestNothingOutlivesAHostThatIsKilled(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		var cfg plugin.Config
		configure(&cfg)
		dir, err := os.MkdirTemp("/tmp", "g")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		tag := fmt.Sprintf("TAG=host-%d", rand.Uint64())
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), hostVariable+"="+dir, tag)
		want := 5
		if cfg.NoNamespaces {
			cmd.Env = append(cmd.Env, "SCAN=1")
			want = 3
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("helper host: %q, %v", line, err)
		}
		plugins := 0
		for _, pid := range marked(t, tag) {
			if pid != cmd.Process.Pid {
				plugins++
			}
		}
		if plugins != want {
			t.Errorf("%d processes, want %d", plugins, want)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		allGone(t, tag) // the kernel kills them within milliseconds

		left, _ := filepath.Glob(filepath.Join(dir, "h*"))
		if len(left) != 1 {
			t.Fatalf("folders after the kill: %v", left)
		}
		h := build(t, func(c *plugin.Config) { c.RuntimeDir = dir })
		acquire(t, h.add(spec(t, "serve"))).Release()
		if now, _ := filepath.Glob(filepath.Join(dir, "h*")); len(now) != 1 || now[0] == left[0] {
			t.Errorf("folders after the next start: %v", now)
		}
		if !strings.Contains(h.log.String(), "removed what a dead host left behind") {
			t.Error("the sweep is not in the log")
		}
	})
}

func TestSweepKillsPluginsOfADeadHost(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "g")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	dead := filepath.Join(dir, "h1234567")
	if err := os.MkdirAll(filepath.Join(dead, "plugin-dir1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stray := exec.CommandContext(t.Context(), self)
	stray.Env = []string{modeVariable + "=sleep", "PLUGIN_UNIX_SOCKET_DIR=" + filepath.Join(dead, "plugin-dir1")}
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	h := build(t, func(c *plugin.Config) { c.RuntimeDir = dir })
	acquire(t, h.add(spec(t, "serve"))).Release()
	if err := stray.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("stray: %v", err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the dead host's folder: %v", err)
	}
}

func TestSweepIgnoresLivingHosts(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "g")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	share := func(c *plugin.Config) { c.RuntimeDir = dir }
	first := acquire(t, build(t, share).add(spec(t, "serve")))
	defer first.Release()
	second := acquire(t, build(t, share).add(spec(t, "serve")))
	defer second.Release()
	must(t, first, "echo", "1")
	must(t, second, "echo", "1")
}
