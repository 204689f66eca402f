package diag

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSnippetWidth limits the length of a printed line of configuration: a minified JSON file should not flood the screen.
const maxSnippetWidth = 160

// maxPlaces limits the positions that are printed for one problem: a file in the wrong format can have it on each line.
const maxPlaces = 8

// Write renders ds for people, one paragraph each:
//
//	Error: unsupported argument
//	  gantry.hcl:14  sorce = "./bin/weather"
//	  An argument named "sorce" is not expected here.
//	  Next: did you mean "source"?
//
// Equal problems are printed once, with their first positions. Control characters are escaped, because parts of the text may come
// from a plugin. With colour, ANSI sequences highlight the first word and the position. The returned error is that of w.
func Write(w io.Writer, ds Diagnostics, colour bool) error {
	out := bufio.NewWriter(w)
	p := painter(colour)
	for i, group := range grouped(ds) {
		if i > 0 {
			out.WriteByte('\n')
		}
		d := group[0]
		if d.Severity == Warning {
			out.WriteString(p.bold(yellow, "Warning:"))
		} else {
			out.WriteString(p.bold(red, "Error:"))
		}
		fmt.Fprintf(out, " %s\n", p.bold("", line(d.Summary)))
		last, shown, more := "", 0, 0
		for _, g := range group {
			place := g.place(p)
			switch {
			case place == "" || place == last:
			case shown == maxPlaces:
				more++
			default:
				fmt.Fprintf(out, "  %s\n", place)
				last, shown = place, shown+1
			}
		}
		if more > 0 {
			fmt.Fprintf(out, "  … and %d more places\n", more)
		}
		for l := range strings.Lines(visible(d.Detail)) {
			fmt.Fprintf(out, "  %s\n", strings.TrimRight(l, "\n"))
		}
		if d.Next != "" {
			fmt.Fprintf(out, "  %s %s\n", p.bold("", "Next:"), line(d.Next))
		}
	}
	return out.Flush()
}

// grouped groups equal problems, in the order of their first occurrence.
func grouped(ds Diagnostics) [][]Diagnostic {
	type key struct {
		severity              Severity
		summary, detail, next string
	}
	at := make(map[key]int, len(ds))
	var groups [][]Diagnostic
	for _, d := range ds {
		k := key{d.Severity, d.Summary, d.Detail, d.Next}
		if i, ok := at[k]; ok {
			groups[i] = append(groups[i], d)
			continue
		}
		at[k] = len(groups)
		groups = append(groups, []Diagnostic{d})
	}
	return groups
}

// place returns the position of d: the file, line and text, then the plugin, thread and call.
func (d Diagnostic) place(p painter) string {
	var parts []string
	if !d.Range.IsZero() {
		s := p.paint(cyan, line(d.Range.String()))
		if d.Snippet != nil {
			if code := d.Snippet.firstLine(p); code != "" {
				s += "  " + code
			}
		}
		parts = append(parts, s)
	}
	var who []string
	for _, n := range [...]struct{ kind, name string }{
		{"plugin", d.Plugin}, {"thread", d.Thread}, {"call", d.Call},
	} {
		if n.name != "" {
			who = append(who, n.kind+" "+line(n.name))
		}
	}
	if len(who) > 0 && (d.Range.IsZero() || d.Thread != "" || d.Call != "") {
		parts = append(parts, "in "+strings.Join(who, ", "))
	}
	return strings.Join(parts, "\n  ")
}

// firstLine returns the first line of the snippet without indentation. With colour, the range is underlined.
func (s *Snippet) firstLine(p painter) string {
	code, _, _ := strings.Cut(s.Code, "\n")
	from := min(s.HighlightStart, len(code))
	to := min(s.HighlightEnd, len(code))
	indent := len(code) - len(strings.TrimLeft(code, " \t"))
	code = strings.TrimRight(code, " \t\r")
	if indent >= len(code) {
		return ""
	}
	from, to = max(min(from, len(code)), indent), max(min(to, len(code)), indent)
	before, marked, after := line(code[indent:from]), line(code[from:to]), line(code[to:])
	if room := maxSnippetWidth; len(before)+len(marked)+len(after) > room {
		// If the line is too long, shorten it on both sides so that the range stays visible.
		if len(before) > room/2 {
			before = "…" + tail(before, room/2)
		}
		marked = head(marked, room-len(before))
		after = head(after, max(room-len(before)-len(marked), 0))
	}
	return before + p.paint(underline, marked) + after
}

// head returns at most the first n bytes of s, cut between letters, and an ellipsis if something is missing.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// tail returns at most the last n bytes of s, cut between letters.
func tail(s string, n int) string {
	i := max(len(s)-n, 0)
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// visible escapes control characters and text direction marks, which could manipulate a terminal. It keeps line breaks.
func visible(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case r == 0x1b:
			return '␛'
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != 0x200d, r == utf8.RuneError:
			return '�'
		}
		return r
	}, s)
}

// line is like visible but returns a single line.
func line(s string) string { return strings.ReplaceAll(visible(s), "\n", " ") }

const (
	red       = "31"
	yellow    = "33"
	cyan      = "36"
	underline = "4"
)

// painter adds ANSI sequences if it is true.
type painter bool

func (p painter) paint(code, s string) string {
	if !p || s == "" || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) bold(code, s string) string {
	if code == "" {
		return p.paint("1", s)
	}
	return p.paint("1;"+code, s)
}
