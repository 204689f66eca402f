package plugin_test

import (
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestDifference(t *testing.T) {
	a := &contract.Manifest{Name: "x", Version: "1.0.0", Capabilities: []string{"spawn"}}
	b := &contract.Manifest{Name: "x", Version: "1.1.0", Capabilities: []string{"spawn", "ask"}}
	words, more := plugin.Difference(a, b)
	if want := `capabilities.ask appeared; version: "1.0.0" became "1.1.0"`; words != want || !slices.Equal(more, []string{"ask"}) {
		t.Errorf("Difference = %q, %v, want %q", words, more, want)
	}
	if words, more = plugin.Difference(a, a); words != "" || more != nil {
		t.Errorf("of the same: %q, %v", words, more)
	}
}

func TestKnownStartsNothing(t *testing.T) {
	s, err := plugin.New(plugin.Config{CachePath: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	if m := s.Known("00"); m != nil {
		t.Errorf("an unknown program has the manifest %v", m)
	}
}
