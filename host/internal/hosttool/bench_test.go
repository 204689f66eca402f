package hosttool

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// BenchmarkSearch10000 measures a search in 10,000 tools.
func BenchmarkSearch10000(b *testing.B) {
	var tools []contract.Descriptor
	for i := range 10_000 {
		source := fmt.Sprintf("s%d", i%5)
		tools = append(tools, deferredTool("mcp__"+source, fmt.Sprintf("tool_%d", i), fmt.Sprintf("Does the thing number %d.", i), func(d *contract.Descriptor) {
			d.SearchText = fmt.Sprintf("%s tool_%d", source, i)
			d.InputSchema = json.RawMessage(fmt.Sprintf(`{"properties":{"path_%d":{"description":"Where the thing is.","type":"string"},"limit":{"minimum":1,"type":"integer"}},"required":["path_%d"],"type":"object"}`, i, i))
		}))
	}
	s, problems := catalogue(tools...)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	for b.Loop() {
		if found, err := findTools(s, json.RawMessage(`{"query":"the thing number 4711"}`), nil); err != nil || len(found) != searchLimit {
			b.Fatal(found, err)
		}
	}
}
