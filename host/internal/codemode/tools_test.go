package codemode

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// The description of exec is made once for a catalogue, and declares what scripts of the model can call.
func TestDescription(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	reg := registry.New("p")
	set := func(tools ...contract.Descriptor) {
		t.Helper()
		if problems := reg.Set("p", contract.ToolSet{Tools: tools}); len(problems) > 0 {
			t.Fatal(problems)
		}
	}
	plain := contract.Descriptor{Name: "plain", InputSchema: schema}
	seen := contract.Descriptor{Name: "seen", InputSchema: schema, ModelTraits: []string{"images"}}
	later := contract.Descriptor{Name: "later", InputSchema: schema, Exposure: contract.ExposureDeferred}
	direct := contract.Descriptor{Name: "direct", InputSchema: schema, Nesting: contract.NestingNever}
	set(plain, seen, later, direct)
	blind, sighted := llm.ModelRow{}, llm.ModelRow{InputModalities: []string{"image"}}
	if !slices.Contains(sighted.Traits(), "images") || slices.Contains(blind.Traits(), "images") {
		t.Fatalf("traits %q and %q", blind.Traits(), sighted.Traits())
	}
	for _, only := range []bool{false, true} {
		th := New(Config{}, nil)
		describe := func(row llm.ModelRow) string {
			t.Helper()
			// The host makes the catalogue for each request.
			e, ok := th.Extend(reg.Snapshot().With(), hosttool.Conditions{}, only).Lookup("", "exec")
			if !ok {
				t.Fatal("no exec")
			}
			declared, ok := e.Declare(row)
			if !ok {
				t.Fatal("exec is not offered")
			}
			return declared.Description
		}
		first := describe(sighted)
		if unsafe.StringData(describe(sighted)) != unsafe.StringData(first) {
			t.Errorf("only %v: the description was made again", only)
		}
		if !strings.Contains(first, "plain: ") || !strings.Contains(first, "seen: ") || strings.Contains(first, "later: ") || strings.Contains(first, "direct: ") ||
			!strings.Contains(first, "There are 1 more tools") {
			t.Errorf("only %v: %s", only, first)
		}
		if text := describe(blind); strings.Contains(text, "seen: ") || !strings.Contains(text, "plain: ") {
			t.Errorf("only %v, without images: %s", only, text)
		}
		set(plain)
		if text := describe(sighted); strings.Contains(text, "seen: ") {
			t.Errorf("only %v: not made anew for another catalogue: %s", only, text)
		}
		set(plain, seen, later, direct)
	}
}
