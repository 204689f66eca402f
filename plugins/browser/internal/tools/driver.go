package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/agent"
	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
	"github.com/gantry-agent/gantry/plugins/browser/internal/settle"
	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// driver is the browser of a call that carries out a task. What changes something is a nested call of browser_act, so that it passes the host's
// rules, hooks and log like any other; what only looks at the page does not need one.
type driver struct {
	p *browserPlugin
	c *tool.Call
}

// browse calls f with the browser, while no other call uses it.
func (d *driver) browse(ctx context.Context, f func(r *running, t *target.Tab) error) error {
	t := d.p.thread(d.c.ThreadID())
	done, err := t.use(ctx)
	if err != nil {
		return err
	}
	defer done()
	r := t.running()
	if r == nil {
		return errNoBrowser
	}
	defer r.idle.Reset(d.p.config.Idle)
	tab, err := r.Tab(ctx, "")
	if err != nil {
		return r.gone(err)
	}
	return f(r, tab)
}

// Look implements [agent.Browser].
func (d *driver) Look(ctx context.Context, picture bool) (agent.Page, error) {
	var out agent.Page
	err := d.browse(ctx, func(r *running, t *target.Tab) error {
		if t.Info().Loading {
			settle.Wait(ctx, t, time.Now(), settle.Elsewhere)
		}
		i, mask := t.Info(), d.p.secrets.masks.Text
		out = agent.Page{URL: mask(i.URL), Title: mask(i.Title), Document: i.Document, Tab: t.Name()}
		for _, x := range r.Browser.Tabs() {
			out.Tabs = append(out.Tabs, history.Tab{URL: mask(x.Info().URL), Title: mask(x.Info().Title), ID: x.Name()})
		}
		view := r.View(t)
		shown := view.Shown // to the model of the conversation, which does not see this
		view.Shown = nil
		out.Text = mask(d.p.describe(ctx, r, t, viewing{full: true}))
		if s := view.Shown; s != nil {
			out.Title, out.Elements, out.Print = mask(s.Title), s.Numbers, printOf(i.URL, s, mask)
		}
		view.Shown = shown
		if !picture || !seesImages(d.c) {
			return nil
		}
		image, err := action.Picture(ctx, t, false)
		if err != nil {
			out.Text += "\nThe screenshot failed: " + err.Error()
			return nil
		}
		pictures, note := d.p.pictures(ctx, &r.Session, t, []action.Image{image})
		for _, n := range note {
			out.Text += "\n" + n
		}
		for _, i := range pictures {
			out.Picture = &llm.Media{MediaType: i.MediaType, Data: i.Data}
		}
		return nil
	})
	if errors.Is(err, errNoBrowser) {
		return agent.Page{Text: "No page is open yet: navigate to one."}, nil
	}
	return out, err
}

// printOf returns what is the same for pages that show the same, whatever the numbers of their elements.
func printOf(address string, s *state.State, mask func(string) string) string {
	address, _, _ = strings.Cut(address, "#")
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", address, s.Title)
	for _, l := range s.Lines {
		fmt.Fprintf(&b, "%d %s\n", l.Depth, l.Text)
	}
	sum := sha256.Sum256([]byte(mask(b.String())))
	return hex.EncodeToString(sum[:16])
}

// Elements implements [agent.Browser].
func (d *driver) Elements(ctx context.Context, numbers ...int) ([]history.Candidate, error) {
	var out []history.Candidate
	err := d.browse(ctx, func(r *running, t *target.Tab) (err error) {
		if len(numbers) > 0 {
			out, err = r.Identify(ctx, t, numbers)
			return err
		}
		s, err := r.Take(ctx, t)
		if err != nil {
			return err
		}
		out, err = r.Candidates(ctx, t, s)
		return err
	})
	if err != nil && ctx.Err() == nil { // a page that is busy, or that has a dialog open, has none at the moment
		return nil, nil
	}
	for i := range out {
		d.p.secrets.maskElement(&out[i])
	}
	return out, err
}

// where is what is in view.
func (d *driver) where(ctx context.Context) (url, document, tab string) {
	_ = d.browse(ctx, func(_ *running, t *target.Tab) error { // otherwise nothing is in view
		i := t.Info()
		url, document, tab = i.URL, i.Document, t.Name()
		return nil
	})
	return url, document, tab
}

// Act implements [agent.Browser].
func (d *driver) Act(ctx context.Context, a history.Action) (agent.Outcome, error) {
	if a.Name == "extract" {
		return d.call(ctx, "browser_extract", a.Args)
	}
	if !slices.Contains(action.Names(), a.Name) {
		return agent.Outcome{Text: fmt.Sprintf("there is no action %q", a.Name), Failed: true}, nil
	}
	url, document, tab := d.where(ctx)
	o, err := d.call(ctx, "browser_act", map[string]any{"actions": []history.Action{a}, "state": "none"})
	if err != nil {
		return o, err
	}
	nowURL, nowDocument, nowTab := d.where(ctx)
	o.Changed = url != nowURL || document != nowDocument || tab != nowTab
	return o, nil
}

// call calls a tool of the thread.
func (d *driver) call(ctx context.Context, name string, args any) (agent.Outcome, error) {
	res, err := d.c.CallTool(ctx, "", name, args)
	if err != nil {
		return agent.Outcome{}, err
	}
	var o agent.Outcome
	var lines []string
	for _, part := range res.Parts {
		switch part := part.(type) {
		case *contract.TextPart:
			lines = append(lines, part.Text)
		case *contract.MediaPart:
			if len(part.Data) > 0 && part.Audience != contract.AudienceUser {
				o.Picture = &llm.Media{MediaType: part.MediaType, Data: part.Data}
			}
		}
	}
	o.Text, o.Failed = strings.TrimPrefix(strings.Join(lines, "\n"), "1. "), res.IsError
	if err := ctx.Err(); err != nil {
		return o, context.Cause(ctx)
	}
	return o, nil
}

// sample asks the model, which gets no secret.
func (d *driver) sample(ctx context.Context, r *llm.Request) (string, llm.Usage, error) {
	s, err := d.c.Sample(ctx, d.p.secrets.maskedRequest(r))
	if err != nil {
		return "", llm.Usage{}, err
	}
	return d.p.secrets.masks.Text(s.Message.Text()), s.Usage, nil
}
