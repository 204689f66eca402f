package manifest

import (
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestAddedCapabilities(t *testing.T) {
	a := &contract.Manifest{Name: "x", Version: "1.0.0", Capabilities: []string{"spawn"}}
	b := &contract.Manifest{Name: "x", Version: "1.1.0", Capabilities: []string{"spawn", "ask"}}
	if got, want := Difference(a, b), `capabilities.ask appeared; version: "1.0.0" became "1.1.0"`; got != want {
		t.Errorf("Difference = %q, want %q", got, want)
	}
	if more := AddedCapabilities(a, b); !slices.Equal(more, []string{"ask"}) {
		t.Errorf("AddedCapabilities = %v", more)
	}
	if words, more := Difference(a, a), AddedCapabilities(a, a); words != "" || len(more) > 0 {
		t.Errorf("of the same manifest: %q, %v", words, more)
	}
}

func TestDifference(t *testing.T) {
	base := func(change func(*contract.Manifest)) *contract.Manifest {
		m := &contract.Manifest{
			Name: "a", Version: "1.0.0", Kind: contract.KindTool, ContractVersions: []uint32{1},
			Capabilities: []string{"ask", "spawn"},
			Tools:        []contract.Descriptor{{Name: "one", Description: "First."}, {Name: "two"}},
		}
		change(m)
		return m
	}
	same := base(func(*contract.Manifest) {})
	for name, c := range map[string]struct {
		change func(*contract.Manifest)
		want   string
	}{
		"nothing":            {func(*contract.Manifest) {}, ""},
		"version":            {func(m *contract.Manifest) { m.Version = "1.1.0" }, `version: "1.0.0" became "1.1.0"`},
		"capability appears": {func(m *contract.Manifest) { m.Capabilities = append(m.Capabilities, "network") }, "capabilities.network appeared"},
		"capability goes":    {func(m *contract.Manifest) { m.Capabilities = m.Capabilities[:1] }, "capabilities.spawn is gone"},
		"tool appears": {func(m *contract.Manifest) { m.Tools = append(m.Tools, contract.Descriptor{Name: "three"}) },
			"tools.three appeared"},
		"tool changes": {func(m *contract.Manifest) { m.Tools[0].Description = "1st." }, `tools.one.description: "First." became "1st."`},
		"order":        {func(m *contract.Manifest) { m.Tools[0], m.Tools[1] = m.Tools[1], m.Tools[0] }, "the order of a list changed"},
	} {
		if got := Difference(same, base(c.change)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	many := base(func(m *contract.Manifest) {
		for range 9 {
			m.Capabilities = append(m.Capabilities, strings.Repeat("x", len(m.Capabilities)))
		}
	})
	if got := Difference(same, many); !strings.HasSuffix(got, "and 4 more") {
		t.Errorf("many differences: %q", got)
	}
}
