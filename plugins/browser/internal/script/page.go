package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/settle"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/codemode"
)

const (
	waitDefault = 3 * time.Second
	waitMost    = 60 * time.Second
)

// Helpers in the page, as functions of their arguments.
const (
	infoJS = `() => ({url: location.href, title: document.title, w: innerWidth, h: innerHeight, sx: scrollX, sy: scrollY,
  pw: document.documentElement?.scrollWidth ?? 0, ph: document.documentElement?.scrollHeight ?? 0})`
	awaitJS = `(selector, ms) => new Promise(resolve => {
  const shows = e => { const r = e.getBoundingClientRect(); return r.width > 0 && r.height > 0 && getComputedStyle(e).visibility !== 'hidden' }
  const find = () => [...document.querySelectorAll(selector)].some(shows)
  if (find()) return resolve(true)
  const end = found => { watch.disconnect(); clearTimeout(timer); resolve(found) }
  const watch = new MutationObserver(() => { if (find()) end(true) })
  const timer = setTimeout(() => end(find()), ms)
  watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true})
})`
	focusJS = `selector => {
  const e = document.querySelector(selector)
  if (!e) throw new Error('no element matches ' + selector)
  e.scrollIntoView({block: 'center'})
  e.focus()
  if (e.select) e.select(); else getSelection().selectAllChildren(e)
}`
	fetchJS = `async (url, options) => {
  const r = await fetch(url, options)
  return {status: r.status, url: r.url, headers: Object.fromEntries(r.headers), text: await r.text()}
}`
)

// args are the arguments of a function.
type args []json.RawMessage

func (a args) text(i int) string {
	if i >= len(a) {
		return ""
	}
	return text(a[i])
}

func (a args) number(i int, absent float64) float64 {
	var n *float64
	if i >= len(a) || json.Unmarshal(a[i], &n) != nil || n == nil {
		return absent
	}
	return *n
}

// duration reads a time: in seconds, or milliseconds if the number is above 1000.
func (a args) duration(i int) time.Duration {
	n := a.number(i, 0)
	switch {
	case n <= 0 || math.IsNaN(n):
		return waitDefault
	case n > 1000:
		n /= 1000
	}
	return min(time.Duration(n*float64(time.Second)), waitMost)
}

// inTab is a function that works on the current tab.
type inTab func(ctx context.Context, c *Conn, t *target.Tab, a args) (any, error)

// page returns the functions of the global page.
func (g *globals) page() map[string]codemode.Func {
	all := map[string]codemode.Func{
		"emit_output": func(_ context.Context, a []json.RawMessage) (any, error) {
			if len(a) == 0 {
				return nil, errors.New("give page.emit_output a value, and a label if there are several")
			}
			g.run.output(args(a).text(1), a[0])
			return nil, nil
		},
		"note": func(_ context.Context, a []json.RawMessage) (any, error) { g.run.log(args(a).text(0)); return nil, nil },
		"wait": func(ctx context.Context, a []json.RawMessage) (any, error) {
			timer := time.NewTimer(args(a).duration(0))
			defer timer.Stop()
			select {
			case <-timer.C:
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	}
	for name, f := range map[string]inTab{
		"goto_url": func(ctx context.Context, c *Conn, t *target.Tab, a args) (any, error) {
			return g.act(ctx, c, t, action.Action{Navigate: &action.Navigate{URL: a.text(0)}})
		},
		"new_tab": func(ctx context.Context, c *Conn, t *target.Tab, a args) (any, error) {
			if a.text(0) == "" {
				n, err := c.Browser.NewTab(ctx)
				if err != nil {
					return nil, err
				}
				if _, err := c.Tab(ctx, n.Name()); err != nil {
					return nil, err
				}
				return current(ctx, c)
			}
			blank := t.Info().URL == "about:blank" // it is as good as a new one
			if _, err := g.act(ctx, c, t, action.Action{Navigate: &action.Navigate{URL: a.text(0), NewTab: !blank}}); err != nil {
				return nil, err
			}
			return current(ctx, c)
		},
		"act": func(ctx context.Context, c *Conn, t *target.Tab, a args) (any, error) {
			var list []action.Action
			for _, v := range a {
				many := []action.Action{}
				if json.Unmarshal(v, &many) != nil {
					many = []action.Action{{}}
					if err := json.Unmarshal(v, &many[0]); err != nil {
						return nil, fmt.Errorf("page.act takes actions as browser_act does: %w", err)
					}
				}
				list = append(list, many...)
			}
			return g.act(ctx, c, t, list...)
		},
		"state": func(ctx context.Context, c *Conn, t *target.Tab, _ args) (any, error) {
			s, err := c.Take(ctx, t)
			if err != nil {
				return nil, err
			}
			out, _ := s.Text(0, maxText)
			return out, nil
		},
		"js": func(ctx context.Context, _ *Conn, t *target.Tab, a args) (any, error) {
			if a.text(0) == "" {
				return nil, errors.New("give page.js an expression or a function as text, and the arguments of the function")
			}
			return evaluate(ctx, t, a.text(0), a[1:]...)
		},
		"browser_fetch": func(ctx context.Context, _ *Conn, t *target.Tab, a args) (any, error) {
			return evaluate(ctx, t, fetchJS, a...)
		},
		"page_info": func(ctx context.Context, _ *Conn, t *target.Tab, _ args) (any, error) {
			i := t.Info()
			if i.Dialog != nil { // the page can't answer
				return map[string]any{"url": i.URL, "title": i.Title, "dialog": map[string]string{"kind": i.Dialog.Kind, "message": i.Dialog.Message}}, nil
			}
			return evaluate(ctx, t, infoJS)
		},
		"screenshot": func(ctx context.Context, c *Conn, t *target.Tab, a args) (any, error) {
			if err := c.pictured(ctx, t); err != nil {
				return nil, err
			}
			image, err := action.Picture(ctx, t, len(a) > 0 && strings.Contains(string(a[0]), "true"))
			if err != nil {
				return nil, err
			}
			return map[string]int{"bytes": len(image.Data)}, g.run.image(image)
		},
		"click_at_xy": func(ctx context.Context, c *Conn, t *target.Tab, a args) (any, error) {
			x, y := a.number(0, math.NaN()), a.number(1, math.NaN())
			if math.IsNaN(x) || math.IsNaN(y) {
				return nil, errors.New("give page.click_at_xy two numbers, in CSS pixels of the window")
			}
			return g.act(ctx, c, t, action.Action{Click: &action.Click{X: &x, Y: &y, Button: a.text(2)}})
		},
		"fill_input": func(ctx context.Context, _ *Conn, t *target.Tab, a args) (any, error) {
			if len(a) < 2 {
				return nil, errors.New("give page.fill_input a selector and a text")
			}
			if _, err := evaluate(ctx, t, focusJS, a[0]); err != nil {
				return nil, err
			}
			return nil, insert(ctx, t, a.text(1))
		},
		"type_text": func(ctx context.Context, _ *Conn, t *target.Tab, a args) (any, error) {
			return nil, insert(ctx, t, a.text(0))
		},
		"press_key": func(ctx context.Context, c *Conn, t *target.Tab, a args) (any, error) {
			return g.act(ctx, c, t, action.Action{SendKeys: &action.SendKeys{Keys: a.text(0)}})
		},
		"scroll": func(ctx context.Context, c *Conn, t *target.Tab, a args) (any, error) {
			pages := a.number(0, 1)
			return g.act(ctx, c, t, action.Action{Scroll: &action.Scroll{Down: new(pages >= 0), Pages: math.Abs(pages)}})
		},
		"wait_for_load": func(ctx context.Context, _ *Conn, t *target.Tab, a args) (any, error) {
			return within(ctx, a.duration(0), func(ctx context.Context) error {
				return t.Do(ctx, func(ctx context.Context) error {
					return t.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return !i.Loading })
				})
			})
		},
		"wait_for_element": func(ctx context.Context, _ *Conn, t *target.Tab, a args) (any, error) {
			if a.text(0) == "" {
				return nil, errors.New("give page.wait_for_element a selector")
			}
			ms, err := json.Marshal(a.duration(1).Milliseconds())
			if err != nil {
				return nil, err
			}
			return evaluate(ctx, t, awaitJS, a[0], ms)
		},
		"wait_for_network_idle": func(ctx context.Context, _ *Conn, t *target.Tab, a args) (any, error) {
			return len(settle.Wait(ctx, t, time.Time{}, a.duration(0))) == 0, ctx.Err()
		},
		"current_tab":     func(ctx context.Context, c *Conn, _ *target.Tab, _ args) (any, error) { return current(ctx, c) },
		"ensure_real_tab": func(ctx context.Context, c *Conn, _ *target.Tab, _ args) (any, error) { return current(ctx, c) },
		"list_tabs": func(ctx context.Context, c *Conn, _ *target.Tab, _ args) (any, error) {
			return tabs(ctx, c, c.Browser.Tabs()...)
		},
		"switch_tab": func(ctx context.Context, c *Conn, _ *target.Tab, a args) (any, error) {
			t, _ := c.Browser.Find(strings.TrimPrefix(a.text(0), handleMark))
			if t == nil {
				return nil, fmt.Errorf("there is no tab %q", a.text(0))
			}
			if _, err := c.Tab(ctx, t.Name()); err != nil {
				return nil, err
			}
			return current(ctx, c)
		},
	} {
		all[name] = g.onTab(f)
	}
	all["capture_screenshot"] = all["screenshot"]
	return all
}

// onTab runs functions on the current tab one at a time.
func (g *globals) onTab(f inTab) codemode.Func {
	return func(ctx context.Context, a []json.RawMessage) (any, error) {
		c, err := g.conn(ctx)
		if err != nil {
			return nil, err
		}
		g.acts.Lock()
		defer g.acts.Unlock()
		t, err := c.Tab(ctx, "")
		if err != nil {
			return nil, c.Explain(err)
		}
		out, err := f(ctx, c, t, a)
		if err != nil {
			return nil, c.Explain(err)
		}
		return out, nil
	}
}

// tab describes a tab.
type tab struct {
	TargetID string `json:"target_id"`
	Tab      string `json:"tab"`
	URL      string `json:"url"`
	Title    string `json:"title"`
}

func tabs(ctx context.Context, c *Conn, list ...*target.Tab) ([]tab, error) {
	titles, err := c.Browser.Titles(ctx)
	if err != nil {
		return nil, err
	}
	out := []tab{}
	for _, t := range list {
		out = append(out, tab{t.ID, t.Name(), t.Info().URL, titles[t.ID]})
	}
	return out, nil
}

func current(ctx context.Context, c *Conn) (any, error) {
	t, err := c.Tab(ctx, "")
	if err != nil {
		return nil, err
	}
	one, err := tabs(ctx, c, t)
	if err != nil {
		return nil, err
	}
	return one[0], nil
}

// act runs actions as browser_act does, and returns what they have done.
func (g *globals) act(ctx context.Context, c *Conn, t *target.Tab, list ...action.Action) (any, error) {
	actions, err := action.Parse(list)
	if err != nil {
		return nil, err
	}
	var names []string
	address := ""
	for _, a := range actions {
		if names = append(names, a.Name); a.URL() != "" {
			address = a.URL()
		}
	}
	if address != "" {
		if err := c.Attended(ctx); err != nil {
			return nil, err
		}
	}
	o := c.Run(ctx, t, actions)
	if len(o.Images) > 0 {
		if err := c.pictured(ctx, t); err != nil {
			return nil, err
		}
	}
	for _, i := range o.Images {
		if err := g.run.image(i); err != nil {
			return nil, err
		}
	}
	e := Event{Action: strings.Join(slices.Compact(names), ", "), URL: address}
	out := strings.Join(o.Lines, "\n")
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if o.Failed {
		e.Error = out
		g.run.event(e)
		return nil, errors.New(out)
	}
	g.run.event(e)
	return out, nil
}

// insert types a text into what has the focus.
func insert(ctx context.Context, t *target.Tab, text string) error {
	return t.Do(ctx, func(ctx context.Context) error {
		_, err := protocol.Call(ctx, t.Session, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

// within reports whether f succeeded within a time.
func within(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

// evaluate runs code in the page: a function, which is called with arguments, an expression, or the body of a function.
func evaluate(ctx context.Context, t *target.Tab, code string, a ...json.RawMessage) (any, error) {
	var list []string
	for _, v := range a {
		list = append(list, string(v))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, waitMost, fmt.Errorf("the page has not answered within %v", waitMost))
	defer cancel()
	out, invalid, err := evaluateText(ctx, t, "(() => { const value = (\n"+code+"\n); return typeof value === 'function' ? value("+strings.Join(list, ", ")+") : value })()")
	if invalid {
		out, _, err = evaluateText(ctx, t, "(async () => {\n"+code+"\n})()")
	}
	return out, err
}

// evaluateText runs an expression. invalid reports whether it could not be parsed.
func evaluateText(ctx context.Context, t *target.Tab, expression string) (out json.RawMessage, invalid bool, err error) {
	err = t.Do(ctx, func(ctx context.Context) error {
		v, err := protocol.Call(ctx, t.Session, runtime.Evaluate, runtime.EvaluateParams{
			Expression: expression, AwaitPromise: new(true), ReturnByValue: new(true), UserGesture: new(true),
		})
		switch {
		case err != nil:
			return err
		case v.ExceptionDetails != nil:
			e := v.ExceptionDetails
			invalid = e.Exception != nil && e.Exception.ClassName == "SyntaxError" && e.StackTrace == nil
			return errors.New(capture.Exception(e))
		}
		out = json.RawMessage(v.Result.Value)
		return nil
	})
	if len(out) == 0 {
		out = json.RawMessage("null")
	}
	return out, invalid, err
}
