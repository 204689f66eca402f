package tools

import (
	"context"
	"errors"
	"sync"

	"github.com/gantry-agent/gantry/plugins/browser/internal/policy"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// sites are what a browser may load: what the plugin's block allows, and of that what the host authorizes. Between calls nothing is
// authorized, and the host's proxy refuses what has not been before.
type sites struct {
	policy     policy.Policy
	restricted func(address string) error // of a task; nil: it is not

	mu struct {
		sync.Mutex
		call    *tool.Call // that uses the browser; nil: none
		ctx     context.Context
		known   map[contract.BrowserEffect]*verdict // without what was denied
		waiting int                                 // verdicts
		idle    chan struct{}                       // closed when waiting becomes 0
	}
}

// verdict is what the host says of an effect.
type verdict struct {
	done   chan struct{}
	denied error // valid after done
}

const (
	// maxAsked limits the verdicts that are waited for: a page could have a person asked about thousands of sites at once.
	maxAsked = 100
	// maxKnown limits the verdicts that are remembered; then they are asked for again.
	maxKnown = 10_000
)

var errTooManySites = errors.New("too many sites are being opened at once")

// during makes c the call in which sites are authorized, until end is called.
func (s *sites) during(ctx context.Context, c *tool.Call) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.call, s.mu.ctx = c, ctx
	return func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.call = nil
	}
}

// ask has the host authorize an effect; nil: nobody can be asked.
func (s *sites) ask(e contract.BrowserEffect) *verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.mu.known[e]; v != nil || s.mu.call == nil {
		return v
	}
	v := &verdict{done: make(chan struct{})}
	if s.mu.waiting >= maxAsked {
		v.denied = errTooManySites
		close(v.done)
		return v
	}
	if s.mu.known == nil || len(s.mu.known) >= maxKnown {
		s.mu.known = map[contract.BrowserEffect]*verdict{}
	}
	s.mu.known[e] = v
	if s.mu.waiting++; s.mu.waiting == 1 {
		s.mu.idle = make(chan struct{})
	}
	call, ctx := s.mu.call, s.mu.ctx
	go func() { // ends with the call
		err := call.Authorize(ctx, e)
		if d, ok := errors.AsType[*tool.DeniedError](err); ok {
			v.denied = d
		}
		close(v.done)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			delete(s.mu.known, e)
		}
		if s.mu.waiting--; s.mu.waiting == 0 {
			close(s.mu.idle)
		}
	}()
	return v
}

// judge decides about a request of a page; see [target.Options]. A socket to a host that is only now authorized fails once, as its page
// can't be held up; pages try again.
func (s *sites) judge(r target.Request, answer func(error)) {
	if r.Document || r.Socket || r.Mocked {
		err := s.policy.CheckOpened(r.URL, r.Page)
		opened := r.URL
		if origin(opened) == "" { // it is of the page that has made it
			opened = r.Page
		}
		if err == nil && s.restricted != nil && opened != "" {
			err = s.restricted(opened)
		}
		if err != nil {
			answer(err)
			return
		}
	}
	e := contract.BrowserEffect{Origin: origin(r.URL), Kind: "frame", Page: origin(r.Page)}
	if r.Main {
		e.Kind, e.Page = "document", ""
	}
	var v *verdict
	if e.Origin != "" && (r.Main || e.Page != "" && e.Page != e.Origin) {
		v = s.ask(e)
	}
	if v == nil || r.Socket { // what the host denies does not pass its proxy
		answer(nil)
		return
	}
	select {
	case <-v.done:
		answer(v.denied)
	default:
		go func() { // ends with the call
			<-v.done
			answer(v.denied)
		}()
	}
}

// check returns an error if no document may have the address.
func (s *sites) check(address string) error {
	if err := s.policy.Check(address); err != nil || s.restricted == nil {
		return err
	}
	return s.restricted(address)
}

// open decides about a document that the model opens.
func (s *sites) open(ctx context.Context, address string) error {
	if err := s.check(address); err != nil {
		return err
	}
	o := origin(address)
	if o == "" {
		return nil
	}
	v := s.ask(contract.BrowserEffect{Origin: o, Kind: "document"})
	if v == nil {
		return nil
	}
	select {
	case <-v.done:
		return v.denied
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// decided waits until nothing has to be authorized, and reports whether there was something.
func (s *sites) decided(ctx context.Context) bool {
	s.mu.Lock()
	waiting, idle := s.mu.waiting, s.mu.idle
	s.mu.Unlock()
	if waiting == 0 {
		return false
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
	return true
}
