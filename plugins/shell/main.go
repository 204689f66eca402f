// Command gantry-tool-shell is the shell plugin: it runs commands, applies patches and views images.
//
// It owns: the choice between the two modes of the binary, plugin and helper, which the host starts for the plugin. It must not know:
// how either works.
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
	wire.OneProcessor() // the plugin only forwards the output of commands
	tool.Main(tools.New(version, binary))
}
