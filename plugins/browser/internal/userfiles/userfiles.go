// Package userfiles accesses the user's files for the browser plugin. The plugin itself has no permission to, so the host starts the plugin's
// binary again with the grant of the call, and that process answers one request. The text of a PDF file is found by such a process
// too, one that is granted nothing, because the file may be made to break whatever reads it.
//
// It owns: the requests, their format, and the limits of their size. It must not know: calls, or what a model reads.
//
// Start with [Main] in the helper and [Client] in the plugin.
package userfiles

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/files"
	"github.com/gantry-agent/gantry/sdk/process"
)

// The modes of the binary.
const (
	modeFree = "--free" // which name is free in a folder?
	modeSave = "--save" // write a new file
	modeRead = "--read" // read a file
	modePDF  = "--pdf"  // find the text of a PDF file
)

const (
	// maxFile is the maximum size of a file that is read.
	maxFile = 256 << 20
	// maxPDF is the maximum size of a PDF file whose text is found.
	maxPDF = 64 << 20
	// pdfTime limits how long that may take.
	pdfTime = 20 * time.Second
	// pdfMemory is the maximum memory that it may take, in bytes.
	pdfMemory = 1 << 30
)

// request is the first line of standard input, and what follows it is the content of a file.
type request struct {
	Base string `json:"base,omitempty"` // an existing folder that must not be left; empty: Dir exists, or its parent does
	Dir  string `json:"dir,omitempty"`  // below Base, or absolute
	Name string `json:"name,omitempty"`
	Path string `json:"path,omitempty"`
}

// answer is the first line of standard output, and what follows it is the content of a file.
type answer struct {
	Refusal string `json:"refusal,omitempty"` // an error for the model
	Taken   bool   `json:"taken,omitempty"`
	Name    string `json:"name,omitempty"`
	Size    int64  `json:"size,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Wanted reports whether the command line starts a helper.
func Wanted(args []string) bool {
	return len(args) == 2 && slices.Contains([]string{modeFree, modeSave, modeRead, modePDF}, args[1])
}

// Main answers the request from in and returns the exit code.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	if err := serve(args[1], in, out); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", args[1], err)
		return 1
	}
	return 0
}

func serve(mode string, in io.Reader, out io.Writer) error {
	r := bufio.NewReaderSize(in, 64<<10)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	var a answer
	var content io.ReadCloser
	switch mode {
	case modeFree:
		a = free(q)
	case modeSave:
		a = save(q, r)
	case modeRead:
		a, content = read(q)
	case modePDF:
		a = textOfPDF(r)
	}
	if content != nil {
		defer content.Close()
	}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if _, err = out.Write(append(b, '\n')); err != nil || content == nil {
		return err
	}
	_, err = io.CopyN(out, content, a.Size)
	return err
}

func refusal(err error) answer { return answer{Refusal: explain(err)} }

// explain leaves out what of an error is no news to who has given the path.
func explain(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// folder opens the folder of a request, and makes it if create is set. A symbolic link must not lead out of Base, or, without one, be the folder
// itself: what is written would be elsewhere than where the user has looked.
func (q request) folder(create bool) (*os.Root, error) {
	if q.Base == "" {
		if i, err := os.Lstat(q.Dir); err == nil && i.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a symbolic link", q.Dir)
		}
		if create {
			if err := os.MkdirAll(q.Dir, 0o777); err != nil {
				return nil, err
			}
		}
		return os.OpenRoot(q.Dir)
	}
	base, err := os.OpenRoot(q.Base)
	if err != nil {
		return nil, err
	}
	defer base.Close()
	if create {
		if err := base.MkdirAll(q.Dir, 0o777); err != nil {
			return nil, err
		}
	}
	return base.OpenRoot(q.Dir)
}

func free(q request) answer {
	dir, err := q.folder(false)
	if errors.Is(err, fs.ErrNotExist) {
		return answer{Name: q.Name}
	}
	if err != nil {
		return refusal(err)
	}
	defer dir.Close()
	name, err := files.Free(q.Name, func(s string) bool {
		_, err := dir.Lstat(s)
		return !errors.Is(err, fs.ErrNotExist)
	})
	if err != nil {
		return refusal(err)
	}
	return answer{Name: name}
}

func save(q request, content io.Reader) answer {
	dir, err := q.folder(true)
	if err != nil {
		return refusal(err)
	}
	defer dir.Close()
	f, err := dir.OpenFile(q.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return answer{Taken: true}
	}
	if err != nil {
		return refusal(err)
	}
	n, err := io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err != nil {
		return refusal(errors.Join(err, dir.Remove(q.Name)))
	}
	return answer{Name: q.Name, Size: n}
}

func read(q request) (answer, io.ReadCloser) {
	real, err := filepath.EvalSymlinks(q.Path)
	if err != nil {
		return refusal(err), nil
	}
	if real != q.Path {
		return answer{Refusal: fmt.Sprintf("a symbolic link leads to %s; use that path", real)}, nil
	}
	i, err := os.Lstat(real)
	if err != nil {
		return refusal(err), nil
	}
	if !i.Mode().IsRegular() {
		return answer{Refusal: "it is not a file"}, nil
	}
	f, err := openFile(real)
	if err != nil {
		return refusal(err), nil
	}
	if i, err = f.Stat(); err != nil || !i.Mode().IsRegular() {
		_ = f.Close()
		return answer{Refusal: "it is not a file"}, nil
	}
	switch {
	case i.Size() == 0:
		_ = f.Close()
		return answer{Refusal: "it is empty"}, nil
	case i.Size() > maxFile:
		_ = f.Close()
		return answer{Refusal: fmt.Sprintf("it is larger than %d MB", maxFile>>20)}, nil
	}
	return answer{Size: i.Size()}, f
}

// Refusal is why a request can't be met; its text is for the model.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// ErrTaken is the error of a name that was taken meanwhile.
var ErrTaken = errors.New("the name is taken")

// Client sends requests to helpers, one process for each.
type Client struct{ Binary string }

// Command prepares a process with the grant of a call.
type Command func(ctx context.Context, argv ...string) *process.Cmd

// Place is where files are written: Dir, which is below Base unless that is empty.
type Place struct{ Base, Dir string }

// Free returns the name, or one like it, that is free in a folder.
func (c Client) Free(ctx context.Context, command Command, at Place, name string) (string, error) {
	cmd := command(ctx, c.Binary, modeFree)
	cmd.ReadOnly = true
	a, err := ask(cmd, request{Base: at.Base, Dir: at.Dir, Name: name}, nil, nil)
	return a.Name, err
}

// Save writes a new file. The error is [ErrTaken] if there is one of that name.
func (c Client) Save(ctx context.Context, command Command, at Place, name string, content io.Reader) error {
	a, err := ask(command(ctx, c.Binary, modeSave), request{Base: at.Base, Dir: at.Dir, Name: name}, content, nil)
	if err == nil && a.Taken {
		return ErrTaken
	}
	return err
}

// Read writes the content of a file to w. path is absolute, clean and not that of a symbolic link.
func (c Client) Read(ctx context.Context, command Command, path string, w io.Writer) error {
	cmd := command(ctx, c.Binary, modeRead)
	cmd.ReadOnly = true
	_, err := ask(cmd, request{Path: path}, nil, w)
	return err
}

// PDFText returns the text of a PDF file. The process has nothing but the file.
func (c Client) PDFText(ctx context.Context, command Command, content io.Reader) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pdfTime, Refusal(fmt.Sprintf("its text was not found within %v", pdfTime)))
	defer cancel()
	cmd := command(ctx, c.Binary, modePDF)
	cmd.Narrow, cmd.QuietNetwork, cmd.Limits = true, true, process.Limits{CPU: pdfTime}
	if runtime.GOOS == "linux" {
		cmd.Limits.Memory = pdfMemory
	}
	a, err := ask(cmd, request{}, content, nil)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return a.Text, err
}

func ask(cmd *process.Cmd, q request, content io.Reader, w io.Writer) (answer, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	in := io.Reader(strings.NewReader(string(b) + "\n"))
	if content != nil {
		in = io.MultiReader(in, content)
	}
	out, errs := &output{content: w}, &output{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = in, out, errs, "/" // all paths are absolute
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(string(errs.line)); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return answer{}, fmt.Errorf("helper %s: %w", cmd.Args[1], err)
	}
	var a answer
	if err := json.Unmarshal(out.line, &a); err != nil {
		return answer{}, fmt.Errorf("helper %s: read answer: %w", cmd.Args[1], err)
	}
	switch {
	case a.Refusal != "":
		return a, Refusal(a.Refusal)
	case w != nil && out.written != a.Size:
		return a, fmt.Errorf("helper %s: got %d of %d bytes", cmd.Args[1], out.written, a.Size)
	}
	return a, nil
}

// output takes a line and passes on what follows it.
type output struct {
	line    []byte
	ended   bool
	content io.Writer // nil: dropped
	written int64
}

// maxLine is the maximum size of the line of an answer.
const maxLine = 4 << 20

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	for i, c := range p {
		if o.ended {
			p = p[i:]
			break
		}
		if c == '\n' {
			o.ended = true
			p = p[i+1:]
			break
		}
		if len(o.line) < maxLine {
			o.line = append(o.line, c)
		}
	}
	if !o.ended || o.content == nil || len(p) == 0 {
		return n, nil
	}
	o.written += int64(len(p))
	if o.written > maxFile {
		return 0, errors.New("the file is too large")
	}
	if _, err := o.content.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}
