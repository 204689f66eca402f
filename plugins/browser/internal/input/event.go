package input

import (
	"strings"

	"github.com/chromedp/cdproto/input"
)

// Modifiers returns the bits of modifier keys with the names of [Chord].
func Modifiers(names []string) int64 {
	var bits int64
	for _, n := range names {
		bits |= named[strings.ToLower(n)].modifier
	}
	return bits
}

// Key returns the event of one key that is pressed or released, by its name or character. A character without a key of its own has an
// event with the text alone.
func Key(name string, down bool, modifiers []string) input.DispatchKeyEventParams {
	k, ok := named[strings.ToLower(name)]
	if !ok {
		if runes := []rune(name); len(runes) == 1 {
			k, _, ok = character(runes[0])
		}
	}
	if !ok {
		k = key{name: name}
		if len([]rune(name)) == 1 {
			k.text = name
		}
	}
	kind := input.DispatchKeyEventTypeKeyUp
	var commands []string
	bits := Modifiers(modifiers)
	if down {
		kind = input.DispatchKeyEventTypeKeyDown
		if c := editing[strings.ToLower(name)]; c != "" && bits&(2|4) != 0 && bits&1 == 0 {
			commands = []string{c}
		}
	}
	return event(kind, k, bits, commands)
}
