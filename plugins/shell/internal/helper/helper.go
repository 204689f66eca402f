// Package helper accesses the user's files for the tools. The plugin itself has no permission to, so the host starts the plugin's binary
// again with the grant of the call, and that process answers one request.
//
// It owns: the requests, their format on stdin and stdout, and the limits of their size. It must not know: calls, the contract with the
// host, or what a model reads.
//
// Start with [Main] in the helper and [Client] in the plugin.
package helper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/gantry-agent/gantry/plugins/shell/internal/look"
	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
	"github.com/gantry-agent/gantry/plugins/shell/internal/picture"
	"github.com/gantry-agent/gantry/sdk/process"
)

// The modes of the binary, passed as its only argument.
const (
	modeVerify = "--verify" // what would this patch or edit do?
	modeApply  = "--apply"  // do what a plan says
	modeView   = "--view"   // read an image
	modeLook   = "--look"   // read, list or search files
)

// version is the version of the requests. It differs if the binary was replaced after the start of the plugin.
const version = 2

// maxAnswerBytes is the maximum size of an answer, which may contain all files of a patch, or an image.
const maxAnswerBytes = 256 << 20

type request struct {
	Version int           `json:"version"`
	Cwd     string        `json:"cwd,omitempty"`
	Patch   string        `json:"patch,omitempty"`
	Edit    *patch.Edit   `json:"edit,omitempty"`
	Plan    *patch.Plan   `json:"plan,omitempty"`
	Path    string        `json:"path,omitempty"`
	Look    *look.Request `json:"look,omitempty"`
	// Original requests an image in its original size, if possible.
	Original bool `json:"original,omitempty"`
}

type answer struct {
	Refusal string         `json:"refusal,omitempty"` // an error text for the model
	Plan    *patch.Plan    `json:"plan,omitempty"`
	Outcome *patch.Outcome `json:"outcome,omitempty"`
	Image   *Image         `json:"image,omitempty"` // followed by its bytes
	Text    string         `json:"text,omitempty"`
}

// Image is an image that was read.
type Image struct {
	MediaType   string `json:"mediaType"`
	Data        []byte `json:"-"`
	SizeInBytes int    `json:"size"`
}

// Wanted reports whether the command line starts a helper.
func Wanted(args []string) bool {
	return len(args) == 2 && slices.Contains([]string{modeVerify, modeApply, modeView, modeLook}, args[1])
}

// Main answers the request from in and returns the exit code. The answer is a line of JSON, followed by the bytes of the image if there
// is one.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	a, err := serve(args[1], in)
	if err == nil {
		var line []byte
		if line, err = json.Marshal(a); err == nil {
			_, err = out.Write(append(line, '\n'))
		}
	}
	if err == nil && a.Image != nil {
		_, err = out.Write(a.Image.Data)
	}
	if err != nil {
		fmt.Fprintf(errs, "%s: %v\n", args[1], err)
		return 1
	}
	return 0
}

func serve(mode string, in io.Reader) (*answer, error) {
	var req request
	if err := json.NewDecoder(in).Decode(&req); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if req.Version != version {
		return nil, fmt.Errorf("the request has version %d, but this binary supports %d: restart the plugin", req.Version, version)
	}
	switch {
	case mode == modeVerify:
		return verify(req), nil
	case mode == modeApply && req.Plan != nil:
		o := req.Plan.Apply()
		return &answer{Outcome: &o}, nil
	case mode == modeView:
		return view(req)
	case mode == modeLook && req.Look != nil:
		text, err := req.Look.Answer()
		if err != nil {
			return &answer{Refusal: err.Error()}, nil
		}
		return &answer{Text: text}, nil
	}
	return nil, errors.New("the request is empty")
}

func verify(req request) *answer {
	if req.Edit != nil {
		plan, err := patch.VerifyEdit(req.Cwd, *req.Edit)
		if err != nil {
			return &answer{Refusal: err.Error()}
		}
		return &answer{Plan: plan}
	}
	p, err := patch.Parse(req.Patch)
	if err == nil {
		var plan *patch.Plan
		if plan, err = patch.Verify(req.Cwd, p); err == nil {
			return &answer{Plan: plan}
		}
	}
	return &answer{Refusal: patch.Explain(err)}
}

func view(req request) (*answer, error) {
	refuse := func(format string, args ...any) (*answer, error) {
		return &answer{Refusal: fmt.Sprintf(format, args...)}, nil
	}
	info, err := os.Stat(req.Path)
	if err != nil {
		return refuse("unable to locate image at `%s`: %s", req.Path, patch.OSText(err))
	}
	if !info.Mode().IsRegular() {
		return refuse("image path `%s` is not a file", req.Path)
	}
	data, err := readImage(req.Path)
	if errors.Is(err, picture.ErrUndecodable) {
		return refuse("unable to process image: %v", err)
	}
	if err != nil {
		return refuse("unable to read image at `%s`: %s", req.Path, patch.OSText(err))
	}
	budget := picture.High()
	if req.Original {
		budget = picture.Original()
	}
	p, err := picture.Prepare(data, budget)
	if err != nil {
		return refuse("unable to process image: %v", err)
	}
	return &answer{Image: &Image{MediaType: p.MediaType, Data: p.Data, SizeInBytes: len(p.Data)}}, nil
}

// readImage reads a file, but only its beginning if it is not an image.
func readImage(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 12)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !picture.Known(head[:n]) {
		return nil, picture.ErrUndecodable
	}
	rest, err := io.ReadAll(io.LimitReader(f, picture.MaxBytes))
	if err != nil {
		return nil, err
	}
	if len(rest) == picture.MaxBytes {
		return nil, fmt.Errorf("the file is larger than %d bytes", picture.MaxBytes)
	}
	return append(head[:n], rest...), nil
}

// Client sends requests to helpers, one process for each.
type Client struct{ Binary string }

// Command prepares a process with the grant of a call.
type Command func(ctx context.Context, argv ...string) *process.Cmd

// Verify returns the plan of a patch. The error is a [patch.Refusal] if it can't be applied.
func (c Client) Verify(ctx context.Context, command Command, cwd, text string) (*patch.Plan, error) {
	return c.verify(ctx, command, request{Cwd: cwd, Patch: text})
}

// VerifyEdit returns the plan of an edit. The error is a [patch.Refusal] if it can't be made.
func (c Client) VerifyEdit(ctx context.Context, command Command, cwd string, e patch.Edit) (*patch.Plan, error) {
	return c.verify(ctx, command, request{Cwd: cwd, Edit: &e})
}

func (c Client) verify(ctx context.Context, command Command, req request) (*patch.Plan, error) {
	a, err := c.ask(ctx, command, modeVerify, true, req)
	if err != nil {
		return nil, err
	}
	if a.Plan == nil {
		return nil, errors.New("the helper answered without a plan")
	}
	return a.Plan, nil
}

// Look reads, lists or searches files. The error is a [patch.Refusal] if the request can't be answered.
func (c Client) Look(ctx context.Context, command Command, r look.Request) (string, error) {
	a, err := c.ask(ctx, command, modeLook, true, request{Look: &r})
	if err != nil {
		return "", err
	}
	return a.Text, nil
}

// Apply applies a plan.
func (c Client) Apply(ctx context.Context, command Command, plan *patch.Plan) (patch.Outcome, error) {
	a, err := c.ask(ctx, command, modeApply, false, request{Plan: plan.Slim()})
	if err != nil {
		return patch.Outcome{}, err
	}
	if a.Outcome == nil || a.Outcome.Done > len(plan.Changes) {
		return patch.Outcome{}, errors.New("the helper answered without an outcome")
	}
	return *a.Outcome, nil
}

// View reads an image.
func (c Client) View(ctx context.Context, command Command, path string, original bool) (*Image, error) {
	a, err := c.ask(ctx, command, modeView, true, request{Path: path, Original: original})
	if err != nil {
		return nil, err
	}
	if a.Image == nil {
		return nil, errors.New("the helper answered without an image")
	}
	return a.Image, nil
}

func (c Client) ask(ctx context.Context, command Command, mode string, readOnly bool, req request) (*answer, error) {
	req.Version = version
	in, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("ask helper: %w", err)
	}
	out, errs := &limitedBuffer{limit: maxAnswerBytes}, &limitedBuffer{limit: 4096}
	cmd := command(ctx, c.Binary, mode)
	cmd.ReadOnly = cmd.ReadOnly || readOnly
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), out, errs
	if runtime.GOOS != "windows" {
		cmd.Dir = "/" // all paths are absolute, and the call's folder may not exist
	}
	if err := cmd.Run(); err != nil {
		if _, ok := errors.AsType[*process.ExitError](err); ok && errs.buf.Len() > 0 {
			return nil, fmt.Errorf("helper %s: %w: %s", mode, err, bytes.TrimSpace(errs.buf.Bytes()))
		}
		return nil, fmt.Errorf("helper %s: %w", mode, err)
	}
	if out.truncated {
		return nil, fmt.Errorf("helper %s: the answer is larger than %d bytes", mode, maxAnswerBytes)
	}
	line, rest, _ := bytes.Cut(out.buf.Bytes(), []byte("\n"))
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, fmt.Errorf("helper %s: read answer: %w", mode, err)
	}
	if a.Refusal != "" {
		return nil, patch.Refusal(a.Refusal)
	}
	if a.Image != nil {
		if len(rest) != a.Image.SizeInBytes {
			return nil, fmt.Errorf("helper %s: got %d of %d bytes", mode, len(rest), a.Image.SizeInBytes)
		}
		a.Image.Data = rest
	}
	return &a, nil
}

// limitedBuffer stores the first bytes that are written, up to limit.
type limitedBuffer struct {
	buf       bytes.Buffer
	limit     int
	truncated bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	room := b.limit - b.buf.Len()
	if len(p) > room {
		b.truncated = true
		b.buf.Write(p[:room])
		return len(p), nil
	}
	return b.buf.Write(p)
}
