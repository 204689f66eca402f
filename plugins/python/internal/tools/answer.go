package tools

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/python/internal/kernel"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	// maxImages is the number of images that the model gets; people see all of them.
	maxImages = 20
	// maxTokens is the maximum number of tokens of text that the model gets.
	maxTokens = 10_000
	// defaultInline is the contract's default for the size of a result part.
	defaultInline = 1 << 20
	// imageTrait is that of models that accept images.
	imageTrait = "images"
)

// imageTypes are the types of images that models accept, the best first.
var imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}

// answer is what is known of a cell beyond its outcome.
type answer struct {
	call      *tool.Call
	item      *contract.CodeItem
	wall      time.Duration
	timeout   time.Duration
	memory    string // limit of each process, as in the plugin's block
	lost      string // why an earlier kernel has ended
	changed   bool   // the permissions are not those of the kernel
	exit      string // how the kernel has ended during the cell
	session   string
	artifacts []contract.ArtifactRef
	events    []json.RawMessage // steps in a browser, of the results of tools that code has called
}

// artifact describes stored content to code and to the reader of a structured result.
type artifact struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
}

func artifactOf(r contract.ArtifactRef) artifact {
	return artifact{r.Name, r.MediaType, r.SizeBytes, r.SHA256}
}

// structured is the structured result.
type structured struct {
	Status         string            `json:"status"` // "ok", "error", "interrupted", "timeout", "lost"
	Text           string            `json:"text"`
	Data           json.RawMessage   `json:"data,omitempty"` // of the last expression, if it is JSON
	Outputs        []output          `json:"outputs"`
	Artifacts      []artifact        `json:"artifacts"`
	Images         []picture         `json:"images"`
	BrowserEvents  []json.RawMessage `json:"browser_events"` // of the results of tools that code has called
	Error          *kernel.Failure   `json:"error,omitempty"`
	ExecutionCount int               `json:"execution_count"`
	ElapsedMS      int64             `json:"elapsed_ms"`
	NamespaceLost  bool              `json:"namespace_lost"`
}

// output is a piece of what a cell has printed, in the order of writing, or a value that it has shown or added.
type output struct {
	Type  string                     `json:"type"`           // "stdout", "stderr", "display", "result", "value"
	Text  string                     `json:"text,omitempty"` // of all but "value"
	Data  map[string]json.RawMessage `json:"data,omitempty"` // media type → representation that is neither text/plain nor an image
	Label string                     `json:"label,omitempty"`
	Value json.RawMessage            `json:"value,omitempty"` // of "value"
}

// picture describes an image, which is a part of the result.
type picture struct {
	MediaType string `json:"media_type"`
	Size      int    `json:"size"`
}

// result returns the result of a cell.
func (a answer) result(o *kernel.Outcome) *tool.Result {
	status := o.Status
	switch {
	case o.TimedOut && o.Status != "ok":
		status = "timeout"
	case o.Lost():
		status = "lost"
	}
	text, images := a.body(o)
	limit := a.call.Caps().MaxInlineBytes
	if limit <= 0 {
		limit = defaultInline
	}
	s, missing := a.structured(o, status, text, images, int(limit))
	o.Dropped += missing
	r := &tool.Result{IsError: status != "ok", SessionID: a.session, Structured: s}
	r.Parts = append(r.Parts, &contract.TextPart{Text: a.header(o, status), Fit: contract.FitVerbatim})
	if text != "" {
		tokens := int64(maxTokens)
		p := &contract.TextPart{Text: text, Fit: contract.FitTruncatable, MaxTokens: &tokens, AnnounceTruncation: true}
		if o.Output.Omitted > 0 {
			p.TotalBytes, p.OmittedBytes = int64(len(text))+o.Output.Omitted, o.Output.Omitted
		}
		r.Parts = append(r.Parts, p)
	}
	seen := slices.Contains(a.call.ModelTraits(), imageTrait)
	for i, m := range images {
		if !seen || i >= maxImages {
			m.Audience = contract.AudienceUser
		}
		r.Parts = append(r.Parts, m)
	}
	for _, ref := range a.artifacts {
		r.Parts = append(r.Parts, &contract.ArtifactPart{Audience: contract.AudienceUser, Artifact: ref})
	}
	r.Item = a.item
	return r
}

// structured returns the structured result in at most limit bytes. missing is the number of values that it has no room for.
func (a answer) structured(o *kernel.Outcome, status, text string, images []*contract.MediaPart, limit int) (b json.RawMessage, missing int) {
	s := structured{
		Status: status, Artifacts: []artifact{}, Images: []picture{}, ExecutionCount: o.Count, ElapsedMS: a.wall.Milliseconds(),
		NamespaceLost: a.exit != "" || a.lost != "",
	}
	for _, m := range images {
		s.Images = append(s.Images, picture{m.MediaType, len(m.Data)})
	}
	for _, ref := range a.artifacts {
		s.Artifacts = append(s.Artifacts, artifactOf(ref))
	}
	for share := limit / 4; ; share /= 2 { // escaped, text can be much longer
		s.Text, s.Error, s.Data = short(text, share), nil, nil
		if f := o.Failure; f != nil {
			s.Error = &kernel.Failure{EName: short(f.EName, share/8), EValue: short(f.EValue, share/8), Traceback: short(f.Traceback, share/4)}
		}
		s.Outputs, s.BrowserEvents, missing = []output{}, []json.RawMessage{}, 0
		room := share
		for _, x := range o.Output.Streams() {
			kind := "stdout"
			if x.Stderr {
				kind = "stderr"
			}
			if t := short(x.Text, room); room > 0 {
				s.Outputs = append(s.Outputs, output{Type: kind, Text: t})
				room -= len(t)
			}
		}
		room = share
		for _, d := range o.Displays {
			x := output{Type: "display", Data: map[string]json.RawMessage{}}
			if d.Result {
				x.Type = "result"
				if v := d.Data["application/json"]; len(v) <= share/2 {
					s.Data = v
				}
			}
			size := 0
			for mime, v := range d.Data {
				if mime == "text/plain" {
					_ = json.Unmarshal(v, &x.Text)
					x.Text = short(x.Text, share/8)
				} else if !slices.Contains(imageTypes, mime) {
					x.Data[mime] = v
				}
			}
			for mime, v := range x.Data {
				size += len(mime) + len(v)
			}
			if size += len(x.Text); size > room {
				missing++
				continue
			}
			room -= size
			s.Outputs = append(s.Outputs, x)
		}
		room = share
		for _, v := range o.Values {
			if len(v.Value)+len(v.Label) > room {
				missing++
				continue
			}
			room -= len(v.Value) + len(v.Label)
			s.Outputs = append(s.Outputs, output{Type: "value", Label: v.Label, Value: v.Value})
		}
		room = share / 2
		for _, e := range a.events {
			if len(e) > room {
				missing++
				continue
			}
			room -= len(e)
			s.BrowserEvents = append(s.BrowserEvents, e)
		}
		b, err := json.Marshal(s)
		if err != nil { // impossible: what came from the worker has been parsed
			panic("tools: marshal result: " + err.Error())
		}
		if len(b) <= limit || share == 0 {
			return b, missing
		}
	}
}

// header is what the model must see, regardless of the truncation of the rest.
func (a answer) header(o *kernel.Outcome, status string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Wall time: %.1f seconds\n", a.wall.Seconds())
	if a.lost != "" {
		fmt.Fprintf(&b, "This is a new kernel, without earlier variables: the previous one is gone (%s).\n", a.lost)
	}
	if a.changed {
		b.WriteString("The kernel keeps the permissions that it was started with, which have changed since. python_reset starts one with the " +
			"current permissions, without variables.\n")
	}
	switch {
	case a.exit != "" && o.TimedOut:
		fmt.Fprintf(&b, "The code did not end within %v and could not be interrupted, so the kernel was killed. All variables are lost; "+
			"the next call has a new kernel.\n", a.timeout)
	case a.exit != "":
		fmt.Fprintf(&b, "The kernel has ended during the call (%s). All variables are lost; the next call has a new kernel.\n", a.exit)
	case status == "timeout":
		fmt.Fprintf(&b, "The code did not end within %v and was interrupted. Variables are kept.\n", a.timeout)
	case status == "lost":
		b.WriteString("The plugin was replaced during the call. The code is interrupted; variables are kept.\n")
	}
	if f := o.Failure; f != nil && a.confined() && (f.EName == "PermissionError" || strings.Contains(f.EValue, "Read-only file system")) {
		b.WriteString("The sandbox has probably blocked this. If the user agrees, python_reset with sandbox_permissions=require_escalated " +
			"starts a kernel outside of it.\n")
	}
	if f := o.Failure; f != nil && strings.HasSuffix(f.EName, "MemoryError") && a.memory != "0" && runtime.GOOS == "linux" {
		fmt.Fprintf(&b, "The kernel may use at most %s of memory (`memory` in the plugin's block).\n", a.memory)
	}
	if o.Dropped > 0 {
		fmt.Fprintf(&b, "%d values were too many or too large and are left out of the structured result.\n", o.Dropped)
	}
	b.WriteString("Output:\n")
	return b.String()
}

func (a answer) confined() bool {
	mode := a.call.Grant().SandboxMode
	return mode != "" && mode != "full-access"
}

// body returns the text of a cell, and its images.
func (a answer) body(o *kernel.Outcome) (string, []*contract.MediaPart) {
	var b strings.Builder
	b.WriteString(o.Output.String())
	line := func(s string) {
		if s == "" {
			return
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	var images []*contract.MediaPart
	for _, d := range o.Displays {
		image := imageOf(d.Data)
		if image != nil {
			images = append(images, image)
		}
		if image == nil || d.Result {
			var text string
			if json.Unmarshal(d.Data["text/plain"], &text) == nil {
				line(text)
			}
		}
	}
	if f := o.Failure; f != nil {
		line(f.Traceback)
	}
	return b.String(), images
}

// imageOf returns the image among representations; nil: there is none.
func imageOf(data map[string]json.RawMessage) *contract.MediaPart {
	for _, mime := range imageTypes {
		var text string
		if json.Unmarshal(data[mime], &text) != nil || text == "" {
			continue
		}
		if b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil && len(b) > 0 {
			return &contract.MediaPart{MediaType: mime, Data: b}
		}
	}
	return nil
}

const leftOut = "\n[…]\n"

// short returns the beginning and the end of a text.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if most < 2*len(leftOut) {
		return ""
	}
	most -= len(leftOut)
	return strings.ToValidUTF8(s[:most/2], "") + leftOut + strings.ToValidUTF8(s[len(s)-most/2:], "")
}
