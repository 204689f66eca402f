//go:build linux

package plugin_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// tagged is a spec whose processes can be found by the tag in their environment.
func tagged(t *testing.T, mode string, env ...string) (plugin.Spec, string) {
	tag := fmt.Sprintf("TAG=%s-%d", t.Name(), rand.Uint64())
	return spec(t, mode, append(env, tag)...), tag
}

// within fails the test if f takes longer than d. The limits include slack for a loaded machine.
func within(t *testing.T, most time.Duration, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > most {
		t.Errorf("took %v, at most %v", took, most)
	}
}

// allGone fails the test if a process with the tag is running.
func allGone(t *testing.T, tag string) {
	t.Helper()
	for _, pid := range marked(t, tag) {
		gone(t, pid)
	}
}

func TestStopEscalates(t *testing.T) {
	const slack = 1500 * time.Millisecond // for a loaded machine
	for name, c := range map[string]struct {
		mode string
		env  []string
		then []string // commands before the end
		most time.Duration
		end  string // how it ends
	}{
		"a healthy plugin":                   {"serve", nil, nil, 50 * time.Millisecond, "exited with status 0"},
		"no controller service":              {"bare", nil, nil, 1100 * time.Millisecond, "exited with status 0"},
		"ignores everything":                 {"stubborn", nil, nil, 1100 * time.Millisecond, "was ended by signal 9 (killed)"},
		"stopped by SIGSTOP":                 {"serve", nil, []string{"stop"}, 2700 * time.Millisecond, "was ended by signal 9 (killed)"},
		"hangs in drain":                     {"serve", []string{"DRAIN=hang"}, nil, 2700 * time.Millisecond, "exited with status 0"},
		"a grandchild holds the pipes":       {"serve", nil, []string{"child"}, 2700 * time.Millisecond, "exited with status 0"},
		"a grandchild in another session":    {"serve", nil, []string{"child setsid"}, 2700 * time.Millisecond, "exited with status 0"},
		"a stubborn one with a grandchild":   {"stubborn", nil, []string{"child"}, 2700 * time.Millisecond, "was ended by signal 9 (killed)"},
		"grandchildren of a healthy plugin":  {"serve", nil, []string{"child", "child setsid", "child"}, 2700 * time.Millisecond, "exited with status 0"},
		"a stopped one, a grandchild beside": {"serve", nil, []string{"child setsid", "stop"}, 2700 * time.Millisecond, "was ended by signal 9 (killed)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
				t.Parallel()
				h := build(t, configure)
				s, tag := tagged(t, c.mode, c.env...)
				p := h.add(s)
				l := acquire(t, p)
				for _, call := range c.then {
					name, input, _ := strings.Cut(call, " ")
					if name == "stop" {
						// The first process of a PID namespace can't stop itself.
						_ = syscall.Kill(p.Status().PID, syscall.SIGSTOP)
						stopped(t, p.Status().PID)
						continue
					}
					must(t, l, name, input)
				}
				l.Release()
				if n := len(marked(t, tag)); n != 1+countChildren(c.then) {
					t.Fatalf("%d processes before the end", n)
				}
				within(t, c.most+slack, func() {
					if err := h.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
				if left := marked(t, tag); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				if e, ok := asError(l.ExitError()); !ok || e.Exit == nil || e.Exit.String() != c.end || e.Crash {
					t.Errorf("end = %v, want %s", e, c.end)
				}
			})
		})
	}
}

func countChildren(calls []string) (n int) {
	for _, c := range calls {
		if strings.HasPrefix(c, "child") {
			n++
		}
	}
	return n
}

// stopped waits until a child process has been stopped by a signal.
func stopped(t *testing.T, pid int) {
	t.Helper()
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == nil {
			return
		}
		if err != unix.EINTR {
			t.Fatalf("process %d: %v", pid, err)
		}
	}
}

// fifo creates a named pipe, with which the test and a plugin synchronize.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// meet opens a FIFO for writing, which blocks until the plugin has opened it for reading, and closes it.
func meet(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

func TestKillWhileAGrandchildKeepsThePipesOpen(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		t.Parallel()
		h := build(t, configure)
		s, tag := tagged(t, "serve")
		p := h.add(s)
		l := acquire(t, p)
		defer l.Release()
		must(t, l, "child", "setsid")
		must(t, l, "child", "")
		h.await(plugin.ModeReady)
		_ = syscall.Kill(p.Status().PID, syscall.SIGKILL)
		within(t, 50*time.Millisecond+500*time.Millisecond, func() { h.await(plugin.ModeCrashed) })
		allGone(t, tag)
		e, ok := asError(l.ExitError())
		if !ok || !e.Crash || e.Exit == nil || e.Exit.Signal != syscall.SIGKILL || e.Exit.Killed ||
			!strings.Contains(e.Error(), "killed from outside") {
			t.Errorf("err = %+v", e)
		}
		again := acquire(t, p)
		if again.Generation != 2 {
			t.Errorf("generation = %d", again.Generation)
		}
		again.Release()
	})
}

func TestCrashFailsOnlyThatCall(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		for name, c := range map[string]struct {
			command, input, says, stderr string
		}{
			"exit 3":  {"exit", "3", "it crashed; it exited with status 3", ""},
			"exit 0":  {"exit", "0", "unexpected exit; it exited with status 0", ""},
			"panic":   {"panic", "", "it crashed; it exited with status 2", "panic: boom"},
			"SIGKILL": {"kill", "", "", ""},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := build(t, configure)
				p := h.add(spec(t, "serve"))
				l := acquire(t, p)
				defer l.Release()
				if c.command == "kill" && !strings.Contains(t.Name(), "scan") {
					t.Skip("an init can't kill itself")
				}
				_, err := command(t.Context(), l, c.command, c.input)
				if !plugin.IsCrash(err) {
					t.Fatalf("err = %v", err)
				}
				e, _ := asError(err)
				if e.Phase != plugin.PhaseCall || !strings.Contains(e.Error(), c.says) || e.Next == "" {
					t.Errorf("err = %v", e)
				}
				if c.stderr != "" && (len(e.Report) == 0 || e.Report[0] != c.stderr || !strings.Contains(strings.Join(e.Report, "\n"), "goroutine ")) {
					t.Errorf("report = %q", e.Report)
				}
				next := acquire(t, p)
				defer next.Release()
				must(t, next, "echo", `1`)
				if next.Generation != 2 {
					t.Errorf("generation = %d", next.Generation)
				}
			})
		}
	})
}

func TestStoppingWaitsForCallsThenAsksThemToEnd(t *testing.T) {
	t.Run("a call that finishes in time", func(t *testing.T) {
		t.Parallel()
		h := build(t)
		p := h.add(spec(t, "serve"))
		l := acquire(t, p)
		gate := fifo(t)
		type result struct {
			out string
			err error
		}
		got := make(chan result, 1)
		go func() { // owned by the test: received below
			out, err := command(t.Context(), l, "gate", gate)
			l.Release()
			got <- result{out, err}
		}()
		h.await(plugin.ModeReady)
		stopped := make(chan error, 1)
		go func() { stopped <- p.Stop(context.Background()) }() // owned by the test: received below
		h.await(plugin.ModeDraining)
		meet(t, gate)
		if r := <-got; r.err != nil || r.out != `"opened"` {
			t.Errorf("call = %q, %v", r.out, r.err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	t.Run("a call that doesn't", func(t *testing.T) {
		t.Parallel()
		h := build(t, func(c *plugin.Config) {
			plugin.SetTiming(c, func(tm *plugin.Timing) {
				tm.SetStop(50*time.Millisecond, 50*time.Millisecond, time.Second, time.Second)
			})
		})
		p := h.add(spec(t, "serve"))
		l := acquire(t, p)
		failed := make(chan error, 1)
		go func() { // owned by the test: received below
			_, err := command(t.Context(), l, "wait", "")
			failed <- err
		}()
		stopped := make(chan error, 1)
		go func() { stopped <- p.Stop(context.Background()) }() // owned by the test: received below
		<-l.Stopping()                                          // the deadline has passed, but the process is running
		select {
		case <-l.Exited():
			t.Error("the process was ended before its calls were asked to")
		default:
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		err := <-failed
		if e, ok := asError(err); !ok || e.Crash || e.Phase != plugin.PhaseCall || !strings.Contains(e.Error(), "it was stopped") {
			t.Errorf("the call: %v", err)
		}
		if e, ok := asError(l.ExitError()); !ok || e.Crash {
			t.Errorf("a stop is no crash: %v", l.ExitError())
		}
		l.Release()
	})
}

func TestStdoutIsAlwaysRead(t *testing.T) {
	h := build(t)
	p := h.add(spec(t, "serve"))
	l := acquire(t, p)
	defer l.Release()
	for range 3 {
		must(t, l, "stdout", "70000")
		must(t, l, "stdout", "3000000")
	}
	if n := p.Status().StdoutDropped; n < 9_000_000 {
		t.Errorf("dropped = %d", n)
	}
}

func TestAPluginThatHangsIsEnded(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		t.Parallel()
		h := build(t, configure, func(c *plugin.Config) {
			plugin.SetTiming(c, func(tm *plugin.Timing) {
				tm.SetHealth(20*time.Millisecond, 20*time.Millisecond, time.Second)
				tm.SetAbort(50 * time.Millisecond)
			})
		})
		s, tag := tagged(t, "serve")
		p := h.add(s)
		l := acquire(t, p)
		defer l.Release()
		pid := p.Status().PID
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		stopped(t, pid)
		_, err := command(t.Context(), l, "echo", "1")
		if e, ok := asError(err); !ok || !e.Crash || !strings.Contains(e.Error(), "2 health checks of 1s went unanswered") {
			t.Errorf("err = %v", err)
		}
		allGone(t, tag)
	})
}

func TestHangingGoProgramPrintsItsStacks(t *testing.T) {
	h := build(t)
	l := acquire(t, h.add(spec(t, "serve")))
	defer l.Release()
	call := make(chan error, 1)
	go func() { _, err := command(t.Context(), l, "wait", ""); call <- err }() // owned by the test: received below
	l.Overran()                                                                // the first one
	select {
	case <-l.Exited():
		t.Fatal("one overrun ended the process")
	default:
	}
	l.Overran() // the second one in a row: the process is ended
	<-l.Exited()
	e, ok := asError(<-call)
	if !ok || !e.Crash || !strings.Contains(e.Error(), "two calls in a row") {
		t.Fatalf("err = %v", e)
	}
	if all := strings.Join(e.Report, "\n"); !strings.Contains(all, "SIGABRT: abort") || !strings.Contains(all, "goroutine ") {
		t.Errorf("report = %s", all)
	}
}

func TestLimitsOfTheTree(t *testing.T) {
	isolations(t, func(t *testing.T, configure func(*plugin.Config)) {
		quick := func(c *plugin.Config) {
			plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetResources(10 * time.Millisecond) })
		}
		t.Run("memory", func(t *testing.T) {
			t.Parallel()
			h := build(t, configure, quick)
			s := spec(t, "serve")
			s.Limits.MemoryBytes = 256 << 20
			l := acquire(t, h.add(s))
			defer l.Release()
			must(t, l, "memory", "1048576")
			_, _ = command(t.Context(), l, "memory", "314572800")
			<-l.Exited()
			if e, ok := asError(l.ExitError()); !ok || !e.Crash || !strings.Contains(e.Error(), "memory limit 256MiB") {
				t.Errorf("err = %v", l.ExitError())
			}
		})
		t.Run("storage", func(t *testing.T) {
			t.Parallel()
			h := build(t, configure, func(c *plugin.Config) {
				c.DataDir = t.TempDir()
				plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetStorage(10 * time.Millisecond) })
			})
			s := spec(t, "serve")
			s.Limits.StorageBytes = 4 << 20
			l := acquire(t, h.add(s))
			defer l.Release()
			must(t, l, "keep", "1048576")
			must(t, l, "echo", "1")
			_, _ = command(t.Context(), l, "keep", "5242880")
			<-l.Exited()
			if e, ok := asError(l.ExitError()); !ok || !e.Crash || !strings.Contains(e.Error(), "storage limit 4MiB, limits { storage }") {
				t.Errorf("err = %v", l.ExitError())
			}
		})
		t.Run("storage after a call", func(t *testing.T) {
			t.Parallel()
			h := build(t, configure, func(c *plugin.Config) {
				c.DataDir = t.TempDir()
				plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetStorage(10 * time.Millisecond) })
			})
			s := spec(t, "serve")
			s.Limits.StorageBytes = 4 << 20
			l := acquire(t, h.add(s))
			must(t, l, "keep on", "65536")
			l.Release()
			<-l.Exited()
			if e, ok := asError(l.ExitError()); !ok || !strings.Contains(e.Error(), "storage limit 4MiB, limits { storage }") {
				t.Errorf("err = %v", l.ExitError())
			}
		})
		// Files written between calls are found too, because the usage of the disk triggers a measurement.
		t.Run("storage between calls", func(t *testing.T) {
			t.Parallel()
			h := build(t, configure, func(c *plugin.Config) {
				c.DataDir = t.TempDir()
				plugin.SetTiming(c, func(tm *plugin.Timing) { tm.SetStorage(time.Hour); tm.SetDisk(5 * time.Millisecond) })
			})
			s := spec(t, "serve")
			s.Limits.StorageBytes = 4 << 20
			l := acquire(t, h.add(s))
			defer l.Release()
			pipe, err := strconv.Unquote(must(t, l, "later", "41943040"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(pipe, []byte("go"), 0o600); err != nil {
				t.Fatal(err)
			}
			<-l.Exited()
			if e, ok := asError(l.ExitError()); !ok || !e.Crash || !strings.Contains(e.Error(), "storage limit 4MiB, limits { storage }") {
				t.Errorf("err = %v", l.ExitError())
			}
		})
		t.Run("processes", func(t *testing.T) {
			t.Parallel()
			h := build(t, configure, quick)
			s := spec(t, "serve")
			s.Limits.Pids = 2
			l := acquire(t, h.add(s))
			defer l.Release()
			must(t, l, "child", "")
			_, _ = command(t.Context(), l, "child", "setsid")
			<-l.Exited()
			if e, ok := asError(l.ExitError()); !ok || !strings.Contains(e.Error(), "process limit 2") {
				t.Errorf("err = %v", l.ExitError())
			}
		})
	})
}
