package protocol_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// divided runs pieces through a splitter and writes thinking in brackets.
func divided(tags protocol.ThinkTags, pieces ...string) (thought, text string) {
	s := protocol.NewThinkSplitter(tags)
	take := func() {
		for {
			part, inside, ok := s.Next()
			if !ok {
				return
			}
			if inside {
				thought += part
			} else {
				text += part
			}
		}
	}
	for _, p := range pieces {
		s.Write(p)
		take()
	}
	s.Close()
	take()
	return thought, text
}

func TestThinkingIsSplitOff(t *testing.T) {
	usual := protocol.ThinkTags{Open: "<think>", Close: "</think>"}
	begun := protocol.ThinkTags{Open: "<think>", Close: "</think>", StartInside: true}
	tests := []struct {
		name          string
		tags          protocol.ThinkTags
		in            string
		thought, text string
	}{
		{"in front", usual, "<think>a</think>b", "a", "b"},
		{"nothing marked", usual, "just text", "", "just text"},
		{"twice", usual, "a<think>b</think>c<think>d</think>e", "bd", "ace"},
		{"nothing inside", usual, "<think></think>a", "", "a"},
		{"never closed", usual, "a<think>b", "b", "a"},
		{"the answer begins inside", begun, "a</think>b", "a", "b"},
		{"begins inside, never closed", begun, "all of it", "all of it", ""},
		{"half a mark at the end", usual, "a<thi", "", "a<thi"},
		{"half a closing mark at the end", usual, "<think>a</thin", "a</thin", ""},
		{"marks that resemble the mark", usual, "<<think>a<</think>b", "a<", "<b"},
		{"a closing mark outside is text", usual, "a</think>b", "", "a</think>b"},
		{"marks that are no ASCII", protocol.ThinkTags{Open: "◁think▷", Close: "◁/think▷"}, "◁think▷é◁/think▷ü", "é", "ü"},
		{"a mark that is empty is no mark", protocol.ThinkTags{Close: "</think>", StartInside: true}, "a</think>b</think>", "a", "b</think>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			thought, text := divided(tt.tags, tt.in)
			if thought != tt.thought || text != tt.text {
				t.Errorf("thought %q and text %q, want %q and %q", thought, text, tt.thought, tt.text)
			}
			for i := range len(tt.in) + 1 {
				a, b := divided(tt.tags, tt.in[:i], tt.in[i:])
				if a != thought || b != text {
					t.Errorf("cut at %d: thought %q and text %q, want %q and %q", i, a, b, thought, text)
				}
			}
			if a, b := divided(tt.tags, strings.Split(tt.in, "")...); a != thought || b != text {
				t.Errorf("letter by letter: thought %q and text %q, want %q and %q", a, b, thought, text)
			}
		})
	}
}

// wholly divides a text that is there at once.
func wholly(tags protocol.ThinkTags, in string) (thought, text string) {
	inside := tags.StartInside
	for in != "" {
		part, to, mark := in, &text, tags.Open
		if inside {
			to, mark = &thought, tags.Close
		}
		part, in, _ = strings.Cut(part, mark)
		*to += part
		inside = !inside
	}
	return thought, text
}

func TestPiecesSplitAsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"<t>", "</t>", "<", "/", "t", ">", "x", "<t", "/t>"}), 0, 12).Draw(t, "pieces")
		tags := protocol.ThinkTags{Open: "<t>", Close: "</t>", StartInside: rapid.Bool().Draw(t, "inside")}
		thought, text := divided(tags, pieces...)
		if a, b := wholly(tags, strings.Join(pieces, "")); a != thought || b != text {
			t.Fatalf("thought %q and text %q, want %q and %q", thought, text, a, b)
		}
	})
}

func FuzzThinking(f *testing.F) {
	f.Add("<think>a</think>b", uint8(3), false)
	f.Add("a</thi</think", uint8(9), true)
	f.Fuzz(func(t *testing.T, in string, cut uint8, inside bool) {
		tags := protocol.ThinkTags{Open: "<think>", Close: "</think>", StartInside: inside}
		at := min(int(cut), len(in))
		thought, text := divided(tags, in[:at], in[at:])
		if a, b := wholly(tags, in); a != thought || b != text {
			t.Errorf("cut at %d: thought %q and text %q, want %q and %q", at, thought, text, a, b)
		}
	})
}
