package appserver

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// The token of a view is valid once, and not for a process that the host has started, which does not use it up either.
func TestFramesOnce(t *testing.T) {
	s := &Server{log: hclog.NewNullLogger()}
	s.mu.frames = map[string]*shown{"token": {}}
	for i, step := range []struct {
		token    string
		launched bool
		ok       bool
	}{{"other", false, false}, {"", false, false}, {"token", true, false}, {"token", false, true}, {"token", false, false}} {
		if _, ok := s.Frames(step.token, step.launched); ok != step.ok {
			t.Errorf("step %d: %v", i, ok)
		}
	}
}

func TestBinaryFrame(t *testing.T) {
	for name, f := range map[string]*contract.ViewFrame{
		"output":  {Number: 7, Output: &contract.ViewOutput{Offset: 1 << 40, Data: []byte("\x00text\n")}},
		"nothing": {Number: 1, Output: &contract.ViewOutput{}},
		"picture": {Number: 8, Picture: &contract.ViewPicture{MediaType: "image/png", Data: []byte{1, 2}, Viewport: contract.ViewSize{Width: 3, Height: 4}}},
	} {
		b := binaryFrame(f)
		n := 4 + binary.BigEndian.Uint32(b)
		var head protocol.GantryViewFrame
		if err := json.Unmarshal(b[4:n], &head); err != nil || head.Number != f.Number {
			t.Errorf("%s: %v, %s", name, err, b[4:n])
		}
		switch data := string(b[n:]); {
		case f.Output != nil:
			if data != string(f.Output.Data) || head.Offset == nil || int64(*head.Offset) != f.Output.Offset || head.MediaType != nil {
				t.Errorf("%s: %s %q", name, b[4:n], data)
			}
		default:
			if data != string(f.Picture.Data) || head.Offset != nil || *head.MediaType != "image/png" || head.Viewport.Height != 4 || *head.Scale != 1 {
				t.Errorf("%s: %s %q", name, b[4:n], data)
			}
		}
	}
}
