package session

import (
	"bytes"
	"runtime"
)

// linuxSIGSYS is the number of the signal with which a seccomp filter kills a program on Linux.
const linuxSIGSYS = 31

// denialPhrases are phrases with which programs report denied operations.
var denialPhrases = [...]string{
	"operation not permitted", "permission denied", "read-only file system", "seccomp", "sandbox", "landlock",
	"failed to write file",
}

// looksDenied guesses from the exit code and output of a sandboxed command whether the sandbox blocked it.
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
