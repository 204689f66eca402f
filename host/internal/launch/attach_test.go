//go:build linux

package launch_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch"
)

func TestAttachCarriesBothWays(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := command("cat")
	s.Stdin = true
	big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB, more than the pipes hold
	stdout, _, exit := run(t, l, s, big, "end")
	if stdout != big+"end" || exit.Code != 0 {
		t.Errorf("%d bytes came back, want %d; %+v", len(stdout), len(big)+3, exit)
	}
}

func TestUnreadInputIsDropped(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := script("exec 0<&-; echo closed")
	s.Stdin = true
	stdout, _, exit := run(t, l, s, strings.Repeat("x", 1<<20), "more")
	if stdout != "closed\n" || exit.Code != 0 {
		t.Errorf("wrote %q, %+v", stdout, exit)
	}
}

func TestProcessBlocksOnUnreadOutput(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, command("yes"))
	if err := p.Signal(0, false); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	if err := p.KillTree(t.Context()); err != nil {
		t.Error(err)
	}
	<-p.Gone()
}

func TestProcessWaitsForSlowReader(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, command("yes"))
	enough := errors.New("enough")
	pieces := 0
	_, err := p.Attach(t.Context(), nil, func(o launch.Output) error {
		if len(o.Data) == 0 || len(o.Data) > 32<<10 {
			t.Errorf("a piece of %d bytes", len(o.Data))
		}
		if pieces++; pieces == 100 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
	if pieces != 100 {
		t.Errorf("%d pieces came after an error at the 100th", pieces)
	}
}

func TestOutputLimit(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := script("head -c 100000 /dev/zero; exit 4")
	s.Grant.Limits.OutputBytes = 70000
	p := spawn(t, l, s)
	got := 0
	exit, err := p.Attach(t.Context(), nil, func(o launch.Output) error {
		got += len(o.Data)
		return nil
	})
	if err != nil || exit.Code != 4 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if got != 70000 || p.Dropped() != 30000 {
		t.Errorf("%d bytes came, %d were dropped", got, p.Dropped())
	}
}

func TestAttachAgain(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	s := script(`echo one; read x; echo two`)
	s.Stdin, s.Session = true, true
	p := spawn(t, l, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("connection lost")
	var first, second bytes.Buffer
	_, err := p.Attach(ctx, nil, func(o launch.Output) error {
		first.Write(o.Data)
		if _, err := p.Attach(ctx, nil, nil); !errors.Is(err, launch.ErrAttached) {
			t.Errorf("a second one: %v", err)
		}
		cancel(cause)
		return nil
	})
	if !errors.Is(err, cause) || first.String() != "one\n" {
		t.Errorf("first: %q, %v", first.String(), err)
	}
	in := make(chan launch.Input, 1)
	in <- launch.Input{Data: []byte("go\n"), Close: true}
	exit, err := p.Attach(t.Context(), in, func(o launch.Output) error {
		second.Write(o.Data)
		return nil
	})
	if err != nil || exit.Code != 0 || second.String() != "two\n" {
		t.Errorf("second: %q, %+v, %v", second.String(), exit, err)
	}
}

func TestAttachEndsWhileDescendantsKeepThePipeOpen(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	for _, left := range []string{"sleep 1000", "yes"} {
		s := script(`echo text; ` + left + ` & exit 3`)
		p := spawn(t, l, s)
		var first []byte
		after := 0
		exit, err := p.Attach(t.Context(), nil, func(o launch.Output) error {
			if first == nil {
				first = bytes.Clone(o.Data)
			}
			select {
			case <-p.Exited():
				after += len(o.Data)
			default:
			}
			return nil
		})
		if err != nil || exit.Code != 3 || !strings.HasPrefix(string(first), "text\n") {
			t.Errorf("%s: %.20q, %+v, %v", left, first, exit, err)
		}
		if after > 2<<20 {
			t.Errorf("%s: %d bytes were read after the end", left, after)
		}
		if err := p.KillTree(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The process ends long before its output is read.
func TestOutputOfAnEndedProcessIsComplete(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := spawn(t, l, script("head -c 60000 /dev/zero"))
	<-p.Gone()
	got := 0
	exit, err := p.Attach(t.Context(), nil, func(o launch.Output) error {
		got += len(o.Data)
		return nil
	})
	if err != nil || exit.Code != 0 || got != 60000 {
		t.Errorf("%d bytes, %+v, %v", got, exit, err)
	}
}
