package route

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// TestWhatA200Is has answers under all kinds of labels.
func TestWhatA200Is(t *testing.T) {
	const frames = "data: {\"text\":\"x\"}\n\ndata: [DONE]\n\n"
	const lines = "{\"text\":\"x\"}\n{\"end\":true}\n"
	ndjson := toy{framing: protocol.FramingNDJSON, path: "/answer"}
	tests := []struct {
		name, label, body string
		protocol          toy
		code              llm.ErrorCode
		want              string // of the error; empty: none
		next              string
	}{
		{"stream", "text/event-stream", frames, sse, 0, "", ""},
		{"with a character set", "text/event-stream; charset=utf-8", frames, sse, 0, "", ""},
		{"in capitals", "Text/Event-Stream", frames, sse, 0, "", ""},
		{"without a label", "", frames, sse, 0, "", ""},
		{"under a wrong label", "application/json", frames, sse, 0, "", ""},
		{"under a broken label", "text/plain; =", frames, sse, 0, "", ""},
		{"byte order mark", "text/plain", "\uFEFF" + frames, sse, 0, "", ""},
		{"blank lines first", "application/octet-stream", "\n\n\n\n\n\n\n\n\n\n" + frames, sse, 0, "", ""},
		{"comments first", "text/plain", ": hello\n\n" + frames, sse, 0, "", ""},
		{"a label is enough", "text/event-stream", "x-vendor: 1\n" + frames, sse, 0, "", ""},
		{"lines", "application/x-ndjson", lines, ndjson, 0, "", ""},
		{"lines labelled as a document", "application/json", lines, ndjson, 0, "", ""},
		{"lines labelled as text", "text/plain", lines, ndjson, 0, "", ""},

		{"an error", "application/json", `{"error":{"message":"busy","code":"rate_limit_exceeded"}}`, sse, llm.ErrRateLimit, "busy", ""},
		{"an error labelled as a stream", "text/event-stream", ` {"error":{"message":"too long","code":"context_length_exceeded"}}`, sse, llm.ErrContextOverflow, "too long", ""},
		{"an error in a list", "application/json", `[{"error":{"message":"busy","status":"UNAVAILABLE"}}]`, sse, llm.ErrProviderInternal, "busy", ""},
		{"a whole answer", "application/json", `{"id":"1","choices":[{"message":{"content":"x"}}]}`, sse, llm.ErrInvalidOutput, "whole JSON document (application/json)", "base_url"},
		{"a page", "text/html; charset=utf-8", "<!doctype html><p>log in", sse, llm.ErrInvalidOutput, "web page (text/html)", "base_url"},
		{"a page labelled as a stream", "text/event-stream", "\n <html>", sse, llm.ErrInvalidOutput, "web page", "proxy"},
		{"a page without a label", "", "<html>", ndjson, llm.ErrInvalidOutput, "web page", "proxy"},
		{"text", "text/plain", "Ollama is running", sse, llm.ErrInvalidOutput, "answered with text/plain instead of a stream: Ollama is running", "base_url"},
		{"short text", "text/plain", "ok", sse, llm.ErrInvalidOutput, "instead of a stream: ok", "base_url"},
		{"a picture", "image/png", "\x89PNG" + strings.Repeat("\x00", 600), sse, llm.ErrInvalidOutput, "answered with image/png instead of a stream", "base_url"},
		{"nothing but blanks", "text/plain", "\n\n", sse, llm.ErrInvalidOutput, "answered with text/plain", "base_url"},
		{"blanks labelled as a stream", "text/event-stream", "\n", sse, llm.ErrIncompleteStream, "before the answer was complete", ""},
		{"garbage labelled as a stream", "text/event-stream", "garbage\n\n", sse, llm.ErrIncompleteStream, "before the answer was complete", ""},
		{"a frame that is no JSON", "text/event-stream", "data: {\n\n", sse, llm.ErrInvalidOutput, "no JSON", ""},
		{"an end in mid-air", "text/event-stream", "data: {\"text\":\"x\"}\n\n", sse, llm.ErrIncompleteStream, "before the answer was complete", ""},
		{"a cut line", "application/x-ndjson", "{\"text\":", ndjson, llm.ErrIncompleteStream, "before the answer was complete", ""},
	}
	for _, tt := range tests {
		for _, whole := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s whole=%v", tt.name, whole), func(t *testing.T) {
				h, requests := inTurn(func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Content-Type"] = nil // no guess of net/http
					if tt.label != "" {
						w.Header().Set("Content-Type", tt.label)
					}
					if whole {
						_, _ = io.WriteString(w, tt.body)
						return
					}
					for i := range len(tt.body) {
						_, _ = io.WriteString(w, tt.body[i:i+1])
						w.(http.Flusher).Flush()
					}
				})
				var got told
				err := loopback(t, Config{Protocol: tt.protocol}, h).Stream(t.Context(), request("m"), 3, got.emit)
				got.inOrder(t, err)
				if len(requests.all()) != 1 {
					t.Errorf("%d requests", len(requests.all()))
				}
				if tt.want == "" {
					if err != nil || got.text() != "x" {
						t.Errorf("%v, %v", got.events, err)
					}
					return
				}
				f := fault(t, err)
				if f.Err.Code != tt.code || !strings.Contains(f.Err.Message, tt.want) || !strings.Contains(f.Err.Next, tt.next) {
					t.Errorf("%v: %s\nnext: %s", f.Err.Code, f.Err.Message, f.Err.Next)
				}
			})
		}
	}
}

func TestErrorsInsideAStream(t *testing.T) {
	tests := []struct {
		name, frame string
		code        llm.ErrorCode
		retry       bool
	}{
		{"busy", `{"error":{"type":"overloaded_error","message":"busy, sk-12345"}}`, llm.ErrOverloaded, true},
		{"too long", `{"error":{"code":"context_length_exceeded","message":"too long, sk-12345"}}`, llm.ErrContextOverflow, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, requests := inTurn(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("X-Request-Id", "r1")
				fmt.Fprintf(w, "data: {\"text\":\"x\"}\n\ndata: %s\n\ndata: {\"text\":\"never\"}\n\n", tt.frame)
			})
			var got told
			f := fault(t, loopback(t, Config{Auth: Bearer(fixed("sk-12345"))}, h).Stream(t.Context(), request("m"), 3, got.emit))
			if f.Err.Code != tt.code || f.Err.Retryable != tt.retry || f.Err.RequestID != "r1" || !strings.HasSuffix(f.Err.Message, ", <redacted>") {
				t.Errorf("%+v", f.Err)
			}
			if got.text() != "x" || len(requests.all()) != 1 {
				t.Errorf("%q after %d requests", got.text(), len(requests.all()))
			}
		})
	}
}

func TestNothingIsReadAfterTheEnd(t *testing.T) {
	var got told
	err := loopback(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"text\":\"x\"}\n\ndata: [DONE]\n\ndata: {\"text\":\"late\"}\n\ndata: {\n\n")
	}).Stream(t.Context(), request("m"), 3, got.emit)
	got.inOrder(t, err)
	if err != nil || got.text() != "x" {
		t.Errorf("%q, %v", got.text(), err)
	}
}

func TestALastFrameWithoutItsBlankLine(t *testing.T) {
	for _, end := range []string{"data: [DONE]", "data: {\"end\":true}", "data: [DONE]\n", "data: [DONE]\r\r"} {
		var got told
		err := loopback(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"text\":\"x\"}\n\n"+end)
		}).Stream(t.Context(), request("m"), 1, got.emit)
		got.inOrder(t, err)
		if err != nil || got.text() != "x" {
			t.Errorf("%q: %q, %v", end, got.text(), err)
		}
	}
}

func TestACompressedAnswerIsRefused(t *testing.T) {
	h, requests := inTurn(failWith(200, "\x1f\x8b", "Content-Type", "text/event-stream", "Content-Encoding", "gzip"))
	f := fault(t, loopback(t, Config{}, h).Stream(t.Context(), request("m"), 3, (&told{}).emit))
	if f.Err.Code != llm.ErrInvalidOutput || !strings.Contains(f.Err.Message, "gzip") || len(requests.all()) != 1 {
		t.Errorf("%+v", f.Err)
	}
	if got := requests.all()[0].header.Get("Accept-Encoding"); got != "" {
		t.Errorf("asked for %s", got)
	}
}
