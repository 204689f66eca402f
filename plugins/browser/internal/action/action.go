package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/input"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Action is one action: exactly one field is set.
type Action struct {
	Navigate        *Navigate     `json:"navigate,omitempty"`
	Search          *Search       `json:"search,omitempty"`
	GoBack          *None         `json:"go_back,omitempty"`
	GoForward       *None         `json:"go_forward,omitempty"`
	Reload          *None         `json:"reload,omitempty"`
	Wait            *Wait         `json:"wait,omitempty"`
	WaitFor         *WaitFor      `json:"wait_for,omitempty"`
	Click           *Click        `json:"click,omitempty"`
	Hover           *Index        `json:"hover,omitempty"`
	Drag            *Drag         `json:"drag,omitempty"`
	Input           *Input        `json:"input,omitempty"`
	FillForm        *FillForm     `json:"fill_form,omitempty"`
	SendKeys        *SendKeys     `json:"send_keys,omitempty"`
	Scroll          *Scroll       `json:"scroll,omitempty"`
	FindText        *Text         `json:"find_text,omitempty"`
	SearchPage      *SearchPage   `json:"search_page,omitempty"`
	FindElements    *FindElements `json:"find_elements,omitempty"`
	DropdownOptions *Index        `json:"dropdown_options,omitempty"`
	SelectDropdown  *Select       `json:"select_dropdown,omitempty"`
	Switch          *TabName      `json:"switch,omitempty"`
	Close           *TabName      `json:"close,omitempty"`
	Evaluate        *Evaluate     `json:"evaluate,omitempty"`
	HandleDialog    *HandleDialog `json:"handle_dialog,omitempty"`
	Screenshot      *Screenshot   `json:"screenshot,omitempty"`
}

// The arguments of the actions.
type (
	None     struct{}
	Navigate struct {
		URL    string `json:"url"`
		NewTab bool   `json:"new_tab,omitempty"`
	}
	Search struct {
		Query  string `json:"query"`
		Engine string `json:"engine,omitempty" enum:"duckduckgo,google,bing"`
	}
	Wait struct {
		Seconds float64 `json:"seconds,omitempty"`
	}
	WaitFor struct {
		Text    string  `json:"text,omitempty"`
		Gone    string  `json:"gone,omitempty" jsonschema:"Text that disappears."`
		URL     string  `json:"url,omitempty" jsonschema:"Part of the address."`
		Seconds float64 `json:"seconds,omitempty" jsonschema:"At most; default 10."`
	}
	Click struct {
		Index  int      `json:"index,omitempty"`
		X      *float64 `json:"coordinate_x,omitempty"`
		Y      *float64 `json:"coordinate_y,omitempty"`
		Button string   `json:"button,omitempty" enum:"left,right,middle"`
		Count  int      `json:"count,omitempty" jsonschema:"2 is a double click."`
		Force  bool     `json:"force,omitempty" jsonschema:"Also if something covers it."`
	}
	Index struct {
		Index int `json:"index"`
	}
	Drag struct {
		From int `json:"from"`
		To   int `json:"to"`
	}
	Input struct {
		Index int    `json:"index"`
		Text  string `json:"text"`
		Clear *bool  `json:"clear,omitempty" jsonschema:"Replace the content; default true."`
	}
	FillForm struct {
		Fields []Input `json:"fields"`
	}
	SendKeys struct {
		Keys string `json:"keys" jsonschema:"Such as Enter, Control+a, or text."`
	}
	Scroll struct {
		Down  *bool   `json:"down,omitempty"`
		Pages float64 `json:"pages,omitempty"`
		Index int     `json:"index,omitempty"`
	}
	Text struct {
		Text string `json:"text"`
	}
	SearchPage struct {
		Pattern       string `json:"pattern"`
		Regex         bool   `json:"regex,omitempty"`
		CaseSensitive bool   `json:"case_sensitive,omitempty"`
		ContextChars  int    `json:"context_chars,omitempty"`
		Scope         string `json:"css_scope,omitempty"`
		MaxResults    int    `json:"max_results,omitempty"`
	}
	FindElements struct {
		Selector    string   `json:"selector"`
		Attributes  []string `json:"attributes,omitempty"`
		MaxResults  int      `json:"max_results,omitempty"`
		IncludeText *bool    `json:"include_text,omitempty"`
	}
	Select struct {
		Index int      `json:"index"`
		Text  string   `json:"text,omitempty"`
		Texts []string `json:"texts,omitempty" jsonschema:"For a list of which several can be selected."`
	}
	TabName struct {
		TabID string `json:"tab_id"`
	}
	Evaluate struct {
		Code string `json:"code"`
	}
	HandleDialog struct {
		Accept bool   `json:"accept"`
		Text   string `json:"text,omitempty"`
	}
	Screenshot struct {
		FullPage bool `json:"full_page,omitempty"`
	}
)

// doer is an action with its arguments.
type doer interface {
	do(ctx context.Context, r *run) (string, error)
}

// Named is an action with its name.
type Named struct {
	Name string
	Args any
	do   func(ctx context.Context, r *run) (string, error)
}

// URL returns the address that the action opens; "": it opens none.
func (n Named) URL() string {
	switch a := n.Args.(type) {
	case *Navigate:
		return a.URL
	case *Search:
		u, _ := a.address() // otherwise the action fails
		return u
	}
	return ""
}

// MaxActions is the maximum number of actions of a sequence.
const MaxActions = 20

// Names returns the names of all actions.
func Names() []string {
	var out []string
	for f := range reflect.TypeFor[Action]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// Parse returns the actions of a sequence.
func Parse(list []Action) ([]Named, error) {
	if len(list) == 0 || len(list) > MaxActions {
		return nil, fmt.Errorf("there are %d actions; give 1 to %d", len(list), MaxActions)
	}
	var out []Named
	for i, a := range list {
		v := reflect.ValueOf(a)
		var found []Named
		for j, name := range Names() {
			if f := v.Field(j); !f.IsNil() {
				n := Named{Name: name, Args: f.Interface()}
				switch a := n.Args.(type) {
				case doer:
					n.do = a.do
				case *Index:
					n.do = func(ctx context.Context, r *run) (string, error) { return indexed[name](r, ctx, a.Index) }
				case *TabName:
					n.do = func(ctx context.Context, r *run) (string, error) { return tabbed[name](r, ctx, a.TabID) }
				default:
					n.do = simple[name]
				}
				found = append(found, n)
			}
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("action %d has %d names; each action is an object with exactly one of %s", i+1, len(found), strings.Join(Names(), ", "))
		}
		out = append(out, found[0])
	}
	return out, nil
}

// The actions whose arguments don't tell them apart.
var (
	indexed = map[string]func(*run, context.Context, int) (string, error){"hover": (*run).hover, "dropdown_options": (*run).options}
	tabbed  = map[string]func(*run, context.Context, string) (string, error){"switch": (*run).switchTo, "close": (*run).close}
)

// simple are the actions without arguments.
var simple = map[string]func(ctx context.Context, r *run) (string, error){
	"go_back":    func(ctx context.Context, r *run) (string, error) { return r.history(ctx, -1) },
	"go_forward": func(ctx context.Context, r *run) (string, error) { return r.history(ctx, 1) },
	"reload": func(ctx context.Context, r *run) (string, error) {
		r.navigates, r.ends = true, true
		return "Reloaded the page", r.navigation(ctx, func(ctx context.Context) (bool, error) {
			_, err := protocol.Call(ctx, r.tab.Session, page.Reload, page.ReloadParams{})
			return true, err
		})
	},
}

// run is the execution of one action.
type run struct {
	s         *Session
	tab       *target.Tab
	still     bool // it can't have changed anything
	ends      bool // what follows was written for another page
	navigates bool // the change of the address is its purpose
	closes    bool
	images    []Image
}

// within runs commands that a dialog can hold up. If one opens, that is the action's success: the outcome tells of it.
func (r *run) within(ctx context.Context, f func(ctx context.Context) error) error {
	err := r.tab.Do(ctx, f)
	if _, ok := errors.AsType[*target.DialogError](err); ok {
		return nil
	}
	return err
}

// navigation runs a navigation and waits until the document is another one, unless start returns that it stays the same.
func (r *run) navigation(ctx context.Context, start func(ctx context.Context) (other bool, err error)) error {
	before := r.tab.Info().Document
	return r.tab.Do(ctx, func(ctx context.Context) error {
		other, err := start(ctx)
		if err != nil || !other {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, navigationTime, fmt.Errorf("the page has not answered within %v", navigationTime))
		defer cancel()
		return r.tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return i.Document != before })
	})
}

// navigationTime limits how long a server may take to answer.
const navigationTime = 20 * time.Second

func (a *Navigate) do(ctx context.Context, r *run) (string, error) {
	address := a.URL
	if !strings.Contains(address, ":") || strings.HasPrefix(address, "localhost:") {
		address = "https://" + address
	}
	return "Navigated to " + clip(address, 300), r.open(ctx, address, a.NewTab)
}

func (r *run) open(ctx context.Context, address string, newTab bool) error {
	if r.s.Allowed != nil {
		if err := r.s.Allowed(ctx, address); err != nil {
			return err
		}
	}
	r.navigates, r.ends = true, true
	if newTab {
		t, err := r.s.Browser.NewTab(ctx)
		if err != nil {
			return err
		}
		r.tab, r.s.current = t, t
	}
	ctx, cancel := context.WithTimeoutCause(ctx, navigationTime, fmt.Errorf("%s has not answered within %v", address, navigationTime))
	defer cancel()
	var failure string
	start := func(ctx context.Context) (bool, error) {
		n, err := protocol.Call(ctx, r.tab.Session, page.Navigate, page.NavigateParams{URL: address, TransitionType: page.TransitionTypeAddressBar})
		failure = n.ErrorText
		return failure == "" && n.LoaderID != "", err
	}
	var err error
	if r.tab.Info().Crashed { // only a navigation helps, so a crash must not end it
		_, err = start(ctx)
	} else {
		err = r.navigation(ctx, start)
	}
	if err == nil && failure != "" {
		err = fmt.Errorf("%s can't be reached: %s", address, failure)
	}
	return err
}

func (a *Search) address() (string, error) {
	q := url.QueryEscape(a.Query)
	switch a.Engine {
	case "", "duckduckgo":
		return "https://duckduckgo.com/?q=" + q, nil
	case "google":
		return "https://www.google.com/search?q=" + q + "&udm=14", nil
	case "bing":
		return "https://www.bing.com/search?q=" + q, nil
	}
	return "", fmt.Errorf("unsupported search engine %q: use duckduckgo, google or bing", a.Engine)
}

func (a *Search) do(ctx context.Context, r *run) (string, error) {
	u, err := a.address()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Searched for %q", a.Query), r.open(ctx, u, false)
}

func (r *run) history(ctx context.Context, step int64) (string, error) {
	r.navigates, r.ends = true, true
	h, err := protocol.Call(ctx, r.tab.Session, page.GetNavigationHistory, protocol.Empty{})
	if err != nil {
		return "", err
	}
	to := h.CurrentIndex + step
	if to < 0 || to >= int64(len(h.Entries)) {
		return "", fmt.Errorf("the tab's history has no page in that direction")
	}
	e := h.Entries[to]
	err = r.tab.Do(ctx, func(ctx context.Context) error {
		if _, err := protocol.Call(ctx, r.tab.Session, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: e.ID}); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, navigationTime, fmt.Errorf("the page has not answered within %v", navigationTime))
		defer cancel()
		return r.tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return i.URL == e.URL })
	})
	return "Navigated to " + clip(e.URL, 300), err
}

func (a *Wait) do(ctx context.Context, r *run) (string, error) {
	const most = 30
	s := a.Seconds
	if s <= 0 {
		s = 3
	}
	s = min(s, most)
	timer := time.NewTimer(time.Duration(s * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	return fmt.Sprintf("Waited for %g seconds", s), nil
}

func (a *WaitFor) do(ctx context.Context, r *run) (string, error) {
	const most = 60
	s := a.Seconds
	if s <= 0 {
		s = 10
	}
	limit := time.Duration(min(s, most) * float64(time.Second))
	what := fmt.Sprintf("the text %q", a.Text)
	if a.Gone != "" {
		what = fmt.Sprintf("the end of the text %q", a.Gone)
	} else if a.URL != "" {
		what = fmt.Sprintf("an address with %q", a.URL)
	} else if a.Text == "" {
		return "", errors.New("give text, gone or url")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("waited for %s in vain, for %v", what, limit))
	defer cancel()
	err := r.tab.Do(ctx, func(ctx context.Context) error {
		if a.Text == "" && a.Gone == "" {
			return r.tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return strings.Contains(i.URL, a.URL) })
		}
		for {
			before := r.tab.Info().Document
			f, err := capture.Main(ctx, r.tab)
			if err == nil {
				var found bool
				err = f.Call(ctx, "awaits", &found, a.Text+a.Gone, a.Gone != "")
			}
			if err == nil || ctx.Err() != nil {
				return err
			}
			// The document was replaced meanwhile: look at the next one.
			if err := r.tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return i.Document != before }); err != nil {
				return err
			}
		}
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return "Waited for " + what, err
}

// field is what a script says of an element.
type field struct {
	Kind, What, Value                               string
	Checked, Disabled, Readonly, Combobox, Assigned bool
	Gone                                            bool
}

func (r *run) inspect(ctx context.Context, number int) (*capture.Frame, int, field, error) {
	var d field
	f, id, err := r.s.element(r.tab, number)
	if err == nil {
		err = f.Call(ctx, "inspect", &d, id)
	}
	if err == nil && d.Gone {
		err = errGone(number)
	}
	return f, id, d, err
}

func (a *Click) do(ctx context.Context, r *run) (string, error) {
	button, count := a.Button, a.Count
	if button == "" {
		button = "left"
	}
	if count < 1 || count > 3 {
		count = 1
	}
	if a.Index == 0 {
		if a.X == nil || a.Y == nil {
			return "", errors.New("give either index or both coordinate_x and coordinate_y")
		}
		return fmt.Sprintf("Clicked at %g, %g", *a.X, *a.Y), r.within(ctx, func(ctx context.Context) error {
			return input.Click(ctx, r.tab.Session, *a.X, *a.Y, button, count)
		})
	}
	var what string
	err := r.within(ctx, func(ctx context.Context) error {
		f, id, was, err := r.inspect(ctx, a.Index)
		switch {
		case err != nil:
			return err
		case was.Kind == "select":
			return errors.New("this is a list to select from; use select_dropdown, or dropdown_options to see what it offers")
		case was.Kind == "file":
			return errors.New("this is a field for a file, which a click can't choose")
		}
		what = was.What
		p, err := r.s.locate(ctx, r.tab, a.Index, a.Force)
		if err != nil {
			return err
		}
		if err := input.Click(ctx, r.tab.Session, p.X, p.Y, button, count); err != nil {
			return err
		}
		if was.Kind == "checkbox" || was.Kind == "radio" {
			var now field
			if f.Call(ctx, "inspect", &now, id) == nil && !now.Gone { // otherwise the click has removed it
				what += fmt.Sprintf(", which is now checked=%v", now.Checked)
			}
		}
		return nil
	})
	return fmt.Sprintf("Clicked [%d] %s", a.Index, what), err
}

func (r *run) hover(ctx context.Context, number int) (string, error) {
	var p point
	err := r.within(ctx, func(ctx context.Context) (err error) {
		if p, err = r.s.locate(ctx, r.tab, number, false); err != nil {
			return err
		}
		return input.Move(ctx, r.tab.Session, p.X, p.Y)
	})
	return fmt.Sprintf("Moved the mouse over [%d] %s", number, p.What), err
}

func (a *Drag) do(ctx context.Context, r *run) (string, error) {
	err := r.within(ctx, func(ctx context.Context) error {
		if _, err := r.s.locate(ctx, r.tab, a.From, false); err != nil {
			return err
		}
		to, err := r.s.locate(ctx, r.tab, a.To, true)
		if err != nil {
			return err
		}
		from, err := r.s.locate(ctx, r.tab, a.From, false)
		if err != nil {
			return err
		}
		return input.Drag(ctx, r.tab.Session, from.X, from.Y, to.X, to.Y)
	})
	return fmt.Sprintf("Dragged [%d] to [%d]", a.From, a.To), err
}

func (a *Input) do(ctx context.Context, r *run) (string, error) {
	text := fmt.Sprintf("Typed %q into [%d]", clip(a.Text, 100), a.Index)
	err := r.within(ctx, func(ctx context.Context) error {
		note, err := r.fill(ctx, *a)
		text += note
		return err
	})
	return text, err
}

func (r *run) fill(ctx context.Context, a Input) (note string, err error) {
	f, id, d, err := r.inspect(ctx, a.Index)
	if err != nil {
		return "", err
	}
	replace := a.Clear == nil || *a.Clear
	switch {
	case d.Kind == "" || slices.Contains([]string{"button", "submit", "reset", "image", "hidden"}, d.Kind):
		return "", fmt.Errorf("element %d, %s, is no field to type into", a.Index, d.What)
	case d.Kind == "select":
		return "", fmt.Errorf("element %d, %s, is a list; use select_dropdown", a.Index, d.What)
	case d.Kind == "checkbox" || d.Kind == "radio":
		return "", fmt.Errorf("element %d, %s, is switched by click", a.Index, d.What)
	case d.Kind == "file":
		return "", fmt.Errorf("element %d, %s, is a field for a file", a.Index, d.What)
	case d.Disabled || d.Readonly:
		return "", fmt.Errorf("element %d, %s, can't be changed: it is disabled or read-only", a.Index, d.What)
	}
	if d.Assigned {
		var now struct{ Value string }
		if err := f.Call(ctx, "assign", &now, id, a.Text); err != nil {
			return "", err
		}
		return differs(a.Text, now.Value), nil
	}
	var focused struct{ Gone, Focused, Empty bool }
	if err := f.Call(ctx, "focus", &focused, id, replace); err != nil {
		return "", err
	}
	if !focused.Focused {
		return "", fmt.Errorf("element %d, %s, does not take the focus", a.Index, d.What)
	}
	if replace && a.Text == "" && !focused.Empty {
		if err := input.Press(ctx, r.tab.Session, []string{"Delete"}); err != nil {
			return "", err
		}
	} else if err := input.Type(ctx, r.tab.Session, a.Text); err != nil {
		return "", err
	}
	var now field
	if err := f.Call(ctx, "inspect", &now, id); err != nil || now.Gone || d.Kind == "password" {
		return "", nil // typing has led to another page, or the value must not be told
	}
	if replace {
		note = differs(a.Text, now.Value)
	} else if !strings.Contains(now.Value, strings.TrimSuffix(a.Text, "\n")) {
		note = differs(a.Text, now.Value)
	}
	if d.Combobox {
		note += "; the field offers suggestions: look at the state before going on"
	}
	return note, nil
}

func differs(want, got string) string {
	if strings.TrimRight(want, "\n") == strings.TrimRight(got, "\n") {
		return ""
	}
	return fmt.Sprintf("; but its value is now %q", clip(got, 200))
}

func (a *FillForm) do(ctx context.Context, r *run) (string, error) {
	if len(a.Fields) == 0 {
		return "", errors.New("fields is empty")
	}
	var done []string
	err := r.within(ctx, func(ctx context.Context) error {
		for _, x := range a.Fields {
			note, err := r.fill(ctx, x)
			if err != nil {
				return fmt.Errorf("%w (filled before that: %s)", err, strings.Join(done, ", "))
			}
			done = append(done, fmt.Sprintf("[%d]%s", x.Index, note))
		}
		return nil
	})
	return "Filled " + strings.Join(done, ", "), err
}

func (a *SendKeys) do(ctx context.Context, r *run) (string, error) {
	if a.Keys == "" {
		return "", errors.New("keys is empty")
	}
	return fmt.Sprintf("Sent keys: %s", clip(a.Keys, 100)), r.within(ctx, func(ctx context.Context) error {
		if chord, ok := input.Chord(a.Keys); ok {
			return input.Press(ctx, r.tab.Session, chord)
		}
		return input.Type(ctx, r.tab.Session, a.Keys)
	})
}

func (a *Scroll) do(ctx context.Context, r *run) (string, error) {
	pages := a.Pages
	if pages <= 0 {
		pages = 1
	}
	if a.Down != nil && !*a.Down {
		pages = -pages
	}
	var moved struct {
		X, Y int
		Gone bool
	}
	err := r.within(ctx, func(ctx context.Context) error {
		f, err := capture.Main(ctx, r.tab)
		id := 0
		if a.Index > 0 {
			f, id, err = r.s.element(r.tab, a.Index)
		}
		if err == nil {
			err = f.Call(ctx, "scroll", &moved, id, 0, pages)
		}
		if err == nil && moved.Gone {
			err = errGone(a.Index)
		}
		return err
	})
	switch {
	case moved.Y == 0 && pages > 0:
		return "Did not scroll: this is the end", err
	case moved.Y == 0:
		return "Did not scroll: this is the start", err
	case moved.Y > 0:
		return fmt.Sprintf("Scrolled down %d px", moved.Y), err
	}
	return fmt.Sprintf("Scrolled up %d px", -moved.Y), err
}

// call calls a function of the script in the page itself.
func (r *run) call(ctx context.Context, name string, out any, args ...any) error {
	return r.within(ctx, func(ctx context.Context) error {
		f, err := capture.Main(ctx, r.tab)
		if err != nil {
			return err
		}
		return f.Call(ctx, name, out, args...)
	})
}

func (a *Text) do(ctx context.Context, r *run) (string, error) {
	var x struct{ Found bool }
	err := r.call(ctx, "findText", &x, a.Text)
	if err == nil && !x.Found {
		return fmt.Sprintf("The text %q is not in the page, or not visible", a.Text), nil
	}
	return fmt.Sprintf("Scrolled to the text %q", a.Text), err
}

func (a *SearchPage) do(ctx context.Context, r *run) (string, error) {
	r.still = true
	around, most := a.ContextChars, a.MaxResults
	if around <= 0 {
		around = 150
	}
	if most <= 0 {
		most = 25
	}
	var x struct {
		Error   string
		Total   int
		Matches []struct{ Text, Path string }
	}
	if err := r.call(ctx, "search", &x, a.Pattern, a.Regex, a.CaseSensitive, around, a.Scope, most); err != nil {
		return "", err
	}
	if x.Error != "" {
		return "", errors.New(x.Error)
	}
	if x.Total == 0 {
		return fmt.Sprintf("No matches found for %q on page.", a.Pattern), nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Found %d matches for %q on page:", x.Total, a.Pattern)
	for i, m := range x.Matches {
		fmt.Fprintf(&b, "\n[%d] %s (in %s)", i+1, m.Text, m.Path)
	}
	return b.String(), nil
}

func (a *FindElements) do(ctx context.Context, r *run) (string, error) {
	r.still = true
	most := a.MaxResults
	if most <= 0 {
		most = 50
	}
	var x struct {
		Error    string
		Total    int
		Elements []struct {
			Tag, Text  string
			Attributes map[string]string
			Children   int
		}
	}
	if err := r.call(ctx, "find", &x, a.Selector, a.Attributes, most, a.IncludeText == nil || *a.IncludeText); err != nil {
		return "", err
	}
	if x.Error != "" {
		return "", errors.New(x.Error)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Found %d elements matching %q.", x.Total, a.Selector)
	for i, e := range x.Elements {
		fmt.Fprintf(&b, "\n[%d] <%s>", i+1, e.Tag)
		if e.Text != "" {
			fmt.Fprintf(&b, " %q", e.Text)
		}
		for _, k := range a.Attributes {
			if v, ok := e.Attributes[k]; ok {
				fmt.Fprintf(&b, " %s=%q", k, v)
			}
		}
		fmt.Fprintf(&b, " (%d children)", e.Children)
	}
	return b.String(), nil
}

type option struct {
	I           int
	Text, Value string
	Selected    bool
}

func describe(list []option) string {
	var b strings.Builder
	for _, o := range list {
		fmt.Fprintf(&b, "\n%d: text=%q, value=%q", o.I, o.Text, o.Value)
		if o.Selected {
			b.WriteString(" (selected)")
		}
	}
	return b.String()
}

func (r *run) options(ctx context.Context, number int) (string, error) {
	r.still = true
	f, id, err := r.s.element(r.tab, number)
	if err != nil {
		return "", err
	}
	var x struct {
		Gone    bool
		Options []option
	}
	if err := f.Call(ctx, "options", &x, id); err != nil {
		return "", err
	}
	switch {
	case x.Gone:
		return "", errGone(number)
	case len(x.Options) == 0:
		return "", fmt.Errorf("element %d offers no options; click it first if it opens a list", number)
	}
	return fmt.Sprintf("The options of [%d]:%s", number, describe(x.Options)), nil
}

func (a *Select) do(ctx context.Context, r *run) (string, error) {
	wanted := a.Texts
	if a.Text != "" || len(wanted) == 0 {
		wanted = append([]string{a.Text}, wanted...)
	}
	_, _, d, err := r.inspect(ctx, a.Index)
	if err != nil {
		return "", err
	}
	if d.Kind != "select" {
		return r.pick(ctx, a.Index, wanted[0])
	}
	if d.Disabled {
		return "", fmt.Errorf("element %d, %s, is disabled", a.Index, d.What)
	}
	var x struct {
		Gone              bool
		Missing, Selected []string
		Options           []option
	}
	err = r.within(ctx, func(ctx context.Context) error {
		f, id, err := r.s.element(r.tab, a.Index)
		if err != nil {
			return err
		}
		return f.Call(ctx, "select", &x, id, wanted)
	})
	switch {
	case err != nil:
		return "", err
	case x.Gone:
		return "", errGone(a.Index)
	case len(x.Missing) > 0:
		return "", fmt.Errorf("there is no option %q that can be selected; the options are:%s", x.Missing, describe(x.Options))
	}
	return fmt.Sprintf("Selected %q in [%d]", x.Selected, a.Index), nil
}

// pick clicks an option of a list that the page has made itself.
func (r *run) pick(ctx context.Context, number int, wanted string) (string, error) {
	f, id, err := r.s.element(r.tab, number)
	if err != nil {
		return "", err
	}
	var x struct {
		Options []struct {
			option
			ID int
		}
	}
	if err := f.Call(ctx, "options", &x, id); err != nil {
		return "", err
	}
	var all []option
	for _, o := range x.Options {
		all = append(all, o.option)
		if !strings.EqualFold(o.Text, wanted) && !strings.EqualFold(o.Value, wanted) {
			continue
		}
		var p point
		err := r.within(ctx, func(ctx context.Context) error {
			if err := f.Call(ctx, "locate", &p, o.ID, false); err != nil {
				return err
			}
			if p.Hidden || p.Gone || p.Cover != "" || f.Parent != nil {
				return fmt.Errorf("the option %q is not visible in the page; click what opens the list first, then the option", wanted)
			}
			return input.Click(ctx, r.tab.Session, p.X, p.Y, "left", 1)
		})
		return fmt.Sprintf("Selected %q in [%d]", o.Text, number), err
	}
	return "", fmt.Errorf("there is no option %q; the options are:%s", wanted, describe(all))
}

func (r *run) switchTo(ctx context.Context, name string) (string, error) {
	t, err := r.s.Tab(ctx, name)
	if err != nil {
		return "", err
	}
	r.tab, r.ends, r.still = t, true, true
	return "Switched to tab " + t.Name(), nil
}

func (r *run) close(ctx context.Context, name string) (string, error) {
	current := r.s.current
	t, err := r.s.Tab(ctx, name)
	if err != nil {
		return "", err
	}
	if r.s.current = current; t == current {
		r.s.current = nil
	}
	r.ends, r.still, r.closes = true, true, true
	if len(r.s.Browser.Tabs()) == 1 { // the browser would end with its last tab
		if r.s.current, err = r.s.Browser.NewTab(ctx); err != nil {
			return "", err
		}
	}
	return "Closed tab " + t.Name(), t.Close(ctx)
}

// maxValue is the maximum length of what a script returns.
const maxValue = 20_000

func (a *Evaluate) do(ctx context.Context, r *run) (string, error) {
	r.ends = true
	var out string
	err := r.within(ctx, func(ctx context.Context) error {
		v, err := protocol.Call(ctx, r.tab.Session, runtime.Evaluate, runtime.EvaluateParams{
			Expression: a.Code, AwaitPromise: new(true), ReturnByValue: new(true), UserGesture: new(true), ReplMode: new(true),
		})
		switch {
		case err != nil:
			return err
		case v.ExceptionDetails != nil:
			return errors.New(capture.Exception(v.ExceptionDetails))
		}
		var s string
		switch {
		case json.Unmarshal(v.Result.Value, &s) == nil && v.Result.Type == runtime.RemoteObjectTypeString:
			out = s
		case len(v.Result.Value) > 0:
			out = string(v.Result.Value)
		default:
			out = string(v.Result.Type)
		}
		return nil
	})
	return "Evaluated: " + clip(out, maxValue), err
}

func (a *HandleDialog) do(ctx context.Context, r *run) (string, error) {
	d := r.tab.Info().Dialog
	if d == nil {
		return "", errors.New("no dialog is open")
	}
	done := "Dismissed"
	if a.Accept {
		done = "Accepted"
	}
	return fmt.Sprintf("%s the %s dialog %q", done, d.Kind, clip(d.Message, 200)), r.tab.Answer(ctx, a.Accept, a.Text)
}

func (a *Screenshot) do(ctx context.Context, r *run) (string, error) {
	r.still = true
	image, err := Picture(ctx, r.tab, a.FullPage)
	if err != nil {
		return "", err
	}
	r.images = append(r.images, image)
	return "Took a screenshot", nil
}

// Picture takes a screenshot of a tab.
func Picture(ctx context.Context, t *target.Tab, full bool) (Image, error) {
	const quality = 80
	image := Image{MediaType: "image/jpeg"}
	err := t.Do(ctx, func(ctx context.Context) error {
		s, err := protocol.Call(ctx, t.Session, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatJpeg, Quality: new(int64(quality)), CaptureBeyondViewport: new(full), OptimizeForSpeed: new(true),
		})
		image.Data = s.Data
		return err
	})
	return image, err
}
