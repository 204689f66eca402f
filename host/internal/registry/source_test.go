package registry

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Required sources are waited for and all that are not ready are named; others have a second in all, but none if their tools are known.
func TestAwaitSources(t *testing.T) {
	const bound, grace = 30 * time.Second, time.Second
	source := func(state contract.SourceState, required bool) contract.ToolSet {
		return contract.ToolSet{Sources: []contract.Source{{Name: "server", State: state, Required: required, Message: "hm"}}}
	}
	starting, ready, failed := contract.SourceStarting, contract.SourceReady, contract.SourceFailed
	known := source(starting, false)
	known.Tools = []contract.Descriptor{{Name: "x", Source: "server", InputSchema: []byte(`{"type":"object"}`)}}
	both := func(one, two contract.SourceState) contract.ToolSet {
		return contract.ToolSet{Sources: []contract.Source{{Name: "one", State: one, Required: true, Message: "hm"}, {Name: "two", State: two, Required: true}}}
	}
	stopped := errors.New("stopped")
	for _, tc := range []struct {
		name   string
		first  contract.ToolSet
		before time.Duration // between that and the call
		then   contract.ToolSet
		after  time.Duration // between the call and that; 0: it does not happen
		stop   time.Duration // 0: never
		took   time.Duration
		late   string
		err    string
	}{
		{name: "no source"},
		{name: "optional", first: source(starting, false), took: grace, late: "server"},
		{name: "optional, becomes ready", first: source(starting, false), then: source(ready, false), after: grace / 2, took: grace / 2},
		{name: "optional, fails", first: source(starting, false), then: source(failed, false), after: grace / 2, took: grace / 2},
		{name: "optional, says something else", first: source(starting, false), then: contract.ToolSet{Sources: []contract.Source{{Name: "server", State: starting}}}, after: grace / 2, took: grace, late: "server"},
		{name: "optional, has been starting", first: source(starting, false), before: grace / 4, took: grace - grace/4, late: "server"},
		{name: "optional, has been starting for long", first: source(starting, false), before: time.Minute, late: "server"},
		{name: "optional, its tools are known", first: known},
		{name: "optional, another one begins", first: source(starting, false), then: contract.ToolSet{Sources: []contract.Source{{Name: "server", State: starting}, {Name: "more", State: starting}}}, after: grace / 2, took: grace, late: "server more"},
		{name: "ready", first: source(ready, true)},
		{name: "of a later state", first: source(contract.SourceUnknown, true)},
		{name: "failed", first: source(failed, true), err: `the source "server" of plugin "p" is required and has failed: hm`},
		{name: "becomes ready", first: source(starting, true), then: source(ready, true), after: time.Second, took: time.Second},
		{name: "fails", first: source(starting, true), then: source(failed, true), after: time.Second, took: time.Second, err: "has failed"},
		{name: "is not there any more", first: source(starting, true), then: contract.ToolSet{}, after: time.Second, took: time.Second},
		{name: "never", first: source(starting, true), then: source(starting, true), after: time.Second, took: bound, err: "is not ready after 30s"},
		{name: "interrupted", first: source(starting, true), stop: 2 * time.Second, took: 2 * time.Second, err: "stopped"},
		{name: "interrupted, optional", first: source(starting, false), stop: grace / 2, took: grace / 2, err: "stopped"},
		{name: "one fails, then the other", first: both(failed, starting), then: both(failed, contract.SourceNeedsLogin), after: time.Second, took: time.Second,
			err: `the source "one" of plugin "p" is required and has failed: hm; the source "two" of plugin "p" is required and needs a login`},
		{name: "one fails, the other hangs", first: both(failed, starting), took: bound,
			err: `the source "one" of plugin "p" is required and has failed: hm; the source "two" of plugin "p" is required and is not ready after 30s`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New("p")
				if problems := r.Set("p", tc.first); problems != nil {
					t.Fatal(problems)
				}
				if tc.before > 0 {
					time.Sleep(tc.before)
					r.Set("p", tc.first) // which does not begin anew
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.stop > 0 {
					time.AfterFunc(tc.stop, func() { cancel(stopped) })
				}
				if tc.after > 0 {
					later := time.AfterFunc(tc.after, func() { r.Set("p", tc.then) })
					defer later.Stop()
				}
				began := time.Now()
				late, err := r.AwaitSources(ctx, bound, grace)
				if took := time.Since(began); took != tc.took {
					t.Errorf("returned after %v, want %v", took, tc.took)
				}
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
				var names []string
				for _, s := range late {
					names = append(names, s.Name)
				}
				if got := strings.Join(names, " "); got != tc.late {
					t.Errorf("late are %q, want %q", got, tc.late)
				}
			})
		})
	}
}

// What a source says of itself describes the namespaces of its tools, as the source's words, without characters that could hide others
// and bounded; models whose format has no descriptions of namespaces get none with the tools.
func TestWhatSourcesSay(t *testing.T) {
	t.Parallel()
	r := New("a", "b")
	tool := func(namespace, name, source string) contract.Descriptor {
		return contract.Descriptor{Namespace: namespace, Name: name, Source: source, InputSchema: []byte(`{"type":"object"}`)}
	}
	for plugin, set := range map[string]contract.ToolSet{
		"a": {
			Tools:   []contract.Descriptor{tool("shelf", "one", "quiet"), tool("shelf", "two", "shop"), tool("", "three", "shop"), tool("long", "four", "long")},
			Sources: []contract.Source{{Name: "quiet"}, {Name: "shop", Title: strings.Repeat("t", 999), Description: "It sells.\x1b[2J\u202e"}, {Name: "long", Description: strings.Repeat("x", 1<<20)}},
		},
		"b": {
			Tools:   []contract.Descriptor{tool("shelf", "two", "other"), tool("shelf", "more", "other")},
			Sources: []contract.Source{{Name: "other", Description: "It is not asked."}},
		},
	} {
		if problems := r.Set(plugin, set); problems != nil {
			t.Fatal(problems)
		}
	}
	s := r.Snapshot()
	for _, kind := range []string{"namespace", "search"} {
		got := s.Namespaces(llm.ModelRow{ToolKinds: []string{"function", kind}})
		if want := "The tools of shelf. What follows is what \"shop\" says of them:\nIt sells.\uFFFD[2J\uFFFD"; got["shelf"] != want || len(got) != 2 || len(got["long"]) > maxSourceDescription+200 {
			t.Errorf("%s: %d descriptions, %q, one of %d bytes", kind, len(got), got["shelf"], len(got["long"]))
		}
	}
	if got := s.Namespaces(llm.ModelRow{ToolKinds: []string{"function"}}); got != nil {
		t.Errorf("a model without namespaces gets %v", got)
	}
	if said := s.With(&Entry{Plugin: "gantry:x"}).CodeOnly().Said()["shelf"]; said != (Said{"a", "shop", "It sells.\uFFFD[2J\uFFFD"}) || len(s.Said()) != 2 {
		t.Errorf("%+v of %d", said, len(s.Said()))
	}
	if title := r.Sources()[1].Title; len(title) > maxSourceTitle+3 {
		t.Errorf("a title of %d bytes", len(title))
	}
}

// A source is awaited until it has started or failed, also if its tools are known from an earlier process.
func TestAwaitSource(t *testing.T) {
	t.Parallel()
	source := func(state contract.SourceState, tools ...contract.Descriptor) contract.ToolSet {
		return contract.ToolSet{Tools: tools, Sources: []contract.Source{{Name: "server", State: state}}}
	}
	for _, end := range []contract.SourceState{contract.SourceReady, contract.SourceFailed, contract.SourceNeedsLogin} {
		synctest.Test(t, func(t *testing.T) {
			r := New("p")
			r.Set("p", source(contract.SourceStarting, contract.Descriptor{Name: "x", Source: "server", InputSchema: []byte(`{"type":"object"}`)}))
			time.AfterFunc(time.Minute, func() { r.Set("p", source(end)) })
			began := time.Now()
			if s, ok := r.AwaitSource(t.Context(), "p", "server"); !ok || s.State != end || time.Since(began) != time.Minute {
				t.Errorf("%v: %v %+v after %s", end, ok, s, time.Since(began))
			}
			if s, ok := r.AwaitSource(t.Context(), "p", "other"); ok {
				t.Errorf("another one: %+v", s)
			}
			r.Set("p", source(contract.SourceStarting))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if s, ok := r.AwaitSource(ctx, "p", "server"); !ok || s.State != contract.SourceStarting {
				t.Errorf("one that does not start: %v %+v", ok, s)
			}
		})
	}
}
