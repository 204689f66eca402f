// Package browserproc is what the host starts for the plugin under the grant of a call: the plugin's binary, which becomes the browser.
//
// It owns: the mode of the binary, and the descriptors over which the browser is controlled. It must not know: which browser, its arguments, or
// the protocol.
//
// Start with [Main] in that process and [Argv] in the plugin.
package browserproc

// mode is the argument that makes the plugin's binary a browser.
const mode = "--become"

// Argv returns the command line by which binary, whose main function calls [Main], becomes the browser, which holds its folder; see
// [profile.Hold].
func Argv(binary, folder string, browser []string) []string {
	return append([]string{binary, mode, folder}, browser...)
}

// Wanted reports whether the command line is one of [Argv].
func Wanted(args []string) bool { return len(args) > 3 && args[1] == mode }
