package launch

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// Errors of Attach.
var (
	// ErrAttached: somebody is attached already. End that first.
	ErrAttached = errors.New("the process is attached already")
	// ErrHandedOver: the descriptors went to the plugin for good; it reads them itself.
	ErrHandedOver = errors.New("the descriptors of the process were handed over")
)

const (
	// attachChunk is the most that one Output carries; a pipe holds 64 KiB.
	attachChunk = 32 << 10
	// trailing is how long output is still read after the process has ended: others of its tree may hold the pipe open.
	trailing = 100 * time.Millisecond
	// maxPipe is the most that a pipe holds where nobody has raised the system's bound.
	maxPipe = 1 << 20
)

// Input is a piece of stdin.
type Input struct {
	Data  []byte
	Close bool // stdin ends after Data; for a terminal it has no meaning
}

// Output is a piece of what a process wrote.
type Output struct {
	Stderr bool   // else stdout or the terminal
	Data   []byte // valid until emit returns
}

// Attach is the stream form of the descriptors: it feeds stdin from the channel and passes output to emit, one piece at a
// time, until the process has ended and its output has been read; then it returns how. While emit doesn't return nothing
// more is read, so the process waits in its write: nothing piles up. The output of a session that nobody is attached to
// waits in its pipe, and the next Attach goes on from there.
//
// Attach returns early with the cause of ctx, or with an error of emit; the process lives on. A closed channel leaves
// stdin open.
func (p *Process) Attach(ctx context.Context, stdin <-chan Input, emit func(Output) error) (Exit, error) {
	files, err := p.attach()
	if err != nil {
		return Exit{}, err
	}
	defer p.detach(files)
	ctx, cancel := context.WithCancelCause(ctx)
	var work, pumps sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	// A read or write that blocks ends by way of a deadline: with ctx, and reads with the process as well.
	work.Go(func() {
		select {
		case <-p.exited:
			setReadDeadlines(files, time.Now())
			<-ctx.Done()
		case <-ctx.Done():
		}
		setDeadlines(files, time.Now())
	})
	if in := firstOf(files, Stdin, Terminal); in != nil {
		work.Go(func() { p.feed(ctx, in, stdin) })
	}
	pieces := make(chan piece)
	pumps.Go(func() { p.pump(ctx, firstOf(files, Stdout, Terminal), false, pieces) })
	if f := files[Stderr]; f != nil {
		pumps.Go(func() { p.pump(ctx, f, true, pieces) })
	}
	work.Go(func() {
		pumps.Wait()
		close(pieces)
	})
	for piece := range pieces {
		if ctx.Err() == nil {
			if err := emit(piece.Output); err != nil {
				cancel(err)
			}
		}
		close(piece.done)
	}
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	exit, err := p.Wait(ctx)
	if err == nil {
		p.l.note(p, func(at *place) { at.taken = true })
	}
	return exit, err
}

// piece is output on its way to emit; done is closed when the buffer may be used again.
type piece struct {
	Output
	done chan struct{}
}

// pump reads one descriptor until its end. Others of the tree may hold it open after the process has ended, and may go on
// writing: from then on pump stops at a pause, or when it has read what a pipe can hold.
func (p *Process) pump(ctx context.Context, f *os.File, stderr bool, pieces chan<- piece) {
	buf := make([]byte, attachChunk)
	ended, rest := false, maxPipe
	for ctx.Err() == nil && rest > 0 {
		n, err := f.Read(buf)
		if ended {
			rest -= n
		}
		if data := p.within(buf[:n]); len(data) > 0 {
			m := piece{Output: Output{Stderr: stderr, Data: data}, done: make(chan struct{})}
			pieces <- m // Attach receives until pumps have returned
			<-m.done
		}
		if err != nil && (ended || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return // the end; EIO where it is a terminal's
		}
		if err != nil {
			ended = true
		}
		if ended {
			f.SetReadDeadline(time.Now().Add(trailing))
		}
	}
}

// attach takes the files for one Attach.
func (p *Process) attach() (map[string]*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.handed:
		return nil, ErrHandedOver
	case p.mu.attached:
		return nil, ErrAttached
	}
	files := make(map[string]*os.File, len(p.mu.files))
	for name, f := range p.mu.files {
		// A plugin that has duplicates may have made them blocking, which is shared.
		setNonblock(f)
		files[name] = f
	}
	if firstOf(files, Stdout, Terminal) == nil {
		return nil, os.ErrClosed
	}
	p.mu.attached = true
	return files, nil
}

func (p *Process) detach(files map[string]*os.File) {
	setDeadlines(files, time.Time{})
	p.mu.Lock()
	p.mu.attached = false
	p.mu.Unlock()
}

// feed writes stdin until it ends. When the process has closed its end, what still comes has no reader and is dropped.
func (p *Process) feed(ctx context.Context, in *os.File, stdin <-chan Input) {
	broken := false
	for {
		select {
		case m, ok := <-stdin:
			if !ok {
				return
			}
			if len(m.Data) > 0 && !broken {
				_, err := in.Write(m.Data)
				broken = err != nil
			}
			if m.Close {
				p.CloseStdin()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// within cuts output at the grant's limit.
func (p *Process) within(data []byte) []byte {
	limit := p.spec.Grant.Limits.OutputBytes
	if limit == 0 {
		return data
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := min(int64(len(data)), max(0, limit-p.mu.carried))
	p.mu.carried += keep
	p.mu.dropped += int64(len(data)) - keep
	return data[:keep]
}

// Dropped returns how many bytes of output Attach has dropped beyond the limit.
func (p *Process) Dropped() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.dropped
}

func firstOf(files map[string]*os.File, names ...string) *os.File {
	for _, name := range names {
		if f := files[name]; f != nil {
			return f
		}
	}
	return nil
}

func setDeadlines(files map[string]*os.File, t time.Time) {
	for _, f := range files {
		f.SetDeadline(t)
	}
}

func setReadDeadlines(files map[string]*os.File, t time.Time) {
	for name, f := range files {
		if name != Stdin {
			f.SetReadDeadline(t)
		}
	}
}
