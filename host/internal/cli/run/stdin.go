package run

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"github.com/gantry-agent/gantry/host/internal/picture"
	"github.com/gantry-agent/gantry/sdk/llm"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
)

// stdinPatience is how long to wait for the end of standard input before printing a note. Some supervisors never close it, and the
// wait then looks like a hang.
const stdinPatience = 2 * time.Second

// readPrompt returns the task. It prints a note if reading it takes long.
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

// readPrompt reads the task from the arguments and standard input. Piped input is appended as a block if there is also a task in
// the arguments. An empty task is an error.
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

// checkTask rejects a task that is empty or not UTF-8.
func checkTask(s string) error {
	if at := invalidUTF8([]byte(s)); at >= 0 {
		return console.UsageError{Text: fmt.Sprintf("the task is not UTF-8: invalid byte at offset %d", at), Next: "convert it, for example with iconv"}
	}
	if strings.TrimSpace(s) == "" {
		return console.UsageError{Text: "the task is empty", Next: "describe the task, or use - to read it from standard input"}
	}
	return nil
}

// invalidUTF8 returns the offset of the first byte that is not valid UTF-8, or -1.
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

// piped reports whether f is a pipe or a file, as opposed to a terminal or /dev/null.
func piped(f *os.File) bool {
	if f == nil {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice == 0
}

// maxTask limits the size of a task, like that of its images, to half of what fits into a message to a provider, which leaves room for the rest of the
// conversation.
const maxTask = 8 << 20

// readText decodes UTF-8 with or without a byte order mark, and UTF-16 with one.
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

// readImages reads images. An image that the model could not use is an error, reported before anything is started.
func readImages(paths []string) ([]llm.Part, error) {
	var parts []llm.Part
	left := picture.MaxTotal
	for _, path := range paths {
		data, mediaType, err := picture.Read(path, left)
		if err != nil {
			return nil, console.Usage("the image %s can't be attached: %w", path, err)
		}
		left -= len(data)
		parts = append(parts, &llm.Media{MediaType: mediaType, Data: data, Filename: filepath.Base(path)})
	}
	return parts, nil
}
