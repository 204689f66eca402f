package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// Defaults of the contract for limits that nobody announced.
const (
	defaultMessageBytes = 16 << 20
	defaultInlineBytes  = 1 << 20
	defaultOutputBytes  = 8 << 20
)

const (
	// messageMargin stays free in a message for everything beside the parts: ids, item, framing.
	messageMargin = 64 << 10
	// maxVerbatimBytes is what the host takes as verbatim text in one result.
	maxVerbatimBytes = 4096
)

// Text returns a result with one text part for the model and the user.
func Text(s string) *Result { return contract.Text(s) }

// Errorf returns an error result with one text part. The model reads it and may try again, so explain what was wrong with
// the request.
func Errorf(format string, args ...any) *Result {
	return contract.ErrorText(fmt.Sprintf(format, args...))
}

// JSON returns a result with v as JSON, which is also the structured result for code mode.
func JSON(v any) (*Result, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("marshal result: %w", err)
	}
	return &Result{Parts: []Part{&JSONPart{JSON: b}}, Structured: b}, nil
}

// errorResult is what the model reads when a handler returned a Go error.
func errorResult(ctx context.Context, err error) *Result {
	r := contract.ErrorText(err.Error())
	if e, ok := errors.AsType[*process.StartError](err); ok {
		r.SandboxDenied = e.Denied
	}
	r.Aborted = ctx.Err() != nil
	return r
}

// fitter makes results fit the limits of the host: what is too large for a message becomes an artifact, text keeps its
// beginning and end. A handler may be careless with sizes, and its call still gets an answer.
type fitter struct {
	inline  int64 // most bytes of one part
	message int64 // most bytes of the result
	store   func(ctx context.Context, name, mediaType string, r io.Reader) (contract.ArtifactRef, error)
	warn    func(msg string, args ...any)
}

// fit returns the message of r. r itself is left as it was.
func (f fitter) fit(ctx context.Context, r *Result) *gantryv1.CallResult {
	out := *r
	out.Parts = nil
	room, verbatim := f.message-messageMargin, 0
	for _, p := range r.Parts {
		for _, q := range f.part(ctx, p, min(f.inline, room)) {
			if t, ok := q.(*TextPart); ok && t.Fit == contract.FitVerbatim {
				if verbatim += len(t.Text); verbatim > maxVerbatimBytes {
					f.warn("more verbatim text than the host takes, the rest may be truncated", "bytes", verbatim)
					c := *t
					c.Fit = contract.FitTruncatable
					q = &c
				}
			}
			room -= int64(proto.Size(convert.PartToProto(q))) + partOverhead
			out.Parts = append(out.Parts, q)
		}
	}
	if len(r.Structured) > 0 {
		switch n := int64(len(r.Structured)); {
		case !json.Valid(r.Structured):
			f.warn("structured result is not valid JSON and was left out")
			out.Structured = nil
		case n > f.inline || n > room:
			f.warn("structured result is too large and was left out", "bytes", n)
			out.Structured = nil
		default:
			room -= n
		}
	}
	msg := convert.ResultToProto(&out)
	if size := int64(proto.Size(msg.GetItem())); size > room+messageMargin/2 {
		f.warn("item is too large and was left out", "bytes", size)
		msg.Item = nil
	}
	return msg
}

// part returns what stands for p within limit bytes.
func (f fitter) part(ctx context.Context, p Part, limit int64) []Part {
	if p == nil || reflect.ValueOf(p).IsNil() {
		return nil
	}
	switch p := p.(type) {
	case *TextPart:
		if !utf8.ValidString(p.Text) { // measured as it travels: replacements are longer than what they replace
			c := *p
			c.Text = strings.ToValidUTF8(p.Text, "\uFFFD")
			p = &c
		}
		if int64(len(p.Text)) <= limit {
			return []Part{p}
		}
		return f.longText(ctx, p, "output.txt", "text/plain; charset=utf-8", limit)
	case *MediaPart:
		if int64(len(p.Data)) <= limit {
			return []Part{p}
		}
		ref, err := f.store(ctx, "media", p.MediaType, bytes.NewReader(p.Data))
		if err != nil {
			text := fmt.Sprintf("[%s of %d bytes is too large to be shown, and storing it failed: %v]", p.MediaType, len(p.Data), err)
			return []Part{&TextPart{Audience: p.Audience, Text: text}}
		}
		c := *p
		c.Data, c.Artifact = nil, ref.SHA256
		return []Part{&c}
	case *JSONPart:
		var compact bytes.Buffer
		if err := json.Compact(&compact, p.JSON); err != nil {
			f.warn("JSON part is not valid JSON and is sent as text", "err", err)
			return f.part(ctx, &TextPart{Audience: p.Audience, Text: string(p.JSON)}, limit)
		}
		if int64(compact.Len()) <= limit {
			return []Part{p}
		}
		return f.longText(ctx, &TextPart{Audience: p.Audience, Text: compact.String()}, "output.json", "application/json", limit)
	case *SealedPart:
		if int64(len(p.Data)) > limit { // a piece of it is worth nothing
			text := fmt.Sprintf("[sealed content of %d bytes is too large to be sent]", len(p.Data))
			return []Part{&TextPart{Audience: p.Audience, Text: text}}
		}
	}
	return []Part{p}
}

// longText keeps the two ends of a text; the user also gets the whole as an artifact, where the host stores it.
func (f fitter) longText(ctx context.Context, p *TextPart, name, mediaType string, limit int64) []Part {
	c := *p
	headEnd := cutBefore(p.Text, int(max(0, limit)/2))
	tailStart := cutAfter(p.Text, len(p.Text)-int(max(0, limit)/2))
	c.Text = p.Text[:headEnd] + p.Text[tailStart:]
	c.OmittedBytes += int64(tailStart - headEnd)
	if c.TotalBytes == 0 {
		c.TotalBytes = int64(len(p.Text))
	}
	if c.Fit != contract.FitTruncatable {
		c.Fit = contract.FitUnknown
	}
	parts := []Part{&c}
	if ref, err := f.store(ctx, name, mediaType, strings.NewReader(p.Text)); err == nil {
		parts = append(parts, &ArtifactPart{Audience: contract.AudienceUser, Artifact: ref})
	} else {
		f.warn("text is too long and could not be stored as a whole", "bytes", len(p.Text), "err", err)
	}
	return parts
}

// cutBefore returns the last boundary between characters at or before i.
func cutBefore(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i--
	}
	return i
}

// cutAfter returns the first boundary between characters at or after i.
func cutAfter(s string, i int) int {
	for i > 0 && i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return i
}

// partOverhead is generous for the tags and lengths around a part.
const partOverhead = 256
