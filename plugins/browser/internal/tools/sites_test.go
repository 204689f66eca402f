package tools

import (
	"errors"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// While many sites wait for a verdict, a page can't open further ones, and nobody is asked about them.
func TestSitesThatWait(t *testing.T) {
	var s sites
	s.mu.call, s.mu.waiting = &tool.Call{}, maxAsked
	s.mu.known = map[contract.BrowserEffect]*verdict{}
	answered := false
	s.judge(target.Request{URL: "https://b.test/", Page: "https://a.test/", Document: true}, func(err error) {
		answered = true
		if !errors.Is(err, errTooManySites) {
			t.Errorf("%v", err)
		}
	})
	if !answered || len(s.mu.known) != 0 || s.mu.waiting != maxAsked {
		t.Errorf("answered %v, %d known, %d waiting", answered, len(s.mu.known), s.mu.waiting)
	}
}
