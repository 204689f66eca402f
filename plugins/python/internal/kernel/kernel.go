// Package kernel is the life of one worker: it starts or adopts it, runs cells in it, and ends it.
//
// It owns: frames, the order of a cell's output and its end, interrupts, and the end of a worker. It must not know: tools and calls,
// which Python runs the worker, what a model reads.
//
// Start with [Kernel].
package kernel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/sdk/process"
)

const (
	// readyTime limits how long a worker may take to start. A Python on a slow network drive takes seconds.
	readyTime = time.Minute
	// pingTime limits how long an idle worker may take to answer. One that is busy in C code can't answer at all.
	pingTime = 5 * time.Second
	// outputGrace is how long to wait for more output after a worker has ended, or if its marker is missing.
	outputGrace = 250 * time.Millisecond
	// endTime limits how long to wait for the end of a worker that was killed.
	endTime = 10 * time.Second
)

// Process is a started worker. It is implemented by *process.Cmd.
type Process interface {
	Done() <-chan struct{}
	Exit() (process.Exit, bool)
	Signal(sig os.Signal) error
	Kill() error
	Wait() error
	// Release releases what the host keeps for a later process of the plugin. It is called once, after all other methods.
	Release() error
}

// Worker is a worker with its pipes.
type Worker struct {
	Process Process
	In      io.Writer     // stdin
	Frames  io.ReadCloser // stdout
	Output  io.ReadCloser // stderr
	// Background receives output that appears while no cell is running; nil: it is only kept for the next cell.
	Background func([]byte)
}

// Kernel is a running worker. It is safe for concurrent use.
type Kernel struct {
	// Version and Executable describe the worker's Python. They are set when Start returns.
	Version, Executable string

	w     Worker
	out   chan []byte   // frames for the worker
	token chan struct{} // has a token while no cell is running
	ready chan *frame
	gone  chan struct{} // closed when the worker has ended
	over  chan struct{} // closed when its output has been read as well
	leave chan struct{} // closed by Close
	once  sync.Once
	work  sync.WaitGroup

	mu struct {
		sync.Mutex
		cell    *cell
		output  buffer
		tag     string // begins the marker that ends the output of the latest cell, and those around what was written to sys.stderr
		ended   bool   // all of that cell's output has been read
		stderr  bool   // what follows was written to sys.stderr
		held    []byte // the end of the output, which may be the beginning of a marker
		pings   map[string]chan *frame
		arrived int64 // bytes of output
	}
}

// StartError reports a worker that did not start.
type StartError struct {
	Old    string // the version, if it is too old
	Exit   process.Exit
	Output string // what it printed
}

// Error implements error.
func (e *StartError) Error() string {
	switch {
	case e.Old != "":
		return fmt.Sprintf("Python %s is too old", e.Old)
	case e.Output != "":
		return fmt.Sprintf("it ended with exit code %d and printed:\n%s", e.Exit.Code, e.Output)
	}
	return fmt.Sprintf("it ended with exit code %d", e.Exit.Code)
}

// Start sends a worker the preamble and waits until it is ready. If it fails, the worker has been killed.
func Start(ctx context.Context, w Worker, preamble []byte) (*Kernel, error) {
	k := newKernel(w)
	err := k.start(ctx, preamble)
	if err != nil {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		return nil, errors.Join(err, k.Stop(stop))
	}
	k.token <- struct{}{}
	return k, nil
}

func (k *Kernel) start(ctx context.Context, preamble []byte) error {
	t := time.NewTimer(readyTime)
	defer t.Stop()
	k.send(preamble)
	select {
	case f := <-k.ready:
		if f.Op == "old" {
			return &StartError{Old: f.Version}
		}
		k.Version, k.Executable = f.Version, f.Executable
		return nil
	case <-k.over:
		e := &StartError{}
		e.Exit, _ = k.w.Process.Exit()
		e.Output = k.takeOutput().String()
		return e
	case <-t.C:
		return fmt.Errorf("the worker was not ready within %v", readyTime)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Adopt continues with a worker of an earlier process of the plugin. A cell that it is running is interrupted, because its call is over.
func Adopt(w Worker, version, executable string) *Kernel {
	k := newKernel(w)
	k.Version, k.Executable = version, executable
	k.work.Go(func() {
		defer func() { k.token <- struct{}{} }()
		k.settle()
	})
	return k
}

func newKernel(w Worker) *Kernel {
	k := &Kernel{
		w: w, out: make(chan []byte), token: make(chan struct{}, 1), ready: make(chan *frame, 1),
		gone: make(chan struct{}), over: make(chan struct{}), leave: make(chan struct{}),
	}
	k.mu.pings = map[string]chan *frame{}
	var reading sync.WaitGroup
	reading.Go(k.readFrames)
	reading.Go(k.readOutput)
	k.work.Go(k.write)
	k.work.Go(func() { k.watch(&reading) })
	return k
}

// settle finds out what an adopted worker is doing, and interrupts it.
func (k *Kernel) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), pingTime)
	defer cancel()
	f, err := k.ping(ctx)
	switch {
	case err == nil:
		k.abandon(f.Cell, f.Marker)
	case ctx.Err() != nil:
		_ = k.w.Process.Kill()
	}
}

// ErrOver is the error of what a worker that has ended can't do.
var ErrOver = errors.New("the kernel has ended")

// ping waits for the answer of the worker, which it gives while a cell is running as well.
func (k *Kernel) ping(ctx context.Context) (*frame, error) {
	nonce, pong := rand.Text(), make(chan *frame, 1)
	k.mu.Lock()
	k.mu.pings[nonce] = pong
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.mu.pings, nonce)
	}()
	b, err := request{Op: "ping", Nonce: nonce}.encode()
	if err != nil { // impossible for a short text
		panic("kernel: " + err.Error())
	}
	select {
	case k.out <- append([]byte("\n"), b...): // an earlier process may have sent the beginning of a frame
	case <-k.over:
		return nil, ErrOver
	case <-k.leave:
		return nil, ErrOver
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case f := <-pong:
		return f, nil
	case <-k.over:
		return nil, ErrOver
	case <-k.leave:
		return nil, ErrOver
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Info is what a worker says of itself.
type Info struct {
	Version string
	Running bool  // a cell is running
	Memory  int64 // resident, in bytes, of the worker alone; 0: unknown
}

// Info asks the worker. One that computes in C code can't answer; then the error is that of ctx.
func (k *Kernel) Info(ctx context.Context) (Info, error) {
	f, err := k.ping(ctx)
	if err != nil {
		return Info{}, err
	}
	return Info{Version: f.Version, Running: f.Cell != "", Memory: f.Memory}, nil
}

// abandon interrupts a cell that nobody waits for, unless none is running. marker is that of the latest cell, whose output was not all
// read by the earlier process.
func (k *Kernel) abandon(id, marker string) {
	c := newCell(id, nil)
	k.mu.Lock()
	k.mu.tag, k.mu.ended = strings.TrimSuffix(marker, "\x00"), false
	read := k.mu.output.take() // as one stream: nothing was known of the markers in it
	ended, _ := k.sorted(slices.Concat(read.Head, read.Tail), false)
	if ended {
		close(c.marked)
	}
	if id != "" {
		k.mu.cell = c
	}
	k.mu.Unlock()
	if id == "" {
		return
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	k.await(now, c, nil)
	k.mu.Lock()
	k.mu.cell = nil
	k.mu.Unlock()
}

// Over is closed when the worker has ended and its output has been read.
func (k *Kernel) Over() <-chan struct{} { return k.over }

// Ended reports whether the worker has ended.
func (k *Kernel) Ended() bool {
	select {
	case <-k.over:
		return true
	default:
		return false
	}
}

// Busy reports whether a cell is running.
func (k *Kernel) Busy() bool { return len(k.token) == 0 }

// Exit returns how the worker ended; false: it is running, or that is unknown.
func (k *Kernel) Exit() (process.Exit, bool) { return k.w.Process.Exit() }

// Stop kills the worker and all that it has started, and waits for the end until ctx ends.
func (k *Kernel) Stop(ctx context.Context) error {
	if !k.Ended() {
		if err := k.w.Process.Kill(); err != nil {
			return err
		}
	}
	select {
	case <-k.over:
		k.work.Wait()
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close stops reading. The worker lives on, and the next process of the plugin can adopt it.
func (k *Kernel) Close() {
	k.once.Do(func() { close(k.leave) })
	_ = k.w.Frames.Close()
	_ = k.w.Output.Close()
	if k.Ended() {
		k.work.Wait()
	}
}

// watch waits for the end of the worker, and of reading.
func (k *Kernel) watch(reading *sync.WaitGroup) {
	select {
	case <-k.w.Process.Done():
	case <-k.leave:
		return
	}
	close(k.gone)
	read := make(chan struct{})
	go func() { // owned by watch, which ends it by closing the pipes
		defer close(read)
		reading.Wait()
	}()
	k.quiet(read)
	_ = k.w.Frames.Close()
	_ = k.w.Output.Close()
	<-read
	close(k.over)
	_ = k.w.Process.Wait()
	_ = k.w.Process.Release()
}

// quiet returns when until is closed, or when no output has arrived for a while.
func (k *Kernel) quiet(until <-chan struct{}) {
	for seen := int64(-1); ; {
		k.mu.Lock()
		now := k.mu.arrived
		k.mu.Unlock()
		if now == seen {
			return
		}
		seen = now
		t := time.NewTimer(outputGrace)
		select {
		case <-until:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// send queues bytes for the worker. It returns when they are being written, or when that is pointless.
func (k *Kernel) send(b []byte) {
	select {
	case k.out <- b:
	case <-k.gone:
	case <-k.leave:
	}
}

// write writes what is queued. It blocks while the worker does not read, which must not delay anything else.
func (k *Kernel) write() {
	for {
		select {
		case b := <-k.out:
			if _, err := k.w.In.Write(b); err != nil {
				return
			}
		case <-k.gone:
			return
		case <-k.leave:
			return
		}
	}
}

func (k *Kernel) readFrames() {
	r, buf := bufio.NewReaderSize(k.w.Frames, 64<<10), new(bytes.Buffer)
	for {
		line, err := readLine(r, buf)
		if errors.Is(err, errLongFrame) {
			_ = k.w.Process.Kill()
		}
		if err != nil {
			return
		}
		if f, err := parseFrame(line); err == nil { // otherwise user code has written it, or it is the rest of one
			k.dispatch(f)
		}
	}
}

func (k *Kernel) dispatch(f *frame) {
	to := chan *frame(nil)
	switch f.Op {
	case "ready", "old":
		to = k.ready
	case "pong":
		k.mu.Lock()
		to = k.mu.pings[f.Nonce]
		k.mu.Unlock()
	default:
		k.mu.Lock()
		c := k.mu.cell
		k.mu.Unlock()
		if c == nil || f.Op != "chunk" && f.ID != c.id {
			k.refuse(f)
			return
		}
		c.got(k, f)
		return
	}
	select {
	case to <- f:
	default: // nobody has asked for it
	}
}

// refuse answers a request of code that outlives its cell.
func (k *Kernel) refuse(f *frame) {
	if f.Seq != 0 && f.Op != "chunk" {
		k.reply(f.Seq, nil, errors.New("the cell has ended; only a running cell can use this"))
	}
}

func (k *Kernel) reply(seq int64, value []byte, err error) {
	r := request{Op: "reply", Seq: seq, OK: err == nil, Value: value}
	if err != nil {
		r.Error = err.Error()
	}
	b, err := r.encode()
	if err != nil {
		if b, err = (request{Op: "reply", Seq: seq, Error: err.Error()}).encode(); err != nil { // impossible for a short text
			panic("kernel: " + err.Error())
		}
	}
	k.send(b)
}

func (k *Kernel) readOutput() {
	b := make([]byte, 32<<10)
	for {
		n, err := k.w.Output.Read(b)
		k.gotOutput(b[:n], err != nil)
		if err != nil {
			return
		}
	}
}

// gotOutput stores and shows output, without the marker of the running cell.
func (k *Kernel) gotOutput(p []byte, last bool) {
	k.mu.Lock()
	c := k.mu.cell
	k.mu.arrived += int64(len(p))
	found, text := k.sorted(p, last)
	k.mu.Unlock()
	if len(text) > 0 {
		switch {
		case c != nil && c.handler != nil:
			c.handler.Output(text)
		case c == nil && k.w.Background != nil:
			k.w.Background(text)
		}
	}
	if found && c != nil {
		close(c.marked)
	}
}

// A marker is the tag of the cell and one of these bytes.
const (
	markEnd    = 0 // of the cell's output
	markStderr = 1 // what follows was written to sys.stderr
	markOther  = 2 // what follows was not
)

// sorted stores output without its markers, and returns it. found: the end of the cell's output was among it. The caller holds the lock.
func (k *Kernel) sorted(p []byte, last bool) (found bool, text []byte) {
	rest, tag := append(k.mu.held, p...), []byte(k.mu.tag)
	k.mu.held = nil
	keep := func(b []byte) {
		k.mu.output.write(b, k.mu.stderr)
		if text == nil {
			text = slices.Clip(b) // in general that is all
		} else {
			text = append(text, b...)
		}
	}
	for len(tag) > 0 {
		i := bytes.Index(rest, tag)
		end := i + len(tag)
		if i < 0 || end == len(rest) {
			break
		}
		keep(rest[:i])
		switch rest[end] {
		case markEnd:
			found = found || !k.mu.ended
			k.mu.ended, k.mu.stderr = true, false
		case markStderr:
			k.mu.stderr = true
		case markOther:
			k.mu.stderr = false
		default: // user code has written it
			keep(rest[i : end+1])
		}
		rest = rest[end+1:]
	}
	if n := begun(rest, k.mu.tag); n > 0 && !last {
		k.mu.held = bytes.Clone(rest[len(rest)-n:])
		rest = rest[:len(rest)-n]
	}
	keep(rest)
	return found, text
}

// begun returns the length of the longest end of text that is a beginning of tag, or all of it.
func begun(text []byte, tag string) int {
	for n := min(len(text), len(tag)); n > 0; n-- {
		if string(text[len(text)-n:]) == tag[:n] {
			return n
		}
	}
	return 0
}

// takeOutput returns the output since the last time.
func (k *Kernel) takeOutput() Output {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.output.take()
}
