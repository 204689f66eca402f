//go:build linux || darwin

package main

import "syscall"

// defaultPath is searched when the target's environment has no PATH.
const defaultPath = "/bin:/usr/bin"

// lookPath finds a program as execvp(3) does: in the PATH of the target's own environment, relative entries below the
// target's own folder.
func lookPath(name string, env []string) (string, error) {
	if name == "" {
		return "", syscall.ENOENT
	}
	for i := range len(name) {
		if name[i] == '/' {
			return name, nil
		}
	}
	path := defaultPath
	for _, kv := range env {
		if len(kv) >= 5 && kv[:5] == "PATH=" {
			path = kv[5:]
		}
	}
	denied := false
	for {
		dir, rest, more := cutColon(path)
		if dir == "" {
			dir = "."
		}
		file := dir + "/" + name
		var st syscall.Stat_t
		if err := syscall.Stat(file, &st); err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFREG {
			if syscall.Access(file, 1) == nil {
				return file, nil
			}
			denied = true
		} else if err == syscall.EACCES {
			denied = true
		}
		if !more {
			break
		}
		path = rest
	}
	if denied {
		return "", syscall.EACCES
	}
	return "", syscall.ENOENT
}

func cutColon(s string) (before, after string, found bool) {
	for i := range len(s) {
		if s[i] == ':' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
