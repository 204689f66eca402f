package launch_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

func session(text string, holder uint64, keep *launch.Keep) launch.Spec {
	s := script(text)
	s.MergeStderr, s.Session, s.Holder, s.Keep = true, true, holder, keep
	return s
}

func TestHolderEnded(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	kept := spawn(t, l, session("sleep 1000", 1, &launch.Keep{Note: []byte("n")}))
	plain := spawn(t, l, session("sleep 1000", 1, nil))
	done := spawn(t, l, session("sleep 1000", 1, &launch.Keep{}))
	done.Release()
	other := spawn(t, l, session("sleep 1000", 2, nil))
	l.HolderEnded("shell", 1)
	<-plain.Gone()
	<-done.Gone() // nobody will adopt it
	for _, p := range []*launch.Process{kept, other} {
		if _, ended := p.Ended(); ended {
			t.Errorf("process %d was ended", p.PID())
		}
	}
	if ps := l.Kept("shell", kept.Owner().Thread); len(ps) != 1 || ps[0] != kept || string(kept.Note()) != "n" {
		t.Errorf("kept: %v", ps)
	}
	if ps := l.Kept("shell", "elsewhere"); len(ps) != 0 {
		t.Errorf("kept for another thread: %v", ps)
	}
}

func TestAdoptWaitsForTheHolder(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, session("sleep 1000", 1, &launch.Keep{}))
	soon, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no patience")
	cancel(why)
	if err := p.Adopt(soon, 2); !errors.Is(err, why) {
		t.Errorf("adopted from a holder that lives: %v", err)
	}
	adopted := make(chan error, 1)
	go func() { adopted <- p.Adopt(t.Context(), 2) }() // owned by the test, which receives from it
	l.HolderEnded("shell", 1)
	if err := <-adopted; err != nil {
		t.Fatal(err)
	}
	if err := p.Adopt(soon, 2); err != nil {
		t.Errorf("again by its holder: %v", err)
	}
	l.HolderEnded("shell", 1) // says nothing about the new one
	if err := p.Adopt(soon, 3); !errors.Is(err, why) {
		t.Errorf("adopted from the new holder: %v", err)
	}
	if err := l.EndThread(t.Context(), p.Owner().Thread); err != nil {
		t.Fatal(err)
	}
	if err := p.Adopt(t.Context(), 3); !errors.Is(err, launch.ErrEnded) {
		t.Errorf("adopted after the end: %v", err)
	}
}

func TestUnadoptedSessionIsEnded(t *testing.T) {
	t.Parallel()
	told := make(chan *launch.Process, 1)
	l := newLauncher(t, func(c *launch.Config) {
		c.AdoptTime, c.OnAbandon = time.Nanosecond, func(p *launch.Process) { told <- p }
	})
	p := spawn(t, l, session("trap '' TERM; sleep 1000 & sleep 1000", 1, &launch.Keep{}))
	l.HolderEnded("shell", 1)
	if got := <-told; got != p {
		t.Errorf("told of %v", got)
	}
	<-p.Gone()
	if err := p.Adopt(t.Context(), 2); !errors.Is(err, launch.ErrEnded) {
		t.Errorf("adopted too late: %v", err)
	}
}

// One process of a plugin reads what the previous one has written to the memory, and neither can shrink it.
func TestMemoryOutlivesItsReader(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	spec := session("echo begin; read x; echo end", 1, &launch.Keep{Memory: 8192})
	spec.Stdin = true
	p := spawn(t, l, spec)
	take := func() (in, out, memory *os.File) {
		t.Helper()
		files := d.take(t, p.Token())
		if len(files) != 3 {
			t.Fatalf("descriptors %v, files %d", p.Descriptors(), len(files))
		}
		return files[0], files[1], files[2]
	}
	in, out, memory := take()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "begin\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := memory.WriteAt([]byte("begin read"), 100); err != nil {
		t.Fatal(err)
	}
	if err := memory.Truncate(1); !errors.Is(err, syscall.EPERM) {
		t.Errorf("truncate: %v", err)
	}
	closeAll(in, out, memory)
	l.HolderEnded("shell", 1)
	if err := p.Adopt(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	in, out, memory = take()
	if _, err := in.WriteString("go on\n"); err != nil {
		t.Fatal(err)
	}
	<-p.Gone()
	b := make([]byte, 10)
	if _, err := memory.ReadAt(b, 100); err != nil || string(b) != "begin read" {
		t.Errorf("memory %q, %v", b, err)
	}
	p.Release()
	if rest, err := io.ReadAll(out); err != nil || string(rest) != "end\n" {
		t.Errorf("the rest %q, %v", rest, err)
	}
	// The command doesn't have the descriptor.
	q := spawn(t, l, session("ls /proc/self/fd | wc -l; ls -l /proc/self/fd", 1, &launch.Keep{Memory: 8192}))
	out = d.take(t, q.Token())[0]
	seen, err := io.ReadAll(out)
	if err != nil || strings.Contains(string(seen), "memfd") {
		t.Errorf("descriptors of the command: %s, %v", seen, err)
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func TestReleaseForgets(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	d := newPluginClient(t, l, "shell")
	p := spawn(t, l, session("true", 1, &launch.Keep{}))
	closeAll(d.take(t, p.Token())...)
	wait(t, p)
	<-p.Gone()
	if _, there := l.Process(p.ID()); !there {
		t.Error("forgotten although somebody may adopt it")
	}
	p.Release()
	if _, there := l.Process(p.ID()); there {
		t.Error("not forgotten")
	}
	if got := fmt.Sprint(p.Descriptors()); got != "[]" {
		t.Errorf("descriptors %s are open still", got)
	}
}
