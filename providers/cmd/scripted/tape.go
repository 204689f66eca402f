package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"sync"

	"github.com/gantry-agent/gantry/providers/recording"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// appendFile takes whole lines from any goroutine. A nil one takes and closes nothing.
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

// write hands the line to the kernel in one piece, so that a process that dies later has not lost it.
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

// take is the recording of one answer. A nil one records nothing.
type take struct {
	file  *appendFile
	entry recording.Entry
	err   error
	ended bool // the last event of an answer was added
	done  bool
}

func (s *scripted) newTake(r *provider.StreamRequest, n int) (*take, error) {
	if s.tape == nil {
		return nil, nil
	}
	asked, err := recording.Summarize(r.Request)
	if err != nil {
		return nil, err
	}
	return &take{file: s.tape, entry: recording.Entry{Thread: r.ThreadID, Request: n, Asked: asked}}, nil
}

func (t *take) add(e llm.Event) {
	if t == nil || t.err != nil {
		return
	}
	switch e.(type) {
	case llm.Finish, *llm.Error:
		t.ended = true
	}
	t.err = t.entry.Add(e)
}

// close writes the entry, once.
func (t *take) close(ctx context.Context) error {
	if t == nil || t.done {
		return nil
	}
	t.done = true
	if t.err != nil {
		return t.err
	}
	t.entry.Cancel = !t.ended && ctx.Err() != nil
	t.entry.Cut = !t.ended && !t.entry.Cancel
	line, err := t.entry.Line()
	if err != nil {
		return err
	}
	return t.file.write(line)
}
