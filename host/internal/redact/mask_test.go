package redact_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/redact"
	"pgregory.net/rapid"
)

// What a terminal shows after each piece.
func TestMask(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []string
		pieces string // separated by |
		want   string
	}{
		"in one piece":              {[]string{"my own secret"}, "it is my own secret, and", "it is *************, and"},
		"in two pieces":             {[]string{"my own secret"}, "it is my own s|ecret.\r\n", "it is |*************.\r\n"},
		"with a prompt":             {[]string{"password-1"}, "Password: |x", "Password: |x"},
		"a beginning that is shown": {[]string{"password-1"}, "$ pas|s|word-1", "$ pas||*******"},
		"typed":                     {[]string{"password-1"}, "p|a|s|s|w|o|r|d|-|1|\r\n", "p|a|s|||||||*******|\r\n"},
		"typed, something else":     {[]string{"password-1"}, "p|a|s|s|w|d|\r\n", "p|a|s|||swd|\r\n"},
		"at the end":                {[]string{"my own secret"}, "is my own secret|", "is *************|"},
		"one that contains another": {[]string{"abcdefgh", "abcdefghijkl"}, "abcdefghij|kl|m", "********|****|m"},
		"the shorter of them":       {[]string{"abcdefgh", "abcdefghijkl"}, "abcdefghij|x", "********|ijx"},
		"overlapping":               {[]string{"abcdefgh", "efghijkl"}, "abcdefghijkl.", "************."},
		"bytes that are no text":    {[]string{"geheimnisträger"}, "\xff\x1b[1mgeheimnistr\xc3|\xa4ger\x00", "\xff\x1b[1m|****************\x00"},
		"none":                      {nil, "my own secret|.", "my own secret|."},
	} {
		m := known(tc.values...).Mask()
		var shown []string
		for p := range strings.SplitSeq(tc.pieces, "|") {
			shown = append(shown, string(m.Write([]byte(p))))
		}
		if got := strings.Join(shown, "|"); got != tc.want {
			t.Errorf("%s: shown %q, want %q", name, got, tc.want)
		}
		if want := len(tc.pieces) - len(tc.want); m.Held() != want {
			t.Errorf("%s: %d bytes held, want %d", name, m.Held(), want)
		}
	}
	var none *redact.Mask
	none.Reset()
	if none = (*redact.Redactor)(nil).Mask(); string(none.Write([]byte("x"))) != "x" || none.Held() != 0 {
		t.Error("no redactor changes something")
	}
	r := known("password-1")
	m := r.Mask()
	m.Write([]byte("passw"))
	m.Reset() // a gap
	if got := string(m.Write([]byte("ord-1 password-1"))); got != "ord-1 **********" {
		t.Errorf("after a gap: %q", got)
	}
	m.Write([]byte("passw"))
	r.Add("wonderful")
	if got := string(m.Write([]byte("onderful password-1."))); got != "pass********* **********." {
		t.Errorf("a value that was added: %q", got)
	}
}

// However the output is cut into pieces, nothing but the first three bytes of a value is shown.
func TestMaskOfPieces(t *testing.T) {
	t.Parallel()
	values := []string{"abababac", "babababa", "abcabcabcabc", "cabcabca"}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([abc]{1,6}|abababac|babababa|abcabcabcabc|cabcabca|\.){0,12}`).Draw(t, "text")
		m := known(values...).Mask()
		var got []byte
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			got, rest = append(got, m.Write([]byte(rest[:n]))...), rest[n:]
		}
		if len(got)+m.Held() != len(text) {
			t.Fatalf("%d bytes shown and %d held of %d", len(got), m.Held(), len(text))
		}
		secret, first := make([]bool, len(text)), make([]bool, len(text)) // first: may be shown
		for _, v := range values {
			for i := range text {
				if strings.HasPrefix(text[i:], v) {
					for j := range v {
						secret[i+j] = true
						first[i+j] = first[i+j] || j < 3
					}
				}
			}
		}
		for i, c := range got {
			if !secret[i] && c != text[i] || secret[i] && c != '*' && !(first[i] && c == text[i]) {
				t.Fatalf("%q is shown as %q: byte %d", text, got, i)
			}
		}
	})
}

func BenchmarkMask(b *testing.B) {
	m := known("gh-token-of-mine-1", "another secret of mine").Mask()
	piece := []byte(strings.Repeat("the output of a program, which has no secret\r\n", 1400))
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		m.Write(piece)
	}
}
