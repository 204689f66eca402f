package tools

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	lost      string // why an earlier kernel has ended
	changed   bool   // the permissions are not those of the kernel
	exit      string // how the kernel has ended during the cell
	session   string
	artifacts []contract.ArtifactRef
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
	Status         string          `json:"status"` // "ok", "error", "interrupted", "timeout", "lost"
	Text           string          `json:"text"`
	Data           json.RawMessage `json:"data,omitempty"` // of the last expression, if it is JSON
	Outputs        []kernel.Value  `json:"outputs"`
	Artifacts      []artifact      `json:"artifacts"`
	Images         int             `json:"images"`
	Error          *kernel.Failure `json:"error,omitempty"`
	ExecutionCount int             `json:"execution_count"`
	ElapsedMS      int64           `json:"elapsed_ms"`
	NamespaceLost  bool            `json:"namespace_lost"`
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
	r := &tool.Result{IsError: status != "ok", SessionID: a.session}
	r.Parts = append(r.Parts, &contract.TextPart{Text: a.header(o, status), Fit: contract.FitVerbatim})
	limit := a.call.Caps().MaxInlineBytes
	if limit <= 0 {
		limit = defaultInline
	}
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
	s := structured{
		Status: status, Text: short(text, int(limit/4)), Outputs: o.Values, Artifacts: []artifact{}, Images: len(images), Error: o.Failure,
		ExecutionCount: o.Count, ElapsedMS: a.wall.Milliseconds(), NamespaceLost: a.exit != "" || a.lost != "",
	}
	if s.Outputs == nil {
		s.Outputs = []kernel.Value{}
	}
	for _, ref := range a.artifacts {
		r.Parts = append(r.Parts, &contract.ArtifactPart{Audience: contract.AudienceUser, Artifact: ref})
		s.Artifacts = append(s.Artifacts, artifactOf(ref))
	}
	for _, d := range o.Displays {
		if d.Result {
			s.Data = d.Data["application/json"]
		}
	}
	b, err := json.Marshal(s)
	if err != nil { // impossible: what came from the worker has been parsed
		panic("tools: marshal result: " + err.Error())
	}
	r.Structured = b
	r.Item = a.item
	return r
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
	if o.Dropped > 0 {
		fmt.Fprintf(&b, "%d displayed values were too many or too large and are left out.\n", o.Dropped)
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

// short returns the beginning and the end of a text.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most/2], "") + "\n[…]\n" + strings.ToValidUTF8(s[len(s)-most/2:], "")
}
