package main

import (
	"bytes"
	"encoding/json"
	"os"
	"sync"
)

// appendFile appends whole lines. It is safe for concurrent use. A nil appendFile discards them.
type appendFile struct {
	mu sync.Mutex
	f  *os.File
}

func openAppend(name string) (*appendFile, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &appendFile{f: f}, nil
}

// write passes the line to the kernel in one call, so that it survives the death of the process.
func (a *appendFile) write(line []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.f.Write(line)
	return err
}

func (a *appendFile) writeJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.write(b.Bytes())
}

// Close closes the file.
func (a *appendFile) Close() error {
	if a == nil {
		return nil
	}
	return a.f.Close()
}
