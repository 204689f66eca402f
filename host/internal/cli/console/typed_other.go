//go:build !linux && !darwin

package console

import "os"

// discardTyped does nothing: on platforms that cannot run plugins, no questions are asked.
func discardTyped(*os.File) {}

// Foreground returns false: there is no terminal input on this platform.
func Foreground(*os.File) bool { return false }
