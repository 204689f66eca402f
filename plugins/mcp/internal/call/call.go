// Package call translates between a call of gantry's and a call of a server's tool.
//
// It owns: the form of arguments, what the model, people and code get of a result, the texts of errors, the questions of servers, and
// the time that a call may take. It must not know: how a server is reached, names, policy.
//
// Start with [Result].
package call

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// Arguments checks the arguments of a call; empty ones are an empty object.
func Arguments(raw json.RawMessage) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return json.RawMessage("{}"), nil
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("the arguments are not JSON: %w", err)
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, errors.New("the arguments are not a JSON object")
	}
	return raw, nil
}

// header is the first line of what the model reads.
func header(took time.Duration) string {
	return fmt.Sprintf("Wall time: %.4f seconds\nOutput:", took.Seconds())
}

// headerPart is the header as a part of its own. An error begins on the next line.
func headerPart(took time.Duration, isError bool) *contract.TextPart {
	text := header(took)
	if isError {
		text += "\n"
	}
	return &contract.TextPart{Audience: contract.AudienceModel, Text: text, Fit: contract.FitVerbatim}
}

// Result converts the result of tools/call, as the server wrote it. Structured content replaces the blocks for the model, unless beside
// is true. Code gets the whole result without its _meta.
func Result(raw json.RawMessage, took time.Duration, beside bool) *contract.Result {
	var wire struct {
		Structured json.RawMessage `json:"structuredContent"`
		Content    json.RawMessage `json:"content"`
		IsError    json.RawMessage `json:"isError"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Failed(errors.New("the server's result is not a JSON object"), took)
	}
	out := &contract.Result{IsError: string(wire.IsError) == "true", Structured: withoutMeta(raw)}
	structured := len(wire.Structured) > 0 && string(wire.Structured) != "null"
	if structured {
		out.Parts = append(out.Parts, &contract.TextPart{Text: header(took) + "\n" + compact(wire.Structured)})
		if !beside {
			return out
		}
	} else {
		out.Parts = append(out.Parts, headerPart(took, out.IsError))
	}
	var blocks []json.RawMessage
	if len(wire.Content) > 0 && json.Unmarshal(wire.Content, &blocks) != nil {
		blocks = []json.RawMessage{wire.Content} // not a list: shown as it is
	}
	for _, b := range blocks {
		out.Parts = append(out.Parts, block(b)...)
	}
	return out
}

// Failed is the result of a call that has got none from the server.
func Failed(err error, took time.Duration) *contract.Result {
	return &contract.Result{IsError: true, Parts: []contract.Part{headerPart(took, true), &contract.TextPart{Text: ErrorText(err)}}}
}

// maxError bounds the text of an error, in bytes.
const maxError = 8 << 10

// ErrorText returns the text of an error for models and people. An error of the protocol has its code and data.
func ErrorText(err error) string {
	e, ok := transport.ServerError(err)
	if !ok {
		return catalog.Text(err.Error(), maxError)
	}
	s := fmt.Sprintf("the server answered with error %d: %s", e.Code, e.Message)
	if len(e.Data) > 0 && string(e.Data) != "null" {
		s += "\ndata: " + compact(e.Data)
	}
	return catalog.Text(s, maxError)
}

// details are the values of a picture's detail.
var details = []string{"auto", "low", "high", "original"}

var mediaType = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+-]{0,60}/[A-Za-z0-9][A-Za-z0-9.+-]{0,60}$`)
})

// maxBlob is the size of binary content that is shown as a part of JSON, in characters of base64.
const maxBlob = 4 << 10

// block converts a block of content. What it does not know, or what is not as it should be, becomes text.
func block(raw json.RawMessage) []contract.Part {
	var b struct {
		Type     string         `json:"type"`
		Text     *string        `json:"text"`
		Data     *string        `json:"data"`
		MIMEType string         `json:"mimeType"`
		Meta     map[string]any `json:"_meta"`
		Resource struct {
			MIMEType string `json:"mimeType"`
			Blob     string `json:"blob"`
		} `json:"resource"`
	}
	text := []contract.Part{&contract.TextPart{Text: compact(raw)}}
	if json.Unmarshal(raw, &b) != nil {
		return text
	}
	switch {
	case b.Type == "text" && b.Text != nil:
		return []contract.Part{&contract.TextPart{Text: catalog.Output(*b.Text)}}
	case (b.Type == "image" || b.Type == "audio") && b.Data != nil:
		data, err := decodeBase64(*b.Data)
		if err != nil {
			return []contract.Part{&contract.TextPart{Text: fmt.Sprintf("[%s of type %s that is not valid base64]", b.Type, typeOf(b.MIMEType))}}
		}
		p := &contract.MediaPart{MediaType: typeOf(b.MIMEType), Data: data}
		if b.Type == "image" {
			p.Detail = "high"
			if d, ok := b.Meta["codex/imageDetail"].(string); ok && slices.Contains(details, d) {
				p.Detail = d
			}
		}
		return []contract.Part{p}
	case b.Type == "resource" && len(b.Resource.Blob) > maxBlob:
		data, err := decodeBase64(b.Resource.Blob)
		if err != nil {
			return text
		}
		short, err := withoutBlob(raw, fmt.Sprintf("[%d bytes]", len(data)))
		if err != nil {
			return text
		}
		return []contract.Part{
			&contract.TextPart{Text: compact(short)},
			&contract.MediaPart{Audience: contract.AudienceUser, MediaType: typeOf(b.Resource.MIMEType), Data: data},
		}
	}
	return text
}

func typeOf(s string) string {
	if !mediaType().MatchString(s) {
		return "application/octet-stream"
	}
	return s
}

// decodeBase64 accepts what servers send, with or without padding.
func decodeBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(s)
	}
	return b, err
}

// compact returns JSON without insignificant space, in the order in which it was written.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, bytes.ToValidUTF8(raw, []byte("\uFFFD"))) != nil {
		return catalog.Output(string(raw))
	}
	return string(catalog.OutputJSON(b.Bytes()))
}

// withoutMeta removes the _meta of a result, which is for clients.
func withoutMeta(raw json.RawMessage) json.RawMessage {
	out, err := edit(raw, func(name string, value json.RawMessage) (json.RawMessage, error) {
		if name == "_meta" {
			return nil, nil
		}
		return value, nil
	})
	if err != nil {
		return nil
	}
	return out
}

func withoutBlob(raw json.RawMessage, instead string) (json.RawMessage, error) {
	return edit(raw, func(name string, value json.RawMessage) (json.RawMessage, error) {
		if name != "resource" {
			return value, nil
		}
		return edit(value, func(name string, value json.RawMessage) (json.RawMessage, error) {
			if name != "blob" {
				return value, nil
			}
			return json.Marshal(instead)
		})
	})
}

// edit replaces the members of a JSON object without changing their order; nil removes one.
func edit(raw json.RawMessage, f func(name string, value json.RawMessage) (json.RawMessage, error)) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if value, err = f(name, value); err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out.Write(quoted)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// TimeoutError is the cause of a context that [WithTimeout] has ended.
type TimeoutError struct{ After time.Duration }

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the server has not answered within %v; next: raise call_timeout in its block if it needs longer", e.After)
}

// WithTimeout returns a context that ends after d on a clock, which stands still while a person is asked. The cause is then a
// [*TimeoutError].
func WithTimeout(ctx context.Context, clock *tool.Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := clock.NewTimer(d)
	go func() { // owned by the context's owner; ends with the context
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(&TimeoutError{d})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}
