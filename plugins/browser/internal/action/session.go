// Package action is what can be done in a browser: names and arguments of the actions, and how each is carried out.
//
// It owns: the actions, the tabs that they work on, the numbers of elements, and when a sequence stops. It must not know: tools and calls, or
// how the browser was started.
//
// Start with [Session].
package action

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/settle"
	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Session is a browser with the tab that is used. It is not safe for concurrent use.
type Session struct {
	Browser *target.Browser
	// Allowed returns an error for addresses that must not be opened. It may ask the user.
	Allowed func(ctx context.Context, url string) error
	// Decided waits until the user has answered what pages were about to load, and reports whether there was a question. Optional.
	Decided func(ctx context.Context) bool

	// Upload brings files of the user's to where the browser can read them, and returns their paths there. Optional.
	Upload func(ctx context.Context, paths []string) ([]string, error)
	// Secret returns what is typed for a secret in a frame with the first of the origins, which frames with the others are around. It refuses where the
	// secret does not belong. Optional.
	Secret func(ctx context.Context, name string, origins []string) (string, error)
	// AskUser lets a person do something in a tab, and waits until it is done. Optional.
	AskUser func(ctx context.Context, t *target.Tab, reason string) error
	// Save keeps a file that an action has made, and says where. Optional.
	Save func(ctx context.Context, name, mediaType string, content []byte) (string, error)

	current *target.Tab
	repeats repeats
	views   map[*target.Tab]*View
}

// View is what is known of a tab.
type View struct {
	book  state.Book
	page  *capture.Page
	looks map[int]state.Look // of the elements in the last state
	of    string             // its document
	Shown *state.State       // what the model has seen last; nil: nothing
}

// Tab returns the tab with a name, or the current one if it is empty. It opens one if there is none.
func (s *Session) Tab(ctx context.Context, name string) (*target.Tab, error) {
	tabs := s.Browser.Tabs()
	if name != "" {
		for _, t := range tabs {
			if t.Name() == strings.ToLower(name) {
				s.current = t
				return t, nil
			}
		}
		if owner, ok := s.Browser.Owner(name); ok {
			return nil, fmt.Errorf("tab %q is that of the agent %s; ask it to hand the tab over, or open a tab of your own", name, owner)
		}
		var names []string
		for _, t := range tabs {
			names = append(names, t.Name())
		}
		return nil, fmt.Errorf("there is no tab %q; the tabs are %s", name, strings.Join(names, ", "))
	}
	if s.current != nil && slices.Contains(tabs, s.current) {
		return s.current, nil
	}
	if len(tabs) > 0 {
		s.current = tabs[len(tabs)-1]
		return s.current, nil
	}
	var err error
	s.current, err = s.Browser.NewTab(ctx)
	return s.current, err
}

// View returns what is known of a tab.
func (s *Session) View(t *target.Tab) *View {
	if s.views == nil {
		s.views = map[*target.Tab]*View{}
	}
	for old := range s.views {
		if old.Info().Closed {
			delete(s.views, old)
		}
	}
	v := s.views[t]
	if v == nil {
		v = &View{}
		s.views[t] = v
	}
	return v
}

// takeTime limits how long reading a page may take. A page that takes longer runs a script that does not end.
const takeTime = 5 * time.Second

// ErrBusy is the error of a page that does not answer.
var ErrBusy = errors.New("the page does not answer, because its scripts are busy; wait, reload it or close the tab")

// Take reads the state of a tab.
func (s *Session) Take(ctx context.Context, t *target.Tab) (*state.State, error) {
	return s.Read(ctx, t, capture.Options{})
}

// Element returns the element with a number in the last state of a tab.
func (s *Session) Element(t *target.Tab, number int) (state.Ref, error) {
	_, _, err := s.element(t, number)
	r, _ := s.View(t).book.Ref(number)
	return r, err
}

// Read reads the state of a tab, or a part of it.
func (s *Session) Read(ctx context.Context, t *target.Tab, o capture.Options) (*state.State, error) {
	v := s.View(t)
	ctx, cancel := context.WithTimeoutCause(ctx, takeTime, ErrBusy)
	defer cancel()
	err := t.Do(ctx, func(ctx context.Context) error {
		var err error
		for range 3 { // a page that is being replaced is read again
			var p *capture.Page
			if p, err = capture.Read(ctx, t, o); err == nil {
				v.page = p
				return nil
			}
			if ctx.Err() != nil || errors.Is(err, capture.ErrScope) {
				return err
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	st := v.book.Take(v.page.Tree)
	if o.Selector == "" && o.Element.ID == 0 || v.looks == nil || v.of != v.book.Document() {
		v.looks, v.of = map[int]state.Look{}, v.book.Document()
	}
	maps.Copy(v.looks, st.Looks())
	return st, nil
}

// again finds an element of the last state that is no longer in the page in the one that the page has replaced it by, which gets its number. There
// must be exactly one that looks the same, and no other that is gone may have looked like it.
func (s *Session) again(ctx context.Context, t *target.Tab, number int) error {
	v := s.View(t)
	old, document, known := maps.Clone(v.looks), v.of, v.book.Max()
	look, ok := old[number]
	if !ok {
		return errGone(number, nil)
	}
	st, err := s.Read(ctx, t, capture.Options{})
	if err != nil {
		return err
	}
	if v.of != document {
		return capture.ErrChanged
	}
	now := st.Looks()
	var found []int
	gone := 0
	for n, x := range now {
		if n > known && x == look {
			found = append(found, n)
		}
	}
	for n, x := range old {
		if _, there := now[n]; !there && x == look {
			gone++
		}
	}
	if len(found) != 1 || gone != 1 {
		return errGone(number, similar(look, now))
	}
	to, _ := v.book.Ref(found[0])
	v.book.Rebind(number, to)
	return nil
}

// similar names elements that look similar.
func similar(look state.Look, all map[int]state.Look) []string {
	const most = 3
	var out []string
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if look.Like(all[n]) && len(out) < most {
			out = append(out, strings.Replace(all[n].String(), "<", fmt.Sprintf("[%d]<", n), 1))
		}
	}
	return out
}

// element returns the frame of an element, and its ID in there.
func (s *Session) element(t *target.Tab, number int) (*capture.Frame, int, error) {
	v := s.View(t)
	if v.page == nil {
		return nil, 0, errors.New("no state of the tab has been read; call browser_state")
	}
	r, ok := v.book.Ref(number)
	if !ok {
		return nil, 0, fmt.Errorf("there is no element %d: numbers are from 1 to %d; call browser_state", number, v.book.Max())
	}
	for _, f := range v.page.Frames {
		if f.ID == r.Frame {
			return f, r.ID, nil
		}
	}
	return nil, 0, fmt.Errorf("element %d is gone with its frame; call browser_state", number)
}

// errGone is the error of an element that is no longer in the page, with similar ones.
func errGone(number int, similar []string) error {
	if len(similar) > 0 {
		return fmt.Errorf("element %d is no longer in the page; similar ones are %s", number, strings.Join(similar, ", "))
	}
	return fmt.Errorf("element %d is no longer in the page; call browser_state", number)
}

// point is where an element is.
type point struct {
	X, Y     float64
	What     string
	Cover    string
	Gone     bool
	Hidden   bool
	Disabled bool
	Box      [4]float64 // left, top, width, height
}

// locate scrolls an element into view, and returns a point of it in the coordinates of the tab.
func (s *Session) locate(ctx context.Context, t *target.Tab, number int, force bool) (point, error) {
	var p point
	f, id, err := s.element(t, number)
	if err != nil {
		return p, err
	}
	if err := f.Call(ctx, "locate", &p, id, false); err != nil {
		return p, err
	}
	if p.Gone {
		if err := s.again(ctx, t, number); err != nil {
			return p, err
		}
		if f, id, err = s.element(t, number); err != nil {
			return p, err
		}
		p = point{}
		if err := f.Call(ctx, "locate", &p, id, false); err != nil {
			return p, err
		}
	}
	switch {
	case p.Gone:
		return p, errGone(number, nil)
	case p.Hidden:
		return p, fmt.Errorf("element %d, %s, is not visible", number, p.What)
	case p.Disabled && !force:
		return p, fmt.Errorf("element %d, %s, is disabled", number, p.What)
	}
	for ; f.Parent != nil; f = f.Parent {
		var q point
		if err := f.Parent.Call(ctx, "locate", &q, f.Owner, true, p.X, p.Y); err != nil {
			return p, err
		}
		if q.Gone {
			return p, errGone(number, nil)
		}
		p.Box[0], p.Box[1] = p.Box[0]+q.X-p.X, p.Box[1]+q.Y-p.Y
		p.X, p.Y = q.X, q.Y
		if p.Cover == "" {
			p.Cover = q.Cover
		}
	}
	if p.Cover != "" && !force {
		return p, fmt.Errorf("element %d, %s, is covered by %s; close or move that, or use force", number, p.What, p.Cover)
	}
	return p, nil
}

// Outcome is the outcome of a sequence of actions.
type Outcome struct {
	Lines  []string // what each action has done
	Failed bool     // the last one
	Note   string   // advice to a model that goes in circles; may be empty
	Images []Image
}

// Image is a picture.
type Image struct {
	MediaType string
	Data      []byte
	Note      string // what it does not show; may be empty
}

// Run runs actions one after the other in the current tab. It stops after one that fails, or that leads to another page or tab.
func (s *Session) Run(ctx context.Context, t *target.Tab, actions []Named) *Outcome {
	o := &Outcome{}
	defer func() { o.Note = s.repeats.note() }()
	if shown := s.View(t).Shown; shown != nil {
		s.repeats.begin(fmt.Sprint(t.Info().URL, shown.Lines))
	}
	for i, a := range actions {
		s.repeats.did(a)
		begin, tabs, before := time.Now(), s.Browser.Tabs(), t.Info()
		r := &run{s: s, tab: t}
		text, err := a.do(ctx, r)
		if (err == nil || r.navigates) && !r.still { // a navigation that fails leads to a page that says so
			ceiling := settle.Ceiling
			if r.navigates {
				ceiling = settle.Elsewhere
			}
			p := settle.Wait(ctx, r.tab, begin, ceiling)
			if s.Decided != nil && s.Decided(ctx) {
				p = settle.Wait(ctx, r.tab, begin, ceiling)
			}
			if len(p) > 0 {
				text += fmt.Sprintf(" (after %v, still waiting for: %s)", ceiling, clip(strings.Join(p, ", "), 200))
			}
		}
		s.Browser.Opened(ctx)
		if ctx.Err() != nil && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			text = a.Name + " failed: " + err.Error()
		}
		changed := s.changes(r, t, before, tabs)
		o.Lines = append(o.Lines, strings.Join(append([]string{fmt.Sprintf("%d. %s", i+1, text)}, changed...), "; "))
		o.Images = append(o.Images, r.images...)
		o.Failed = err != nil
		if rest := len(actions) - i - 1; rest > 0 && (err != nil || s.current != t || r.ends || len(changed) > 0) {
			o.Lines = append(o.Lines, fmt.Sprintf("The remaining %d actions were not run, because of that. Look at the state, then continue.", rest))
			break
		}
	}
	return o
}

// changes says how the browser differs from before an action, and makes a tab that has opened the current one.
func (s *Session) changes(r *run, t *target.Tab, before target.Info, tabs []*target.Tab) []string {
	var out []string
	for _, x := range s.Browser.Tabs() {
		if !slices.Contains(tabs, x) && x.Info().Opener == t.ID {
			s.current = x
			out = append(out, fmt.Sprintf("it has opened tab %s, which is now the current one", x.Name()))
		}
	}
	now := t.Info()
	switch {
	case now.Closed && !r.closes:
		out = append(out, "the tab was closed")
	case now.Crashed && !before.Crashed:
		out = append(out, "the tab has crashed")
	case now.Closed:
	case now.URL != before.URL && !r.navigates && r.tab == t:
		out = append(out, "the address is now "+clip(now.URL, 300))
	case now.Document != before.Document && !r.navigates && r.tab == t:
		out = append(out, "the page was loaded again")
	}
	if now.Dialog != nil && before.Dialog == nil {
		out = append(out, (&target.DialogError{Dialog: *now.Dialog}).Error())
	}
	return append(out, t.TakeNotes()...)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
