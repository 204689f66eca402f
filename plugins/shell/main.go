// Command gantry-tool-shell is the shell family of tools: it runs commands, applies patches and looks at images.
//
// It owns: the choice between the two lives of the binary, as the plugin and as the helper that the plugin has the host
// spawn. It must not know: anything of either.
//
// Start with [main].
package main

import (
	"fmt"
	"os"

	"github.com/gantry-agent/gantry/plugins/shell/internal/helper"
	"github.com/gantry-agent/gantry/plugins/shell/internal/tools"
	"github.com/gantry-agent/gantry/sdk/tool"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// version is set by the build.
var version = "0.0.0-dev"

func main() {
	if helper.Wanted(os.Args) {
		os.Exit(helper.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	binary, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "find the plugin's own binary:", err)
		os.Exit(1)
	}
	wire.OneProcessor() // commands compute, this plugin does not
	tool.Main(tools.New(version, binary))
}
