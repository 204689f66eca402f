// Package script runs scripts that drive a browser, and keeps what they say until somebody observes it.
//
// It owns: the states and limits of runs, the globals cdp and page, and which commands of the protocol a script may send. It must not know:
// tools and calls, how a browser is started, or how JavaScript is run.
//
// Start with [Runs.Start].
package script

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/session"
	"github.com/gantry-agent/gantry/plugins/browser/internal/spec"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// The limits of a run.
const (
	MaxTime  = 300 * time.Second                // until it is ended
	MaxYield = int(maxYield / time.Millisecond) // milliseconds that the start waits

	defaultYield, minYield, maxYield = 7 * time.Second, 250 * time.Millisecond, 30 * time.Second
	defaultWait, minWait, maxWait    = time.Second, time.Second, 120 * time.Second

	maxText   = 120 << 10 // bytes of console output and outputs that wait to be observed
	maxImages = 10        // that wait to be observed
	maxEvents = 200       // of a run
	maxActive = 8         // runs of all threads
	maxEnded  = 32        // runs that can still be observed after their end
	memory    = 256 << 20
	processor = 30 * time.Second // while the script does not wait
)

// Yield returns how long the start of a run waits for its end.
func Yield(ms int) time.Duration { return clamp(ms, defaultYield, minYield, maxYield) }

// Wait returns how long an observation waits for something new.
func Wait(ms int) time.Duration { return clamp(ms, defaultWait, minWait, maxWait) }

// Timeout returns the time after which a run is ended.
func Timeout(ms int) time.Duration { return clamp(ms, MaxTime, time.Millisecond, MaxTime) }

func clamp(ms int, absent, least, most time.Duration) time.Duration {
	if ms <= 0 {
		return absent
	}
	return min(max(time.Duration(min(ms, int(time.Hour/time.Millisecond)))*time.Millisecond, least), most)
}

// Status is the state of a run.
type Status string

// The states. The last three are final.
const (
	Running   Status = "running"
	Finished  Status = "finished"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// ErrCancelled is the reason of a run that was cancelled.
var ErrCancelled = errors.New("the script was cancelled")

// Conn is the connection of a run to its browser.
type Conn struct {
	*action.Session
	// Await waits while the script must not act, because a person has control.
	Await func(ctx context.Context) error
	// Attended waits until a call is there in which a question can be asked.
	Attended func(ctx context.Context) error
	// Explain makes an error of a browser that has ended understandable.
	Explain func(error) error
	// Withheld returns why the script may not have a picture of a tab; empty: it may. Optional.
	Withheld func(ctx context.Context, t *target.Tab) string
	Release  func()
}

// pictured returns an error if the script may not have a picture of a tab.
func (c *Conn) pictured(ctx context.Context, t *target.Tab) error {
	if c.Withheld != nil {
		if why := c.Withheld(ctx, t); why != "" {
			return errors.New("the picture is withheld, because " + why)
		}
	}
	return nil
}

// Close implements io.Closer. The browser stays.
func (c *Conn) Close() error {
	c.Release()
	return nil
}

// Options describe a run.
type Options struct {
	Thread, ID string // ID: of [NewID]
	Code       string
	Timeout    time.Duration
	Browser    *session.Execution[*Conn]
	Command    []string // that runs scripts; empty: this program
	// Ended is called when the run has ended and its browser is released. Optional.
	Ended func()
}

// Output is a value that a script has given with a label.
type Output struct {
	Label string          `json:"label,omitempty"`
	Value json.RawMessage `json:"value"`
}

// Event is a step in the browser.
type Event struct {
	Action string `json:"action"`
	URL    string `json:"url,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Diagnosis says what to do about a failure.
type Diagnosis struct {
	Kind          string `json:"error_kind"` // "timeout", "memory", "thrown", "cancelled", "crashed" or "provider"
	NextStep      string `json:"next_step"`
	BrowserUsable bool   `json:"browser_usable"`
}

// Report is what a run has said since the last report, and its state.
type Report struct {
	Status            Status          `json:"status"`
	RunID             string          `json:"run_id"`
	NextObserveMS     int64           `json:"next_observe_ms,omitempty"`
	ElapsedMS         int64           `json:"elapsed_ms"`
	MSSinceLastOutput int64           `json:"ms_since_last_output"`
	Text              string          `json:"text"`
	Error             string          `json:"error,omitempty"`
	Diagnosis         *Diagnosis      `json:"diagnosis,omitempty"`
	Data              json.RawMessage `json:"data,omitempty"`
	Outputs           []Output        `json:"outputs"`
	BrowserEvents     []Event         `json:"browser_events"`
	Images            []action.Image  `json:"-"`
}

// Run is a script that runs or has ended. It is safe for concurrent use.
type Run struct {
	ID, Thread string
	begin      time.Time
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed when it has ended

	mu struct {
		sync.Mutex
		report  Report // what was not reported yet
		size    int    // bytes of it
		omitted int    // lines that were too much
		events  int    // of all reports
		last    time.Time
		end     time.Time
		changed chan struct{} // closed and replaced when there is something new
	}
}

// Runs are the runs of all threads. The zero value is ready. It is safe for concurrent use.
type Runs struct {
	spec spec.Spec
	work sync.WaitGroup

	mu   sync.Mutex
	runs []*Run // in the order of their starts
}

// NewID returns the ID of a run.
func NewID() string { return "bs-" + strings.ToLower(rand.Text()[:8]) }

// Start starts a run, which lasts until its script has ended, its time is used up, or it is cancelled.
func (s *Runs) Start(o Options) (*Run, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &Run{ID: o.ID, Thread: o.Thread, begin: time.Now(), cancel: cancel, done: make(chan struct{})}
	r.mu.changed, r.mu.last = make(chan struct{}), r.begin
	if err := s.add(r); err != nil {
		cancel(nil)
		return nil, err
	}
	s.work.Go(func() { // ends with the run; [Runs.Close] waits for it
		defer cancel(nil)
		e := codemode.Executor{Command: o.Command, Limits: codemode.Limits{Memory: memory, CPU: min(o.Timeout, processor), Wall: o.Timeout}, Log: r.log}
		out := e.Execute(ctx, o.Code, (&globals{run: r, spec: &s.spec, browser: o.Browser}).providers())
		if o.Ended != nil {
			o.Ended()
		}
		r.finish(out, context.Cause(ctx))
	})
	return r, nil
}

func (s *Runs) add(r *Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var active []string
	var ended int
	for _, x := range s.runs {
		if x.Active() {
			active = append(active, x.ID)
		} else {
			ended++
		}
	}
	if len(active) >= maxActive {
		return fmt.Errorf("%d scripts are running, which is the maximum", len(active))
	}
	s.runs = slices.DeleteFunc(s.runs, func(x *Run) bool {
		drop := ended >= maxEnded && !x.Active()
		if drop {
			ended--
		}
		return drop
	})
	s.runs = append(s.runs, r)
	return nil
}

// Find returns a run of a thread.
func (s *Runs) Find(thread, id string) (*Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		switch {
		case r.ID != id:
		case r.Thread != thread:
			return nil, fmt.Errorf("run %s belongs to a different session", id)
		default:
			return r, nil
		}
	}
	return nil, fmt.Errorf("there is no run %q: it was reported long ago, or ended with an earlier process of the plugin, which leaves the browser with its tabs as they are", id)
}

// Of returns the runs of a thread, in the order of their starts.
func (s *Runs) Of(thread string) []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.runs), func(r *Run) bool { return r.Thread != thread })
}

// End cancels the runs of a thread, or all if it is empty, and waits for their ends.
func (s *Runs) End(ctx context.Context, thread string) {
	s.mu.Lock()
	runs := slices.Clone(s.runs)
	s.mu.Unlock()
	for _, r := range runs {
		if thread == "" || r.Thread == thread {
			r.cancel(ErrCancelled)
		}
	}
	for _, r := range runs {
		if thread == "" || r.Thread == thread {
			select {
			case <-r.done:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Cancel ends the run and waits for its end.
func (r *Run) Cancel(ctx context.Context) {
	r.cancel(ErrCancelled)
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// Active reports whether the run has not ended.
func (r *Run) Active() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Done is closed when the run has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// First waits until the run has ended, or for a time, and returns what it has said.
func (r *Run) First(ctx context.Context, wait time.Duration) Report {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.take()
}

// Observe waits until the run says something new or ends, or for a time, and returns that.
func (r *Run) Observe(ctx context.Context, wait time.Duration) Report {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		r.mu.Lock()
		something, changed := r.mu.size > 0, r.mu.changed
		r.mu.Unlock()
		if something || !r.Active() {
			return r.take()
		}
		select {
		case <-changed:
		case <-r.done:
		case <-timer.C:
			return r.take()
		case <-ctx.Done():
			return r.take()
		}
	}
}

// take returns what was not reported, and leaves the final state.
func (r *Run) take() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.mu.report
	out.RunID, out.Status = r.ID, cmp.Or(out.Status, Running)
	now := time.Now()
	out.MSSinceLastOutput = now.Sub(r.mu.last).Milliseconds()
	if out.Status != Running {
		now = r.mu.end
	} else {
		out.NextObserveMS = 30_000
	}
	out.ElapsedMS = now.Sub(r.begin).Milliseconds()
	if r.mu.omitted > 0 {
		out.Text += fmt.Sprintf("[%d more lines omitted: print less]\n", r.mu.omitted)
	}
	if out.Outputs == nil {
		out.Outputs = []Output{}
	}
	if out.BrowserEvents == nil {
		out.BrowserEvents = []Event{}
	}
	r.mu.size, r.mu.omitted = 0, 0
	r.mu.report = Report{Status: r.mu.report.Status, Error: r.mu.report.Error, Diagnosis: r.mu.report.Diagnosis, Data: r.mu.report.Data}
	return out
}

// change adds size bytes to what is to be reported, unless that is too much.
func (r *Run) change(size int, f func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.size+size > maxText {
		r.mu.omitted++
		return
	}
	r.mu.size += size
	f(&r.mu.report)
	r.mu.last = time.Now()
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

func (r *Run) log(line string) {
	r.change(len(line)+1, func(out *Report) { out.Text += line + "\n" })
}

func (r *Run) output(label string, value json.RawMessage) {
	r.change(len(label)+len(value)+1, func(out *Report) { out.Outputs = append(out.Outputs, Output{label, value}) })
}

// image adds an image, and returns an error if too many wait to be observed.
func (r *Run) image(i action.Image) (err error) {
	r.change(1, func(out *Report) {
		if len(out.Images) >= maxImages {
			err = fmt.Errorf("%d images wait to be observed, which is the maximum", maxImages)
			return
		}
		out.Images = append(out.Images, i)
	})
	return err
}

// event notes a step. Nobody waits for it.
func (r *Run) event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.events++; r.mu.events <= maxEvents {
		r.mu.report.BrowserEvents = append(r.mu.report.BrowserEvents, e)
	}
}

func (r *Run) finish(out codemode.Outcome, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(r.done)
	r.mu.end = time.Now()
	x := &r.mu.report
	x.Status, x.Data, x.Error = Finished, out.Result, out.Error
	if out.Error == "" {
		return
	}
	x.Status = Failed
	d := &Diagnosis{Kind: string(out.Cause), BrowserUsable: true, NextStep: "Look at the page with browser_state, then run a corrected script. The browser and its tabs are as the script has left them."}
	switch {
	case errors.Is(why, ErrCancelled):
		x.Status, x.Error = Cancelled, ErrCancelled.Error()
		d.Kind = string(frame.Cancelled)
	case out.Cause == frame.Timeout:
		d.NextStep = "Run shorter scripts: what they have done in the browser is kept. " + d.NextStep
	case out.Cause == "":
		d.Kind = "provider"
	}
	x.Diagnosis = d
}
