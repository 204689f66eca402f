package term

import "strings"

// Color is one of the terminal's 16 colours, whose look is the user's choice. The zero Color is that of the terminal's text.
type Color uint8

// Colors.
const (
	Default Color = iota
	Black
	Red
	Green
	Yellow
	Blue
	Magenta
	Cyan
	White
	Gray // bright black
)

// Style is the look of a text.
type Style struct {
	FG                                              Color
	Bold, Faint, Italic, Underline, Reverse, Strike bool
}

// With returns s with what o adds.
func (s Style) With(o Style) Style {
	if o.FG != Default {
		s.FG = o.FG
	}
	s.Bold, s.Faint, s.Italic = s.Bold || o.Bold, s.Faint || o.Faint, s.Italic || o.Italic
	s.Underline, s.Reverse, s.Strike = s.Underline || o.Underline, s.Reverse || o.Reverse, s.Strike || o.Strike
	return s
}

// Palette says how colours look: the parameters of the sequences that select them. An empty one leaves a colour out.
type Palette [Gray + 1]string

// Terminal is the palette of the terminal itself.
func Terminal() Palette {
	return Palette{Black: "30", Red: "31", Green: "32", Yellow: "33", Blue: "34", Magenta: "35", Cyan: "36", White: "37", Gray: "90"}
}

// sgr returns the parameters of the sequence that selects s; empty: none is needed.
func (s Style) sgr(colors *Palette) string {
	var p []string
	for _, a := range []struct {
		on   bool
		code string
	}{{s.Bold, "1"}, {s.Faint, "2"}, {s.Italic, "3"}, {s.Underline, "4"}, {s.Reverse, "7"}, {s.Strike, "9"}} {
		if a.on {
			p = append(p, a.code)
		}
	}
	if c := colors[s.FG]; c != "" {
		p = append(p, c)
	}
	return strings.Join(p, ";")
}

// Span is a part of a line in one style. Its text has no control characters, except for newlines in what [Wrap] takes.
type Span struct {
	Text  string
	Style Style
}

// Line is a line of the screen.
type Line []Span

// Text returns a line in one style.
func Text(s string, style Style) Line { return Line{{s, style}} }

// Width returns the number of columns.
func (l Line) Width() int {
	n := 0
	for _, s := range l {
		n += Width(s.Text)
	}
	return n
}

// String returns the line as [Line.Paint] does with the palette of the terminal.
func (l Line) String() string {
	colors := Terminal()
	return l.Paint(&colors)
}

// Paint returns the line with the terminal's sequences.
func (l Line) Paint(colors *Palette) string {
	var out strings.Builder
	for _, s := range l {
		if s.Text == "" {
			continue
		}
		if sgr := s.Style.sgr(colors); sgr != "" {
			out.WriteString("\x1b[" + sgr + "m" + s.Text + "\x1b[m")
		} else {
			out.WriteString(s.Text)
		}
	}
	return out.String()
}

// Plain returns the text without styles.
func (l Line) Plain() string {
	var out strings.Builder
	for _, s := range l {
		out.WriteString(s.Text)
	}
	return out.String()
}

// Fit returns the line cut to width columns, with an ellipsis if something is missing.
func (l Line) Fit(width int) Line {
	if l.Width() <= width {
		return l
	}
	if width <= 0 {
		return nil
	}
	var out Line
	left := width - 1
	for _, s := range l {
		text := s.Text
		end := 0
		for end < len(text) {
			g, w := First(text[end:])
			if w > left {
				return append(out, Span{text[:end] + "…", s.Style})
			}
			end += len(g)
			left -= w
		}
		out = append(out, s)
	}
	return out
}

// Pad returns the line with spaces up to width columns.
func (l Line) Pad(width int, style Style) Line {
	if n := width - l.Width(); n > 0 {
		return append(l[:len(l):len(l)], Span{strings.Repeat(" ", n), style})
	}
	return l
}

// Prefix returns lines with first before the first one, and rest before the others.
func Prefix(lines []Line, first, rest Line) []Line {
	out := make([]Line, len(lines))
	for i, l := range lines {
		p := rest
		if i == 0 {
			p = first
		}
		out[i] = append(p[:len(p):len(p)], l...)
	}
	return out
}

// cell is a character in its style.
type cell struct {
	text  string
	width int
	style Style
}

// Wrap breaks text into lines of at most width columns, between words where possible. A width below 1 counts as 1; a character that is
// wider than a line is replaced.
func Wrap(spans []Span, width int) []Line { return wrap(spans, width, true) }

// WrapAnywhere is Wrap for code, whose spaces have a meaning: it breaks wherever a line is full.
func WrapAnywhere(spans []Span, width int) []Line { return wrap(spans, width, false) }

func wrap(spans []Span, width int, words bool) []Line {
	width = max(width, 1)
	var out []Line
	var line []cell
	used, space := 0, -1 // columns, and the index of the last space
	flush := func(cells []cell) { out = append(out, join(cells)) }
	for _, s := range spans {
		for text := s.Text; text != ""; {
			g, w := First(text)
			text = text[len(g):]
			if g == "\n" {
				flush(line)
				line, used, space = nil, 0, -1
				continue
			}
			if w > width {
				g, w = "?", 1
			}
			if used+w > width {
				switch {
				case words && g == " ":
					flush(line)
					line, used, space = nil, 0, -1
					continue // the break replaces the space
				case words && space > 0:
					rest := append([]cell(nil), line[space+1:]...)
					flush(line[:space])
					line, used, space = rest, columns(rest), -1
				default:
					flush(line)
					line, used, space = nil, 0, -1
				}
			}
			if g == " " && len(line) > 0 {
				space = len(line)
			}
			line = append(line, cell{g, w, s.Style})
			used += w
		}
	}
	flush(line)
	return out
}

func columns(cells []cell) int {
	n := 0
	for _, c := range cells {
		n += c.width
	}
	return n
}

// join returns cells as spans.
func join(cells []cell) Line {
	var out Line
	var text strings.Builder
	for i, c := range cells {
		text.WriteString(c.text)
		if i+1 == len(cells) || cells[i+1].style != c.style {
			out = append(out, Span{text.String(), c.style})
			text.Reset()
		}
	}
	return out
}
