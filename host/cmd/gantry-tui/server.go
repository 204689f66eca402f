package main

import (
	"bytes"
	"os"
	"strings"
	"sync"
)

// child is the app server that this program starts, again if it ends.
type child struct {
	program string
	args    []string
	keep    bool // the log, at the end

	mu   sync.Mutex
	path string // of the newest log
}

// openLog returns the file for the messages of a new server.
func (c *child) openLog() (*os.File, error) {
	f, err := os.CreateTemp("", "gantry-tui-*.log") // readable for the user alone
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.path != "" {
		_ = os.Remove(c.path)
	}
	c.path = f.Name()
	return f, nil
}

func (c *child) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.path
}

// maxSaid bounds what is shown of a server's messages, in bytes.
const maxSaid = 2000

// said returns the last messages of the server.
func (c *child) said() string {
	b, err := os.ReadFile(c.log())
	if err != nil {
		return ""
	}
	b = bytes.TrimSpace(b)
	if len(b) > maxSaid {
		b = b[len(b)-maxSaid:]
	}
	return strings.ToValidUTF8(string(b), "")
}

// forget removes the log. A server that goes on writes into the file that it has open.
func (c *child) forget() {
	if path := c.log(); path != "" && !c.keep {
		_ = os.Remove(path)
	}
}
