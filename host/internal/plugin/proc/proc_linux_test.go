package proc

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// onMain holds what the program's first thread is to do; nil: nobody has that thread.
var onMain chan func()

func TestMain(m *testing.M) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() { // this goroutine was moved before it came here
		goleak.VerifyTestMain(m)
		return
	}
	onMain = make(chan func())
	go goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/gantry-agent/gantry/host/internal/plugin/proc.TestMain")) // ends the program
	for f := range onMain {
		f()
	}
}

// started is a shell under test and what it prints.
type started struct {
	*Process
	out *os.File
}

// start runs a shell with this text; it ends with the test.
func start(t *testing.T, s *Starter, text string) started {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	sh, err := os.Open("/bin/sh")
	if err != nil {
		t.Skip("no shell")
	}
	p, err := s.Start(t.Context(), Spec{
		Binary: sh, Path: "/bin/sh", Args: []string{"-c", text}, Env: []string{"MARK=" + t.Name(), "PATH=/usr/bin:/bin"},
		Dir: "/", Stdout: w, Stderr: w, Lifeline: lifeR, Marker: "MARK=" + t.Name(),
	})
	for _, f := range []*os.File{w, lifeR, sh} {
		_ = f.Close()
	}
	t.Cleanup(func() { _, _ = r.Close(), lifeW.Close() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(); <-p.Gone() })
	return started{p, r}
}

func starters(t *testing.T, f func(t *testing.T, s *Starter)) {
	for name, namespaces := range map[string]bool{"namespace": true, "scan": false} {
		t.Run(name, func(t *testing.T) {
			s := NewStarter(hclog.NewNullLogger(), namespaces)
			t.Cleanup(s.Close)
			f(t, s)
		})
	}
}

func TestExits(t *testing.T) {
	starters(t, func(t *testing.T, s *Starter) {
		for text, want := range map[string]string{
			"exit 0": "exited with status 0",
			"exit 3": "exited with status 3",
			"trap 'exit 7' TERM; kill -TERM $$; exit 1": "exited with status 7",
		} {
			p := start(t, s, text)
			<-p.Exited()
			if x := p.Exit(); x.String() != want || x.Killed || x.At.IsZero() || x.MaxRSSBytes == 0 {
				t.Errorf("%q: %v %+v", text, x, x)
			}
		}
		p := start(t, s, "cat <&3")
		if x := p.Exit(); x != (Exit{}) {
			t.Errorf("exit of a running process: %+v", x)
		}
		p.Kill()
		<-p.Exited()
		if x := p.Exit(); x.Signal != syscall.SIGKILL || !x.Killed || x.Code != -1 {
			t.Errorf("exit of a killed one: %+v", x)
		}
		p.Kill() // harmless
		if err := errors.Join(p.Signal(syscall.SIGTERM), p.SignalGroup(syscall.SIGTERM)); err != nil {
			t.Errorf("a signal to a dead process: %v", err)
		}
	})
}

func TestEndIsReportedAtOnce(t *testing.T) {
	s := NewStarter(hclog.NewNullLogger(), true)
	defer s.Close()
	p := start(t, s, "cat <&3")
	began := time.Now()
	_ = p.Signal(syscall.SIGKILL)
	<-p.Exited()
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("noticed after %v", took)
	}
}

func TestTreeEndsWithTheProcess(t *testing.T) {
	starters(t, func(t *testing.T, s *Starter) {
		// One child of its own, one in another session, one whose parent is gone.
		p := start(t, s, "sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &) ; echo started; cat <&3")
		buf := make([]byte, 8)
		if _, err := io.ReadFull(p.out, buf); err != nil || string(buf) != "started\n" {
			t.Fatalf("%q, %v", buf, err)
		}
		u, err := p.Usage(true)
		if err != nil || u.Processes < 4 || u.RSSBytes == 0 || u.PSSBytes == 0 || u.PSSBytes > u.RSSBytes {
			t.Errorf("usage = %+v, %v", u, err)
		}
		tab, err := readTable()
		if err != nil {
			t.Fatal(err)
		}
		tree := tab.tree(p.Process)
		for _, pid := range tree {
			if err := p.Owns(pid); err != nil {
				t.Error(err)
			}
		}
		if err := p.Owns(os.Getpid()); err == nil {
			t.Error("it owns its host")
		}
		for _, pid := range []int{0, -1, 1} {
			if err := p.Owns(pid); err == nil {
				t.Errorf("it owns process %d", pid)
			}
		}
		_ = p.Signal(syscall.SIGKILL)
		<-p.Gone()
		if rest, err := io.ReadAll(p.out); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
		for _, pid := range tree {
			if e, ok := readEntry(pid); ok && e.state != 'Z' && e.started == tab[pid].started {
				t.Errorf("process %d is left in state %c", pid, e.state)
			}
		}
	})
}

func TestBinaryIsExecutedByDescriptor(t *testing.T) {
	dir := t.TempDir()
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("no shell")
	}
	path := filepath.Join(dir, "sh")
	if err := os.WriteFile(path, sh, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Between the check and the execution somebody puts another program there.
	if err := os.WriteFile(path+"2", []byte("#!/no/such/program\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"2", path); err != nil {
		t.Fatal(err)
	}
	starters(t, func(t *testing.T, s *Starter) {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		spec := Spec{Binary: f, Path: path, Args: []string{"-c", "exit 5"}, Dir: "/", Stdout: null, Stderr: null, Lifeline: null}
		p, err := s.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		<-p.Exited()
		if x := p.Exit(); x.Code != 5 {
			t.Errorf("exit = %v", x)
		}
		spec.Binary = nil
		_, err = s.Start(t.Context(), spec)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("by path: %v", err)
		}
	})
}

func TestNothingIsInherited(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	leaky, err := syscall.Dup(int(w.Fd())) // without close-on-exec, as from a careless parent
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leaky)
	s := NewStarter(hclog.NewNullLogger(), true)
	defer s.Close()
	p := start(t, s, "for f in /proc/self/fd/*; do echo ${f##*/}; done")
	out, err := io.ReadAll(p.out)
	if err != nil {
		t.Fatal(err)
	}
	// The shell's own: 0 to 3, and perhaps the folder that it lists.
	for _, n := range strings.Fields(string(out)) {
		if len(n) > 1 || n > "4" {
			t.Errorf("descriptors = %q", strings.Fields(string(out)))
		}
	}
}

func TestBusyFileIsRetried(t *testing.T) {
	sh, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("no shell")
	}
	path := filepath.Join(t.TempDir(), "sh")
	if err := os.WriteFile(path, sh, 0o700); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStarter(hclog.NewNullLogger(), false)
	defer s.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	spec := Spec{Path: path, Args: []string{"-c", "exit 0"}, Dir: "/", Stdout: null, Stderr: null, Lifeline: null}
	began := time.Now()
	if _, err := s.Start(t.Context(), spec); !errors.Is(err, syscall.ETXTBSY) {
		t.Fatalf("err = %v", err)
	}
	if took := time.Since(began); took < textBusyRetries*textBusyDelay {
		t.Errorf("given up after %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Start(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	_ = writer.Close()
	p, err := s.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
}

func TestProcessesEndWithTheStarter(t *testing.T) {
	starters(t, func(t *testing.T, s *Starter) {
		p := start(t, s, "cat <&3")
		s.Close()
		<-p.Exited() // by the parent-death signal of the starter's thread
		if x := p.Exit(); x.Signal != syscall.SIGKILL || x.Killed {
			t.Errorf("exit = %v", x)
		}
		if _, err := s.Start(t.Context(), Spec{Path: "/bin/sh", Stdout: p.out, Stderr: p.out, Lifeline: p.out}); err == nil {
			t.Error("a closed starter starts")
		}
		s.Close() // harmless
	})
}

func TestMainThreadStartsNothing(t *testing.T) {
	if onMain == nil {
		t.Skip("the first thread is not to be had")
	}
	s := NewStarter(hclog.NewNullLogger(), false)
	defer s.Close()
	requests := make(chan request, 8)
	s.mu.requests = requests
	ended := make(chan struct{})
	onMain <- func() { run(requests); close(ended) }
	p := start(t, s, "cat <&3")
	s.Close()
	<-p.Exited() // the main thread doesn't end, but it isn't the parent
	<-ended
}

func TestProcessesSurviveOtherThreads(t *testing.T) {
	s := NewStarter(hclog.NewNullLogger(), true)
	defer s.Close()
	made := make(chan started)
	go func() { // owned by the test: received below
		runtime.LockOSThread() // and never unlocked: this goroutine's thread ends with it
		made <- start(t, s, "echo alive; read x <&3; echo over")
	}()
	p := <-made
	for range 20 { // threads come and go
		done := make(chan struct{})
		go func() { runtime.LockOSThread(); close(done) }() // owned by the test: received below
		<-done
	}
	buf := make([]byte, 6)
	if _, err := io.ReadFull(p.out, buf); err != nil || string(buf) != "alive\n" {
		t.Fatalf("%q, %v", buf, err)
	}
	select {
	case <-p.Exited():
		t.Error("it ended with a stranger's thread")
	default:
	}
}

func BenchmarkStart(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for name, namespaces := range map[string]bool{"namespace": true, "scan": false} {
		b.Run(name, func(b *testing.B) {
			s := NewStarter(hclog.NewNullLogger(), namespaces)
			defer s.Close()
			for b.Loop() {
				p, err := s.Start(b.Context(), Spec{Path: "/bin/true", Dir: "/", Stdout: null, Stderr: null, Lifeline: null})
				if err != nil {
					b.Fatal(err)
				}
				<-p.Exited()
			}
		})
	}
}

// BenchmarkExitNoticed measures from the kill of a process until everybody knows that it is gone.
func BenchmarkExitNoticed(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for name, namespaces := range map[string]bool{"namespace": true, "scan": false} {
		b.Run(name, func(b *testing.B) {
			s := NewStarter(hclog.NewNullLogger(), namespaces)
			defer s.Close()
			for b.Loop() {
				b.StopTimer()
				p, err := s.Start(b.Context(), Spec{Path: "/bin/sleep", Args: []string{"1000"}, Dir: "/", Stdout: null, Stderr: null, Lifeline: null})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				_ = p.Signal(syscall.SIGKILL)
				<-p.Exited()
			}
		})
	}
}
