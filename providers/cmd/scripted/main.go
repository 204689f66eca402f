// The program gantry-provider-scripted provides a model that follows a script, for demos and tests without network or key.
//
// It owns the files of a script (script, request log, positions), time, and the ways in which a script can end the process. It
// does not know the format of scripts and which step responds to a request (providers/script), or the turn loop.
//
// Start with [scripted].
package main

import (
	_ "embed"

	"github.com/gantry-agent/gantry/sdk/provider"
)

// version is set by the build.
var version = "0.0.0-dev"

// demo is the script if the block names none.
//
//go:embed demo.toml
var demo []byte

func main() { provider.Main(plugin()) }

func plugin() provider.Plugin {
	return provider.Plugin{
		Name:        "scripted",
		Version:     version,
		Description: "A model that follows a script, for demos and tests; needs no network and no key.",
		Config:      &config{},
		New:         newScripted,
	}
}
