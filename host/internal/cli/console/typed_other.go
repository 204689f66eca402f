//go:build !linux && !darwin

package console

import "os"

// discardTyped does nothing: where plugins can't be supervised nothing is asked either.
func discardTyped(*os.File) {}

// Foreground says no: nothing is typed there.
func Foreground(*os.File) bool { return false }
