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

// Find returns the path of the interpreter for a folder: the configured one, else that of a virtual environment, else that of PATH. The
// error is a *[NotFoundError].
func (f *Finder) Find(configured, dir string) (string, error) {
	look := f.LookPath
	if look == nil {
		look = exec.LookPath
	}
	if configured != "" {
		path, err := look(configured)
		if err != nil {
			return "", &NotFoundError{Configured: true, Tried: []string{configured}}
		}
		return path, nil
	}
	var tried []string
	for _, env := range f.environments(dir) {
		program := f.program(env)
		if path, err := look(program); err == nil {
			return path, nil
		}
		tried = append(tried, program)
	}
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
	envs := []string{filepath.Join(dir, ".venv"), filepath.Join(dir, "venv"), getenv("VIRTUAL_ENV")}
	return slices.DeleteFunc(envs, func(s string) bool { return s == "" })
}

// program returns the path of the interpreter in a virtual environment.
func (f *Finder) program(env string) string {
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
