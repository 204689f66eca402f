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

func TestAwaitSources(t *testing.T) {
	const bound = 30 * time.Second
	source := func(state contract.SourceState, required bool) contract.ToolSet {
		return contract.ToolSet{Sources: []contract.Source{{Name: "server", State: state, Required: required, Message: "hm"}}}
	}
	stopped := errors.New("stopped")
	for _, tc := range []struct {
		name  string
		first contract.ToolSet
		then  contract.ToolSet // a second later
		stop  time.Duration    // 0: never
		took  time.Duration
		err   string
	}{
		{name: "no source"},
		{name: "optional", first: source(contract.SourceStarting, false)},
		{name: "ready", first: source(contract.SourceReady, true)},
		{name: "of a later state", first: source(contract.SourceUnknown, true)},
		{name: "failed", first: source(contract.SourceFailed, true), err: `the source "server" of plugin "p" is required and has failed: hm`},
		{name: "becomes ready", first: source(contract.SourceStarting, true), then: source(contract.SourceReady, true), took: time.Second},
		{name: "fails", first: source(contract.SourceStarting, true), then: source(contract.SourceFailed, true), took: time.Second, err: "has failed"},
		{name: "is not there any more", first: source(contract.SourceStarting, true), then: contract.ToolSet{}, took: time.Second},
		{name: "never", first: source(contract.SourceStarting, true), then: source(contract.SourceStarting, true), took: bound, err: "is not ready after 30s"},
		{name: "interrupted", first: source(contract.SourceStarting, true), then: source(contract.SourceStarting, true), stop: 2 * time.Second, took: 2 * time.Second, err: "stopped"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New("p")
				r.Set("p", tc.first)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.stop > 0 {
					time.AfterFunc(tc.stop, func() { cancel(stopped) })
				}
				later := time.AfterFunc(time.Second, func() { r.Set("p", tc.then) })
				defer later.Stop()
				began := time.Now()
				err := r.AwaitSources(ctx, bound)
				if took := time.Since(began); took != tc.took {
					t.Errorf("returned after %v, want %v", took, tc.took)
				}
				if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
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
