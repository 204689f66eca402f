// Package theme names the styles of the terminal interface.
//
// It owns the look of each kind of text, and the palettes. It does not know what is shown. Start with [Text] and [Palette].
//
// By default the colours are the terminal's own 16, so that what the user has chosen for a light or a dark background holds here too.
package theme

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/tui/term"
)

// The styles by purpose.
var (
	Text     = term.Style{}
	Strong   = term.Style{Bold: true}
	Emphasis = term.Style{Italic: true}
	Struck   = term.Style{Strike: true}
	Heading  = term.Style{Bold: true, FG: term.Blue}
	Code     = term.Style{FG: term.Cyan}
	Link     = term.Style{Underline: true}
	Dim      = term.Style{FG: term.Gray}
	User     = term.Style{Bold: true}
	Accent   = term.Style{FG: term.Blue, Bold: true}
	Good     = term.Style{FG: term.Green}
	Bad      = term.Style{FG: term.Red}
	Warn     = term.Style{FG: term.Yellow}
	Selected = term.Style{Reverse: true}
	Match    = term.Style{Bold: true, Underline: true, FG: term.Yellow}
	Marked   = term.Style{Reverse: true}

	Keyword = term.Style{FG: term.Magenta}
	String  = term.Style{FG: term.Green}
	Number  = term.Style{FG: term.Yellow}
	Comment = term.Style{FG: term.Gray}
)

// rgb are the colours of a palette, in the order of [term.Color].
type rgb [term.Gray + 1][3]uint8

// light and dark are readable on a white and on a nearly black background: their contrast is at least 4.5.
func light() rgb {
	return rgb{
		term.Black: {0x00, 0x00, 0x00}, term.Red: {0xb4, 0x23, 0x18}, term.Green: {0x18, 0x69, 0x2e}, term.Yellow: {0x8a, 0x5a, 0x00}, term.Blue: {0x1f, 0x4f, 0xbf},
		term.Magenta: {0x8b, 0x2f, 0xa8}, term.Cyan: {0x0b, 0x6b, 0x7a}, term.White: {0x24, 0x29, 0x2f}, term.Gray: {0x5f, 0x63, 0x68},
	}
}

func dark() rgb {
	return rgb{
		term.Black: {0xd0, 0xd0, 0xd0}, term.Red: {0xff, 0x7b, 0x72}, term.Green: {0x7e, 0xe7, 0x87}, term.Yellow: {0xe3, 0xb3, 0x41}, term.Blue: {0x79, 0xb8, 0xff},
		term.Magenta: {0xd2, 0xa8, 0xff}, term.Cyan: {0x76, 0xd9, 0xe6}, term.White: {0xff, 0xff, 0xff}, term.Gray: {0x9a, 0xa4, 0xaf},
	}
}

// Palette returns a palette by its name in the configuration. Another name, and none, is the terminal's.
func Palette(name string) term.Palette {
	var from rgb
	switch name {
	case "light":
		from = light()
	case "dark":
		from = dark()
	case "mono":
		return term.Palette{}
	default:
		return term.Terminal()
	}
	var p term.Palette
	for c := term.Black; c <= term.Gray; c++ {
		p[c] = fmt.Sprintf("38;2;%d;%d;%d", from[c][0], from[c][1], from[c][2])
	}
	return p
}
