// Package past keeps what a person has typed: earlier messages, and the one that is being written in a folder.
//
// It owns: the files, their bounds, and that no secret gets into them. It does not know when a message is sent, or how earlier ones are
// shown.
//
// Start with [Open]. Several terminals may use the same files.
package past

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/redact"
)

// Bounds.
const (
	maxMessages = 1000
	maxMessage  = 64 << 10 // bytes of a message; a longer one is not kept
	maxFile     = 4 << 20  // bytes of messages; a longer file is shortened when it is read
)

// Past is what was typed in earlier sessions. It is not safe for concurrent use.
type Past struct {
	file, draft string
	secrets     redact.Redactor
}

// entry is a line of the file of messages.
type entry struct {
	Text string `json:"text"`
}

// Open returns what is kept in the folder dir, with the draft of the folder in which threads start. It reads and writes nothing.
func Open(dir, folder string) *Past {
	sum := sha256.Sum256([]byte(folder))
	return &Past{file: filepath.Join(dir, "messages.jsonl"), draft: filepath.Join(dir, "draft-"+hex.EncodeToString(sum[:8]))}
}

// Read returns the earlier messages, the latest last, and the draft that was not sent.
func (p *Past) Read() (messages []string, draft string, err error) {
	draft, err = read(p.draft)
	if err != nil {
		return nil, "", err
	}
	f, err := os.Open(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, draft, nil
	}
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	skipped := max(info.Size()-maxFile, 0)
	lines := bufio.NewScanner(io.NewSectionReader(f, skipped, maxFile))
	lines.Buffer(nil, 8*maxMessage) // JSON may escape each byte
	for first := skipped > 0; lines.Scan(); first = false {
		var e entry
		if first || json.Unmarshal(lines.Bytes(), &e) != nil || e.Text == "" {
			continue // a part of a line, or one that a crash has cut
		}
		if n := len(messages); n == 0 || messages[n-1] != e.Text {
			messages = append(messages, e.Text)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return nil, "", err
	}
	messages = messages[max(len(messages)-maxMessages, 0):]
	if skipped > 0 {
		err = p.shorten(messages)
	}
	return messages, draft, err
}

// shorten replaces the file by one with these messages.
func (p *Past) shorten(messages []string) error {
	var b bytes.Buffer
	for _, m := range messages[len(messages)/2:] { // so that it is not shortened again soon
		line, err := json.Marshal(entry{m})
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	return replace(p.file, b.Bytes())
}

// Add keeps a message.
func (p *Past) Add(text string) error {
	text = p.secrets.Text(text)
	if strings.TrimSpace(text) == "" || len(text) > maxMessage {
		return nil
	}
	line, err := json.Marshal(entry{text})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(p.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n')) // one write, so that lines of several terminals don't mix
	return errors.Join(err, f.Close())
}

// Draft keeps the message that is being written; empty: there is none.
func (p *Past) Draft(text string) error {
	text = p.secrets.Text(text)
	if strings.TrimSpace(text) == "" || len(text) > maxMessage {
		if err := os.Remove(p.draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return replace(p.draft, []byte(text))
}

// read returns the start of a file; empty: there is none.
func read(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxMessage))
	return strings.ToValidUTF8(string(b), ""), err
}

// replace writes a file that only the user can read, as a whole or not at all.
func replace(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // readable for the user alone
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
