package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// What a provider's own tool does is allowed by the same rules as what ours do. What the rules don't know they don't allow.
func TestEffectsOfHostedTools(t *testing.T) {
	for _, tc := range []struct {
		mode    string
		network bool
		effects []string
		want    bool
	}{
		{"full-access", false, []string{"network"}, true},
		{"full-access", false, []string{"teleport"}, true},
		{"workspace-write", false, []string{"network"}, false},
		{"workspace-write", true, []string{"network"}, true},
		{"workspace-write", true, []string{"network", "teleport"}, false},
		{"read-only", false, nil, true},
		{"read-only", false, []string{"teleport"}, false},
	} {
		if got := allowed(tc.effects, config.Sandbox{Mode: tc.mode, Network: tc.network}); got != tc.want {
			t.Errorf("%s, network %v, effects %q: %v", tc.mode, tc.network, tc.effects, got)
		}
	}
}

// When every model failed, the error has the kind and the next step of the thread's own, and the reasons of all.
func TestNobodyLeft(t *testing.T) {
	own := &config.Model{Label: "own", Provider: "p", Name: "big"}
	first := &llm.Error{Code: llm.ErrQuotaExceeded, Message: "no money left", Next: "pay"}
	l := &lineup{failed: []unable{{own, first}}}
	if got := l.nobody(); got != first {
		t.Errorf("a model without others: %v", got)
	}
	l.failed = append(l.failed, unable{&config.Model{Label: "q/small", Provider: "q", Name: "small"}, errors.New("gone")})
	e, ok := errors.AsType[*llm.Error](l.nobody())
	if !ok || e.Code != first.Code || e.Next != "pay" || e.Message != `no model can answer: "own" (p/big): no money left; "q/small": gone` {
		t.Errorf("%+v", e)
	}
}

// People read each failure once, whichever model goes on.
func TestNewsOfALineup(t *testing.T) {
	model := func(label string) *config.Model { return &config.Model{Label: label, Provider: "p", Name: label} }
	l := &lineup{}
	if n := l.news(&sampler{model: model("a")}); n != nil {
		t.Errorf("news of nothing: %+v", n)
	}
	l.failed = []unable{{model("a"), errors.New("down")}, {model("b"), errors.New("off")}}
	n := l.news(&sampler{model: model("c")})
	if len(n) != 1 || !strings.Contains(n[0].Text, `"c" (p/c) goes on`) || !strings.HasSuffix(n[0].Text, `"a" (p/a): down; "b" (p/b): off`) || n[0].Next != `The next turn begins with "a" again.` {
		t.Errorf("%+v", n)
	}
	l.failed = append(l.failed, unable{model("c"), errors.New("tired")})
	if n := l.news(&sampler{model: model("d")}); len(n) != 1 || strings.Contains(n[0].Text, "down") || !strings.Contains(n[0].Text, "tired") || !strings.Contains(n[0].Next, `"a"`) {
		t.Errorf("%+v", n)
	}
}
