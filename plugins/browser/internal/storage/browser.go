package storage

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/storage"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

// Local storage can be reached only in a document of its origin. Such documents are made here, empty ones, in a tab of their own: the request
// is answered before it leaves the browser. Their path has a word that no page chooses; workers of the origin can see it.
var path = "/gantry-storage-" + strings.ToLower(rand.Text())

// own reports whether an address is one of the documents that this package makes, for which nothing is requested.
func own(address string) bool { return strings.HasSuffix(address, path) }

// Origins are those of the documents that a browser has loaded.
type Origins struct {
	mu   sync.Mutex
	seen map[string]bool
	stop func()
}

// Watch notes the origins of documents from now on.
func Watch(b *target.Browser) *Origins {
	o := &Origins{seen: map[string]bool{}}
	o.stop = b.Observe(func(e cdp.Event, t *target.Tab) {
		if e.Method != "Page.frameNavigated" {
			return
		}
		var p struct {
			Frame struct {
				URL    string `json:"url"`
				Origin string `json:"securityOrigin"`
			} `json:"frame"`
		}
		if e.Decode(&p) == nil && (t == nil || !t.Answers(p.Frame.URL)) {
			o.add(p.Frame.Origin)
		}
	})
	return o
}

func (o *Origins) add(origin string) {
	c := canonical(origin)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c != "" && len(o.seen) < maxOrigins {
		o.seen[c] = true
	}
}

// All returns the origins.
func (o *Origins) All() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.seen))
}

// Cookies returns the cookies of a browser.
func Cookies(ctx context.Context, b *target.Browser) ([]Cookie, error) {
	r, err := protocol.Call(ctx, b.Root(), storage.GetCookies, storage.GetCookiesParams{BrowserContextID: protocol.BrowserContextID(b.Context())})
	if err != nil {
		return nil, err
	}
	var s State
	for _, c := range r.Cookies {
		if c.PartitionKey != nil {
			continue // belongs to a pair of sites, which the format can't say
		}
		x := Cookie{Name: c.Name, Value: c.Value, Domain: c.Domain, Path: c.Path, HTTPOnly: c.HTTPOnly, Secure: c.Secure, SameSite: string(c.SameSite)}
		if !c.Session && !math.IsInf(c.Expires, 0) && !math.IsNaN(c.Expires) {
			x.Expires = c.Expires
		}
		s.Cookies = append(s.Cookies, x)
	}
	return s.clean().Cookies, nil
}

// Save reads the state of a browser: all cookies, and the local storage of origins. What can't be read is left out, with an error.
func Save(ctx context.Context, b *target.Browser, origins []string) (State, error) {
	var s State
	var err error
	if s.Cookies, err = Cookies(ctx, b); err != nil {
		return s, err
	}
	const read = "JSON.stringify(Object.entries(localStorage).map(([name, value]) => ({name: name.toWellFormed(), value: value.toWellFormed()})))"
	err = each(ctx, b, origins, func(ctx context.Context, origin string, eval func(code string) (string, error)) error {
		text, err := eval(read)
		if err != nil {
			return err
		}
		o := Origin{Origin: origin}
		if err := json.Unmarshal([]byte(text), &o.LocalStorage); err != nil {
			return err
		}
		s.Origins = append(s.Origins, o)
		return nil
	})
	return s.clean(), err
}

// Load puts a state into a browser. Cookies that have expired are left out.
func Load(ctx context.Context, b *target.Browser, s State, now time.Time) error {
	s = s.clean()
	var list []*network.CookieParam
	for _, c := range s.Cookies {
		p := &network.CookieParam{Name: c.Name, Value: c.Value, Domain: c.Domain, Path: c.Path, Secure: c.Secure, HTTPOnly: c.HTTPOnly, SameSite: network.CookieSameSite(c.SameSite)}
		if !strings.HasPrefix(c.Domain, ".") { // of this host alone
			scheme := "http"
			if c.Secure {
				scheme = "https"
			}
			p.Domain, p.URL = "", scheme+"://"+c.Domain+c.Path
		}
		if c.Expires > 0 {
			at := time.UnixMilli(int64(c.Expires * 1000))
			if !at.After(now) {
				continue
			}
			p.Expires = protocol.TimeSinceEpoch(c.Expires)
		}
		list = append(list, p)
	}
	var errs []error
	if len(list) > 0 {
		if _, err := protocol.Call(ctx, b.Root(), storage.SetCookies, storage.SetCookiesParams{Cookies: list, BrowserContextID: protocol.BrowserContextID(b.Context())}); err != nil {
			for _, p := range list { // one that the browser refuses spoils all
				_, err := protocol.Call(ctx, b.Root(), storage.SetCookies, storage.SetCookiesParams{Cookies: []*network.CookieParam{p}, BrowserContextID: protocol.BrowserContextID(b.Context())})
				if err != nil {
					errs = append(errs, fmt.Errorf("cookie %q of %s: %w", p.Name, p.Domain+p.URL, err))
				}
			}
		}
	}
	items := map[string][]Item{}
	var origins []string
	for _, o := range s.Origins {
		origins, items[o.Origin] = append(origins, o.Origin), o.LocalStorage
	}
	errs = append(errs, each(ctx, b, origins, func(_ context.Context, origin string, eval func(code string) (string, error)) error {
		j, err := json.Marshal(items[origin])
		if err != nil {
			return err
		}
		_, err = eval("for (const i of " + string(j) + ") localStorage.setItem(i.name, i.value); ''")
		return err
	}))
	return errors.Join(errs...)
}

// each calls f with each origin, and a function that evaluates code in an empty document of it.
func each(ctx context.Context, b *target.Browser, origins []string, f func(ctx context.Context, origin string, eval func(code string) (string, error)) error) error {
	if len(origins) == 0 {
		return nil
	}
	return within(ctx, b, func(ctx context.Context, tab *target.Tab) error {
		var errs []error
		for _, origin := range origins {
			if err := visit(ctx, tab, origin, f); err != nil {
				errs = append(errs, fmt.Errorf("storage of %s: %w", origin, err))
			}
			if ctx.Err() != nil {
				break
			}
		}
		return errors.Join(errs...)
	})
}

// Secure calls f with a tab that has an empty document of a secure origin, where the browser offers more than in a blank one. Nothing is
// requested for it.
func Secure(ctx context.Context, b *target.Browser, f func(ctx context.Context, tab *target.Tab) error) error {
	return within(ctx, b, func(ctx context.Context, tab *target.Tab) error {
		return visit(ctx, tab, "https://gantry.invalid", func(ctx context.Context, _ string, _ func(string) (string, error)) error { return f(ctx, tab) })
	})
}

// within calls f with a new tab in which the documents of this package can be opened.
func within(ctx context.Context, b *target.Browser, f func(ctx context.Context, tab *target.Tab) error) (err error) {
	stop := b.Observe(func(e cdp.Event, t *target.Tab) { // before anybody else answers
		var p struct {
			RequestID fetch.RequestID `json:"requestId"`
			Request   struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if e.Method != "Fetch.requestPaused" || t == nil || e.Decode(&p) != nil || !t.Answers(p.Request.URL) {
			return
		}
		_ = t.Session.Post(fetch.CommandFulfillRequest, fetch.FulfillRequestParams{
			RequestID: p.RequestID, ResponseCode: 200, Body: []byte{},
			ResponseHeaders: []*fetch.HeaderEntry{{Name: "Content-Type", Value: "text/html"}, {Name: "Content-Security-Policy", Value: "default-src 'none'"}},
		})
	})
	defer stop()
	tab, err := b.NewTab(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tab.Close(ctx)) }()
	tab.Answered(own)
	// A service worker of the site would answer instead.
	_, err1 := protocol.Call(ctx, tab.Session, network.SetBypassServiceWorker, network.SetBypassServiceWorkerParams{Bypass: true})
	_, err2 := protocol.Call(ctx, tab.Session, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: "*" + path}}})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return f(ctx, tab)
}

func visit(ctx context.Context, tab *target.Tab, origin string, f func(ctx context.Context, origin string, eval func(code string) (string, error)) error) error {
	n, err := protocol.Call(ctx, tab.Session, page.Navigate, page.NavigateParams{URL: origin + path})
	if err == nil && n.ErrorText != "" {
		err = errors.New(n.ErrorText)
	}
	if err == nil {
		err = tab.Wait(ctx, time.Time{}, func(i target.Info, _ int) bool { return i.Document == string(n.LoaderID) })
	}
	if err != nil {
		return err
	}
	w, err := protocol.Call(ctx, tab.Session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: protocol.FrameID(tab.ID)})
	if err != nil {
		return err
	}
	return f(ctx, origin, func(code string) (string, error) {
		guarded := fmt.Sprintf("if (self.origin !== %q) throw new Error('the document is of ' + self.origin); %s", origin, code)
		v, err := protocol.Call(ctx, tab.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: guarded, ContextID: w.ExecutionContextID, ReturnByValue: new(true), Silent: new(true)})
		if err != nil {
			return "", err
		}
		if v.ExceptionDetails != nil {
			return "", errors.New(v.ExceptionDetails.Text)
		}
		var s string
		return s, json.Unmarshal(v.Result.Value, &s)
	})
}
