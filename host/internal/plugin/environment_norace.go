//go:build !race

package plugin

const ofBuild = ""
