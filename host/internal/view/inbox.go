package view

import (
	"context"
	"io"
	"sync"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Inbox has the updates of a view that were not read yet. A newer frame or state replaces an older one, so it has at most one of each,
// however slow the reader is.
type Inbox struct {
	news chan struct{} // has a token when there may be an update

	mu struct {
		sync.Mutex
		state  *State
		frame  *contract.ViewFrame
		closed *string
		over   bool   // Next has returned closed
		taken  uint64 // the last frame that Next has returned
	}
}

// NewInbox returns an empty inbox.
func NewInbox() *Inbox { return &Inbox{news: make(chan struct{}, 1)} }

// Put adds an update. Of several reasons why the view has ended, the first one counts.
func (i *Inbox) Put(u Update) {
	i.mu.Lock()
	switch {
	case u.State != nil:
		i.mu.state = u.State
	case u.Frame != nil:
		i.mu.frame = u.Frame
	case i.mu.closed == nil:
		i.mu.closed = u.Closed
	}
	i.mu.Unlock()
	select {
	case i.news <- struct{}{}:
	default:
	}
}

// Taken returns the number of the last frame that Next has returned; 0: none.
func (i *Inbox) Taken() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mu.taken
}

// Next waits for the next update. After the end of the view, it returns [io.EOF]. It is called by one goroutine at a time.
func (i *Inbox) Next(ctx context.Context) (Update, error) {
	for {
		u, over := i.next()
		if over {
			return u, io.EOF
		}
		if u != (Update{}) {
			return u, nil
		}
		select {
		case <-i.news:
		case <-ctx.Done():
			return u, context.Cause(ctx)
		}
	}
}

// next returns an update if there is one. over: there will be none.
func (i *Inbox) next() (u Update, over bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.mu.state != nil:
		u.State, i.mu.state = i.mu.state, nil
	case i.mu.frame != nil:
		u.Frame, i.mu.frame = i.mu.frame, nil
		i.mu.taken = u.Frame.Number
	case i.mu.over:
		return u, true
	case i.mu.closed != nil:
		u.Closed, i.mu.over = i.mu.closed, true
	}
	return u, false
}
