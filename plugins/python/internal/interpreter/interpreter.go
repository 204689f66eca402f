// Package interpreter finds the Python that runs a kernel.
//
// It owns: the order in which places are searched, and what is known about programs that only start the real one. It must not know:
// kernels, how a program is started.
//
// Start with [Finder].
package interpreter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Minimum is the oldest supported version.
const Minimum = "3.9"

// Finder finds interpreters. It is safe for concurrent use; the zero value searches this machine.
type Finder struct {
	GOOS     string                               // default: this system
	LookPath func(program string) (string, error) // default: exec.LookPath
	Getenv   func(name string) string             // default: os.Getenv
	Own      func() string                        // interpreter of an environment that the plugin has prepared; empty: there is none

	mu struct {
		sync.Mutex
		real map[key]string
	}
}

// key identifies what a program of PATH stands for: that may depend on the folder.
type key struct{ path, dir string }

// NotFoundError reports that there is no interpreter.
type NotFoundError struct {
	Configured bool // the only place is the configured one
	Tried      []string
}

// Error implements error; its text is for the model, which passes it on to the user.
func (e *NotFoundError) Error() string {
	if e.Configured {
		return fmt.Sprintf("the configured interpreter %s is not an executable program; correct `interpreter` in the plugin's block", e.Tried[0])
	}
	return fmt.Sprintf("no Python was found (tried %s); install Python %s or later, or set `interpreter` in the plugin's block",
		strings.Join(e.Tried, ", "), Minimum)
}

// BrokenError reports a virtual environment whose interpreter is gone, as after an upgrade of the Python that it was made with.
type BrokenError struct{ Path string }

// Error implements error; its text is for the model, which passes it on to the user.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("the interpreter %s is a link to a file that is missing; make that environment again, remove it, or set `interpreter` in the plugin's block",
		e.Path)
}

// Find returns the path of the interpreter for a folder: the configured one, else that of a virtual environment, else the plugin's own,
// else that of PATH. dir may be empty: there is no folder. The error is a *[NotFoundError] or a *[BrokenError].
func (f *Finder) Find(configured, dir string) (string, error) {
	look := f.look()
	if configured != "" {
		path, err := look(configured)
		if err != nil {
			return "", &NotFoundError{Configured: true, Tried: []string{configured}}
		}
		return path, nil
	}
	programs := f.environments(dir)
	for i, env := range programs {
		programs[i] = f.Program(env)
	}
	if f.Own != nil {
		if own := f.Own(); own != "" {
			programs = append(programs, own)
		}
	}
	var tried []string
	for _, program := range programs {
		if path, err := look(program); err == nil {
			return path, nil
		}
		if broken(program) { // another Python would lack the packages of this environment
			return "", &BrokenError{program}
		}
		tried = append(tried, program)
	}
	return f.inPath(dir, tried)
}

// broken reports whether path is a link to a file that is missing.
func broken(path string) bool {
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// Base returns the path of the interpreter in PATH, with which environments are made. The error is a *[NotFoundError].
func (f *Finder) Base() (string, error) { return f.inPath("", nil) }

func (f *Finder) look() func(string) (string, error) {
	if f.LookPath == nil {
		return exec.LookPath
	}
	return f.LookPath
}

func (f *Finder) inPath(dir string, tried []string) (string, error) {
	look := f.look()
	for _, name := range []string{"python3", "python"} {
		// A program in the current folder is not one of PATH.
		if path, err := look(name); err == nil && !errors.Is(err, exec.ErrDot) {
			f.mu.Lock()
			real := f.mu.real[key{path, dir}]
			f.mu.Unlock()
			if real != "" {
				if _, err := look(real); err == nil {
					return real, nil
				}
			}
			return path, nil
		}
		tried = append(tried, name)
	}
	return "", &NotFoundError{Tried: tried}
}

// environments returns the virtual environments that a folder may have.
func (f *Finder) environments(dir string) []string {
	getenv := f.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	envs := []string{getenv("VIRTUAL_ENV")}
	if dir != "" {
		envs = append([]string{filepath.Join(dir, ".venv"), filepath.Join(dir, "venv")}, envs...)
	}
	return slices.DeleteFunc(envs, func(s string) bool { return s == "" })
}

// Program returns the path of the interpreter in a virtual environment.
func (f *Finder) Program(env string) string {
	goos := f.GOOS
	if goos == "" {
		goos = runtime.GOOS
	}
	if goos == "windows" {
		return filepath.Join(env, "Scripts", "python.exe")
	}
	return filepath.Join(env, "bin", "python")
}

// Resolved records which program has turned out to run when path was started in a folder. Version managers put scripts into PATH that
// take longer to find the interpreter than it takes to start.
func (f *Finder) Resolved(path, dir, real string) {
	if real == "" || real == path || !filepath.IsAbs(real) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.real == nil {
		f.mu.real = map[key]string{}
	}
	f.mu.real[key{path, dir}] = real
}

// Old reports whether a version, such as "3.8.10", is older than [Minimum].
func Old(version string) bool {
	var have, need [2]int
	_, err := fmt.Sscanf(version, "%d.%d", &have[0], &have[1])
	fmt.Sscanf(Minimum, "%d.%d", &need[0], &need[1])
	return err != nil || slices.Compare(have[:], need[:]) < 0
}
