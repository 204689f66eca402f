//go:build !linux

package wire

func freeProgram() {}
