package tui

import (
	"context"
	"errors"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Terminal is where the interface runs, and which server it uses.
type Terminal struct {
	Dial    func(ctx context.Context) (rpc.Stream, error)
	Why     func() string // what the server has said last; nil: nothing
	Dir     string
	Version string
	Editor  func(path string) tea.ExecCommand
	Options []tea.ProgramOption
}

// frames is how often a second the screen is drawn at most. The library's default makes a key wait longer than is needed.
const frames = 120

// Run shows the interface until the user leaves. Turns that run then go on, if the server outlives its client.
func Run(ctx context.Context, t Terminal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	box := newMailbox()
	conn := client.New(client.Config{
		Dial: t.Dial, Info: protocol.ClientInfo{Name: "gantry-tui", Version: t.Version}, Methods: client.Questions(), Event: box.put,
	})
	model := NewModel(ctx, Config{Server: conn, Dir: t.Dir, Version: t.Version, Editor: t.Editor})
	paced := newPacer(model)
	program := tea.NewProgram(paced,
		append([]tea.ProgramOption{tea.WithContext(ctx), tea.WithFPS(frames)}, t.Options...)...)
	paced.program = program
	var parts sync.WaitGroup
	parts.Go(func() { // ends with ctx
		err := conn.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		if t.Why != nil {
			if said := t.Why(); said != "" {
				err = errors.New(said)
			}
		}
		program.Send(Ended{err})
	})
	parts.Go(func() { // ends with ctx
		box.deliver(ctx, func(e Events) { program.Send(e) })
	})
	_, err := program.Run()
	cancel()
	parts.Wait()
	if lost := leave(model); err == nil {
		err = lost
	}
	switch {
	case model.fatal != nil:
		return model.fatal
	case errors.Is(err, tea.ErrInterrupted):
		return nil
	}
	return err
}

// mailbox collects events while the screen is drawn, so that a thousand of them are one message.
type mailbox struct {
	mu    sync.Mutex
	some  *sync.Cond // signalled when events changes
	queue Events
	ended bool
	fresh chan struct{}
}

// Bounds of the mailbox: how many events wait before the connection does, and the pause between deliveries.
const (
	maxEvents = 4096
	pause     = time.Second / frames
)

func newMailbox() *mailbox {
	b := &mailbox{fresh: make(chan struct{}, 1)}
	b.some = sync.NewCond(&b.mu)
	return b
}

// put adds an event. It waits while too many are there.
func (b *mailbox) put(e client.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) >= maxEvents && !b.ended {
		b.some.Wait()
	}
	b.queue = append(b.queue, e)
	select {
	case b.fresh <- struct{}{}:
	default:
	}
}

// deliver passes events on until ctx ends: the first after a silence at once, others with those of a frame.
func (b *mailbox) deliver(ctx context.Context, to func(Events)) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended = true
		b.some.Broadcast()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.fresh:
		}
		b.mu.Lock()
		events := b.queue
		b.queue = nil
		b.some.Broadcast()
		b.mu.Unlock()
		to(events)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
