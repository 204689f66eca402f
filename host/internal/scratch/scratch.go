// Package scratch holds the temporary files of threads.
//
// It owns: the folder that commands of a thread see as /tmp, the files that the host writes there for them, and their removal. It must
// not know: what the files contain.
//
// Start with [New].
package scratch

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/hashicorp/go-hclog"
)

// workspaceWrite is the sandbox mode whose commands see the folder as /tmp.
const workspaceWrite = "workspace-write"

// Dir is the temporary files of this process's threads.
type Dir struct {
	top string // of all processes
	own string
	log hclog.Logger
}

// New returns the temporary files below gantry's home. It creates nothing.
func New(home string, log hclog.Logger) *Dir {
	top := filepath.Join(home, "tmp")
	return &Dir{top, filepath.Join(top, strconv.Itoa(os.Getpid())), log}
}

// Thread creates the folder that all commands of a thread see as /tmp, so that a command finds the files of earlier ones.
func (d *Dir) Thread(id event.ThreadID) (string, error) {
	dir := filepath.Join(d.own, string(id))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", hint.With(fmt.Errorf("create a folder for temporary files: %w", err), "free some space, or set another --home")
	}
	return dir, nil
}

// Write writes a text to a new file that commands of a thread can read in a sandbox mode. It returns the path that they see.
func (d *Dir) Write(id event.ThreadID, mode, prefix, text string) (string, error) {
	path, seen, err := d.file(id, mode, prefix)
	if err != nil {
		return "", err
	}
	return seen, os.WriteFile(path, []byte(text), 0o600)
}

// file returns the path of a new file that commands of a thread can read, and the path that they see.
func (d *Dir) file(id event.ThreadID, mode, prefix string) (path, seen string, err error) {
	if mode != workspaceWrite && mode != launch.FullAccess {
		return "", "", fmt.Errorf("commands in sandbox mode %s can't read gantry's files", mode)
	}
	dir, err := d.Thread(id)
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, prefix+"-"+rand.Text()+".txt")
	if mode == workspaceWrite {
		return path, filepath.Join("/tmp", filepath.Base(path)), nil
	}
	return path, path, nil
}

// Sweep removes the files of processes that were killed.
func (d *Dir) Sweep() {
	entries, err := os.ReadDir(d.top)
	if err != nil {
		return // there are none
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := os.FindProcess(pid); err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			d.remove(filepath.Join(d.top, e.Name()))
		}
	}
}

// Remove removes the files of a thread.
func (d *Dir) Remove(id event.ThreadID) { d.remove(filepath.Join(d.own, string(id))) }

// Close removes the files of this process.
func (d *Dir) Close() { d.remove(d.own) }

// remove removes a folder. Files that can't be removed are left for a later sweep.
func (d *Dir) remove(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		d.log.Warn("temporary files not removed", "folder", dir, "err", err)
	}
}
