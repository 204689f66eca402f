package fspath

import (
	"io/fs"
	"strconv"
)

// QuarantineSuffix is what the name of something that was moved out of the way ends with: git executes hooks by their exact names.
const QuarantineSuffix = ".quarantined"

// MaxQuarantined is how many names are looked for under which something that is denied was moved aside.
const MaxQuarantined = 8

// Quarantined are the names that a path has when it was moved aside, as far as they are there.
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

// QuarantineName is the n-th name that something has when it was moved aside; the first is 1.
func QuarantineName(path string, n int) string {
	if n == 1 {
		return path + QuarantineSuffix
	}
	return path + QuarantineSuffix + "-" + strconv.Itoa(n)
}
