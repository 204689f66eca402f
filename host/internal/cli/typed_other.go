//go:build !linux && !darwin

package cli

import "os"

// discardTyped does nothing: where plugins can't be supervised nothing is asked either.
func discardTyped(*os.File) {}

// foreground says no: nothing is typed there.
func foreground(*os.File) bool { return false }
