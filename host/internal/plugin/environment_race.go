//go:build race

package plugin

// ofBuild is inherited in builds of tests alone: a program with the race detector waits for a second before it ends, unless
// this says otherwise, and tests start and end plugins by the hundred.
const ofBuild = "GORACE"
