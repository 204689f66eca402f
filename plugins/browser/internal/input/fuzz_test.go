package input

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
)

// A text is keys only if each of its parts is a key, and these are its parts. A key that was pressed can be released.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"Enter", "ctrl+Shift+F5", "Control++", "a+b", "+", "", "Control+é", "Meta+ArrowLeft", "Shift+\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, keys string) {
		chord, ok := Chord(keys)
		if !ok {
			return
		}
		if len(chord) == 0 || strings.Join(chord, "+") != keys {
			t.Fatalf("%q has the parts %q", keys, chord)
		}
		if slices.ContainsFunc(chord[:len(chord)-1], func(m string) bool { return Modifiers([]string{m}) == 0 }) {
			t.Errorf("%q has a part before the last that is no modifier", keys)
		}
		last := chord[len(chord)-1]
		down, up := Key(last, true, chord[:len(chord)-1]), Key(last, false, chord[:len(chord)-1])
		if down.Type == input.DispatchKeyEventTypeKeyUp || up.Type != input.DispatchKeyEventTypeKeyUp || down.Key != up.Key || down.Code != up.Code || down.Modifiers != up.Modifiers {
			t.Errorf("%q: %+v is released by %+v", keys, down, up)
		}
	})
}
