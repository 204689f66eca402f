package host

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// keepText puts a text where commands of a thread can read it, and returns its path as they see it.
func (h *Host) keepText(t *thread.Thread, what, text string) (string, error) {
	path, seen, err := h.roomFor(t, what)
	if err != nil {
		return "", err
	}
	return seen, os.WriteFile(path, []byte(text), 0o600)
}

// roomFor names a new file that commands of a thread can read: as the host sees it, and as they do.
func (h *Host) roomFor(t *thread.Thread, what string) (path, seen string, err error) {
	mode := t.Settings().Sandbox
	if mode == "" {
		mode = h.opts.Config.Sandbox.Mode
	}
	if mode != box.WorkspaceWrite && mode != launch.FullAccess {
		return "", "", fmt.Errorf("commands under %s read no files of gantry's", mode)
	}
	dir, err := h.threadTmp(t.ID())
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(dir, what+"-"+rand.Text()+".txt")
	if mode == box.WorkspaceWrite {
		return path, filepath.Join("/tmp", filepath.Base(path)), nil
	}
	return path, path, nil
}

// maxOutputs bounds what is kept of outputs that were cut, for each thread; the oldest go.
const maxOutputs = 64 << 20

// outputs are the whole outputs of calls of a thread.
type outputs struct {
	mu    sync.Mutex
	files []keptOutput // oldest first
	bytes int
}

type keptOutput struct {
	path  string
	bytes int
}

// keepOutput keeps one.
func (h *Host) keepOutput(r *running, text string) (string, error) {
	path, seen, err := h.roomFor(r.thread, "output")
	if err != nil {
		return "", err
	}
	k := &r.outputs
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.files) > 0 && k.bytes+len(text) > maxOutputs {
		_ = os.Remove(k.files[0].path) // a command may have done it
		k.bytes -= k.files[0].bytes
		k.files = k.files[1:]
	}
	// A command may have put a link there, if it guesses the name.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	k.files, k.bytes = append(k.files, keptOutput{path, len(text)}), k.bytes+len(text)
	if _, err = f.WriteString(text); err != nil {
		_ = f.Close()
		return "", err
	}
	return seen, f.Close()
}
