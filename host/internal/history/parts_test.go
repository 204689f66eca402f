package history

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
	"pgregory.net/rapid"
)

// content makes parts of words: "image" and "audio" stand for media, audio of one token, "encrypted" for what nobody can read, the
// rest are texts.
func content(words ...string) (out llm.Parts) {
	for _, w := range words {
		switch w {
		case "image":
			out = append(out, &llm.Media{MediaType: "image/png", Data: []byte("x")})
		case "audio":
			out = append(out, &llm.Media{MediaType: "audio/wav", Data: make([]byte, audioBytesPerToken)})
		case "encrypted":
			out = append(out, &llm.Sealed{Namespace: "v", Data: strings.Repeat("x", 1000)})
		default:
			out = append(out, &llm.Text{Text: w})
		}
	}
	return out
}

func shown(parts llm.Parts) string {
	var out []string
	for _, p := range parts {
		switch p := p.(type) {
		case *llm.Text:
			out = append(out, fmt.Sprintf("%q", p.Text))
		case *llm.Media:
			kind, _, _ := strings.Cut(p.MediaType, "/")
			out = append(out, kind)
		case *llm.Sealed:
			out = append(out, "encrypted")
		}
	}
	return strings.Join(out, " ")
}

func TestTruncateParts(t *testing.T) {
	const snippet = "alpha beta gamma"
	ten := strings.Repeat(snippet, 10)
	n := Tokens(int64(len(snippet)))
	for _, tc := range []struct {
		name string
		in   llm.Parts
		p    Policy
		want string
	}{
		{"in order, images cost nothing", content(snippet, snippet, "image", ten, snippet, snippet), tokensPolicy(3 * n),
			fmt.Sprintf("%q %[1]q image %q %q", snippet, Truncate(ten, tokensPolicy(n)), "[omitted 2 text items ...]")},
		{"no room for audio", content("abcdefgh", "image", "audio"), bytesPolicy(2), `"a…6 chars truncated…h" image "[omitted 1 audio items ...]"`},
		{"encrypted content costs nothing and stays", content("abcdefgh", "encrypted", "audio"), bytesPolicy(2), `"a…6 chars truncated…h" encrypted "[omitted 1 audio items ...]"`},
		{"audio first", content("audio", "abcdefgh"), bytesPolicy(5), `audio "…7 chars truncated…h"`},
		{"audio in tokens", content("audio", "audio", "abcd", "audio"), tokensPolicy(3), `audio audio "abcd" "[omitted 1 audio items ...]"`},
		{"both", content("abcd", "abcd", "audio", "audio"), bytesPolicy(4), `"abcd" "[omitted 1 text items ...]" "[omitted 2 audio items ...]"`},
		{"all of it", content("abcd", "", "image"), bytesPolicy(4), `"abcd" "" image`},
		{"nothing", nil, bytesPolicy(0), ""},
	} {
		if got := shown(TruncateParts(tc.in, tc.p)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// What is left fits, images stay, and the parts that were given stay as they are.
func TestTruncatePartsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"image", "audio", "", "ab", "abcdefghijklmnop", "😀😀😀"}), 0, 8).Draw(t, "parts")
		p := Policy{Bytes: rapid.Bool().Draw(t, "bytes"), Limit: rapid.Int64Range(0, 40).Draw(t, "limit")}
		in := content(words...)
		before := shown(in)
		got := TruncateParts(in, p)
		if shown(in) != before {
			t.Fatal("the parts themselves were changed")
		}
		if want := strings.Count(before, "image"); strings.Count(shown(got), "image") != want {
			t.Fatalf("%s: an image is missing", shown(got))
		}
		var left int64
		for _, part := range got {
			if text, ok := part.(*llm.Text); ok && !strings.HasPrefix(text.Text, "[omitted") {
				for _, c := range cutsIn(text.Text) {
					left -= int64(c.end - c.start)
				}
				left += int64(len(text.Text))
			}
		}
		if left > p.ByteBudget() {
			t.Fatalf("%d bytes are left of a budget of %d: %s", left, p.ByteBudget(), shown(got))
		}
	})
}

// Audio counts by what vendors make of it, not by the length of its base64.
func TestEstimateOfAudio(t *testing.T) {
	data := make([]byte, 100*audioBytesPerToken)
	for name, m := range map[string]*llm.Media{
		"bytes": {MediaType: "audio/mpeg", Data: data},
		"a URL": {MediaType: "audio/mpeg", URL: "data:audio/mpeg;base64," + strings.Repeat("AAAA", len(data)/3)},
	} {
		got := Estimate([]llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{m}}})
		if got < 100 || got > 130 {
			t.Errorf("%s: %d tokens, want 100 and a little more", name, got)
		}
	}
}
