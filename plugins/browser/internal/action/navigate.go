package action

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/gantry-agent/gantry/plugins/browser/internal/capture"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

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
	start := func(ctx context.Context) (started, error) {
		n, err := protocol.Call(ctx, r.tab.Session, page.Navigate, page.NavigateParams{URL: address, TransitionType: page.TransitionTypeAddressBar})
		if failure = n.ErrorText; n.IsDownload { // which ends the navigation
			failure = ""
			return started{}, err
		}
		return started{failure == "" && n.LoaderID != "", string(n.LoaderID)}, err
	}
	err := r.navigation(ctx, start)
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
