package protocol_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestWireName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	for _, tc := range []struct{ namespace, name, want string }{
		{"", "exec_command", "exec_command"},
		{"db", "query", "db__query"},
		{"", long, long},
		{"", long + "b", long[:55] + "_"},
		{"", "größe", "gr__e_"},
		{"", "1st", "_1st_"},
		{"", "-x", "_-x_"},
		{"mcp.server", "do it", "mcp_server__do_it_"},
	} {
		got := protocol.WireName(tc.namespace, tc.name)
		if exact := !strings.HasSuffix(tc.want, "_"); exact && got != tc.want || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s.%s is %s, want %s", tc.namespace, tc.name, got, tc.want)
		}
	}
	if a, b := protocol.WireName("", "a.b"), protocol.WireName("", "a:b"); a == b {
		t.Errorf("two tools are both called %s", a)
	}
}

func TestNamesGoThereAndBack(t *testing.T) {
	t.Parallel()
	allowed := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	word := rapid.StringMatching(`[a-zA-Z0-9_.:é -]{1,70}`)
	rapid.Check(t, func(t *rapid.T) {
		var tools []llm.Tool
		for range rapid.IntRange(1, 5).Draw(t, "tools") {
			tools = append(tools, llm.Tool{
				Namespace: rapid.OneOf(rapid.Just(""), word).Draw(t, "namespace"), Name: word.Draw(t, "name"),
			})
		}
		names := protocol.NewNames(tools)
		owner := map[string]llm.Tool{}
		for _, tool := range tools {
			owner[protocol.WireName(tool.Namespace, tool.Name)] = tool
		}
		for wire, tool := range owner {
			if !allowed.MatchString(wire) {
				t.Fatalf("%s.%s becomes %q, which vendors refuse", tool.Namespace, tool.Name, wire)
			}
			if ns, name := names.Real("", wire); ns != tool.Namespace || name != tool.Name {
				t.Fatalf("%q is %s.%s, want %s.%s", wire, ns, name, tool.Namespace, tool.Name)
			}
		}
	})
}

func TestNamesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	names := protocol.NewNames([]llm.Tool{{Namespace: "db", Name: "query"}})
	for _, tc := range []struct {
		names           *protocol.Names
		namespace, name string
		want            string
	}{
		{names, "", "other", ".other"},
		{names, "db", "query", "db.query"},
		{names, "x", "db__query", "x.db__query"},
		{nil, "", "db__query", ".db__query"},
	} {
		if ns, name := tc.names.Real(tc.namespace, tc.name); ns+"."+name != tc.want {
			t.Errorf("%s.%s is %s.%s", tc.namespace, tc.name, ns, name)
		}
	}
}
