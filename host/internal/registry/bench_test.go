package registry

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// sources are five MCP servers.
func sources() (out []contract.Source) {
	for i := range 5 {
		out = append(out, contract.Source{Name: fmt.Sprintf("s%d", i), State: contract.SourceReady})
	}
	return out
}

// manyTools returns 10,000 deferred tools of these sources. Each has a schema of its own, which no other n has.
func manyTools(n int) (out []contract.Descriptor) {
	for i := range 10_000 {
		source := fmt.Sprintf("s%d", i%5)
		out = append(out, contract.Descriptor{
			Namespace: "mcp__" + source, Name: fmt.Sprintf("tool_%d", i), Description: fmt.Sprintf("Does the thing number %d.", i), Source: source,
			Exposure: contract.ExposureDeferred, SearchText: fmt.Sprintf("%s tool_%d", source, i),
			InputSchema: json.RawMessage(fmt.Sprintf(`{"properties":{"limit":{"minimum":1,"type":"integer"},"path_%d":{"description":"Where thing %d is.","type":"string"}},"required":["path_%d"],"type":"object"}`, i, n, i)),
			Effects:     []contract.Effect{contract.ServiceEffect{Service: source, Action: fmt.Sprintf("tool_%d", i), Approval: "auto"}},
		})
	}
	return out
}

// BenchmarkSet10000 measures what a plugin's set of 10,000 tools takes: one whose tools are new, and one in which only a source has changed.
func BenchmarkSet10000(b *testing.B) {
	for _, again := range []bool{false, true} {
		b.Run(fmt.Sprintf("again=%t", again), func(b *testing.B) {
			n, set, r := 0, manyTools(0), New("p")
			r.Set("p", contract.ToolSet{Sources: sources(), Tools: set})
			for b.Loop() {
				b.StopTimer()
				if n++; again {
					set = slices.Clone(set)
				} else {
					set = manyTools(n)
				}
				b.StartTimer()
				if problems := r.Set("p", contract.ToolSet{Revision: "1", Sources: sources(), Tools: set}); len(problems) > 0 {
					b.Fatal(problems)
				}
			}
		})
	}
}

// BenchmarkSnapshot10000 measures a new catalogue of 10,000 deferred tools, and what a request to a model takes of it.
func BenchmarkSnapshot10000(b *testing.B) {
	r := New("p")
	if problems := r.Set("p", contract.ToolSet{Revision: "1", Sources: sources(), Tools: manyTools(0)}); len(problems) > 0 {
		b.Fatal(problems)
	}
	search := &Entry{Descriptor: contract.Descriptor{Name: "search"}, Finds: true, Declare: func(llm.ModelRow) (llm.Tool, bool) { return llm.Tool{}, true }}
	for b.Loop() {
		r.mu.snap = nil
		if tools := r.Snapshot().With(search).ModelTools(llm.ModelRow{}); len(tools) != 1 {
			b.Fatal(len(tools))
		}
	}
}
