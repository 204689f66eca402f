package tool

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNextDelta(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		last bool
		want []int // sizes of the deltas
		rest int
	}{
		{"empty", "", true, nil, 0},
		{"text", "hello", false, []int{5}, 0},
		{"as long as it may be", strings.Repeat("x", 8192), false, []int{8192}, 0},
		{"one longer", strings.Repeat("x", 8193), false, []int{8192, 1}, 0},
		{"a character across the limit", strings.Repeat("x", 8191) + "é", false, []int{8191, 2}, 0},
		{"a character up to the limit", strings.Repeat("x", 8190) + "é", false, []int{8192}, 0},
		{"and text behind it", strings.Repeat("x", 8190) + "éyz", false, []int{8192, 2}, 0},
		{"an invalid byte alone", "a\xffb", false, []int{1, 1, 1}, 0},
		{"invalid bytes one by one", "\xff\xfe", false, []int{1, 1}, 0},
		{"a continuation without a start", "\x80a", false, []int{1, 1}, 0},
		{"the beginning of a character waits", "a\xe2\x82", false, []int{1}, 2},
		{"unless nothing more comes", "a\xe2\x82", true, []int{1, 1, 1}, 0},
		{"a beginning that can't go on", "\xe2\x41", false, []int{1, 1}, 0},
		{"the replacement character is a character", "a\uFFFDb", false, []int{5}, 0},
		{"four bytes", "😀😀", false, []int{8}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, got := []byte(tc.in), []int(nil)
			for n := nextDelta(p, tc.last); n > 0; n = nextDelta(p, tc.last) {
				got, p = append(got, n), p[n:]
			}
			if len(p) != tc.rest || len(got) != len(tc.want) {
				t.Fatalf("deltas %v with rest %d, want %v with %d", got, len(p), tc.want, tc.rest)
			}
			for i := range got {
				if got[i] != tc.want[i] {
					t.Errorf("deltas %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func FuzzNextDelta(f *testing.F) {
	f.Add([]byte("a\xffb€\xe2\x82"), 3)
	f.Add(bytes.Repeat([]byte("é"), 5000), 1)
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		// However the input is split, the deltas are the input, each is text or one byte that is none, and a whole character
		// is never in two deltas.
		at = min(max(at, 0), len(in))
		var out [][]byte
		var tail []byte
		for i, piece := range [][]byte{in[:at], in[at:]} {
			p := append(tail, piece...)
			for {
				n := nextDelta(p, i == 1)
				if n == 0 {
					break
				}
				out, p = append(out, p[:n:n]), p[n:]
			}
			tail = p
		}
		if len(tail) > 0 {
			t.Fatalf("%q is left over", tail)
		}
		if got := bytes.Join(out, nil); !bytes.Equal(got, in) {
			t.Fatalf("got %q, want %q", got, in)
		}
		offset := 0
		for _, d := range out {
			if len(d) > maxDelta {
				t.Fatalf("delta of %d bytes", len(d))
			}
			if !utf8.Valid(d) {
				if r, size := utf8.DecodeRune(in[offset:]); len(d) != 1 || r != utf8.RuneError || size != 1 {
					t.Fatalf("delta %q at %d of %q", d, offset, in)
				}
			}
			offset += len(d)
		}
	})
}
