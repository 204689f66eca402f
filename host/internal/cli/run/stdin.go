package run

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
)

// stdinPatience is how long is waited for the end of standard input before people are told of it. It stays open for ever
// under some supervisors, and a task that is waited for looks like one that hangs.
const stdinPatience = 2 * time.Second

// readPrompt finds the task, and says so where that takes long.
func (a *app) readPrompt(args []string) (string, error) {
	told := time.AfterFunc(stdinPatience, func() {
		if piped(a.Stdin) {
			fmt.Fprintln(a.Stderr, "Note: waiting for the end of standard input, which is part of the task; add </dev/null if it is not")
		}
	})
	defer told.Stop()
	prompt, err := readPrompt(args, a.Stdin)
	return prompt, unfit(err)
}

// readPrompt finds the task in the arguments and on standard input. Input is only read where it is piped; with a task
// it is added as a block. An empty task is refused: a thread of it would be about nothing.
func readPrompt(args []string, stdin *os.File) (string, error) {
	if len(args) > 0 && args[0] != "-" {
		prompt := args[0]
		if err := checkTask(prompt); err != nil {
			return "", err
		}
		if !piped(stdin) {
			return prompt, nil
		}
		text, err := readText(stdin)
		if err != nil || strings.TrimSpace(text) == "" {
			return prompt, err
		}
		return fmt.Sprintf("%s\n\n<stdin>\n%s\n</stdin>", prompt, strings.TrimSuffix(text, "\n")), nil
	}
	if stdin == nil || len(args) == 0 && !piped(stdin) {
		return "", console.UsageError{Text: "no task", Next: "pass it as an argument or on standard input"}
	}
	text, err := readText(stdin)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(text) == "" {
		return "", console.UsageError{Text: "the task is empty: no data on standard input", Next: "pass it as an argument, or pipe it in"}
	}
	return text, nil
}

// checkTask refuses what can't be a task.
func checkTask(s string) error {
	if at := invalidUTF8([]byte(s)); at >= 0 {
		return console.UsageError{Text: fmt.Sprintf("the task is not UTF-8: invalid byte at offset %d", at), Next: "convert it, for example with iconv"}
	}
	if strings.TrimSpace(s) == "" {
		return console.UsageError{Text: "the task is empty", Next: "describe the task, or use - to read it from standard input"}
	}
	return nil
}

// invalidUTF8 is the offset of the first byte that is no UTF-8, or -1.
func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// piped tells whether f is a pipe or a file: a terminal has nothing to read, and neither has /dev/null.
func piped(f *os.File) bool {
	if f == nil {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice == 0
}

// maxTask is the most that is read as a task: half of what a message to a provider holds, so that the rest of the
// conversation has room.
const maxTask = 8 << 20

// readText decodes UTF-8 with or without a byte order mark and UTF-16 with one.
func readText(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTask+1))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	if len(b) > maxTask {
		return "", console.UsageError{Text: fmt.Sprintf("standard input is longer than %d MiB", maxTask>>20), Next: "put it into a file, and mention the file in the task"}
	}
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe, 0, 0}), bytes.HasPrefix(b, []byte{0, 0, 0xfe, 0xff}):
		return "", console.UsageError{Text: "standard input is UTF-32", Next: "convert it to UTF-8"}
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return decode16(b[2:], binary.LittleEndian)
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return decode16(b[2:], binary.BigEndian)
	}
	b = bytes.TrimPrefix(b, []byte{0xef, 0xbb, 0xbf})
	if at := invalidUTF8(b); at >= 0 {
		return "", console.UsageError{Text: fmt.Sprintf("standard input is not UTF-8: invalid byte at offset %d", at), Next: "convert it, for example with iconv"}
	}
	return string(b), nil
}

func decode16(b []byte, order binary.ByteOrder) (string, error) {
	if len(b)%2 != 0 {
		return "", console.UsageError{Text: "standard input is UTF-16 with an odd number of bytes", Next: "check whether it is truncated"}
	}
	units := make([]uint16, 0, len(b)/2)
	for ; len(b) > 0; b = b[2:] {
		units = append(units, order.Uint16(b))
	}
	return string(utf16.Decode(units)), nil
}
