package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// readPrompt finds the task in the arguments and on standard input. Input is only read where it is piped; with a task
// it is added as a block.
func readPrompt(args []string, stdin *os.File) (string, error) {
	prompt := ""
	if len(args) > 0 {
		prompt = args[0]
	}
	if prompt != "" && prompt != "-" {
		if !piped(stdin) {
			return prompt, nil
		}
		text, err := readText(stdin)
		if err != nil || strings.TrimSpace(text) == "" {
			return prompt, err
		}
		return fmt.Sprintf("%s\n\n<stdin>\n%s\n</stdin>", prompt, strings.TrimSuffix(text, "\n")), nil
	}
	if prompt == "" && !piped(stdin) {
		return "", usage("no task: give it as an argument or on standard input")
	}
	text, err := readText(stdin)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("no prompt provided via stdin")
	}
	return text, nil
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
		return "", fmt.Errorf("standard input is longer than %d MiB; put it into a file and name the file in the task", maxTask>>20)
	}
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe, 0, 0}), bytes.HasPrefix(b, []byte{0, 0, 0xfe, 0xff}):
		return "", fmt.Errorf("standard input is UTF-32; convert it to UTF-8")
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return decode16(b[2:], binary.LittleEndian)
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return decode16(b[2:], binary.BigEndian)
	}
	b = bytes.TrimPrefix(b, []byte{0xef, 0xbb, 0xbf})
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return "", fmt.Errorf("standard input is not UTF-8: invalid byte at offset %d", i)
		}
		i += n
	}
	return string(b), nil
}

func decode16(b []byte, order binary.ByteOrder) (string, error) {
	if len(b)%2 != 0 {
		return "", fmt.Errorf("standard input is UTF-16 with an odd number of bytes")
	}
	units := make([]uint16, 0, len(b)/2)
	for ; len(b) > 0; b = b[2:] {
		units = append(units, order.Uint16(b))
	}
	return string(utf16.Decode(units)), nil
}
