package role

import (
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"pgregory.net/rapid"
)

// A child's bounds are never wider than those of its role or of any agent above it, whatever the order in which they are combined.
func TestMeetIsNeverWider(t *testing.T) {
	t.Parallel()
	names := []string{"exec", "apply", "look", "p.look", "Bash"}
	patterns := rapid.SliceOfNDistinct(rapid.SampledFrom(append([]string{"*", "p.*", "?xec"}, names...)), 0, 3, rapid.ID)
	bounds := rapid.Custom(func(t *rapid.T) event.Bounds {
		b := event.Bounds{
			Sandbox: rapid.SampledFrom([]string{"", readOnly, workspaceWrite, fullAccess}).Draw(t, "mode"), NoNetwork: rapid.Bool().Draw(t, "offline"),
			DenyRead: patterns.Draw(t, "deny read"), DenyWrite: patterns.Draw(t, "deny write"), Without: patterns.Draw(t, "without"),
			Samplings: rapid.IntRange(0, 4).Draw(t, "samplings"),
		}
		if rapid.Bool().Draw(t, "has tools") {
			b.Tools = [][]string{patterns.Draw(t, "tools")}
		}
		return normal(b)
	})
	most := func(n int) int {
		if n == 0 {
			return 1 << 30
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		chain := rapid.SliceOfN(bounds, 1, 6).Draw(t, "chain")
		combine := func(list []event.Bounds) (out event.Bounds) {
			for _, b := range list {
				out = Meet(out, b)
			}
			return out
		}
		met, other := combine(chain), combine(rapid.Permutation(chain).Draw(t, "order"))
		tool := Tool{Names: []string{rapid.SampledFrom(names).Draw(t, "tool")}, Hooks: []string{"Bash"}, Plain: rapid.Bool().Draw(t, "plain")}
		allowed := true
		for _, b := range chain {
			allowed = allowed && Allows(b, tool)
			if rank(met.Sandbox) > rank(b.Sandbox) || b.NoNetwork && !met.NoNetwork || most(met.Samplings) > most(b.Samplings) {
				t.Fatalf("%+v is wider than %+v", met, b)
			}
			for _, p := range b.DenyRead {
				if !slices.Contains(met.DenyRead, p) {
					t.Fatalf("%+v allows to read %s", met, p)
				}
			}
			for _, p := range b.DenyWrite {
				if !slices.Contains(met.DenyWrite, p) || rank(met.Sandbox) > rank(workspaceWrite) {
					t.Fatalf("%+v allows to write %s", met, p)
				}
			}
		}
		if Allows(met, tool) != allowed || Allows(other, tool) != allowed {
			t.Fatalf("%+v of %+v: %v, want %v", tool, chain, !allowed, allowed)
		}
		if rank(met.Sandbox) != rank(other.Sandbox) || met.NoNetwork != other.NoNetwork || met.Samplings != other.Samplings {
			t.Fatalf("in another order %+v, want %+v", other, met)
		}
	})
}

// A plugin can't get into a list of tools by the name that it chose for hooks, but it can be left out by it.
func TestAllows(t *testing.T) {
	t.Parallel()
	only, without := event.Bounds{Tools: [][]string{{"Bash"}}}, event.Bounds{Without: []string{"Bash"}}
	for _, tc := range []struct {
		b    event.Bounds
		tool Tool
		want bool
	}{
		{only, Tool{Names: []string{"exec_command"}, Hooks: []string{"Bash"}, Plain: true}, true},
		{only, Tool{Names: []string{"exec_command"}, Hooks: []string{"Bash"}}, false},
		{without, Tool{Names: []string{"exec_command"}, Hooks: []string{"Bash"}}, false},
		{event.Bounds{Tools: [][]string{{"a*"}, {"*b"}}}, Tool{Names: []string{"ab"}}, true},
		{event.Bounds{Tools: [][]string{{"a*"}, {"*b"}}}, Tool{Names: []string{"ac"}}, false},
		{event.Bounds{Tools: [][]string{nil}}, Tool{Names: []string{"ac"}}, false},
	} {
		if got := Allows(tc.b, tc.tool); got != tc.want {
			t.Errorf("%+v of %+v: %v", tc.tool, tc.b, got)
		}
	}
}
