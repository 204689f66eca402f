//go:build race

package environment

// buildInherits is a variable that is inherited in test builds only. A program with the race detector waits for a second
// before it exits unless GORACE says otherwise, and tests start and end hundreds of plugins.
const buildInherits = "GORACE"
