package kernel

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

// The ladder of an interrupt: the process group is interrupted, interrupted again, and killed. Most code ends at the first one; a block
// that waits for threads, or that catches KeyboardInterrupt, may need the second; C code that computes does not end at all.
const (
	secondInterrupt = 2 * time.Second
	killAfter       = 4 * time.Second
)

// Bounds of what a cell can make the plugin keep. What exceeds them is counted.
const (
	maxDisplays     = 200
	maxDisplayBytes = 48 << 20
	maxOutputs      = 200
	maxOutputBytes  = 1 << 20
	maxCalls        = 64 // concurrent requests; more have to wait
)

// Handler answers what a cell requests. Its methods are called concurrently; ctx ends with the cell.
type Handler interface {
	// Output gets output as it appears. p is valid during the call.
	Output(p []byte)
	Progress(message string, done, total float64)
	// Call calls a tool with arguments or, if text is not nil, with text.
	Call(ctx context.Context, tool string, args json.RawMessage, text *string) (json.RawMessage, error)
	// Tools returns the names of the tools.
	Tools(ctx context.Context) ([]string, error)
	// Artifact stores what r contains, and returns what code gets to know about it.
	Artifact(ctx context.Context, name, mediaType string, r io.Reader) (json.RawMessage, error)
}

// Display is a value that is to be shown.
type Display struct {
	Result bool                       // it is that of the cell's last expression
	Data   map[string]json.RawMessage // media type → text, base64 or JSON
}

// Value is a value for the structured result.
type Value struct {
	Label string          `json:"label,omitempty"`
	Value json.RawMessage `json:"value"`
}

// Failure is an exception that ended a cell.
type Failure struct {
	EName     string `json:"ename"`
	EValue    string `json:"evalue"`
	Traceback string `json:"traceback"`
}

// Outcome is what a cell has done.
type Outcome struct {
	Status   string // "ok", "error", "interrupted"; empty: the worker has ended
	TimedOut bool
	Failure  *Failure
	Output   Output
	Displays []Display
	Values   []Value
	Dropped  int // displays and values that were too many or too large
	Count    int
	Elapsed  time.Duration
}

// Lost reports whether the namespace is lost, because the worker has ended.
func (o *Outcome) Lost() bool { return o.Status == "" }

// cell is a running cell.
type cell struct {
	id      string
	handler Handler // nil: nobody waits for it
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup
	slots   chan struct{}
	done    chan *frame
	marked  chan struct{} // closed when all of its output has been read

	artifacts map[int64]*io.PipeWriter // touched by the reader of frames only

	mu struct {
		sync.Mutex
		outcome Outcome
		bytes   int
		closed  bool // no more requests
	}
}

func newCell(id string, h Handler) *cell {
	c := &cell{
		id: id, handler: h, slots: make(chan struct{}, maxCalls), done: make(chan *frame, 1), marked: make(chan struct{}),
		artifacts: map[int64]*io.PipeWriter{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// ErrBusy is returned by Run if ctx ends while another cell is running.
var ErrBusy = errors.New("another cell is running")

// Run runs a cell. It is interrupted when deadline receives a value, or when ctx ends, and killed together with the worker if that has no
// effect. An error means that it was not started: [ErrOver], [ErrBusy], or that the code is too long.
func (k *Kernel) Run(ctx context.Context, code string, deadline <-chan time.Time, h Handler) (*Outcome, error) {
	select {
	case <-k.token:
	case <-k.over:
		return nil, ErrOver
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
	}
	defer func() { k.token <- struct{}{} }()
	if k.Ended() {
		return nil, ErrOver
	}
	c := newCell(rand.Text(), h)
	tag := "\x00" + rand.Text()
	b, err := request{Op: "exec", ID: c.id, Code: code, Marker: tag + string(rune(markEnd))}.encode()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	k.mu.Lock()
	k.mu.cell, k.mu.tag, k.mu.ended = c, tag, false
	k.mu.Unlock()
	k.send(b)
	timedOut := k.await(ctx, c, deadline)
	k.mu.Lock()
	k.mu.cell = nil
	k.mu.Unlock()
	c.mu.Lock()
	o := c.mu.outcome
	c.mu.Unlock()
	o.TimedOut, o.Elapsed, o.Output = timedOut, time.Since(begin), k.takeOutput()
	return &o, nil
}

// await waits for the end of a cell, its requests and its output. It reports whether the deadline was reached.
func (k *Kernel) await(ctx context.Context, c *cell, deadline <-chan time.Time) (timedOut bool) {
	defer c.end()
	cancelled := ctx.Done()
	var rung int
	var ladder <-chan time.Time
	climb := func() {
		if rung++; rung > 1 {
			return
		}
		c.cancel() // what it has called ends as well
		_ = k.w.Process.Signal(syscall.SIGINT)
		ladder = time.After(secondInterrupt)
	}
	for {
		select {
		case f := <-c.done:
			k.finished(c, f)
			return timedOut
		case <-k.over:
			select {
			case f := <-c.done: // it has ended at the last moment
				k.finished(c, f)
			default:
			}
			return timedOut
		case <-k.leave:
			return timedOut
		case <-cancelled:
			cancelled = nil
			climb()
		case <-deadline:
			deadline, timedOut = nil, true
			climb()
		case <-ladder:
			switch rung++; {
			case rung <= 2:
				_ = k.w.Process.Signal(syscall.SIGINT)
				ladder = time.After(killAfter - secondInterrupt)
			case rung == 3:
				_ = k.w.Process.Kill()
				ladder = time.After(endTime)
			default: // the host could not end it either
				return timedOut
			}
		}
	}
}

// finished records the end that a worker has reported, after the output before it.
func (k *Kernel) finished(c *cell, f *frame) {
	if f.Marked {
		for missing := true; missing; {
			select {
			case <-c.marked:
				missing = false
			case <-k.over:
				missing = false
			default: // while output arrives, the marker may follow; code can have redirected it, too
				before := k.received()
				k.quiet(c.marked)
				missing = k.received() != before
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f.Status {
	case "ok", "interrupted":
		c.mu.outcome.Status = f.Status
	default:
		c.mu.outcome.Status = "error"
	}
	c.mu.outcome.Count = f.Count
}

func (k *Kernel) received() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.arrived
}

// end ends the cell's requests and waits for them.
func (c *cell) end() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.cancel()
	c.work.Wait()
}

// got handles a frame of the cell. It is called by one goroutine.
func (c *cell) got(k *Kernel, f *frame) {
	switch f.Op {
	case "done":
		for _, w := range c.artifacts {
			w.CloseWithError(errors.New("the cell has ended"))
		}
		select {
		case c.done <- f:
		default:
		}
	case "result", "display":
		c.display(f)
	case "error":
		c.mu.Lock()
		c.mu.outcome.Failure = &Failure{f.EName, f.EValue, f.Traceback}
		c.mu.Unlock()
	case "output":
		c.mu.Lock()
		if o := &c.mu.outcome; len(o.Values) < maxOutputs && c.mu.bytes+len(f.Value) < maxDisplayBytes && len(f.Value) <= maxOutputBytes {
			o.Values = append(o.Values, Value{f.Label, f.Value})
			c.mu.bytes += len(f.Value)
		} else {
			o.Dropped++
		}
		c.mu.Unlock()
	case "progress":
		if c.handler != nil {
			c.handler.Progress(f.Message, f.Done, f.Total)
		}
	case "call":
		c.request(k, f, func() (json.RawMessage, error) { return c.handler.Call(c.ctx, f.Tool, f.Args, f.Text) })
	case "tools":
		c.request(k, f, func() (json.RawMessage, error) {
			names, err := c.handler.Tools(c.ctx)
			if err != nil {
				return nil, err
			}
			return json.Marshal(names)
		})
	case "artifact":
		r, w := io.Pipe()
		if c.request(k, f, func() (json.RawMessage, error) {
			v, err := c.handler.Artifact(c.ctx, f.Name, f.MediaType, r)
			r.CloseWithError(errors.New("the artifact was not stored"))
			return v, err
		}) {
			c.artifacts[f.Seq] = w
		}
	case "chunk":
		c.chunk(f)
	}
}

func (c *cell) chunk(f *frame) {
	w := c.artifacts[f.Seq]
	if w == nil {
		return
	}
	_, _ = w.Write(f.Chunk) // fails if storing has failed, which its reply says
	switch {
	case f.Abort:
		w.CloseWithError(errors.New("reading the content failed"))
	case f.Last:
		_ = w.Close()
	default:
		return
	}
	delete(c.artifacts, f.Seq)
}

func (c *cell) display(f *frame) {
	size := 0
	for mime, v := range f.Data {
		size += len(mime) + len(v)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &c.mu.outcome
	if len(o.Displays) >= maxDisplays || c.mu.bytes+size > maxDisplayBytes {
		o.Dropped++
		return
	}
	c.mu.bytes += size
	o.Displays = append(o.Displays, Display{Result: f.Op == "result", Data: f.Data})
}

// request answers a request in a goroutine of its own. It returns false if it was refused.
func (c *cell) request(k *Kernel, f *frame, answer func() (json.RawMessage, error)) bool {
	select {
	case c.slots <- struct{}{}:
	case <-c.ctx.Done():
		k.refuse(f)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed || c.handler == nil {
		<-c.slots
		k.work.Go(func() { k.refuse(f) })
		return false
	}
	c.work.Go(func() {
		defer func() { <-c.slots }()
		v, err := answer()
		k.reply(f.Seq, v, err)
	})
	return true
}
