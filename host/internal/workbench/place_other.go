//go:build !unix

package workbench

const nonblock = 0
