// Package shell selects the shell that runs a command.
//
// It owns: the user's shell, the shell for a model's request, and the command line with which each runs a command. It must not know:
// how a process is started.
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

// Kind is a kind of shell, which determines its command line.
type Kind int

// The kinds. Shells of an unknown kind are not used.
const (
	Unknown    Kind = iota
	POSIX           // sh, bash, zsh
	PowerShell      // pwsh, powershell
	Cmd             // cmd.exe
)

// fallbackPath exists on all systems except Windows.
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

// kindOf returns the kind of a shell by its name.
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

// Finder finds shells. The zero value searches this machine.
type Finder struct {
	GOOS     string                                      // default: this system
	Passwd   func() (io.ReadCloser, error)               // default: /etc/passwd
	UID      int                                         // only with Passwd; default: the current user
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

// Default returns the user's shell, or the first known one that exists.
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

// find searches the usual folders, then PATH.
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

// Named returns the shell that a model requested by path or name. If it is not supported or does not exist, it returns the fallback.
func (f Finder) Named(program string) Shell {
	kind := kindOf(program)
	if kind == Unknown {
		return f.fallback()
	}
	if path, ok := f.look(program); ok {
		return Shell{Path: path, Kind: kind}
	}
	if path, ok := f.find(name(program)); ok {
		return Shell{Path: path, Kind: kind}
	}
	return f.fallback()
}

// Configured returns the shell at a configured path. It returns false if the path is not a supported shell or does not exist.
func (f Finder) Configured(path string) (Shell, bool) {
	kind := kindOf(path)
	found, ok := f.look(path)
	return Shell{Path: found, Kind: kind}, ok && kind != Unknown
}

// passwdShell returns the user's shell in the password database, or "".
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
