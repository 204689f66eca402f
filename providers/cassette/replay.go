package cassette

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxDifferences limits the differences in an error.
const maxDifferences = 4

// PlayerConfig configures a player. Name and Cassette are required.
type PlayerConfig struct {
	Name     string // of the file, for errors
	Cassette *Cassette
	// InOrder returns the next recorded response for a method and address, whatever the request contains.
	InOrder bool
	// Split returns how many of the remaining bytes of a body the next read returns, at least 1. Nil: as many as requested.
	Split func(left int) int
}

// Player answers requests from a cassette. Each response is used once, for the first request that matches the recorded one. It is
// safe for concurrent use.
type Player struct {
	cfg PlayerConfig

	mu struct {
		sync.Mutex
		used []bool
	}
}

// NewPlayer returns a player at the beginning of the cassette.
func NewPlayer(cfg PlayerConfig) *Player {
	p := &Player{cfg: cfg}
	p.mu.used = make([]bool, len(cfg.Cassette.Interactions))
	return p
}

// Instead returns the player in place of a transport.
func (p *Player) Instead(http.RoundTripper) http.RoundTripper { return p }

// RoundTrip implements [http.RoundTripper]. It returns an *[llm.Error] if no response was recorded for the request.
func (p *Player) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, context.Cause(req.Context())
	}
	body, err := drain(req)
	if err != nil {
		return nil, err
	}
	var hidden cover
	asked := hidden.request(req.Method, req.URL, req.Header, body)
	found, err := p.claim(&asked)
	if err != nil {
		return nil, err
	}
	return found.open(req, p.cfg.Split), nil
}

// claim takes the response for a request.
func (p *Player) claim(asked *Request) (*Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.cfg.Cassette.Interactions
	var nearest []string
	for i := range all {
		if p.mu.used[i] {
			continue
		}
		found := p.differences(&all[i].Request, asked)
		if len(found) == 0 {
			p.mu.used[i] = true
			return &all[i].Response, nil
		}
		if nearest == nil || len(found) < len(nearest) {
			nearest = found
		}
	}
	why := "all its responses have been used"
	switch {
	case nearest != nil:
		why = "the nearest unused one differs:\n  " + strings.Join(nearest, "\n  ")
	case len(all) == 0:
		why = "it is empty"
	}
	return nil, &llm.Error{
		Code:    llm.ErrInvalidRequest,
		Message: fmt.Sprintf("no unused match in %s (%d recorded) for %s %s: %s", p.cfg.Name, len(all), asked.Method, asked.URL, why),
		Next:    "delete the file and record again, or continue without replay",
	}
}

func (p *Player) differences(recorded, asked *Request) []string {
	if !p.cfg.InOrder {
		return differences(recorded, asked, maxDifferences)
	}
	was, is := *recorded, *asked
	was.Headers, was.Body, is.Headers, is.Body = nil, nil, nil, nil
	was.URL, is.URL = path(was.URL), path(is.URL)
	return differences(&was, &is, maxDifferences)
}

func path(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		return u.Path
	}
	return raw
}

// open returns the response in the form of net/http.
func (r *Response) open(req *http.Request, split func(left int) int) *http.Response {
	h := http.Header{}
	for name, value := range r.Headers {
		h.Set(name, value)
	}
	return &http.Response{
		StatusCode: r.Status, Status: fmt.Sprintf("%d %s", r.Status, http.StatusText(r.Status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: -1, Request: req,
		Body: &played{ctx: req.Context(), rest: r.Body, cut: r.Cut, split: split},
	}
}

// played is the body of a recorded response.
type played struct {
	ctx   context.Context // of the request: when it ends, so does reading, as with a connection
	rest  []byte
	cut   bool
	split func(left int) int
}

// Read implements [io.Reader].
func (b *played) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	if len(b.rest) == 0 {
		if b.cut {
			return 0, io.ErrUnexpectedEOF
		}
		return 0, io.EOF
	}
	n := len(b.rest)
	if b.split != nil {
		n = max(1, min(n, b.split(n)))
	}
	n = copy(p, b.rest[:n])
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (b *played) Close() error { return nil }
