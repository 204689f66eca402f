// Package theme names the styles of the terminal interface.
//
// It owns the look of each kind of text. It does not know what is shown. Start with [Text].
//
// The colours are the terminal's own 16, so that what the user has chosen for a light or a dark background holds here too.
package theme

import "github.com/gantry-agent/gantry/host/internal/tui/term"

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
