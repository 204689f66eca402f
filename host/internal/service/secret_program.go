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

// Secret is the value of a handle, the program that prints the value, or the reason why there is none.
type Secret struct {
	Value   string
	Program *Program // nil: Value is the secret
	Err     error    // the value is missing
}

// Format hides the value for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(secret)") }

// Program prints a secret on its standard output.
type Program struct {
	Argv    []string
	Dir     string        // absolute
	Timeout time.Duration // for one run
	Refresh time.Duration // how long the printed value is used; 0: until the service that it is for refuses it
	Check   func() error  // returns an error if the program is not the one that the user agreed to; nil: it needs no consent
}

const (
	// maxPrinted is the maximum size of a secret. Longer output is an error.
	maxPrinted = 64 << 10
	maxTail    = 500             // bytes of standard error that an error quotes
	startTime  = 5 * time.Second // limit for the start
	killTime   = 5 * time.Second // limit for ending its process tree; the launcher continues in the background after that
	// failTime is how long a failure is remembered. A provider needs the key several times for one answer: a user who has declined
	// a dialog should not see it again at once, and a program that hangs should delay the answer once.
	failTime = 2 * time.Second
)

// programs caches the output of programs. Methods may be called concurrently.
type programs struct {
	run func(context.Context, Program) (string, error)

	mu  sync.Mutex
	all map[string]*printed // by command
}

// printed is the state of one program, guarded by programs.mu.
type printed struct {
	value  string
	at     time.Time // zero: the program has printed nothing yet
	err    error
	failed time.Time // when err occurred; zero: never
	run    *programRun
}

// programRun is one run, shared by all waiting callers.
type programRun struct {
	waiting int // guarded by programs.mu
	stop    context.CancelFunc
	done    chan struct{} // closed when value and err are set
	value   string
	err     error
}

// value returns the cached output of a program, or runs the program if there is none, if it is too old, or if it was refused
// (renew). Concurrent callers share one run.
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

// of returns the state of a program. The caller holds the lock.
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

// finish stores the result of a run. A run that was cancelled because no caller was waiting is not a failure.
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

// leave cancels a run when its last caller stops waiting. A later caller starts another run.
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

// errLate is the cause of a timeout.
var errLate = errors.New("it took too long")

// runProgram runs a program under the host's launcher. Processes that it leaves behind are ended with it.
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
	owner := launch.Owner{Call: "secret " + rand.Text()} // not a plugin's, so that no plugin can read its output
	defer func() {
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), killTime)
		defer done()
		_ = cfg.Launcher.EndCall(ending, owner) // the launcher kills the remaining processes later
	}()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if p.Check != nil { // commands in a sandbox can't change the program between the check and the start
		if err := p.Check(); err != nil {
			return "", err
		}
	}
	// A cancelled start is killed; a running program is asked to exit.
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
			return fmt.Errorf("printed more than %d bytes, which is too long for a secret", maxPrinted)
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
		return "", errors.New("printed invalid UTF-8")
	case value == "":
		return "", errors.New("printed nothing")
	}
	return value, nil
}
