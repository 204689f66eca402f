package target

import (
	"context"
	"slices"
	"sync"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// Frame is a picture of a tab in JPEG.
type Frame struct {
	Data          []byte
	Width, Height float64 // of the page's window in CSS pixels; the picture may be smaller
	At            time.Time
}

// CastOptions are what a consumer of pictures wants. A tab has one cast for all of them, so each can get larger and better pictures than it wants.
type CastOptions struct {
	Width, Height, Quality int64 // at most
}

// casting is the cast of a tab.
type casting struct {
	turn  sync.Mutex // held while the browser is told of a change, so that no command overtakes another
	mu    sync.Mutex
	views []*consumer
}

type consumer struct {
	CastOptions
	see func(Frame)
}

// Cast calls see with the pictures of the tab as the browser draws them, until stop is called. The latest comes at once, also to those who
// watch already. see must not wait for the browser. An error means that the tab can't be watched at the moment, for example because its page
// is being replaced.
func (t *Tab) Cast(ctx context.Context, o CastOptions, see func(Frame)) (stop func(), err error) {
	c := &consumer{o, see}
	t.casting.turn.Lock()
	defer t.casting.turn.Unlock()
	if t.casting.set(func(l []*consumer) []*consumer { return append(l, c) }) > 1 { // the browser changes no cast that goes on
		_ = t.Session.Post(page.CommandStopScreencast, protocol.Empty{})
	}
	if _, err := protocol.Call(ctx, t.Session, page.StartScreencast, t.casting.start()); err != nil {
		if !t.casting.remove(c) {
			_ = t.Session.Post(page.CommandStartScreencast, t.casting.start()) // for the others, if it takes it
		}
		return nil, err
	}
	return func() {
		t.casting.turn.Lock()
		defer t.casting.turn.Unlock()
		if t.casting.remove(c) {
			_ = t.Session.Post(page.CommandStopScreencast, protocol.Empty{}) // a tab that is closed sends none
		}
	}, nil
}

// set changes the consumers.
func (c *casting) set(change func([]*consumer) []*consumer) (left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.views = change(slices.Clone(c.views))
	return len(c.views)
}

// remove removes a consumer, and reports whether it was the last one.
func (c *casting) remove(x *consumer) (last bool) {
	removed := false
	left := c.set(func(l []*consumer) []*consumer {
		return slices.DeleteFunc(l, func(y *consumer) bool { removed = removed || y == x; return y == x })
	})
	return removed && left == 0
}

// start is the command for a cast that satisfies all consumers.
func (c *casting) start() page.StartScreencastParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	var o CastOptions
	for _, x := range c.views {
		o = CastOptions{max(o.Width, x.Width), max(o.Height, x.Height), max(o.Quality, x.Quality)}
	}
	return page.StartScreencastParams{
		Format: page.StartScreencastFormatJpeg, Quality: &o.Quality, MaxWidth: o.Width, MaxHeight: o.Height, MaxFramesInFlight: 1, SendLastFrame: new(true),
	}
}

// picture gives a picture to all who watch the tab, and asks for the next one.
func (a *shared) picture(e cdp.Event) {
	a.mu.Lock()
	t := a.mu.sessions[e.Session]
	a.mu.Unlock()
	var p struct {
		Data      []byte `json:"data"`
		SessionID int64  `json:"sessionId"`
		Metadata  struct {
			DeviceWidth  float64 `json:"deviceWidth"`
			DeviceHeight float64 `json:"deviceHeight"`
		} `json:"metadata"`
	}
	if t == nil || e.Decode(&p) != nil {
		return
	}
	_ = a.conn.Session(e.Session).Post(page.CommandScreencastFrameAck, page.ScreencastFrameAckParams{SessionID: p.SessionID})
	t.casting.mu.Lock()
	views := t.casting.views
	t.casting.mu.Unlock()
	for _, v := range views {
		v.see(Frame{p.Data, p.Metadata.DeviceWidth, p.Metadata.DeviceHeight, time.Now()})
	}
}
