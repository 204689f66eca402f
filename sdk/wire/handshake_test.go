package wire_test

import (
	"encoding/base64"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/wire"
)

func TestParseHandshake(t *testing.T) {
	tests := []struct {
		name, line string
		want       wire.Handshake
		noise      bool   // ErrNotHandshake: the host may skip the line
		parse      string // or another error of ParseHandshake
		check      string // or an error of Check
	}{
		{name: "valid", line: "1|1|unix|/dir/p|grpc",
			want: wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/dir/p", Protocol: "grpc"}},
		{name: "white space around", line: "  1|1|unix|/dir/p|grpc\r\n",
			want: wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/dir/p", Protocol: "grpc"}},
		{name: "empty fields and an extra one", line: "1|1|unix|/dir/p|grpc|||extra",
			want: wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/dir/p", Protocol: "grpc", Extra: []string{"", "extra"}}},
		{name: "multiplexing", line: "1|1|unix|/dir/p|grpc||false",
			want: wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/dir/p", Protocol: "grpc", Extra: []string{"false"}}},
		{name: "a word", line: "hello", noise: true},
		{name: "two fields", line: "hello|x", noise: true},
		{name: "nothing", line: "", noise: true},
		{name: "a table", line: "name|size|date|owner|mode", noise: true},
		{name: "three fields", line: "1|1|unix", noise: true},
		{name: "signed core", line: "+1|1|unix|/x|grpc", noise: true},
		{name: "huge core", line: "99999999999999999999|1|unix|/x|grpc", noise: true},
		{name: "too long", line: "1|1|unix|/x|grpc|" + strings.Repeat("A", 20<<10), noise: true},
		{name: "core 2", line: "2|1|unix|/x|grpc", check: "incompatible core API version",
			want: wire.Handshake{Core: 2, App: 1, Network: "unix", Address: "/x", Protocol: "grpc"}},
		{name: "version 9", line: "1|9|unix|/x|grpc", check: "incompatible API version",
			want: wire.Handshake{Core: 1, App: 9, Network: "unix", Address: "/x", Protocol: "grpc"}},
		{name: "version is a word", line: "1|one|unix|/x|grpc", parse: "not a number"},
		{name: "udp", line: "1|1|udp|/x|grpc", check: "unsupported network",
			want: wire.Handshake{Core: 1, App: 1, Network: "udp", Address: "/x", Protocol: "grpc"}},
		{name: "tcp", line: "1|1|tcp|127.0.0.1:1|grpc", check: "unsupported network",
			want: wire.Handshake{Core: 1, App: 1, Network: "tcp", Address: "127.0.0.1:1", Protocol: "grpc"}},
		{name: "no protocol", line: "1|1|unix|/x", check: `unsupported plugin protocol "netrpc"`,
			want: wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/x", Protocol: "netrpc"}},
		{name: "empty protocol", line: "1|1|unix|/x|", check: `unsupported plugin protocol ""`,
			want: wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/x"}},
		{name: "no address", line: "1|1|unix||grpc", parse: "no address"},
		{name: "bad certificate", line: "1|1|unix|/x|grpc|%%%%", check: "not unpadded base64",
			want: wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/x", Protocol: "grpc", Cert: "%%%%"}},
		{name: "padded certificate", line: "1|1|unix|/x|grpc|QQ==", check: "not unpadded base64",
			want: wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/x", Protocol: "grpc", Cert: "QQ=="}},
		{name: "control character", line: "1|1|unix|/x\x1b[31m|grpc", parse: "control characters"},
		{name: "second line", line: "1|1|unix|/x|grpc\nboom", parse: "control characters"},
		{name: "white space inside", line: "1|1|unix|/x| |", parse: "white space"},
		{name: "NUL", line: "1|1|unix|/x\x00|grpc", parse: "control characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.ParseHandshake(tt.line)
			if tt.noise != errors.Is(err, wire.ErrNotHandshake) {
				t.Fatalf("error = %v, noise wanted: %v", err, tt.noise)
			}
			if tt.noise {
				return
			}
			if tt.parse != "" {
				if err == nil || !strings.Contains(err.Error(), tt.parse) {
					t.Fatalf("error = %v, want one with %q", err, tt.parse)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Fatalf("got %+v, want %+v", got, tt.want)
			}
			err = got.Check()
			if tt.check == "" && err != nil || tt.check != "" && (err == nil || !strings.Contains(err.Error(), tt.check)) {
				t.Fatalf("check = %v, want %q", err, tt.check)
			}
		})
	}
}

func TestHandshakeCertificate(t *testing.T) {
	der := []byte("not really a certificate")
	h := wire.Handshake{Core: 1, App: 1, Network: "unix", Address: "/x", Protocol: "grpc", Cert: base64.RawStdEncoding.EncodeToString(der)}
	got, err := wire.ParseHandshake(h.String())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := got.Certificate(); err != nil || string(b) != string(der) {
		t.Fatalf("certificate = %q, %v", b, err)
	}
}

func FuzzParseHandshake(f *testing.F) {
	for _, s := range []string{
		"1|1|unix|/dir/p|grpc", "1|1|unix|/dir/p|grpc|||extra", "hello", "hello|x", "2|1|unix|/x|grpc", "1|1|unix|/x",
		"1|1|tcp|127.0.0.1:1|grpc", "1|1|unix|/x|grpc|" + strings.Repeat("A", 60), "|||||", "1|1|unix|/x\n|grpc",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		h, err := wire.ParseHandshake(line)
		if err != nil {
			return
		}
		if h.Address == "" || strings.ContainsAny(h.Address+h.Network+h.Protocol+h.Cert, "|\n\r\x00") {
			t.Fatalf("accepted %+v", h)
		}
		if h.Check() == nil && (h.Core != 1 || h.App != 1 || h.Network != "unix" || h.Protocol != "grpc") {
			t.Fatalf("approved %+v", h)
		}
		again, err := wire.ParseHandshake(h.String())
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v printed as %q reads as %+v, %v", h, h.String(), again, err)
		}
	})
}
