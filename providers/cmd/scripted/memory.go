package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/providers/script"
)

// memory stores the position of each thread in the script. The conversation contains the position as well, so a new process can
// continue. Steps that no conversation shows (one that failed, hung or ended the process) are noted in a file until the thread's
// next complete response.
type memory struct {
	dir string // folder of the notes; empty: none are kept
	mu  struct {
		sync.Mutex
		at map[string]script.Position
	}
}

func newMemory(dataDir string) *memory {
	m := &memory{}
	if dataDir != "" {
		m.dir = filepath.Join(dataDir, "positions")
	}
	m.mu.at = map[string]script.Position{}
	return m
}

// advance calls play with the known position of a thread and stores the new one. Concurrent requests of a thread get one step
// each. Without a thread ID, only the conversation counts.
func (m *memory) advance(thread string, play func(known script.Position) (*script.Answer, error)) (*script.Answer, error) {
	if thread == "" {
		return play(script.Position{})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.mu.at[thread]
	if !ok {
		known = m.read(thread)
	}
	a, err := play(known)
	if err == nil {
		m.mu.at[thread] = a.Position
	}
	return a, err
}

func (m *memory) read(thread string) script.Position {
	var p script.Position
	if m.dir == "" {
		return p
	}
	b, err := os.ReadFile(m.file(thread))
	if err != nil || json.Unmarshal(b, &p) != nil {
		return script.Position{} // no note, or an incomplete one: the conversation decides
	}
	return p
}

// note stores the position in a file. A failure is only logged: it costs a repeated step after a restart.
func (m *memory) note(thread string, p script.Position, logger hclog.Logger) {
	if m.dir == "" || thread == "" || p.Request == 0 {
		return
	}
	b, err := json.Marshal(p)
	if err == nil {
		err = os.MkdirAll(m.dir, 0o700)
	}
	if err == nil {
		tmp := m.file(thread) + ".tmp"
		if err = os.WriteFile(tmp, b, 0o600); err == nil {
			err = os.Rename(tmp, m.file(thread))
		}
	}
	if err != nil {
		logger.Warn("note position in script", "thread", thread, "err", err)
	}
}

func (m *memory) forgetNote(thread string) {
	if m.dir != "" && thread != "" {
		_ = os.Remove(m.file(thread)) // most threads have none
	}
}

func (m *memory) file(thread string) string {
	sum := sha256.Sum256([]byte(thread))
	return filepath.Join(m.dir, hex.EncodeToString(sum[:16])+".json")
}
