package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch"
)

// Secret is what stands behind a handle: a value, or the program that prints it.
type Secret struct {
	Value   string
	Program *Program // nil: Value counts
}

// Format hides the value from every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(secret)") }

// Program prints a secret on its standard output.
type Program struct {
	Argv    []string
	Dir     string        // absolute
	Timeout time.Duration // for one run
	Refresh time.Duration // how long what it printed is good; 0: until it is refused where it is used
	Check   func() error  // says whether it is what the user agreed to; nil: it needs no consent
}

const (
	// maxPrinted is what a secret may have; more is another program's output.
	maxPrinted = 64 << 10
	maxTail    = 500             // bytes of what a program says on its standard error before it fails
	startTime  = 5 * time.Second // until it runs
	killTime   = 5 * time.Second // for the end of its tree; then the launcher goes on without us
	// failTime is how long a failure counts. A provider needs the key several times for one answer: who has said no to a
	// dialog is not asked again at once, and a program that hangs is waited for once.
	failTime = 2 * time.Second
)

// programs keeps what programs have printed, as long as it is good. Safe for concurrent use.
type programs struct {
	run func(context.Context, Program) (string, error)

	mu  sync.Mutex
	all map[string]*printed // by what is run
}

// printed is what is known of one program; guarded by programs.mu.
type printed struct {
	value  string
	at     time.Time // zero: nothing was printed yet
	err    error
	failed time.Time // when err came; zero: never
	run    *programRun
}

// programRun is one run, for all that wait for it.
type programRun struct {
	waiting int // guarded by programs.mu
	stop    context.CancelFunc
	done    chan struct{} // closed when value and err are set
	value   string
	err     error
}

// value is what a program printed last, or prints now: when there is nothing, when that is too old, or when it was refused
// (renew). Those who ask while it runs get what that run prints.
func (s *programs) value(ctx context.Context, p Program, renew bool) (string, error) {
	s.mu.Lock()
	e := s.of(p)
	switch {
	case e.run != nil:
	case !renew && !e.at.IsZero() && (p.Refresh == 0 || time.Since(e.at) < p.Refresh):
		defer s.mu.Unlock()
		return e.value, nil
	case !e.failed.IsZero() && time.Since(e.failed) < failTime:
		defer s.mu.Unlock()
		return "", e.err
	}
	r := e.run
	if r == nil {
		var running context.Context
		r = &programRun{done: make(chan struct{})}
		running, r.stop = context.WithCancel(context.WithoutCancel(ctx))
		e.run = r
		// Owner: those who wait; the last who leaves stops it and waits for its end.
		go func() {
			defer close(r.done)
			r.value, r.err = s.run(running, p)
			s.finish(running, e, r)
		}()
	}
	r.waiting++
	s.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	s.leave(e, r)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return r.value, r.err
}

// of finds what is known of a program; the lock is held.
func (s *programs) of(p Program) *printed {
	key := fmt.Sprintf("%q %q %v %v", p.Argv, p.Dir, p.Timeout, p.Refresh)
	e := s.all[key]
	if e == nil {
		e = &printed{}
		if s.all == nil {
			s.all = map[string]*printed{}
		}
		s.all[key] = e
	}
	return e
}

// finish keeps what came of a run. One that was given up has not failed.
func (s *programs) finish(ctx context.Context, e *printed, r *programRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.err == nil:
		e.value, e.at = r.value, time.Now()
	case ctx.Err() == nil:
		e.err, e.failed = r.err, time.Now()
	}
	if e.run == r {
		e.run = nil
	}
}

// leave ends a run that nobody waits for any more. Who comes meanwhile begins another.
func (s *programs) leave(e *printed, r *programRun) {
	s.mu.Lock()
	r.waiting--
	last := r.waiting == 0
	if last && e.run == r {
		e.run = nil
	}
	s.mu.Unlock()
	if last {
		r.stop()
		<-r.done
	}
}

// errLate is why a run ended that took too long.
var errLate = errors.New("it took too long")

// runProgram runs a program under the host's launcher. What it leaves behind ends with it.
func runProgram(ctx context.Context, cfg *Config, p Program) (_ string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, errLate)
	defer cancel()
	defer func() {
		switch {
		case err == nil:
		case errors.Is(context.Cause(ctx), errLate):
			err = hint.With(fmt.Errorf("the program %q printed no secret within %v", p.Argv[0], p.Timeout), "run it yourself, or raise its timeout")
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		default:
			err = fmt.Errorf("the program %q %w", p.Argv[0], err)
		}
	}()
	owner := launch.Owner{Call: "secret " + rand.Text()} // no plugin's: none may take its output
	defer func() {
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), killTime)
		defer done()
		_ = cfg.Launcher.EndCall(ending, owner) // what is not dead by then the launcher goes on to kill
	}()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if p.Check != nil { // commands in a sandbox can't change what it runs between this and the start
		if err := p.Check(); err != nil {
			return "", err
		}
	}
	// A start that is given up is killed; a program that runs already is to be asked to end.
	starting, started := context.WithTimeout(context.WithoutCancel(ctx), startTime)
	defer started()
	proc, err := cfg.Launcher.Spawn(starting, launch.Spec{
		Argv: p.Argv, Cwd: p.Dir, Env: cfg.UserEnvironment(), Owner: owner,
		Grant: launch.Grant{Mode: launch.FullAccess, Network: true},
	})
	if err != nil {
		return "", fmt.Errorf("did not start: %w", err)
	}
	var out bytes.Buffer
	var tail []byte
	exit, err := proc.Attach(ctx, nil, func(o launch.Output) error {
		if o.Stderr {
			tail = append(tail, o.Data...)
			tail = tail[max(0, len(tail)-maxTail):]
			return nil
		}
		if out.Write(o.Data); out.Len() > maxPrinted {
			return fmt.Errorf("printed more than %d bytes, which is no secret", maxPrinted)
		}
		return nil
	})
	value := strings.TrimSpace(out.String())
	switch {
	case err != nil:
		return "", err
	case exit.Code != 0:
		text := fmt.Sprintf("ended with status %d", exit.Code)
		if said := strings.Join(strings.Fields(strings.ToValidUTF8(string(tail), "�")), " "); said != "" {
			text += ": " + said
		}
		return "", errors.New(text)
	case !utf8.ValidString(value):
		return "", errors.New("printed what is no text in UTF-8")
	case value == "":
		return "", errors.New("printed nothing")
	}
	return value, nil
}
