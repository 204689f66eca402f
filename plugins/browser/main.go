// Command gantry-tool-browser is the browser plugin: it opens pages, reads them and acts on them.
//
// It owns: the choice between the modes of the binary: plugin, browser, helper, relay and script. It must not know: how any of them works.
//
// Start with [main].
package main

import (
	"fmt"
	"os"

	"github.com/gantry-agent/gantry/plugins/browser/internal/attach"
	"github.com/gantry-agent/gantry/plugins/browser/internal/browserproc"
	"github.com/gantry-agent/gantry/plugins/browser/internal/tools"
	"github.com/gantry-agent/gantry/plugins/browser/internal/userfiles"
	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/child"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// version is set by the build.
var version = "0.0.0-dev"

func main() {
	if codemode.Wanted(os.Args) {
		os.Exit(child.Main(os.Stdin, os.Stdout))
	}
	if browserproc.Wanted(os.Args) {
		os.Exit(browserproc.Main(os.Args))
	}
	if userfiles.Wanted(os.Args) {
		os.Exit(userfiles.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	if attach.Wanted(os.Args) {
		os.Exit(attach.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	binary, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "find the plugin's own binary:", err)
		os.Exit(1)
	}
	tool.Main(tools.New(version, binary))
}
