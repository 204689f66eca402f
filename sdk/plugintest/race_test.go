//go:build race && unix

package plugintest

const raceEnabled = true
