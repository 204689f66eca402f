package catalog

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkNames checks what must be true of all names.
func checkNames(t interface{ Fatalf(string, ...any) }, tools []Identity) map[Identity]Called {
	got := Name(tools)
	valid := regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)
	by, owner, joined := map[Called]Identity{}, map[string]string{}, map[string]Identity{}
	for id, c := range got {
		switch other, taken := by[c]; {
		case taken:
			t.Fatalf("%q and %q are both called %v", id, other, c)
		case !valid.MatchString(c.Namespace) || !valid.MatchString(c.Name):
			t.Fatalf("%q is called %v", id, c)
		case len(c.Namespace)+len(c.Name) > maxNames:
			t.Fatalf("%q is called %v, which has %d bytes", id, c, len(c.Namespace)+len(c.Name))
		}
		by[c] = id
		full := c.Namespace + "__" + c.Name
		if other, ok := joined[full]; ok {
			t.Fatalf("%q and %q are both %s to hooks", id, other, full)
		}
		joined[full] = id
		if s, ok := owner[c.Namespace]; ok && s != id.Server {
			t.Fatalf("the servers %q and %q share the namespace %q", s, id.Server, c.Namespace)
		}
		owner[c.Namespace] = id.Server
	}
	for _, id := range tools {
		if _, ok := got[id]; !ok {
			t.Fatalf("%q has no name", id)
		}
	}
	return got
}

func TestNames(t *testing.T) {
	long := strings.Repeat("t", 80)
	for _, tc := range []struct {
		tools []Identity
		want  []Called // of each tool
	}{
		{[]Identity{{"server.one", "tool.two-three"}}, []Called{{"mcp__server_one", "tool_two_three"}}},
		{[]Identity{{"music-studio", "get-strudel-guide"}}, []Called{{"mcp__music_studio", "get_strudel_guide"}}},
		{[]Identity{{"obs-one", "echo.it-now"}}, []Called{{"mcp__obs_one", "echo_it_now"}}},
		{[]Identity{{"my-srv", "create-event"}, {"my-srv", "create-event"}}, []Called{{"mcp__my_srv", "create_event"}, {"mcp__my_srv", "create_event"}}},
		{[]Identity{{"ü", "日本"}, {"s", ""}}, []Called{{"mcp___", "__"}, {"mcp__s", "_"}}},
		// The hashes are of "basic-server\0mcp__basic-server\0" and so on.
		{[]Identity{{"basic-server", "x"}, {"basic_server", "x"}}, []Called{{"mcp__basic_server_f3b4f903f497", "x"}, {"mcp__basic_server_66a72c8e1624", "x"}}},
		{[]Identity{{"s", "a-b"}, {"s", "a.b"}}, []Called{{"mcp__s", "a_b_f402932ac551"}, {"mcp__s", "a_b_654d640e0687"}}},
		{[]Identity{{"s", long}}, []Called{{"mcp__s", long[:43] + "_6f15aadc9913"}}},
		{[]Identity{{long, "x"}, {long + "2", "x"}}, nil},
		{[]Identity{{"a", "b__c"}, {"a__b", "c"}, {"a__b", "d"}, {"b", "c"}}, nil}, // the first two are the same to hooks
		{[]Identity{{"a", "b__c"}, {"a__b", "d"}}, []Called{{"mcp__a", "b__c"}, {"mcp__a__b", "d"}}},
	} {
		got := checkNames(t, tc.tools)
		for i, id := range tc.tools {
			c := got[id]
			if tc.want != nil && c != tc.want[i] {
				t.Errorf("%q is called %v, want %v", id, c, tc.want[i])
			}
		}
	}
	for _, id := range []Identity{{"s", long}, {long, long}} { // with two characters between them
		if c := Name([]Identity{id})[id]; len(c.Namespace)+2+len(c.Name) != 64 {
			t.Errorf("%q is called %v, which has %d bytes", id, c, len(c.Namespace)+2+len(c.Name))
		}
	}
}

func TestHashBeforeUnderscores(t *testing.T) {
	if got := hashed("mcp__s__", "x", 0); !regexp.MustCompile(`^mcp__s_[0-9a-f]{12}__$`).MatchString(got) {
		t.Error(got)
	}
	if hashed("a", "x", 0) == hashed("a", "x", 1) {
		t.Error("another attempt gives the same name")
	}
}

func TestNamesOfAnyTools(t *testing.T) {
	// Few characters, so that names collide, and lengths around the limits.
	name := rapid.OneOf(
		rapid.StringMatching(`[ab.\-_]{0,3}`),
		rapid.Map(rapid.IntRange(30, 70), func(n int) string { return strings.Repeat("a", n) }),
		rapid.Map(rapid.IntRange(44, 64), func(n int) string { return strings.Repeat("-", n) }),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		servers := rapid.SliceOfN(name, 1, 4).Draw(t, "servers")
		var tools []Identity
		for range rapid.IntRange(0, 12).Draw(t, "count") {
			tools = append(tools, Identity{rapid.SampledFrom(servers).Draw(t, "server"), name.Draw(t, "tool")})
		}
		got := checkNames(t, tools)
		// What a tool could be called already is a name that a hash must not collide with.
		for id, c := range got {
			tools = append(tools, Identity{id.Server, c.Name}, Identity{strings.TrimPrefix(c.Namespace, "mcp__"), id.Tool})
		}
		got = checkNames(t, tools)
		shuffled := slices.Clone(tools)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := Name(shuffled); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("in another order, the names are %v instead of %v", again, got)
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("server.one\x00tool.two-three\x00a-b\x00a_b")
	f.Add(strings.Repeat("s", 60) + "\x00" + strings.Repeat("t", 60) + "\x00" + strings.Repeat("t", 61))
	f.Add("__\x00_\x00\x00\xff\x00日")
	f.Fuzz(func(t *testing.T, list string) {
		names := strings.Split(list, "\x00")
		var tools []Identity
		for i, n := range names[:min(len(names), 40)] {
			tools = append(tools, Identity{names[i%3%len(names)], n})
		}
		checkNames(t, tools)
	})
}
