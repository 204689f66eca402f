// Package stdio holds the host's ends of a process's descriptors, and passes them or their data to the plugin that the process belongs
// to.
//
// It owns: pipes and terminals, the stream of a process's input and output, and the one-time tokens for which a plugin receives the
// descriptors themselves. It must not know: how a process is started, and when it is forgotten.
//
// Start with [Streams].
package stdio

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Names of descriptors.
const (
	Stdin    = "stdin"
	Stdout   = "stdout"
	Stderr   = "stderr"
	Terminal = "terminal"
	Memory   = "memory" // shared memory that is kept with a session
)

// Size is that of a terminal; zero fields mean 24 rows and 80 columns.
type Size struct{ Rows, Cols uint16 }

func (s Size) withDefaults() Size {
	if s.Rows == 0 {
		s.Rows = 24
	}
	if s.Cols == 0 {
		s.Cols = 80
	}
	return s
}

// Config says which descriptors a process has.
type Config struct {
	Process     string // an id of the process, for messages
	Plugin      string // the plugin that may receive the descriptors
	Session     bool   // the host keeps the descriptors when the plugin receives them
	Terminal    *Size  // nil: pipes
	Stdin       bool   // without a terminal, stdin is a pipe; otherwise it is empty
	MergeStderr bool   // stderr is the same pipe as stdout
	Memory      int    // bytes of shared memory; 0: none
	OutputBytes int64  // limits the output that Attach passes on; 0: no limit
	Taken       func() // is called when the descriptors have been received, or Attach has passed on all output
}

// Streams is the host's ends of a process's descriptors. Its methods may be called concurrently.
type Streams struct {
	cfg   Config
	names []string // of the descriptors, in order; after Open

	token string // guarded by the mutex of the Handover

	mu struct {
		sync.Mutex
		files    map[string]*os.File // nil after close
		handed   bool                // the plugin has received them for good
		attached bool
		passed   int64 // bytes of output that Attach has passed on
		dropped  int64 // and those beyond the limit
	}
}

// New returns streams without descriptors.
func New(c Config) *Streams {
	s := &Streams{cfg: c}
	s.mu.files = make(map[string]*os.File)
	return s
}

// ErrNoTerminal: the process has no terminal. Resize returns it.
var ErrNoTerminal = errors.New("the process has no terminal")

// Names returns the names of the descriptors that are open, in the order in which a plugin receives them.
func (s *Streams) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return s.mu.files[name] == nil })
}

// add adds a descriptor of the host's.
func (s *Streams) add(name string, f *os.File) {
	s.names = append(s.names, name)
	s.mu.Lock()
	s.mu.files[name] = f
	s.mu.Unlock()
}

// CloseStdin closes the host's end of stdin. A session's stdin ends only when the plugin has closed its own as well.
func (s *Streams) CloseStdin() {
	s.mu.Lock()
	f := s.mu.files[Stdin]
	delete(s.mu.files, Stdin)
	s.mu.Unlock()
	if f != nil {
		f.Close()
	}
}

// Close closes the host's ends.
func (s *Streams) Close() {
	s.mu.Lock()
	files := s.mu.files
	s.mu.files = nil
	s.mu.Unlock()
	for _, f := range files {
		f.Close()
	}
}

// duplicatesLocked duplicates the descriptors that are open, in order.
func (s *Streams) duplicatesLocked() ([]*os.File, error) {
	var files []*os.File
	for _, name := range s.names {
		f := s.mu.files[name]
		if f == nil {
			continue
		}
		d, err := duplicate(f)
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("duplicate %s: %w", name, err)
		}
		files = append(files, d)
	}
	if len(files) == 0 {
		return nil, errors.New("the descriptors are closed")
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
