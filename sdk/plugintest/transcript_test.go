//go:build unix

package plugintest

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

func TestCheckOrder(t *testing.T) {
	started, out, result := startedEvent(), outputEvent(0, []byte("x")), resultEvent("done", false)
	unknown := &gantryv1.CallResponse{}
	tests := []struct {
		name   string
		events []*gantryv1.CallResponse
		want   string
	}{
		{"shortest", []*gantryv1.CallResponse{started, result}, ""},
		{"with output", []*gantryv1.CallResponse{started, out, result}, ""},
		{"a newer kind first", []*gantryv1.CallResponse{unknown, started, result}, ""},
		{"nothing", nil, "ended without a result"},
		{"no result", []*gantryv1.CallResponse{started, out}, "ended without a result"},
		{"no started", []*gantryv1.CallResponse{result}, "the first event is result"},
		{"output first", []*gantryv1.CallResponse{out, started, result}, "the first event is output"},
		{"started twice", []*gantryv1.CallResponse{started, started, result}, "second started"},
		{"two results", []*gantryv1.CallResponse{started, result, result}, "event 3 (result) came after the result"},
		{"a newer kind last", []*gantryv1.CallResponse{started, result, unknown}, "event 3 (an unknown event) came after the result"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := &transcript{what: "call", events: tt.events}
			for _, e := range tt.events {
				if r := e.GetResult(); r != nil && tr.result == nil {
					tr.result = r
				}
			}
			if err := tr.checkOrder(); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("checkOrder = %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("failed as a whole", func(t *testing.T) {
		if err := (&transcript{err: refused(codes.Internal)}).checkOrder(); err != nil {
			t.Errorf("checkOrder = %v", err)
		}
	})
}

func TestOutputOfATranscript(t *testing.T) {
	tests := []struct {
		name   string
		deltas []*gantryv1.CallResponse
		want   string
	}{
		{"none", nil, ""},
		{"two", []*gantryv1.CallResponse{outputEvent(0, []byte("ab")), outputEvent(2, []byte("c"))}, ""},
		{"as large as it may be", []*gantryv1.CallResponse{outputEvent(0, make([]byte, maxDelta))}, ""},
		{"too large", []*gantryv1.CallResponse{outputEvent(0, make([]byte, maxDelta+1))}, "8193 bytes"},
		{"gap", []*gantryv1.CallResponse{outputEvent(0, []byte("ab")), outputEvent(3, []byte("c"))}, "offset 3 instead of 2"},
		{"binary", []*gantryv1.CallResponse{outputEvent(0, []byte{0xff}), outputEvent(1, []byte{0xfe})}, ""},
		{"half a character", []*gantryv1.CallResponse{outputEvent(0, []byte("ü")[:1]), outputEvent(1, []byte("ü")[1:])}, "inside a character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := (&transcript{what: "call", events: tt.deltas}).output()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("output: %v, want %q", err, tt.want)
			}
		})
	}
}
