// Command gantry-tool-python is the Python plugin: it executes code in a kernel that lives as long as its thread.
//
// It owns: nothing but the start. It must not know: how anything works.
//
// Start with [main].
package main

import (
	"github.com/gantry-agent/gantry/plugins/python/internal/tools"
	"github.com/gantry-agent/gantry/sdk/tool"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// version is set by the build.
var version = "0.0.0-dev"

func main() {
	wire.OneProcessor() // the plugin only forwards what kernels do
	tool.Main(tools.New(version))
}
