package route

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/framing"
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// binary is a protocol that brings its own framing: lines behind a zero byte.
type binary struct{ toy }

func (binary) Frames(maxFrame int) framing.Decoder {
	lines, err := framing.New(protocol.FramingNDJSON, maxFrame)
	if err != nil {
		panic(err)
	}
	return zeroes{lines}
}

type zeroes struct{ framing.Decoder }

func (z zeroes) Write(p []byte, emit func(protocol.Frame) error) error {
	return z.Decoder.Write(bytes.ReplaceAll(p, []byte{0}, nil), emit)
}

func TestAFramingOfTheProtocolsOwn(t *testing.T) {
	own := binary{toy{framing: protocol.FramingEventStream, path: "/answer"}}
	if _, err := New(Config{Protocol: own.toy, Namespace: "n", BaseURL: "http://h"}); err == nil || !strings.Contains(err.Error(), "must provide one") {
		t.Errorf("a route without a way to read its answers: %v", err)
	}
	const frames = "\x00{\"text\":\"x\"}\n\x00{\"end\":true}\n"
	for _, tt := range []struct {
		label, body string
		want        llm.ErrorCode
	}{
		{"application/vnd.amazon.eventstream", frames, 0},
		{"text/plain", frames, 0},
		{"", frames, 0},
		{"application/json", `{"message":"no"}`, llm.ErrUnknown},
		{"text/html", "<html>", llm.ErrInvalidOutput},
		{"application/vnd.amazon.eventstream", "\x00{\"text\":\"x\"}\n", llm.ErrIncompleteStream},
	} {
		h, requests := inTurn(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if tt.label != "" {
				w.Header().Set("Content-Type", tt.label)
			}
			for i := range len(tt.body) {
				_, _ = io.WriteString(w, tt.body[i:i+1])
				w.(http.Flusher).Flush()
			}
		})
		var got told
		err := loopback(t, Config{Protocol: own}, h).Stream(t.Context(), request("m"), 3, got.emit)
		got.inOrder(t, err)
		if a := requests.all()[0].header.Get("Accept"); a != "application/vnd.amazon.eventstream" {
			t.Errorf("accepted is %s", a)
		}
		if tt.want == 0 && tt.body == frames {
			if err != nil || got.text() != "x" {
				t.Errorf("%s: %v, %v", tt.label, got.events, err)
			}
			continue
		}
		if f := fault(t, err); f.Err.Code != tt.want {
			t.Errorf("%s: %v: %s", tt.label, f.Err.Code, f.Err.Message)
		}
	}
}

// AWS names the kind of a refusal in a header.
func TestKindsOfRefusalsInAHeader(t *testing.T) {
	h, requests := inTurn(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-Errortype", "ServiceQuotaExceededException:http://internal.amazon.com/")
		w.Header().Set("X-Amzn-Requestid", "r1")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"message":"You have used it up."}`)
	})
	f := fault(t, loopback(t, Config{}, h).Stream(t.Context(), request("m"), 3, func(llm.Event) error { return nil }))
	if f.Err.Code != llm.ErrQuotaExceeded || f.Err.Message != "You have used it up." || f.Err.RequestID != "r1" || len(requests.all()) != 1 {
		t.Errorf("%+v after %d requests", f.Err, len(requests.all()))
	}
}
