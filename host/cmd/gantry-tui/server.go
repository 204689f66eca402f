package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
)

// child is the app server that this program starts, again if it ends.
type child struct {
	program string
	args    []string

	mu  sync.Mutex
	log *os.File // messages of the newest server
}

// openLog returns a file for the messages of a new server. It has no name, so that nothing is left whichever of the two ends first.
func (c *child) openLog() (*os.File, error) {
	f, err := os.CreateTemp("", "gantry-tui-*.log") // readable for the user alone
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log != nil {
		_ = c.log.Close()
	}
	c.log = f
	return f, nil
}

// maxSaid bounds what is shown of a server's messages, in bytes.
const maxSaid = 2000

// said returns the last messages of the server.
func (c *child) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return ""
	}
	info, err := c.log.Stat()
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(c.log, max(info.Size()-maxSaid, 0), maxSaid))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(bytes.TrimSpace(b)), "")
}
