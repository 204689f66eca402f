package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/input"
)

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
		if err = r.s.again(ctx, r.tab, number); err == nil {
			f, id, err = r.s.element(r.tab, number)
		}
		d = field{}
		if err == nil {
			err = f.Call(ctx, "inspect", &d, id)
		}
		if err == nil && d.Gone {
			err = errGone(number, nil)
		}
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
			return errors.New("this is a field for files; use upload_file")
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
		return "", fmt.Errorf("element %d, %s, is a field for files; use upload_file", a.Index, d.What)
	case d.Disabled || d.Readonly:
		return "", fmt.Errorf("element %d, %s, can't be changed: it is disabled or read-only", a.Index, d.What)
	}
	if hasSecret(a.Text) {
		return r.fillSecret(ctx, f, id, d, a)
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
			err = errGone(a.Index, nil)
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
		return "", errGone(number, nil)
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
		return "", errGone(a.Index, nil)
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
