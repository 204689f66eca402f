package fspath

import (
	"io/fs"
	"strconv"
)

// QuarantineSuffix ends the name of a file that was moved aside. Git runs hooks by their exact names, so a renamed one is not run.
const QuarantineSuffix = ".quarantined"

// MaxQuarantined is how many names of files that were moved aside are tried.
const MaxQuarantined = 8

// Quarantined returns the existing names that path has been moved aside to.
func Quarantined(path string) []string {
	var out []string
	for n := range MaxQuarantined {
		p := QuarantineName(path, n+1)
		if _, mode, ok := Lstat(p); ok && mode&fs.ModeSymlink == 0 {
			out = append(out, p)
		}
	}
	return out
}

// QuarantineName returns the n-th name to move path aside to, counting from 1.
func QuarantineName(path string, n int) string {
	if n == 1 {
		return path + QuarantineSuffix
	}
	return path + QuarantineSuffix + "-" + strconv.Itoa(n)
}
