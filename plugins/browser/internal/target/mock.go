package target

import (
	"context"
	"slices"
	"strings"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// Mock is an answer that pages get in place of that of a site. Nothing is sent.
type Mock struct {
	Pattern string // of addresses: "*" is any text; without a scheme, it begins with the host
	Status  int
	Headers [][2]string // names and values
	Body    string
}

// matches reports whether the mock answers a request for an address. What a pattern says of the host is compared with the host alone.
func (m Mock) matches(url string) bool {
	url, _, _ = strings.Cut(url, "#")
	scheme, url, _ := strings.Cut(url, "://")
	want, pattern, ok := strings.Cut(m.Pattern, "://")
	if !ok {
		want, pattern = "*", m.Pattern
	}
	host, path, _ := strings.Cut(url, "/")
	wantHost, wantPath, _ := strings.Cut(pattern, "/")
	return glob(want, scheme) && glob(wantHost, host) && glob(wantPath, path)
}

// glob reports whether a text matches a pattern, in which * is any text.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return text == pattern
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, parts[len(parts)-1]); !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		if _, rest, ok = strings.Cut(rest, p); !ok {
			return false
		}
	}
	return true
}

// Mock answers requests from now on, in all tabs, in place of the mocks before. The first one that matches is taken.
func (b *Browser) Mock(ctx context.Context, list []Mock) error {
	b.mu.Lock()
	b.mocks = slices.Clone(list)
	var sessions []*cdp.Session
	for id, t := range b.mu.sessions {
		if _, worker := b.mu.others[id]; !worker && t.of == b {
			sessions = append(sessions, b.conn.Session(id))
		}
	}
	for id, info := range b.mu.others {
		if b.mu.sessions[id] == nil && info.Type != "page" && b.users(info.BrowserContextID)[0] == b { // the requests of a dedicated worker are those of its page
			sessions = append(sessions, b.conn.Session(id))
		}
	}
	method, params := b.pausing()
	b.mu.Unlock()
	for _, s := range sessions {
		if err := s.Call(ctx, method, params, &protocol.Empty{}); err != nil {
			if _, refused := err.(*cdp.Error); refused { // it has gone meanwhile
				continue
			}
			return err
		}
	}
	return nil
}

// pausing returns the command by which requests are paused that have to be. The caller has locked b.mu.
func (b *Browser) pausing() (method string, params any) {
	switch {
	case b.o.Judge != nil && b.o.Parts, len(b.mocks) > 0:
		return fetch.CommandEnable, fetch.EnableParams{}
	case b.o.Judge != nil:
		return fetch.CommandEnable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{ResourceType: documents}}}
	}
	return fetch.CommandDisable, protocol.Empty{}
}

// mock returns the mock that answers requests for an address; nil: none does. The caller has locked b.mu.
func (b *Browser) mock(url string) *Mock {
	for i, m := range b.mocks {
		if m.matches(url) {
			return &b.mocks[i]
		}
	}
	return nil
}

// answer returns the command that answers a request.
func (m *Mock) answer(id fetch.RequestID) fetch.FulfillRequestParams {
	p := fetch.FulfillRequestParams{RequestID: id, ResponseCode: int64(m.Status), Body: []byte(m.Body)}
	for _, h := range m.Headers {
		p.ResponseHeaders = append(p.ResponseHeaders, &fetch.HeaderEntry{Name: h[0], Value: h[1]})
	}
	return p
}
