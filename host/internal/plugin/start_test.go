//go:build linux

package plugin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// kills kills the processes of a slot that hang in their start, one after the other, until the test ends.
func kills(t *testing.T, dir, tag string, times int) (done <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{})
	go func() { // owned by the test, which waits for done
		defer close(ended)
		for i := range times {
			for {
				_, err := os.Stat(filepath.Join(dir, fmt.Sprint(i)))
				if pids := marked(t, tag); err == nil && len(pids) > 0 {
					for _, pid := range pids {
						_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
					}
					for _, pid := range pids {
						gone(t, pid)
					}
					break
				}
				if t.Context().Err() != nil {
					return
				}
			}
		}
	}()
	return ended
}

// A process that is killed while it starts is restarted once. If it is killed again, the error is understandable without
// knowledge of handshakes.
func TestCrashedStartIsRetriedOnce(t *testing.T) {
	for _, phase := range []string{"start", "describe", "configure"} {
		for _, times := range []int{1, 2} {
			t.Run(fmt.Sprintf("killed %d times in %s", times, phase), func(t *testing.T) {
				t.Parallel()
				h, dir := build(t), t.TempDir()
				s, tag := tagged(t, "serve", fmt.Sprintf("HANGS=%s=%d", phase, times), "HANGS_IN="+dir)
				p := h.add(s)
				done := kills(t, dir, tag, times)
				l, err := p.Acquire(t.Context())
				<-done
				if st := p.Status(); st.Starts != 2 || st.Crashes != times {
					t.Errorf("%d starts, %d crashes, want 2 and %d", st.Starts, st.Crashes, times)
				}
				if times == 1 {
					if err != nil {
						t.Fatal(explain(err))
					}
					if l.Generation != 2 {
						t.Errorf("generation = %d", l.Generation)
					}
					must(t, l, "pid", "")
					l.Release()
					return
				}
				e, ok := asError(err)
				if !ok || !e.Crash || e.Next == "" {
					t.Fatalf("err = %v", err)
				}
				want := `plugin "w" did not start: it was killed while it was starting, perhaps because the system ran out of memory, ` +
					`and again when it was restarted; it was ended by signal 9 (killed)`
				if e.Error() != want {
					t.Errorf("the error reads\n%s\nwant\n%s", e, want)
				}
			})
		}
	}
}

func TestCrashedStarts(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		env    []string
		starts int
	}{
		"a panic":                             {"panic", nil, 2},
		"a shell's word of a signal":          {"print", []string{"STATUS=137"}, 2},
		"a status of its own":                 {"print", []string{"STATUS=3"}, 1},
		"a status in the middle of describe":  {"serve", []string{"DESCRIBE=exit"}, 1},
		"a word that is no handshake":         {"print", []string{"PRINT=hello\n", "STATUS=0"}, 1},
		"a refused configuration":             {"serve", []string{"CONFIGURE=refuse"}, 1},
		"a panic that answers with a problem": {"serve", []string{"CONFIGURE=crash"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := build(t).add(spec(t, c.mode, c.env...))
			if _, err := p.Acquire(t.Context()); err == nil {
				t.Error("it started")
			}
			if got := p.Status().Starts; got != c.starts {
				t.Errorf("%d starts, want %d", got, c.starts)
			}
		})
	}
	t.Run("the host's own patience", func(t *testing.T) {
		t.Parallel()
		s := spec(t, "hang")
		s.StartTimeout = 100 * time.Millisecond
		p := build(t).add(s)
		if _, err := p.Acquire(t.Context()); err == nil || !strings.Contains(err.Error(), "100ms") {
			t.Errorf("err = %v", err)
		}
		if got := p.Status().Starts; got != 1 {
			t.Errorf("%d starts, want 1", got)
		}
	})
}

// A replacement that is killed while it starts is restarted once as well, without an effect on the running process.
func TestCrashedReplacementIsRetriedOnce(t *testing.T) {
	h, dir := build(t), t.TempDir()
	p := h.add(spec(t, "serve"))
	acquire(t, p).Release()
	s, tag := tagged(t, "serve", "HANGS=start=1", "HANGS_IN="+dir)
	done := kills(t, dir, tag, 1)
	err := p.Replace(t.Context(), s)
	<-done
	if err != nil {
		t.Fatal(explain(err))
	}
	l := acquire(t, p)
	defer l.Release()
	if l.Generation != 3 || p.Status().Mode != plugin.ModeReady {
		t.Errorf("generation %d, %v", l.Generation, p.Status().Mode)
	}
}
