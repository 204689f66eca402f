package tui

import (
	"reflect"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

// pacer stops the frames of an idle screen. The library draws with a ticker that never stops, which would wake the process 120 times a
// second for ever, and it has no option against that. So the pacer drives that ticker: a message after a silence is drawn at once, those
// that follow at the frame rate, and after a silence there are no frames until the next message.
type pacer struct {
	tea.Model
	program *tea.Program // set before it runs

	mu     sync.Mutex
	ticker *time.Ticker // the library's; nil: it can't be reached
	state  paceState
	last   time.Time // of the last view
	timer  *time.Timer
}

type paceState int

const (
	paceStopped paceState = iota
	paceFirst
	paceSteady
)

// The interval of the first frame after a silence, how long it applies, the interval of the frames after it, and the silence that ends them,
// which is so long that a view is drawn even if the process was not scheduled for a while.
const (
	firstFrame = time.Millisecond
	firstFor   = 4 * firstFrame
	frame      = time.Second / frames
	silence    = 30 * frame
)

func newPacer(m tea.Model) *pacer {
	p := &pacer{Model: m}
	p.timer = time.AfterFunc(silence, p.rest)
	p.timer.Stop() // until there is a ticker
	return p
}

// Update implements [tea.Model].
func (p *pacer) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := p.Model.Update(msg)
	return p, cmd
}

// View implements [tea.Model]. The library draws what it returns with its next frame.
func (p *pacer) View() tea.View {
	v := p.Model.View()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ticker == nil {
		p.ticker = tickerOf(p.program)
	}
	if p.ticker == nil {
		return v
	}
	switch p.last = time.Now(); p.state {
	case paceStopped:
		p.state = paceFirst
		p.ticker.Reset(firstFrame)
		p.timer.Reset(firstFor)
	case paceSteady:
		p.timer.Reset(silence)
	}
	return v
}

// rest slows the ticker down, and stops it after a silence.
func (p *pacer) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	quiet := silence - time.Since(p.last)
	switch {
	case p.state == paceFirst:
		p.state = paceSteady
		p.ticker.Reset(frame)
	case p.state == paceSteady && quiet <= 0:
		p.state = paceStopped
		p.ticker.Stop()
		return
	}
	p.timer.Reset(max(quiet, frame))
}

// tickerOf returns the ticker with which a running program draws; nil if the library has none by this name.
func tickerOf(program *tea.Program) *time.Ticker {
	f := reflect.ValueOf(program).Elem().FieldByName("ticker")
	if !f.IsValid() || f.Type() != reflect.TypeFor[*time.Ticker]() {
		return nil
	}
	return (*time.Ticker)(f.UnsafePointer())
}
