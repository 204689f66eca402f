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

// The contract's defaults for limits that the host doesn't announce.
const (
	defaultMessageBytes = 16 << 20
	defaultInlineBytes  = 1 << 20
	defaultOutputBytes  = 8 << 20
)

const (
	// messageMargin is the space in a message that is reserved for everything except the parts: IDs, item, framing.
	messageMargin = 64 << 10
	// maxVerbatimBytes is the maximum amount of verbatim text in a result that the host accepts.
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

// errorResult returns the result for the model if a handler returned a Go error.
func errorResult(ctx context.Context, err error) *Result {
	r := contract.ErrorText(err.Error())
	if e, ok := errors.AsType[*process.StartError](err); ok {
		r.SandboxDenied = e.Denied
	}
	r.Aborted = ctx.Err() != nil
	return r
}

// fitter makes results fit the limits of the host, so that a call always gets an answer, regardless of the size of what its
// handler returned. Content that is too large is stored as an artifact; of text, the beginning and the end are kept.
type fitter struct {
	inline  int64 // maximum size of a part in bytes
	message int64 // maximum size of the result in bytes
	store   func(ctx context.Context, name, mediaType string, r io.Reader) (contract.ArtifactRef, error)
	warn    func(msg string, args ...any)
}

// fit converts r to a message. It does not modify r.
func (f fitter) fit(ctx context.Context, r *Result) *gantryv1.CallResult {
	out := *r
	out.Parts = nil
	room, verbatim := f.message-messageMargin, 0
	for _, p := range r.Parts {
		for _, q := range f.part(ctx, p, min(f.inline, room)) {
			if t, ok := q.(*TextPart); ok && t.Fit == contract.FitVerbatim {
				if verbatim += len(t.Text); verbatim > maxVerbatimBytes {
					f.warn("the result has more verbatim text than the host accepts; the rest may be truncated", "bytes", verbatim)
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

// part returns the parts that replace p so that they fit into limit bytes.
func (f fitter) part(ctx context.Context, p Part, limit int64) []Part {
	if p == nil || reflect.ValueOf(p).IsNil() {
		return nil
	}
	switch p := p.(type) {
	case *TextPart:
		if !utf8.ValidString(p.Text) { // the replacement character is longer than the byte that it replaces
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
		if int64(len(p.Data)) > limit { // it is useless in parts
			text := fmt.Sprintf("[sealed content of %d bytes is too large to be sent]", len(p.Data))
			return []Part{&TextPart{Audience: p.Audience, Text: text}}
		}
	}
	return []Part{p}
}

// longText keeps the beginning and the end of a text. The user also gets the complete text as an artifact, if the host stores it.
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
		f.warn("text is too long, and storing all of it failed", "bytes", len(p.Text), "err", err)
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

// partOverhead is an upper bound of the framing of a part.
const partOverhead = 256
