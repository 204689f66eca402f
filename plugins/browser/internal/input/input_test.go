package input

import (
	"slices"
	"testing"
)

func TestChords(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string][]string{
		"Enter": {"Enter"}, "esc": {"esc"}, "Control+a": {"Control", "a"}, "ctrl+Shift+F5": {"ctrl", "Shift", "F5"}, "Control++": {"Control", "+"},
		"Meta+ArrowLeft": {"Meta", "ArrowLeft"},
		// Text.
		"hello": nil, "a+b": nil, "+": nil, "1+1": nil, "Control+": nil, "Control+ab": nil, "a": nil, "": nil, "++": nil, "Enter+a": nil,
	} {
		got, ok := Chord(keys)
		if ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", keys, got, ok)
		}
	}
}

func TestCharacters(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]string{'a': "KeyA", 'Z': "KeyZ", '!': "Digit1", '+': "Equal", '\n': "Enter", ' ': "Space"} {
		if k, shifted, ok := character(r); !ok || k.code != want || shifted != (r == 'Z' || r == '!' || r == '+') {
			t.Errorf("%q: %+v, %v, %v", r, k, shifted, ok)
		}
	}
	if _, _, ok := character('ä'); ok {
		t.Error("a key of a US keyboard types an umlaut")
	}
}
