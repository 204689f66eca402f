package output

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func fill(capacity int, pushes ...string) *Buffer {
	b := New(capacity)
	for _, p := range pushes {
		b.Write([]byte(p))
	}
	return b
}

func TestBuffer(t *testing.T) {
	tests := []struct {
		name       string
		capacity   int
		pushes     []string
		head, tail string
		omitted    int64
		text       string
	}{
		{"over the end", 10, []string{"0123456789", "ab"}, "01234", "789ab", 2, "01234\n... 2 bytes omitted ...\n789ab"},
		{"in pieces", 10, []string{"01", "234", "567", "89", "a"}, "01234", "6789a", 1, "01234\n... 1 bytes omitted ...\n6789a"},
		{"one piece longer than the tail", 10, []string{"0123456789", "ABCDEFGHIJK"}, "01234", "GHIJK", 11, "01234\n... 11 bytes omitted ...\nGHIJK"},
		{"no capacity", 0, []string{"abc"}, "", "", 3, "\n... 3 bytes omitted ...\n"},
		{"capacity for one", 1, []string{"abc"}, "", "c", 2, "\n... 2 bytes omitted ...\nc"},
		{"single bytes and nothing between", 10,
			[]string{"0", "", "1", "2", "", "3", "4", "5", "6", "", "7", "8", "9", "a", "", "b"}, "01234", "789ab", 2,
			"01234\n... 2 bytes omitted ...\n789ab"},
		{"all of it", 10, []string{"0123456789"}, "01234", "56789", 0, "0123456789"},
		{"only head", 10, []string{"012"}, "012", "", 0, "012"},
		{"nothing", 10, nil, "", "", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := fill(tt.capacity, tt.pushes...)
			o := b.Drain()
			if string(o.Head) != tt.head || string(o.Tail) != tt.tail || o.Omitted != tt.omitted {
				t.Errorf("head %q, tail %q, omitted %d; want %q, %q, %d", o.Head, o.Tail, o.Omitted, tt.head, tt.tail, tt.omitted)
			}
			if want := int64(len(strings.Join(tt.pushes, ""))); o.Total() != want {
				t.Errorf("total = %d, want %d", o.Total(), want)
			}
			if got := o.Text(); got != tt.text {
				t.Errorf("text = %q, want %q", got, tt.text)
			}
			if again := b.Drain(); again.Total() != 0 {
				t.Errorf("after draining there is %+v left", again)
			}
		})
	}
}

func TestDrainIntoAnother(t *testing.T) {
	b := fill(10, "0123456789", "ab")
	into := New(10)
	into.Absorb(b.Drain())
	o := into.Drain()
	if got := string(o.Head) + string(o.Tail); got != "01234789ab" || o.Omitted != 2 || o.Total() != 12 {
		t.Errorf("kept %q, omitted %d of %d; want 01234789ab, 2 of 12", got, o.Omitted, o.Total())
	}
	if b.Len() != 0 {
		t.Errorf("source still has %d bytes", b.Len())
	}
}

func TestFitCutsTheMiddle(t *testing.T) {
	o := fill(10, "0123456789", "ab").Drain()
	if got := o.Fit(10); got.Text() != o.Text() {
		t.Errorf("what fits became %q", got.Text())
	}
	if got, want := o.Fit(4).Text(), "01\n... 8 bytes omitted ...\nab"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
}

// A buffer that is written to in any pieces gives the first and the last bytes of the whole.
func TestBufferKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(0, 40).Draw(t, "capacity")
		pieces := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 30)).Draw(t, "pieces")
		b := New(capacity)
		var whole []byte
		for _, p := range pieces {
			b.Write(p)
			whole = append(whole, p...)
		}
		if rapid.Bool().Draw(t, "absorbed") {
			bigger := New(capacity)
			bigger.Absorb(b.Drain())
			b = bigger
		}
		o := b.Drain()
		head, tail := min(capacity/2, len(whole)), min(capacity-capacity/2, max(0, len(whole)-capacity/2))
		if !bytes.Equal(o.Head, whole[:head]) || !bytes.Equal(o.Tail, whole[len(whole)-tail:]) || o.Total() != int64(len(whole)) {
			t.Fatalf("capacity %d, whole %q: got %+v", capacity, whole, o)
		}
	})
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"a\xff\xfeb":     "a\uFFFD\uFFFDb",
		"plain é":        "plain é",
		"cut \xe2\x82":   "cut \uFFFD\uFFFD",
		"":               "",
		"\xf0\x9f\x98x€": "\uFFFD\uFFFD\uFFFDx€",
	} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestPartial(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "a\xc3": 1, "a\xe2\x82": 2, "\xf0\x9f\x98": 3, "\xf0\x9f\x98\x80": 0, "\xff": 0, "\x80\x80\x80\x80": 0,
		"\xe2x": 0,
	} {
		if got := Partial([]byte(in)); got != want {
			t.Errorf("Partial(%q) = %d, want %d", in, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	for n, want := range map[int]int64{0: 0, 1: 1, 4: 1, 5: 2, 50: 13} {
		if got := fill(100, strings.Repeat("x", n)).Drain().Tokens(); got != want {
			t.Errorf("tokens of %d bytes = %d, want %d", n, got, want)
		}
	}
}
