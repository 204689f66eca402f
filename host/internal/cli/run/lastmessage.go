package run

import (
	"fmt"
	"os"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
)

// prepareOutput checks that the file for the last message can be written before the model is used. An existing file keeps its
// content until the turn is completed.
func (a *app) prepareOutput(f *execFlags) error {
	if f.lastMessage == "" {
		return nil
	}
	if f.lastMessage != "-" {
		file, err := os.OpenFile(f.lastMessage, os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return hint.With(fmt.Errorf("can't write the last message to %s: %v", f.lastMessage, console.PathReason(err)), "specify a file in an existing folder")
		}
		same := sameFile(file, a.Stdout.File)
		if err := file.Close(); err != nil || !same {
			return err
		}
	}
	if f.json || f.events {
		return console.UsageError{Text: "--output-last-message can't share standard output with JSON lines", Next: "specify a file, or read the message from the JSON lines"}
	}
	f.lastMessage = "" // it is written there anyway
	return nil
}

// sameFile reports whether two open files are the same, as /dev/stdout and standard output are.
func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// writeLast writes the last message of a completed turn.
func (f *execFlags) writeLast(message string) error {
	if f.lastMessage == "" {
		return nil
	}
	if err := os.WriteFile(f.lastMessage, []byte(message), 0o666); err != nil { // the usual mode for a file that the user requested
		return fmt.Errorf("the last message was not written: %w", err)
	}
	return nil
}
