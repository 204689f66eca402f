package modelset

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/history"
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
func TestExhaustedChain(t *testing.T) {
	own := &config.Model{Label: "own", Provider: "p", Name: "big"}
	first := &llm.Error{Code: llm.ErrQuotaExceeded, Message: "no money left", Next: "pay"}
	c := &Chain{failed: []failedModel{{own, first}}}
	if got := c.exhausted(); got != first {
		t.Errorf("a model without others: %v", got)
	}
	c.failed = append(c.failed, failedModel{&config.Model{Label: "q/small", Provider: "q", Name: "small"}, errors.New("gone")})
	e, ok := errors.AsType[*llm.Error](c.exhausted())
	if !ok || e.Code != first.Code || e.Next != "pay" || e.Message != `no model can answer: "own" (p/big): no money left; "q/small": gone` {
		t.Errorf("%+v", e)
	}
}

// People read each failure once, whichever model goes on.
func TestNoticesOfAChain(t *testing.T) {
	model := func(label string) *config.Model { return &config.Model{Label: label, Provider: "p", Name: label} }
	c := &Chain{begins: "a"}
	if n := c.Notices(&Model{Config: model("a")}); n != nil {
		t.Errorf("news of nothing: %+v", n)
	}
	c.failed = []failedModel{{model("a"), errors.New("down")}, {model("b"), errors.New("off")}}
	n := c.Notices(&Model{Config: model("c")})
	if len(n) != 1 || !strings.Contains(n[0].Text, `"c" (p/c) continues this turn`) || !strings.HasSuffix(n[0].Text, `"a" (p/a): down; "b" (p/b): off`) || n[0].Next != `The next turn begins with "a" again.` {
		t.Errorf("%+v", n)
	}
	c.failed = append(c.failed, failedModel{model("c"), errors.New("tired")})
	if n := c.Notices(&Model{Config: model("d")}); len(n) != 1 || strings.Contains(n[0].Text, "down") || !strings.Contains(n[0].Text, "tired") || !strings.Contains(n[0].Next, `"a"`) {
		t.Errorf("%+v", n)
	}
}

// The user's window counts as far as the model takes as much, and who asked for more is told.
func TestContextWindow(t *testing.T) {
	for _, tc := range []struct {
		name                string
		row, most, override int64
		want, limit         int64
		told                bool
	}{
		{"nothing is asked for", 272_000, 272_000, 0, 272_000, 244_800, false},
		{"more than the model takes", 272_000, 272_000, 400_000, 272_000, 244_800, true},
		{"less", 272_000, 272_000, 100_000, 100_000, 90_000, false},
		{"all of it", 272_000, 272_000, 272_000, 272_000, 244_800, false},
		{"between the usual and the most", 272_000, 1_000_000, 400_000, 400_000, 360_000, false},
		{"nobody knows the most", 272_000, 0, 400_000, 400_000, 360_000, false},
	} {
		s := &Model{
			Row: llm.ModelRow{ContextWindow: tc.row, MaxContextWindow: tc.most}, Config: &config.Model{Label: "own", Name: "big", Provider: "p", ContextWindow: tc.override},
		}
		s.limitWindow()
		if w := history.WindowOf(s.Row, 0); w.Size != tc.want || w.Limit != tc.limit {
			t.Errorf("%s: window %d, compacted at %d; want %d and %d", tc.name, w.Size, w.Limit, tc.want, tc.limit)
		}
		if (s.Row.ContextWindowSource == llm.WindowConfig) != (tc.override > 0) {
			t.Errorf("%s: the window is said to come from %q", tc.name, s.Row.ContextWindowSource)
		}
		news := s.Notices
		if told := len(news) == 1; told != tc.told || told && (!strings.Contains(news[0].Text, "is 400000, which exceeds the maximum of big, 272000; using 272000") || news[0].Next == "") {
			t.Errorf("%s: people are told %+v", tc.name, news)
		}
	}
}
