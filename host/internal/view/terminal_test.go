package view

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Output whose beginning is missing begins with a line or an escape sequence; output that follows is shown as it is.
func TestOutputBegins(t *testing.T) {
	for name, tt := range map[string]struct {
		data, want string
	}{
		"a line":              {"31mhalf\nwhole\n\x1b[0m", "whole\n\x1b[0m"},
		"a line of a screen":  {"half\r\nwhole", "whole"},
		"a sequence":          {"31mhalf\x1b[0mwhole\n", "\x1b[0mwhole\n"},
		"neither":             {"half and half", "half and half"},
		"half a character":    {"\x82\xacuro", "uro"},
		"no text":             {"\x82\xac\x82\xac\x82", "\xac\x82"},
		"nothing but a line":  {"half\n", ""},
		"nothing":             {"", ""},
		"less than character": {"\x82", ""},
	} {
		var o terminal
		end := int64(100 + len(tt.data))
		if got := o.shown(contract.ViewOutput{Offset: 100, Data: []byte(tt.data)}); string(got.Data) != tt.want || got.Offset != end-int64(len(tt.want)) {
			t.Errorf("%s: %q at %d, want %q", name, got.Data, got.Offset, tt.want)
		}
		if got := o.shown(contract.ViewOutput{Offset: end, Data: []byte("\x82next\n")}); string(got.Data) != "\x82next\n" || got.Offset != end {
			t.Errorf("%s: then %q at %d", name, got.Data, got.Offset)
		}
	}
}

// A secret is masked where it is, also in two frames, and what is held back keeps its offset.
func TestSecretInFrames(t *testing.T) {
	r := newRig(t)
	r.cfg.Redactor = &redact.Redactor{}
	r.cfg.Redactor.Add("my own secret")
	v, s := r.open(t)
	for i, f := range []struct {
		offset int64
		data   string
		at     int64
		want   string
	}{
		{0, "it is my own secret\r\nmy own", 0, "it is *************\r\n"},
		{27, " sec", 21, ""},
		{31, "ret. my own", 21, "*************. "},
		{60, "lost secret\r\nmy", 73, "my"}, // after a gap, where what was held back is dropped
		{75, " own secret", 75, "***********"},
	} {
		n := uint64(i + 1)
		s.events <- contract.ViewFrame{Number: n, Output: &contract.ViewOutput{Offset: f.offset, Data: []byte(f.data)}}
		u := v.next(t)
		if u.Frame == nil || u.Frame.Number != n || u.Frame.Output.Offset != f.at || string(u.Frame.Output.Data) != f.want {
			t.Fatalf("frame %d: %+v %+v, want %q at %d", n, u, u.Frame.Output, f.want, f.at)
		}
		if err := v.Ack(n); err != nil {
			t.Error(err)
		}
	}
}

func FuzzOutput(f *testing.F) {
	f.Add(int64(0), []byte("my own sec"), int64(10), []byte("ret\x1b[0m"))
	f.Add(int64(-5), []byte("\x82\n"), int64(-1), []byte(""))
	f.Fuzz(func(t *testing.T, one int64, a []byte, two int64, b []byte) {
		var secrets redact.Redactor
		secrets.Add("my own secret")
		o := terminal{mask: secrets.Mask()}
		for _, f := range []contract.ViewOutput{{Offset: one, Data: a}, {Offset: two, Data: b}} {
			got := o.shown(f)
			if strings.Contains(string(got.Data), "my own secret") || len(got.Data) > len(a)+len(b) {
				t.Fatalf("%+v is shown as %q", f, got.Data)
			}
		}
	})
}
