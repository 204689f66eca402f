package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// BenchmarkDeclaredProcesses is one evaluation of a block that declares ten processes, by a schema of the size that MCP servers have.
func BenchmarkDeclaredProcesses(b *testing.B) {
	var text strings.Builder
	text.WriteString("plugin \"p\" {\n  source = \"./bin/x\"\n  config {\n")
	for i := range 10 {
		fmt.Fprintf(&text, "    server \"s%d\" {\n      command = \"./server\"\n      args    = [\"-y\"]\n      env     = { MODE = \"1\" }\n    }\n", i)
	}
	text.WriteString("  }\n}\n")
	root := write(b, map[string]string{"home/gantry.hcl": text.String()})
	c, ds := config.Load(b.Context(), options(root))
	if c == nil {
		b.Fatal(ds)
	}
	block, ok := c.Plugin("p")
	if !ok {
		b.Fatal("no block")
	}
	m := serverManifest()
	server := &m.Config.Blocks[0].Block
	for i, kind := range []string{`"string"`, `["list","string"]`, `["map","string"]`, `"bool"`} {
		for j := range 6 {
			server.Attributes = append(server.Attributes, contract.ConfigAttribute{Name: fmt.Sprintf("setting_%d_%d", i, j), Type: json.RawMessage(kind)})
		}
	}
	for b.Loop() {
		if ps, ds := block.Processes(m); len(ps) != 10 || ds.HasErrors() {
			b.Fatal(ds)
		}
	}
}
