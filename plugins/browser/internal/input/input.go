// Package input is a mouse and a keyboard: what it sends is, for a page, what a person does.
//
// It owns: the order of mouse and key events, and the names of keys. It must not know: elements, or what a page makes of the events.
//
// Start with [Click], [Type] and [Press].
package input

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

// maxTyped is the number of characters that are typed key by key. Longer texts are inserted, as by an input method.
const maxTyped = 300

func mouse(ctx context.Context, s *cdp.Session, p input.DispatchMouseEventParams) error {
	_, err := protocol.Call(ctx, s, input.DispatchMouseEvent, p)
	return err
}

// Move moves the mouse.
func Move(ctx context.Context, s *cdp.Session, x, y float64) error {
	return mouse(ctx, s, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y})
}

// Click moves the mouse, then presses and releases a button ("left", "right" or "middle") count times.
func Click(ctx context.Context, s *cdp.Session, x, y float64, button string, count int) error {
	if err := Move(ctx, s, x, y); err != nil {
		return err
	}
	buttons := map[string]int64{"left": 1, "right": 2, "middle": 4}[button]
	for i := range count {
		p := input.DispatchMouseEventParams{
			Type: input.DispatchMouseEventTypeMousePressed, X: x, Y: y, Button: input.MouseButton(button), Buttons: buttons, ClickCount: int64(i + 1),
		}
		if err := mouse(ctx, s, p); err != nil {
			return err
		}
		p.Type, p.Buttons = input.DispatchMouseEventTypeMouseReleased, 0
		if err := mouse(ctx, s, p); err != nil {
			return err
		}
	}
	return nil
}

// Drag presses the left button at one point and releases it at another.
func Drag(ctx context.Context, s *cdp.Session, x, y, toX, toY float64) error {
	const steps = 5
	if err := Move(ctx, s, x, y); err != nil {
		return err
	}
	p := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMousePressed, X: x, Y: y, Button: input.MouseButtonLeft, Buttons: 1, ClickCount: 1}
	if err := mouse(ctx, s, p); err != nil {
		return err
	}
	p.Type = input.DispatchMouseEventTypeMouseMoved
	for i := 1; i <= steps; i++ {
		f := float64(i) / steps
		p.X, p.Y = x+(toX-x)*f, y+(toY-y)*f
		if err := mouse(ctx, s, p); err != nil {
			return err
		}
	}
	p.Type, p.Buttons = input.DispatchMouseEventTypeMouseReleased, 0
	return mouse(ctx, s, p)
}

// key is a key of the keyboard.
type key struct {
	name, code, text string
	number           int64 // the virtual key code of Windows, which pages read as keyCode
	modifier         int64 // bit, if it is a modifier
}

const shift = 8

// named are the keys with names, by their names in lower case.
var named = keys()

func keys() map[string]key {
	out := map[string]key{}
	for _, k := range []key{
		{"Enter", "Enter", "\r", 13, 0}, {"Tab", "Tab", "", 9, 0}, {"Backspace", "Backspace", "", 8, 0}, {"Delete", "Delete", "", 46, 0},
		{"Escape", "Escape", "", 27, 0}, {" ", "Space", " ", 32, 0}, {"ArrowUp", "ArrowUp", "", 38, 0}, {"ArrowDown", "ArrowDown", "", 40, 0},
		{"ArrowLeft", "ArrowLeft", "", 37, 0}, {"ArrowRight", "ArrowRight", "", 39, 0}, {"PageUp", "PageUp", "", 33, 0},
		{"PageDown", "PageDown", "", 34, 0}, {"Home", "Home", "", 36, 0}, {"End", "End", "", 35, 0}, {"Insert", "Insert", "", 45, 0},
		{"Alt", "AltLeft", "", 18, 1}, {"Control", "ControlLeft", "", 17, 2}, {"Meta", "MetaLeft", "", 91, 4}, {"Shift", "ShiftLeft", "", 16, shift},
	} {
		out[strings.ToLower(k.name)] = k
	}
	for i := range int64(12) {
		name := fmt.Sprintf("F%d", i+1)
		out[strings.ToLower(name)] = key{name, name, "", 112 + i, 0}
	}
	for alias, name := range map[string]string{
		"ctrl": "control", "option": "alt", "cmd": "meta", "command": "meta", "return": "enter", "esc": "escape", "space": " ",
		"up": "arrowup", "down": "arrowdown", "left": "arrowleft", "right": "arrowright", "del": "delete", "\n": "enter", "\t": "tab",
	} {
		out[alias] = out[name]
	}
	return out
}

// symbols are the keys of characters that are neither letters nor digits, without and with the shift key.
var symbols = []struct {
	plain, shifted rune
	code           string
	number         int64
}{
	{'1', '!', "Digit1", 49}, {'2', '@', "Digit2", 50}, {'3', '#', "Digit3", 51}, {'4', '$', "Digit4", 52}, {'5', '%', "Digit5", 53},
	{'6', '^', "Digit6", 54}, {'7', '&', "Digit7", 55}, {'8', '*', "Digit8", 56}, {'9', '(', "Digit9", 57}, {'0', ')', "Digit0", 48},
	{'-', '_', "Minus", 189}, {'=', '+', "Equal", 187}, {'[', '{', "BracketLeft", 219}, {']', '}', "BracketRight", 221},
	{'\\', '|', "Backslash", 220}, {';', ':', "Semicolon", 186}, {'\'', '"', "Quote", 222}, {',', '<', "Comma", 188}, {'.', '>', "Period", 190},
	{'/', '?', "Slash", 191}, {'`', '~', "Backquote", 192},
}

// character returns the key that types a character, and whether with the shift key; ok is false if no key of a US keyboard does.
func character(r rune) (k key, shifted, ok bool) {
	if k, ok := named[string(r)]; ok && (r == '\n' || r == '\t' || r == ' ') {
		return k, false, true
	}
	if r < unicode.MaxASCII && unicode.IsLetter(r) {
		upper := unicode.ToUpper(r)
		return key{string(r), "Key" + string(upper), string(r), int64(upper), 0}, unicode.IsUpper(r), true
	}
	for _, s := range symbols {
		if r == s.plain || r == s.shifted {
			return key{string(r), s.code, string(r), s.number, 0}, r == s.shifted, true
		}
	}
	return key{}, false, false
}

func send(ctx context.Context, s *cdp.Session, kind input.DispatchKeyEventType, k key, modifiers int64, commands []string) error {
	_, err := protocol.Call(ctx, s, input.DispatchKeyEvent, event(kind, k, modifiers, commands))
	return err
}

func event(kind input.DispatchKeyEventType, k key, modifiers int64, commands []string) input.DispatchKeyEventParams {
	text := k.text
	if kind == input.DispatchKeyEventTypeKeyUp || modifiers&^shift != 0 {
		text = ""
	}
	if kind != input.DispatchKeyEventTypeKeyUp && text == "" {
		kind = input.DispatchKeyEventTypeRawKeyDown
	}
	return input.DispatchKeyEventParams{
		Type: kind, Key: k.name, Code: k.code, Text: text, UnmodifiedText: text, WindowsVirtualKeyCode: k.number, NativeVirtualKeyCode: k.number,
		Modifiers: modifiers, Commands: commands,
	}
}

func stroke(ctx context.Context, s *cdp.Session, k key, modifiers int64, commands ...string) error {
	if err := send(ctx, s, input.DispatchKeyEventTypeKeyDown, k, modifiers, commands); err != nil {
		return err
	}
	return send(ctx, s, input.DispatchKeyEventTypeKeyUp, k, modifiers, nil)
}

// Type types a text where the focus is. A line break is the Enter key.
func Type(ctx context.Context, s *cdp.Session, text string) error {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if len(text) > maxTyped {
		return insert(ctx, s, text)
	}
	for _, r := range text {
		k, shifted, ok := character(r)
		var err error
		switch {
		case !ok:
			err = insert(ctx, s, string(r))
		case shifted:
			err = stroke(ctx, s, k, shift)
		default:
			err = stroke(ctx, s, k, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func insert(ctx context.Context, s *cdp.Session, text string) error {
	_, err := protocol.Call(ctx, s, input.InsertText, input.InsertTextParams{Text: text})
	return err
}

// Chord parses the name of a key, such as "Enter", or of keys that are pressed together, such as "Control+Shift+a". ok is false for anything
// else, which is text.
func Chord(keys string) (chord []string, ok bool) {
	if _, ok := named[strings.ToLower(keys)]; ok && len(keys) > 1 {
		return []string{keys}, true
	}
	rest, last, found := cutLast(keys)
	if !found {
		return nil, false
	}
	for _, m := range strings.Split(rest, "+") {
		if named[strings.ToLower(m)].modifier == 0 {
			return nil, false
		}
		chord = append(chord, m)
	}
	_, isNamed := named[strings.ToLower(last)]
	_, _, isCharacter := character([]rune(last + " ")[0])
	if !isNamed && !(len([]rune(last)) == 1 && isCharacter) {
		return nil, false
	}
	return append(chord, last), true
}

// cutLast separates the last key; "Control++" is control and plus.
func cutLast(keys string) (rest, last string, ok bool) {
	if strings.HasSuffix(keys, "++") {
		return keys[:len(keys)-2], "+", len(keys) > 2
	}
	i := strings.LastIndex(keys, "+")
	if i <= 0 || i == len(keys)-1 {
		return "", "", false
	}
	return keys[:i], keys[i+1:], true
}

// editing are the commands of chords that an editor knows: a browser without a window manager does not derive them.
var editing = map[string]string{"a": "selectAll", "c": "copy", "x": "cut", "v": "paste", "z": "undo", "y": "redo"}

// Press presses keys, in the form of [Chord], together.
func Press(ctx context.Context, s *cdp.Session, chord []string) error {
	var held []key
	var modifiers int64
	for _, m := range chord[:len(chord)-1] {
		k := named[strings.ToLower(m)]
		modifiers |= k.modifier
		if err := send(ctx, s, input.DispatchKeyEventTypeKeyDown, k, modifiers, nil); err != nil {
			return err
		}
		held = append(held, k)
	}
	last := chord[len(chord)-1]
	k, ok := named[strings.ToLower(last)]
	if !ok {
		k, _, _ = character([]rune(last)[0])
	}
	var commands []string
	if c := editing[strings.ToLower(last)]; c != "" && modifiers&(2|4) != 0 && modifiers&1 == 0 {
		commands = []string{c}
	}
	if err := stroke(ctx, s, k, modifiers, commands...); err != nil {
		return err
	}
	slices.Reverse(held)
	for _, k := range held {
		modifiers &^= k.modifier
		if err := send(ctx, s, input.DispatchKeyEventTypeKeyUp, k, modifiers, nil); err != nil {
			return err
		}
	}
	return nil
}
