package codemode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestAnswer(t *testing.T) {
	text := func(s string) contract.Part { return &contract.TextPart{Text: s} }
	image := &contract.MediaPart{MediaType: "image/png", Data: []byte{1}}
	audio := func(tokens int) contract.Part {
		data := make([]byte, tokens)
		for history.AudioTokens(int64(len(data))) < int64(tokens) {
			data = append(data, make([]byte, tokens)...)
		}
		return &contract.MediaPart{MediaType: "audio/wav", Data: data}
	}
	for _, tc := range []struct {
		name string
		in   answer
		want string // parts, of which texts with their budget
	}{
		{"nothing", answer{state: stateCompleted, took: 1240 * time.Millisecond, tokens: 5}, "Script completed\nWall time 1.2 seconds\nOutput:\n|"},
		{"texts", answer{state: stateRunning("3"), items: []contract.Part{text("a"), text("b")}, tokens: 5},
			"Script running with cell ID 3\nWall time 0.0 seconds\nOutput:\n|a\nb(5)|"},
		{"empty text first", answer{state: stateCompleted, items: []contract.Part{text(""), text("b")}, tokens: 5},
			"Script completed\nWall time 0.0 seconds\nOutput:\n|b(5)|"},
		{"error", answer{state: stateFailed, items: []contract.Part{text("a")}, problem: "bad", tokens: 5},
			"Script failed\nWall time 0.0 seconds\nOutput:\n|a\nScript error:\nbad(5)|"},
		{"media", answer{state: stateCompleted, items: []contract.Part{text("12345678"), text("x"), image, text("y")}, tokens: 3},
			"Script completed\nWall time 0.0 seconds\nOutput:\n|12345678(3)|\nx(1)|image/png|[omitted 1 text items ...]|"},
		{"audio costs tokens", answer{state: stateCompleted, items: []contract.Part{audio(2), text("12345678"), audio(9)}, tokens: 9},
			"Script completed\nWall time 0.0 seconds\nOutput:\n|audio/wav|12345678(7)|[omitted 1 audio items ...]|"},
		{"note", answer{state: stateTerminated, notes: []string{"lost"}, tokens: 3}, "Script terminated\nWall time 0.0 seconds\nOutput:\n|\nlost|"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			r := tc.in.result()
			for _, p := range r.Parts {
				switch p := p.(type) {
				case *contract.TextPart:
					b.WriteString(p.Text)
					if p.MaxTokens != nil {
						fmt.Fprintf(&b, "(%d)", *p.MaxTokens)
					}
				case *contract.MediaPart:
					b.WriteString(p.MediaType)
				}
				b.WriteString("|")
			}
			if b.String() != tc.want || r.IsError != (tc.in.state == stateFailed) {
				t.Errorf("%q, error %v, want %q", b.String(), r.IsError, tc.want)
			}
		})
	}
}

func TestProblemText(t *testing.T) {
	for _, tc := range []struct{ message, stack, want string }{
		{"bad", "Error: bad\n    at f (<eval>:3:5)\n    at <anonymous> (<eval>:1:7)\n", "Error: bad\n    at f (exec_main.mjs:3:5)\n    at exec_main.mjs:1:7"},
		{"x", "", "x"},
	} {
		if got := problemText(frame.Error{Message: tc.message, Stack: tc.stack}); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
