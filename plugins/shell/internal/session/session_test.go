package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/sdk/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a process whose life the test decides.
type program struct {
	r       *io.PipeReader
	w       *io.PipeWriter
	done    chan struct{}
	once    sync.Once
	code    int
	unknown bool
	signals chan os.Signal
	stuck   bool // ignores being killed
	size    process.Size

	released bool
}

func newProgram() *program {
	r, w := io.Pipe()
	return &program{r: r, w: w, done: make(chan struct{}), signals: make(chan os.Signal, 8)}
}

func (p *program) Done() <-chan struct{}      { return p.done }
func (p *program) Exit() (process.Exit, bool) { return process.Exit{Code: p.code}, !p.unknown }
func (p *program) Wait() error                { <-p.done; return nil }
func (p *program) Release() error             { p.released = true; return nil }
func (p *program) Signal(s os.Signal) error   { p.signals <- s; return nil }

func (p *program) Resize(s process.Size) error {
	p.size = s
	return nil
}

func (p *program) Kill() error {
	if !p.stuck {
		p.exit(137)
	}
	return nil
}

func (p *program) print(s string) { _, _ = io.WriteString(p.w, s) }

// exit ends the process and its output.
func (p *program) exit(code int) {
	p.once.Do(func() {
		p.code = code
		_ = p.w.Close()
		close(p.done)
	})
}

// leave ends the process while another one keeps its output open.
func (p *program) leave(code int) {
	p.once.Do(func() {
		p.code = code
		close(p.done)
	})
}

func add(t *testing.T, st *Store, p *program, info Info) *Session {
	t.Helper()
	id, err := st.Reserve("t")
	if err != nil {
		t.Fatal(err)
	}
	s, err := st.Add(t.Context(), "t", id, Program{Info: info, Process: p, In: p.w, Out: p.r})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func end(t *testing.T, st *Store) {
	t.Helper()
	if err := errors.Join(st.End(context.Background(), "t"), st.Close(context.Background())); err != nil {
		t.Errorf("end: %v", err)
	}
}

func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		p := newProgram()
		s := add(t, st, p, Info{})
		begin := time.Now()
		p.print("start\n")
		o, ended, err := s.Collect(t.Context(), "call", time.After(300*time.Millisecond))
		if err != nil || o.Text() != "start\n" || ended || time.Since(begin) != 300*time.Millisecond {
			t.Errorf("first: %q, %v, ended %v after %v", o.Text(), err, ended, time.Since(begin))
		}
		time.AfterFunc(time.Second, func() { p.print("end\n"); p.exit(3) })
		begin = time.Now()
		o, ended, err = s.Collect(t.Context(), "call", time.After(5*time.Second))
		if code, known := s.Code(); err != nil || o.Text() != "end\n" || !ended || code != 3 || !known {
			t.Errorf("second: %q, %v, ended %v, code %d %v", o.Text(), err, ended, code, known)
		}
		if d := time.Since(begin); d != time.Second {
			t.Errorf("returned after %v, want the moment of the exit", d)
		}
		if o, _, err := s.Collect(t.Context(), "call", nil); err != nil || o.Total() != 0 {
			t.Errorf("third: %q, %v", o.Text(), err)
		}
	})
}

func TestCollectDoesNotWaitForWhatOthersHoldOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		p := newProgram()
		s := add(t, st, p, Info{})
		p.print("x")
		synctest.Wait() // it has arrived before the process ends
		p.leave(0)
		begin := time.Now()
		o, _, err := s.Collect(t.Context(), "call", time.After(time.Minute))
		if err != nil || o.Text() != "x" || time.Since(begin) != outputGrace {
			t.Errorf("%q, %v after %v, want x after %v", o.Text(), err, time.Since(begin), outputGrace)
		}
		p.print("still drained") // must not block: the other process would hang
	})
}

// late is output whose reader gets no processor for a while.
type late struct {
	*os.File
	from <-chan struct{}
}

func (l *late) Read(b []byte) (int, error) {
	<-l.from
	return l.File.Read(b)
}

// On a busy machine the process may have ended for long before its output is read. None of it is lost, although another process holds
// the pipe open.
func TestCollectWaitsForWhatTheKernelHolds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	st := NewStore()
	defer end(t, st)
	id, err := st.Reserve("t")
	if err != nil {
		t.Fatal(err)
	}
	p, from := newProgram(), make(chan struct{})
	s, err := st.Add(t.Context(), "t", id, Program{Process: p, Out: &late{r, from}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("all of it"); err != nil {
		t.Fatal(err)
	}
	p.leave(0)
	time.AfterFunc(3*outputGrace, func() { close(from) })
	if o, ended, err := s.Collect(t.Context(), "call", nil); err != nil || !ended || o.Text() != "all of it" {
		t.Errorf("%q, ended %v, %v", o.Text(), ended, err)
	}
}

func TestInterruptedCollectLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		p := newProgram()
		s := add(t, st, p, Info{})
		p.print("kept")
		why := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, _, err := s.Collect(ctx, "call", time.After(time.Minute)); !errors.Is(err, why) {
			t.Errorf("error = %v, want %v", err, why)
		}
		if s.Exited() {
			t.Error("the interrupt ended the session")
		}
		if o, _, _ := s.Collect(t.Context(), "call", time.After(time.Second)); o.Text() != "kept" {
			t.Errorf("later: %q", o.Text())
		}
	})
}

func TestCharactersAreNotTornApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		p := newProgram()
		s := add(t, st, p, Info{})
		p.print("a\xe2\x82")
		if o, _, _ := s.Collect(t.Context(), "call", time.After(time.Second)); o.Text() != "a" {
			t.Errorf("first: %q", o.Text())
		}
		p.print("\xacb\xe2")
		p.exit(0)
		if o, _, _ := s.Collect(t.Context(), "call", time.After(time.Second)); o.Text() != "€b\uFFFD" {
			t.Errorf("second: %q", o.Text())
		}
	})
}

func TestInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		p := newProgram()
		s := add(t, st, p, Info{})
		if err := s.Input(t.Context(), "abc"); !errors.Is(err, ErrClosedStdin) {
			t.Errorf("error = %v, want %v", err, ErrClosedStdin)
		}
		if err := s.Input(t.Context(), "\x03"); err != nil {
			t.Errorf("Ctrl-C: %v", err)
		}
		if got := <-p.signals; got != syscall.SIGINT {
			t.Errorf("signal = %v", got)
		}
		terminal := newProgram()
		s = add(t, st, terminal, Info{TTY: true}) // what is typed comes back as output: the fake's two ends are one pipe
		if err := s.Input(t.Context(), "hello\n"); err != nil {
			t.Fatal(err)
		}
		if o, _, _ := s.Collect(t.Context(), "call", time.After(time.Second)); o.Text() != "hello\n" {
			t.Errorf("output = %q", o.Text())
		}
	})
}

func TestUnreadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		r, w := io.Pipe()
		defer r.Close() // what closing the terminal does
		id, err := st.Reserve("t")
		if err != nil {
			t.Fatal(err)
		}
		p := newProgram()
		s, err := st.Add(t.Context(), "t", id, Program{Info: Info{TTY: true}, Process: p, In: w, Out: p.r})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := s.Input(ctx, "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want %v", err, context.Canceled)
		}
		begin := time.Now()
		if err := s.Input(t.Context(), "y"); !errors.Is(err, ErrNotReading) || time.Since(begin) != 0 {
			t.Errorf("behind what waits: %v after %v, want %v at once", err, time.Since(begin), ErrNotReading)
		}
		if _, err := r.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := s.Input(t.Context(), "z"); !errors.Is(err, ErrNotReading) || time.Since(begin) != inputTime {
			t.Errorf("after what waits: %v after %v, want %v after %v", err, time.Since(begin), ErrNotReading, inputTime)
		}
	})
}

func TestOneInteractionAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := NewStore()
		defer end(t, st)
		s := add(t, st, newProgram(), Info{})
		release, err := s.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx); err == nil {
			t.Error("a second one got in")
		}
		release()
		if release, err = s.Acquire(t.Context()); err != nil {
			t.Errorf("after release: %v", err)
		}
		release()
	})
}

// viewer records what it is told.
type viewer struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (v *viewer) say(s string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.log.WriteString(s)
}

func (v *viewer) said() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.log.String()
}

func (v *viewer) Write(p []byte) (int, error) { v.say(string(p)); return len(p), nil }
func (v *viewer) Exited(code int)             { v.say("[exited]") }
func (v *viewer) Denied(code int)             { v.say("[denied]") }
func (v *viewer) Lost()                       { v.say("[lost]") }

func TestViewer(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		info       Info
		last       string
		code       int
		unknown    bool
	}{
		{name: "exited", want: "last[exited]", last: "last", code: 1},
		{name: "permission denied without a sandbox", want: "Permission denied[exited]", last: "Permission denied", code: 1},
		{name: "denied", want: "Permission denied[denied]", last: "Permission denied", code: 1, info: Info{Sandboxed: true}},
		{name: "lost", want: "last[lost]", last: "last", unknown: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := NewStore()
				defer end(t, st)
				p := newProgram()
				p.unknown = tt.unknown
				s := add(t, st, p, tt.info)
				p.print("before ")
				synctest.Wait()
				var early, late viewer
				s.Open(&early)
				p.print(tt.last)
				p.exit(tt.code)
				synctest.Wait()
				if got := early.said(); got != tt.want {
					t.Errorf("told %q, want %q", got, tt.want)
				}
				s.Open(&late)
				if got, want := late.said(), tt.want[strings.Index(tt.want, "["):]; got != want {
					t.Errorf("who came late was told %q, want %q", got, want)
				}
			})
		})
	}
}

func TestLooksDenied(t *testing.T) {
	for _, tt := range []struct {
		code int
		out  string
		want bool
	}{
		{0, "Permission denied", false},
		{1, "touch: /x: Operation not permitted", true},
		{2, "READ-ONLY FILE SYSTEM", true},
		{1, "no such file", false},
		{128 + linuxSIGSYS, "", runtime.GOOS == "linux"},
		{127, "not found", false},
	} {
		if got := looksDenied(tt.code, []byte(tt.out)); got != tt.want {
			t.Errorf("looksDenied(%d, %q) = %v", tt.code, tt.out, got)
		}
	}
}
