package hosttool

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func noImages(context.Context, string, []byte) (contract.ArtifactRef, error) {
	return contract.ArtifactRef{}, errors.New("no image is kept here")
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// Models are offered a client's tools, and find deferred ones by a search. A tool with the name of a plugin's is left out.
func TestClientToolsInTheCatalogue(t *testing.T) {
	c, err := NewClient([]event.ClientTool{
		{Name: "beep", InputSchema: anyObject}, {Name: "greet", InputSchema: anyObject}, {Namespace: "mine", Name: "greet", InputSchema: anyObject},
		{Namespace: "sky", About: "The weather.", Name: "look-up", Description: "d", InputSchema: anyObject, Deferred: true},
	}, noImages)
	if err != nil {
		t.Fatal(err)
	}
	plugins := snapshot(t, greet)
	s := Default().Extend(c.Extend(plugins), Conditions{})
	names := func(row llm.ModelRow) (out []string) {
		for _, tl := range s.ModelTools(row) {
			out = append(out, strings.TrimPrefix(tl.Namespace+"."+tl.Name, "."))
		}
		return out
	}
	if got := names(llm.ModelRow{}); !slices.Equal(got, []string{"greet", "beep", "mine.greet", "sky.look-up"}) {
		t.Errorf("offered %q", got)
	}
	if got := names(llm.ModelRow{ToolKinds: []string{"search"}}); !slices.Equal(got, []string{"greet", "beep", "mine.greet", "tool_search"}) {
		t.Errorf("a model that searches is offered %q", got)
	}
	found, err := findTools(s, json.RawMessage(`{"query":"weather"}`), nil)
	if err != nil || len(found) != 1 || found[0].Name != "look-up" {
		t.Errorf("found %+v, %v", found, err)
	}
	if e, _ := s.Lookup("", "greet"); e.Plugin != "p" {
		t.Errorf("greet is of %q", e.HostTool)
	}
	if got := c.Hidden(plugins); len(got) != 1 || got[0].Text != `tool "greet" of the client is hidden by the one of plugin "p"` || got[0].Next == "" {
		t.Errorf("notices %+v", got)
	}
	e, _ := s.Lookup("sky", "look-up")
	if _, ok := c.Tool(e.HostTool); !ok || e.ReadOnly || e.ParallelSafe || len(e.Effects) != 1 {
		t.Errorf("%+v", e)
	}
	if _, ok := c.Tool("gantry:search"); ok {
		t.Error("a tool of gantry is one of the client")
	}
	// Approvals are for one tool.
	digests := map[string]bool{}
	for _, e := range s.Entries() {
		if strings.HasPrefix(e.HostTool, "gantry:client:") {
			digests[e.Digest] = true
		}
	}
	if len(digests) != 3 || digests[""] {
		t.Errorf("digests %v", digests)
	}
}

// Tools that can't be used are left out; the others are not.
func TestInvalidClientTools(t *testing.T) {
	c, err := NewClient([]event.ClientTool{
		{Name: "a", InputSchema: anyObject}, {Name: "a", InputSchema: anyObject}, {Name: "b", InputSchema: json.RawMessage(`{`)},
		{Name: "c", InputSchema: json.RawMessage(`{"type":"string"}`)}, {Name: "request_permissions", InputSchema: anyObject},
		{Namespace: "functions", Name: "a", InputSchema: anyObject},
	}, noImages)
	if len(c.entries) != 1 || err == nil {
		t.Fatalf("%d tools, %v", len(c.entries), err)
	}
	for _, want := range []string{
		`tool "a": declared twice`, `tool "b": input schema: `, `tool "c": input schema: the type must be "object"`,
		`tool "request_permissions": gantry has a tool of this name`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if bad, ok := errors.AsType[*ClientToolError](err); !ok || bad.Tool != "a" {
		t.Errorf("%+v", bad)
	}
}
