//go:build !linux

package cli

import "os"

// discardTyped does nothing: where plugins can't be supervised nothing is asked either.
func discardTyped(*os.File) {}
