// Package view shows a browser's tabs to a person, who can act in them.
//
// It owns: which tab is shown, its pictures, and what a person's acts are for the browser. It must not know: the agent, its calls, or how
// pictures reach the person.
//
// Start with [Show].
package view

import (
	"bytes"
	"context"
	"image/jpeg"
	"math"
	"reflect"
	"slices"
	"time"

	protocol "github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"

	"github.com/gantry-agent/gantry/plugins/browser/internal/input"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/contract"
)

const (
	defaultQuality = 70
	// answerTime limits how long the browser may take to answer.
	answerTime = 5 * time.Second
	// titleTime is how often titles are read: no event tells of their changes.
	titleTime = time.Second
	// double is the time within which the next click at the same place is part of a double click.
	double = 500 * time.Millisecond
	near   = 5 // pixels
)

// Viewer is the person's side: *tool.View.
type Viewer interface {
	Open() contract.ViewOpen
	Requests() <-chan contract.ViewRequest
	Opened(contract.ViewOpened)
	Picture(contract.ViewPicture)
	State(contract.ViewState)
}

// Options are what a view needs.
type Options struct {
	Browser *target.Browser
	// Allowed returns an error for addresses that must not be opened.
	Allowed func(ctx context.Context, url string) error
	// Take keeps the agent from acting until back is called.
	Take func() (back func())
}

// show is a view.
type show struct {
	Options
	v    Viewer
	size contract.ViewSize // of the place where the picture is shown
	tab  *target.Tab       // that is shown; nil: none
	// cast is the tab that sends pictures of a document; nil: none does.
	cast     *target.Tab
	document string
	frames   chan target.Frame // has the latest picture that was not shown
	stop     func()
	state    contract.ViewState // that was shown
	notice   string             // why something was not done, until it is answered
	back     func()             // gives control back; nil: the person does not have it
	buttons  int64              // that are pressed
	clicks   int64
	clicked  struct {
		at     time.Time
		x, y   float64
		button uint32
	}
}

// Show shows the browser until it ends, or ctx does. It returns the reason for people.
func Show(ctx context.Context, o Options, v Viewer) (reason string, err error) {
	s := &show{Options: o, v: v, size: v.Open().Size}
	defer s.end()
	opened := false
	titles := time.NewTicker(titleTime)
	defer titles.Stop()
	for {
		changed := o.Browser.Changed()
		s.choose()
		s.follow(ctx)
		state := s.now(ctx)
		if !opened {
			opened = true
			v.Opened(contract.ViewOpened{Kind: contract.ViewScreen, Size: state.Size, Title: "Browser", Targets: state.Targets})
		}
		if !reflect.DeepEqual(state, s.state) {
			s.state = state
			v.State(state)
		}
		select {
		case f := <-s.frames:
			s.picture(f)
		case r := <-v.Requests():
			s.act(ctx, r)
		case <-changed:
		case <-titles.C:
		case <-o.Browser.Done():
			return "the browser has ended", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// end stops the pictures and gives control back.
func (s *show) end() {
	s.uncast()
	if s.back != nil {
		s.back()
	}
}

// choose keeps the tab while it is open; then it is the latest one. A tab that the shown one has opened takes its place.
func (s *show) choose() {
	tabs := s.Browser.Tabs()
	if len(tabs) == 0 {
		s.tab = nil
		return
	}
	last := tabs[len(tabs)-1]
	if s.tab == nil || !slices.Contains(tabs, s.tab) || last != s.tab && last.Info().Opener == s.tab.ID && !s.listed(last.ID) {
		s.tab = last
	}
}

// listed reports whether the person knows a tab.
func (s *show) listed(id string) bool {
	return slices.ContainsFunc(s.state.Targets, func(t contract.ViewTarget) bool { return t.ID == id })
}

// follow makes the tab that is shown send its pictures, again with each document. A tab that is being replaced refuses; its next change
// tries again.
func (s *show) follow(ctx context.Context) {
	if s.tab == nil {
		s.uncast()
		return
	}
	document := s.tab.Info().Document
	if s.cast == s.tab && s.document == document {
		return
	}
	s.uncast()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	quality := int64(s.v.Open().Quality)
	if quality == 0 {
		quality = defaultQuality
	}
	frames := make(chan target.Frame, 1)
	stop, err := s.tab.Cast(ctx, target.CastOptions{Width: int64(s.size.Width), Height: int64(s.size.Height), Quality: quality}, func(f target.Frame) {
		select {
		case <-frames: // nobody wants an older one
		default:
		}
		frames <- f
	})
	if err != nil {
		return
	}
	s.cast, s.document, s.frames, s.stop = s.tab, document, frames, stop
}

func (s *show) uncast() {
	if s.cast == nil {
		return
	}
	s.stop()
	s.cast, s.frames = nil, nil
}

// now describes what is shown.
func (s *show) now(ctx context.Context) contract.ViewState {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	titles, _ := s.Browser.Titles(ctx) // otherwise there are addresses
	out := contract.ViewState{Size: s.state.Size}
	if out.Size == (contract.ViewSize{}) {
		out.Size = s.size
	}
	for _, t := range s.Browser.Tabs() {
		i := t.Info()
		title := titles[t.ID]
		if title == "" {
			title = i.URL
		}
		out.Targets = append(out.Targets, contract.ViewTarget{ID: t.ID, Title: title, Active: t == s.tab})
		if t == s.tab {
			out.Title, out.Address = title, i.URL
			if i.Dialog != nil {
				out.Dialog = &contract.ViewDialog{Kind: i.Dialog.Kind, Message: i.Dialog.Message}
			}
		}
	}
	if out.Dialog == nil && s.notice != "" {
		out.Dialog = &contract.ViewDialog{Kind: "alert", Message: s.notice}
	}
	return out
}

// picture shows a frame.
func (s *show) picture(f target.Frame) {
	c, err := jpeg.DecodeConfig(bytes.NewReader(f.Data))
	if err != nil || f.Width <= 0 {
		return
	}
	size := contract.ViewSize{Width: uint32(math.Round(f.Width)), Height: uint32(math.Round(f.Height))}
	s.v.Picture(contract.ViewPicture{MediaType: "image/jpeg", Data: f.Data, Viewport: size, Scale: float64(c.Width) / f.Width})
	if s.state.Size != size {
		s.state.Size = size
		s.v.State(s.state)
	}
}

// act does what a person does. What the browser does not take has no answer, as in a window. Commands are posted: one that opens a dialog is
// answered only after the dialog.
func (s *show) act(ctx context.Context, r contract.ViewRequest) {
	switch r := r.(type) {
	case contract.ViewResize: // the agent's page keeps its size; the picture is scaled
		s.size = r.Size
		s.uncast()
	case contract.ViewControl:
		switch {
		case r.Take && s.back == nil:
			s.back = s.Take()
		case !r.Take && s.back != nil:
			s.back()
			s.back = nil
		}
	case contract.ViewInput:
		if s.tab != nil {
			s.input(ctx, r.Act)
		}
	}
}

func (s *show) input(ctx context.Context, act contract.ViewAct) {
	to := s.tab.Session
	switch a := act.(type) {
	case contract.ViewPointer:
		_ = to.Post(protocol.CommandDispatchMouseEvent, s.pointer(a, time.Now()))
	case contract.ViewWheel:
		_ = to.Post(protocol.CommandDispatchMouseEvent, wheel{protocol.DispatchMouseEventTypeMouseWheel, a.X, a.Y, a.DeltaX, a.DeltaY})
	case contract.ViewKey:
		_ = to.Post(protocol.CommandDispatchKeyEvent, input.Key(a.Key, a.Down, a.Modifiers))
	case contract.ViewText:
		_ = to.Post(protocol.CommandInsertText, protocol.InsertTextParams{Text: a.Text})
	case contract.ViewPaste:
		_ = to.Post(protocol.CommandInsertText, protocol.InsertTextParams{Text: a.Text})
	case contract.ViewNavigate:
		if err := s.Allowed(ctx, a.Address); err != nil {
			s.notice = err.Error()
			return
		}
		_ = to.Post(page.CommandNavigate, page.NavigateParams{URL: a.Address, TransitionType: page.TransitionTypeAddressBar})
	case contract.ViewSwitch:
		if t, _ := s.Browser.Find(a.TargetID); t != nil {
			s.tab = t
		}
	case contract.ViewAnswer:
		if s.tab.Info().Dialog == nil {
			s.notice = ""
			return
		}
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		if err := s.tab.Answer(ctx, a.Accept, a.Text); err != nil && ctx.Err() == nil {
			s.notice = err.Error()
		}
	}
}

// wheel is the event of a wheel. The browser wants both deltas, also if one is 0.
type wheel struct {
	Type   protocol.DispatchMouseEventType `json:"type"`
	X      float64                         `json:"x"`
	Y      float64                         `json:"y"`
	DeltaX float64                         `json:"deltaX"`
	DeltaY float64                         `json:"deltaY"`
}

// pointer returns the event of the mouse for a movement or a button.
func (s *show) pointer(a contract.ViewPointer, now time.Time) protocol.DispatchMouseEventParams {
	p := protocol.DispatchMouseEventParams{Type: protocol.DispatchMouseEventTypeMouseMoved, X: a.X, Y: a.Y, Modifiers: input.Modifiers(a.Modifiers)}
	if a.Action != contract.PointerDown && a.Action != contract.PointerUp || a.Button > 2 {
		p.Buttons = s.buttons
		return p
	}
	p.Button = []protocol.MouseButton{protocol.MouseButtonLeft, protocol.MouseButtonMiddle, protocol.MouseButtonRight}[a.Button]
	bit := []int64{1, 4, 2}[a.Button]
	if a.Action == contract.PointerDown {
		p.Type = protocol.DispatchMouseEventTypeMousePressed
		s.buttons |= bit
		c := &s.clicked
		if s.clicks++; now.Sub(c.at) > double || math.Abs(a.X-c.x) > near || math.Abs(a.Y-c.y) > near || a.Button != c.button {
			s.clicks = 1
		}
		c.at, c.x, c.y, c.button = now, a.X, a.Y, a.Button
	} else {
		p.Type = protocol.DispatchMouseEventTypeMouseReleased
		s.buttons &^= bit
	}
	p.Buttons, p.ClickCount = s.buttons, s.clicks
	return p
}
