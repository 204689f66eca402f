// Package shell knows the shells that commands are run with.
//
// It owns: which shell is the user's, which one a model's wish stands for, and how each is told to run a command. It must
// not know: how a process is started.
//
// Start with [Finder.Default] and [Shell.Argv].
package shell

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Kind is how a shell takes its command.
type Kind int

// The kinds. Unknown ones are not used.
const (
	Unknown    Kind = iota
	POSIX           // sh, bash, zsh
	PowerShell      // pwsh, powershell
	Cmd             // cmd.exe
)

// fallbackPath is there on every system that is not Windows.
const fallbackPath = "/bin/sh"

// Shell is a shell on this machine.
type Shell struct {
	Path string
	Kind Kind
}

// Argv returns the command line that runs command. A login shell reads the user's profile first.
func (s Shell) Argv(command string, login bool) []string {
	switch s.Kind {
	case PowerShell:
		if login {
			return []string{s.Path, "-Command", command}
		}
		return []string{s.Path, "-NoProfile", "-Command", command}
	case Cmd:
		return []string{s.Path, "/c", command}
	}
	if login {
		return []string{s.Path, "-lc", command}
	}
	return []string{s.Path, "-c", command}
}

// kindOf tells by the name of the program.
func kindOf(path string) Kind {
	switch name(path) {
	case "sh", "bash", "zsh":
		return POSIX
	case "pwsh", "powershell":
		return PowerShell
	case "cmd":
		return Cmd
	}
	return Unknown
}

func name(path string) string {
	path = path[strings.LastIndexAny(path, `/\`)+1:]
	return strings.ToLower(strings.TrimSuffix(path, filepath.Ext(path)))
}

// Finder finds shells. The zero Finder looks at the machine that it runs on.
type Finder struct {
	GOOS     string                                      // default: this system
	Passwd   func() (io.ReadCloser, error)               // default: /etc/passwd
	UID      int                                         // counts only with Passwd
	LookPath func(program string) (path string, _ error) // default: exec.LookPath
}

func (f Finder) goos() string {
	if f.GOOS != "" {
		return f.GOOS
	}
	return runtime.GOOS
}

func (f Finder) look(program string) (string, bool) {
	look := f.LookPath
	if look == nil {
		look = exec.LookPath
	}
	path, err := look(program)
	return path, err == nil
}

// Default returns the user's shell, or the first one that is there.
func (f Finder) Default() Shell {
	var order []string
	switch f.goos() {
	case "windows":
		order = []string{"pwsh", "powershell", "cmd"}
	case "darwin":
		order = []string{"zsh", "bash"}
	default:
		order = []string{"bash", "zsh"}
	}
	if path := f.passwdShell(); kindOf(path) != Unknown {
		if found, ok := f.look(path); ok {
			return Shell{Path: found, Kind: kindOf(path)}
		}
	}
	for _, program := range order {
		if path, ok := f.find(program); ok {
			return Shell{Path: path, Kind: kindOf(program)}
		}
	}
	return f.fallback()
}

func (f Finder) fallback() Shell {
	if f.goos() == "windows" {
		return Shell{Path: "cmd.exe", Kind: Cmd}
	}
	return Shell{Path: fallbackPath, Kind: POSIX}
}

// find looks where a shell usually is before it looks along PATH.
func (f Finder) find(program string) (string, bool) {
	if f.goos() != "windows" {
		for _, dir := range []string{"/bin/", "/usr/bin/"} {
			if path, ok := f.look(dir + program); ok {
				return path, true
			}
		}
	}
	return f.look(program)
}

// Named returns the shell that a model asked for by path or name. What is no known shell, or not there, is silently the
// plainest one.
func (f Finder) Named(wish string) Shell {
	kind := kindOf(wish)
	if kind == Unknown {
		return f.fallback()
	}
	if path, ok := f.look(wish); ok {
		return Shell{Path: path, Kind: kind}
	}
	if path, ok := f.find(name(wish)); ok {
		return Shell{Path: path, Kind: kind}
	}
	return f.fallback()
}

// Configured returns the shell that a user configured; false where it is none or not there.
func (f Finder) Configured(path string) (Shell, bool) {
	kind := kindOf(path)
	found, ok := f.look(path)
	return Shell{Path: found, Kind: kind}, ok && kind != Unknown
}

// passwdShell returns the shell of the password database; empty where there is none.
func (f Finder) passwdShell() string {
	open, uid := f.Passwd, f.UID
	if open == nil {
		open, uid = func() (io.ReadCloser, error) { return os.Open("/etc/passwd") }, os.Getuid()
	}
	r, err := open()
	if err != nil {
		return ""
	}
	defer r.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		// name:password:uid:gid:comment:home:shell
		fields := strings.Split(lines.Text(), ":")
		if len(fields) == 7 && fields[2] == strconv.Itoa(uid) {
			return fields[6]
		}
	}
	return ""
}
