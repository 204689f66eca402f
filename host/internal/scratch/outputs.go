package scratch

import (
	"os"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// maxOutputs limits the outputs that are kept for a thread, in bytes. Beyond it, the oldest ones are removed.
const maxOutputs = 64 << 20

// Outputs are the complete outputs of a thread's calls of which the model got only a part.
type Outputs struct {
	mu    sync.Mutex
	files []keptOutput // oldest first
	bytes int
}

type keptOutput struct {
	path  string
	bytes int
}

// Keep writes an output to a file and returns the path that commands of the thread see.
func (o *Outputs) Keep(d *Dir, id event.ThreadID, mode, text string) (string, error) {
	path, seen, err := d.file(id, mode, "output")
	if err != nil {
		return "", err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.files) > 0 && o.bytes+len(text) > maxOutputs {
		_ = os.Remove(o.files[0].path) // a command may have removed it
		o.bytes -= o.files[0].bytes
		o.files = o.files[1:]
	}
	// O_EXCL: a command that guesses the name may have created a link.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	o.files, o.bytes = append(o.files, keptOutput{path, len(text)}), o.bytes+len(text)
	if _, err = f.WriteString(text); err != nil {
		_ = f.Close()
		return "", err
	}
	return seen, f.Close()
}
