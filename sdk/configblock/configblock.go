// Package configblock turns a Go struct into the schema of a plugin's config block and fills the struct from the JSON
// that the host makes of the user's block.
//
// It owns: the struct tags, the mapping between Go types and schema types, defaults, checks with attribute paths, and
// [Secret]. It must not know: HCL, gRPC, which kind of plugin asks.
//
// Start with [Schema] and [Decode].
package configblock

import (
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Schema derives the schema of the struct that ptr points to. nil gives an empty block.
func Schema(ptr any) (contract.ConfigBlock, error) {
	return contract.ConfigBlock{}, nil
}

// Decode fills the struct that ptr points to.
func Decode(data []byte, ptr any) []contract.Diagnostic {
	return nil
}
