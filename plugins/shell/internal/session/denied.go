package session

import (
	"bytes"
	"runtime"
)

// linuxSIGSYS is the signal with which a system call filter ends a program, as Linux numbers it.
const linuxSIGSYS = 31

// denialPhrases are words by which programs report that something was forbidden to them.
var denialPhrases = [...]string{
	"operation not permitted", "permission denied", "read-only file system", "seccomp", "sandbox", "landlock",
	"failed to write file",
}

// looksDenied guesses from code and output of a sandboxed command whether the sandbox stopped it.
func looksDenied(code int, out []byte) bool {
	if code == 0 {
		return false
	}
	lower := bytes.ToLower(out)
	for _, word := range denialPhrases {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	return runtime.GOOS == "linux" && code == 128+linuxSIGSYS
}
