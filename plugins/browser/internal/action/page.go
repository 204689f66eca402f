package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
)

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

func (r *run) switchTo(ctx context.Context, name string) (string, error) {
	t, err := r.s.Tab(ctx, name)
	if err != nil {
		return "", err
	}
	r.tab, r.ends, r.still = t, true, true
	return "Switched to tab " + t.Name(), nil
}

// do gives the tab to another agent that uses the browser.
func (a *HandOver) do(_ context.Context, r *run) (string, error) {
	var names []string
	for _, x := range r.s.Browser.Others() {
		if names = append(names, x.Name()); x.Name() != a.To {
			continue
		}
		if err := r.s.Browser.Give(r.tab, x); err != nil {
			return "", err
		}
		r.ends, r.still, r.closes = true, true, true
		return fmt.Sprintf("Handed tab %s over to %s, which sees it from now on", r.tab.Name(), a.To), nil
	}
	if len(names) == 0 {
		return "", errors.New("no other agent uses the browser")
	}
	return "", fmt.Errorf("no agent %q uses the browser; those that do are %s. One that is to take a tab over has to open a page first", a.To, strings.Join(names, ", "))
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
			Expression: a.Code, AwaitPromise: new(true), UserGesture: new(true), ReplMode: new(true),
		})
		// Code that may await, and declare again what was declared before, is not awaited itself if its value is a promise.
		if err == nil && v.ExceptionDetails == nil && v.Result.Subtype == runtime.RemoteObjectSubtypePromise {
			var settled runtime.AwaitPromiseResult
			settled, err = protocol.Call(ctx, r.tab.Session, runtime.AwaitPromise, runtime.AwaitPromiseParams{PromiseObjectID: v.Result.ObjectID, ReturnByValue: new(true)})
			v.Result, v.ExceptionDetails = settled.Result, settled.ExceptionDetails
		} else if err == nil && v.ExceptionDetails == nil && v.Result.ObjectID != "" {
			var value runtime.CallFunctionOnResult
			value, err = protocol.Call(ctx, r.tab.Session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
				FunctionDeclaration: "function() { return this }", ObjectID: v.Result.ObjectID, ReturnByValue: new(true),
			})
			v.Result, v.ExceptionDetails = value.Result, value.ExceptionDetails
		}
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
	return "Took a screenshot" + image.Note, nil
}
