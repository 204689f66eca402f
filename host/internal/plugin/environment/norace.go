//go:build !race

package environment

const buildInherits = ""
