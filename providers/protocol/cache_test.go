package protocol_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func sized(tools, system, messages int, cache string) *protocol.Request {
	return &protocol.Request{Request: &llm.Request{
		Tools: make([]llm.Tool, tools), System: make([]string, system), Messages: make([]llm.Message, messages), Cache: cache,
	}}
}

func TestCacheMarks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                    string
		tools, system, messages int
		cache                   string
		want                    protocol.Marks
	}{
		{"two tools, three system texts, four messages", 2, 3, 4, "", protocol.Marks{System: []int{0, 2}, Messages: []int{3}}},
		{"one system text", 2, 1, 4, "auto", protocol.Marks{System: []int{0}, Messages: []int{3}}},
		{"no system text", 2, 0, 4, "auto", protocol.Marks{Tools: []int{1}, Messages: []int{3}}},
		{"no tools", 0, 2, 1, "", protocol.Marks{System: []int{0, 1}, Messages: []int{0}}},
		{"nothing", 0, 0, 0, "", protocol.Marks{}},
		{"not wanted", 2, 3, 4, "none", protocol.Marks{}},
	} {
		if got := protocol.CacheMarks(sized(tc.tools, tc.system, tc.messages, tc.cache)); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// An answer can be longer than what a vendor looks back, so where the request before ended is marked, too.
func TestCacheMarkOfTheRequestBefore(t *testing.T) {
	t.Parallel()
	const user, assistant, tool, system = llm.RoleUser, llm.RoleAssistant, llm.RoleTool, llm.RoleSystem
	for _, tc := range []struct {
		roles []llm.Role
		want  []int
	}{
		{[]llm.Role{user}, []int{0}},
		{[]llm.Role{user, assistant, tool}, []int{0, 2}},
		{[]llm.Role{user, assistant, tool, assistant, tool}, []int{2, 4}},
		{[]llm.Role{user, user, assistant, tool, system, user}, []int{1, 5}},
		{[]llm.Role{user, assistant, tool, assistant}, []int{0, 3}}, // an answer that is to be continued
		{[]llm.Role{assistant, user}, []int{1}},
	} {
		r := sized(0, 0, len(tc.roles), "")
		for i, role := range tc.roles {
			r.Messages[i].Role = role
		}
		if got := protocol.CacheMarks(r).Messages; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%v: %v, want %v", tc.roles, got, tc.want)
		}
	}
}

func TestCacheMarksAreFew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 50)
		r := sized(n.Draw(t, "tools"), n.Draw(t, "system"), n.Draw(t, "messages"), "auto")
		for i := range r.Messages {
			r.Messages[i].Role = llm.Role(n.Draw(t, "role") % 5)
		}
		m := protocol.CacheMarks(r)
		if all := len(m.Tools) + len(m.System) + len(m.Messages); all > protocol.MaxMarks {
			t.Fatalf("%d marks", all)
		}
	})
}
