// Command gantry-tool-mcp is the MCP plugin: it offers the tools of MCP servers.
//
// It owns: nothing but the start. It must not know: how anything works.
//
// Start with [main].
package main

import (
	"github.com/gantry-agent/gantry/plugins/mcp/internal/tools"
	"github.com/gantry-agent/gantry/sdk/tool"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// version is set by the build.
var version = "0.0.0-dev"

func main() {
	wire.OneProcessor() // the plugin only forwards what servers do
	tool.Main(tools.New(version))
}
