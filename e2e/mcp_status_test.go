package e2e_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// mcpStatus is what mcpServerStatus/list says of a server.
type mcpStatus struct {
	Name, RuntimeStatus, AuthStatus string
	ServerCapabilities              map[string]any
	Tools                           map[string]struct {
		Name        string
		InputSchema json.RawMessage
		Annotations struct{ ReadOnlyHint bool }
	}
	ToolsError        *string
	Resources         []struct{ URI, Name string }
	ResourceTemplates []json.RawMessage
}

// A client gets the state of each server, with its tools under its own names, and its resources unless it does without them.
func TestMCPServerStatusList(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	addMCP(t, r, mcpServer(t, "one", r.Dir, "")+"server \"gone\" {\n  url = \"http://127.0.0.1:1/mcp\"\n}\n"+mcpServer(t, "off", r.Dir, "enabled = false"))
	c := r.AppServer()
	greet(t, c)
	type answer struct {
		Data       []mcpStatus
		NextCursor *string
	}
	list := func(params object) (out answer) {
		t.Helper()
		c.Call("mcpServerStatus/list", params, &out)
		return out
	}
	all := list(object{})
	var names []string
	for _, s := range all.Data {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"gone", "one"}) || all.NextCursor != nil {
		t.Fatalf("the servers are %q, the next page %v", names, all.NextCursor)
	}
	named := func(name string, params object) mcpStatus {
		t.Helper()
		params["serverName"] = name
		got := list(params).Data
		if len(got) != 1 || got[0].Name != name {
			t.Fatalf("of %q, the list has %+v", name, got)
		}
		return got[0]
	}
	one := named("one", object{})
	if one.RuntimeStatus != "connected" || one.AuthStatus != "unknown" || one.ToolsError != nil {
		t.Errorf("one is %+v", one)
	}
	if got := slices.Sorted(maps.Keys(one.ServerCapabilities)); !slices.Equal(got, []string{"resources", "tools"}) {
		t.Errorf("one has the capabilities %q", got)
	}
	said := one.Tools["say-it"] // models call it say_it
	if said.Name != "say-it" || !said.Annotations.ReadOnlyHint || !strings.Contains(string(said.InputSchema), `"object"`) {
		t.Errorf("one has the tool %+v of %q", said, slices.Sorted(maps.Keys(one.Tools)))
	}
	if one.Tools["write"].Annotations.ReadOnlyHint {
		t.Error("the tool write only reads")
	}
	if len(one.Resources) != 2 || one.Resources[0].URI != "note://a" || len(one.ResourceTemplates) != 0 {
		t.Errorf("one has the resources %+v and templates %s", one.Resources, one.ResourceTemplates)
	}
	if one = named("one", object{"detail": "toolsAndAuthOnly"}); len(one.Tools) == 0 || len(one.Resources) != 0 {
		t.Errorf("with its tools only, one is %+v", one)
	}
	gone := named("gone", object{})
	if gone.RuntimeStatus != "failed" || gone.ToolsError == nil || !strings.Contains(*gone.ToolsError, "127.0.0.1") || gone.ServerCapabilities != nil {
		t.Errorf("gone is %+v", gone)
	}
	if first := list(object{"limit": 1}); len(first.Data) != 1 || first.NextCursor == nil {
		t.Errorf("a page of one is %+v", first)
	} else if second := list(object{"cursor": *first.NextCursor}); len(second.Data) != 1 || second.Data[0].Name == first.Data[0].Name {
		t.Errorf("the pages are %+v and %+v", first, second)
	}
	if one = named("one", object{"threadId": begin(t, c, object{}), "detail": "toolsAndAuthOnly"}); one.RuntimeStatus != "connected" {
		t.Errorf("in a thread, one is %+v", one)
	}
	c.Close()
	r.NothingLeft()
}
