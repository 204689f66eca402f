package host

import (
	"context"
	"fmt"
	"os"

	"github.com/gantry-agent/gantry/config/hint"
)

// folders are where a host keeps what it writes.
type folders struct {
	threads string // holds the store
	base    string // holds everything else: locks, sockets, what plugins keep
}

// chooseFolders decides where everything is: in the home. An ephemeral host has a folder of its own for its threads, which ends
// with it, and where its home can't be written for everything else, too.
func (h *Host) chooseFolders() error {
	h.folders = folders{h.opts.Home, h.opts.Home}
	if !h.opts.Ephemeral {
		return nil
	}
	dir, err := os.MkdirTemp("", "gantry-")
	if err != nil {
		return hint.With(fmt.Errorf("make a folder for an ephemeral thread: %w", err), "set TMPDIR to a folder that can be written")
	}
	h.onClose(func(context.Context) error { return os.RemoveAll(dir) })
	h.folders.threads = dir
	if !Writable(h.opts.Home) {
		h.folders.base = dir
	}
	return nil
}

// Writable tells whether files can be made in a folder.
func Writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return false
	}
	name := f.Name()
	return f.Close() == nil && os.Remove(name) == nil
}
