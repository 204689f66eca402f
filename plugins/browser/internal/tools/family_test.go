//go:build unix

package tools

import (
	"reflect"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Each thread of a family is asked for the address of a browser that gantry did not start, also if another one has connected to it. To join in
// one of gantry's, nothing has to be allowed.
func TestEachThreadIsAskedForABrowserOfTheUser(t *testing.T) {
	t.Parallel()
	f, x := newFamily("root"), &thread{id: "agent"}
	x.join(f)
	f.mu.browser = &hosted{all: newViewer(t).r.Browser}
	for url, want := range map[string]string{"": "", "http://127.0.0.1:9222": "127.0.0.1:9222"} {
		p := &browserPlugin{config: &Config{CDPURL: url}}
		if _, err := p.attaching(); err != nil {
			t.Fatal(err)
		}
		l, _, err := p.planAct(x, "/w", actArgs{Actions: []map[string]any{{"navigate": map[string]any{"url": "https://a.example"}}}})
		if err != nil || l.Joins != want || l.Starts != nil {
			t.Errorf("%q: %+v, %v", url, l, err)
		}
		effects := []contract.Effect{contract.BrowserEffect{Origin: "https://a.example"}}
		if want != "" {
			effects = append([]contract.Effect{contract.NetworkEffect{Host: "127.0.0.1", Port: 9222}}, effects...)
		}
		if got := l.effects(p); !reflect.DeepEqual(got, effects) {
			t.Errorf("%q: the effects are %+v", url, got)
		}
	}
}
