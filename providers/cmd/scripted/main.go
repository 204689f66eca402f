// The program gantry-provider-scripted gives gantry a model that follows a script: for demos and tests, without network
// or key.
//
// It owns: the files around a script (script, request log, positions), time, and the ways to die that a script may ask for.
// It must not know: the format of scripts and what answers to what (providers/script), the turn loop.
//
// Start with [scripted].
package main

import (
	_ "embed"

	"github.com/gantry-agent/gantry/sdk/provider"
)

// version is stamped by the build.
var version = "0.0.0-dev"

// demo plays when the block names no script.
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
