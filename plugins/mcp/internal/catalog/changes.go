package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Limits of what [Changes] says.
const (
	MaxChanges   = 4 << 10 // bytes
	maxOld       = 300     // bytes of an earlier text
	maxNew       = 1500    // bytes of a text as it is now
	maxValue     = 300     // bytes of a value in a schema, of each version
	diffContext  = 40      // bytes of a text before and after a part that differs
	maxDiffLines = 12      // of a schema
)

// Changes says how a tool's definition differs from an earlier one, in short lines for people. The lines with a minus are the earlier
// definition's.
func Changes(old, now Tool) string {
	var lines []string
	texts := func(what, a, b string) {
		if a, b = Line(a, maxDescription), Line(b, maxDescription); a != b {
			lines = append(append(lines, what+":"), differing(a, b, "", maxOld, maxNew)...)
		}
	}
	texts("title", old.Title, now.Title)
	texts("description", old.Description, now.Description)
	lines = append(lines, schemaChanges("arguments", old.Input, now.Input)...)
	lines = append(lines, schemaChanges("result", old.Output, now.Output)...)
	for _, h := range []struct {
		name    string
		old, is *bool
	}{
		{"readOnlyHint", old.Annotations.ReadOnly, now.Annotations.ReadOnly}, {"destructiveHint", old.Annotations.Destructive, now.Annotations.Destructive},
		{"idempotentHint", old.Annotations.Idempotent, now.Annotations.Idempotent}, {"openWorldHint", old.Annotations.OpenWorld, now.Annotations.OpenWorld},
	} {
		if a, b := hintText(h.old), hintText(h.is); a != b {
			lines = append(lines, fmt.Sprintf("annotation %s: was %s, is %s", h.name, a, b))
		}
	}
	if len(lines) == 0 {
		lines = []string{"something that neither models nor gantry use, or that is too long to be shown"}
	}
	return fitting(lines)
}

// TextChanges says how a text of at most [MaxInstructions] differs from an earlier one, as [Changes] does.
func TextChanges(what, old, now string) string {
	lines := differing(Line(old, MaxInstructions), Line(now, MaxInstructions), "", maxOld, maxNew)
	if len(lines) == 0 {
		lines = []string{"… only white space differs"}
	}
	return fitting(append([]string{what + ":"}, lines...))
}

// Summary describes a tool to people who have not seen it, in short lines.
func Summary(t Tool) string {
	lines := schemaChanges("arguments", nil, t.Input)
	for name, hint := range map[string]*bool{"readOnlyHint": t.Annotations.ReadOnly, "destructiveHint": t.Annotations.Destructive} {
		if hint != nil {
			lines = append(lines, fmt.Sprintf("annotation %s: %s", name, hintText(hint)))
		}
	}
	slices.Sort(lines)
	return fitting(append([]string{"description:", "+ " + part(Line(t.Description, maxDescription), maxNew)}, lines...))
}

func hintText(b *bool) string {
	if b == nil {
		return "not set"
	}
	return strconv.FormatBool(*b)
}

// differing returns the parts of two texts that differ, by words and with a little of what is around them: a line for each version of each
// part, after its name. It shows at most maxOld and maxNew bytes of them, and says how many it leaves out.
func differing(old, now, name string, maxOld, maxNew int) (lines []string) {
	a, b := words(old), words(now)
	diffs := lcs.DiffLines(a, b)
	aAt, bAt := offsets(a), offsets(b)
	for len(diffs) > 0 {
		n := 1
		for n < len(diffs) && aAt[diffs[n].Start]-aAt[diffs[n-1].End] <= 2*diffContext {
			n++
		}
		first, last := diffs[0], diffs[n-1]
		if maxNew <= 0 {
			hidden := 0
			for _, d := range diffs {
				hidden += bAt[d.ReplEnd] - bAt[d.ReplStart] + aAt[d.End] - aAt[d.Start]
			}
			return append(lines, fmt.Sprintf("… and more differences, in %d bytes that are not shown", hidden))
		}
		was, oldSize := around(old, aAt[first.Start], aAt[last.End], max(maxOld, 2*diffContext))
		is, newSize := around(now, bAt[first.ReplStart], bAt[last.ReplEnd], maxNew)
		lines = append(lines, "- "+name+was, "+ "+name+is)
		maxOld, maxNew, diffs = maxOld-oldSize, maxNew-max(newSize, oldSize/2), diffs[n:]
	}
	return lines
}

// words splits a text after each word, punctuation mark and space. Characters of scripts without spaces are words.
func words(s string) (out []string) {
	start, in := 0, false
	for i, r := range s {
		word := (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)) && !unicode.Is(unicode.Ideographic, r)
		if i > start && !(in && word) {
			out, start = append(out, s[start:i]), i
		}
		in = word
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

// offsets returns where each word starts, and where the last one ends.
func offsets(words []string) []int {
	out := make([]int, len(words)+1)
	for i, w := range words {
		out[i+1] = out[i] + len(w)
	}
	return out
}

// around quotes at most most bytes of s[start:end] with a little of what is around it, and returns how many bytes that takes.
func around(s string, start, end, most int) (string, int) {
	from, to := max(0, start-diffContext), min(len(s), end+diffContext)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	before, after := "", ""
	if from > 0 {
		before = "…"
	}
	if to < len(s) {
		after = "…"
	}
	return part(before+s[from:to]+after, most+2*diffContext), to - from
}

// part quotes the start of a text, and says how many bytes follow it.
func part(s string, most int) string {
	end := min(len(s), most)
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	if end == len(s) {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%s… (%d more bytes are not shown)", strconv.Quote(s[:end]), len(s)-end)
}

// fitting joins as many lines as fit, and says how many do not.
func fitting(lines []string) string {
	const room = 100 // for what it says of the rest
	var b strings.Builder
	for i, line := range lines {
		if line = Text(line, MaxChanges); b.Len()+len(line) > MaxChanges-room {
			fmt.Fprintf(&b, "… and %d more lines that are not shown", len(lines)-i)
			break
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// schemaChanges says which values in a schema differ.
func schemaChanges(what string, old, now json.RawMessage) []string {
	was, is := leaves(old), leaves(now)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, had := was[name]
		b, has := is[name]
		if had == has && a == b {
			continue
		}
		at := what + ": " + Line(name, 100) + " = "
		a, b = Line(a, maxDescription), Line(b, maxDescription)
		switch {
		case had && has && len(a)+len(b) > maxValue:
			lines = append(lines, differing(a, b, at, maxValue, maxValue)...)
			continue
		case had && has && a == b:
			continue
		}
		if had {
			lines = append(lines, "- "+at+value(a))
		}
		if has {
			lines = append(lines, "+ "+at+value(b))
		}
	}
	if more := len(lines) - maxDiffLines; more > 0 {
		lines = append(lines[:maxDiffLines], fmt.Sprintf("… and %d more lines about %s", more, what))
	}
	return lines
}

// value bounds a value in a schema, and says how many bytes follow.
func value(s string) string {
	if len(s) <= maxValue {
		return s
	}
	return part(s, maxValue)
}

// leaves returns the values of a JSON value that are no objects, by the names of the members around them.
func leaves(raw json.RawMessage) map[string]string {
	out := map[string]string{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		object, ok := v.(map[string]any)
		switch {
		case v == nil && at == "", ok && len(object) == 0 && at == "properties":
			return // there is none
		case ok && len(object) > 0:
			for name, member := range object {
				walk(strings.TrimPrefix(at+"."+name, "."), member)
			}
			return
		}
		if b, err := encode(v); err == nil {
			out[at] = string(b)
		}
	}
	if v, err := decode(raw); err == nil {
		walk("", v)
	}
	return out
}
