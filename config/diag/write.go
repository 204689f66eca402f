package diag

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A line of configuration is shown up to this many letters, so that a minified JSON file does not flood the screen.
const maxSnippetWidth = 160

// So many places of one problem are shown: a file of another kind has it in each line.
const maxPlaces = 8

// Write renders ds for people, one paragraph each:
//
//	Error: unsupported argument
//	  gantry.hcl:14  sorce = "./bin/weather"
//	  An argument named "sorce" is not expected here.
//	  Next: did you mean "source"?
//
// Equal problems at several places are told once, with their places, of many with the first ones. Control characters are made visible: parts of the
// text may come from a plugin. With colour, ANSI sequences mark the first word and the place. The error is w's.
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

// grouped collects equal problems, in the order in which the first of each came.
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

// place is where d is: the file, line and text, then the plugin, thread and call.
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

// firstLine is the first line of the code without indentation, the range underlined when painted.
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
		// Keep the marked part in sight: cut what is before it from the left, the rest from the right.
		if len(before) > room/2 {
			before = "…" + tail(before, room/2)
		}
		marked = head(marked, room-len(before))
		after = head(after, max(room-len(before)-len(marked), 0))
	}
	return before + p.paint(underline, marked) + after
}

// head cuts s to at most n bytes at a letter, with a sign that something is missing.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// tail is the last n bytes of s, from a letter on.
func tail(s string, n int) string {
	i := max(len(s)-n, 0)
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// visible replaces what could steer a terminal: control characters and text direction marks. Line breaks stay.
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

// line is visible in one line.
func line(s string) string { return strings.ReplaceAll(visible(s), "\n", " ") }

const (
	red       = "31"
	yellow    = "33"
	cyan      = "36"
	underline = "4"
)

// painter adds ANSI sequences, or not.
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
