package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of what [Changes] says.
const (
	MaxChanges   = 4 << 10 // bytes
	maxDiffers   = 300     // bytes of each version of a text
	diffContext  = 40      // bytes of a text before and after the part that differs
	maxDiffLines = 12      // of a schema
)

// Changes says how a tool's definition differs from an earlier one, in short lines for people. The lines with a minus are the earlier
// definition's.
func Changes(old, now Tool) string {
	var lines []string
	texts := func(what, a, b string) {
		if a, b = Line(a, maxDescription), Line(b, maxDescription); a != b {
			a, b = differing(a, b)
			lines = append(lines, what+":", "- "+a, "+ "+b)
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
	return Text(strings.Join(lines, "\n"), MaxChanges)
}

// Summary describes a tool to people who have not seen it, in short lines.
func Summary(t Tool) string {
	lines := []string{"description:", "+ " + Line(t.Description, maxDiffers)}
	lines = append(lines, schemaChanges("arguments", nil, t.Input)...)
	for name, hint := range map[string]*bool{"readOnlyHint": t.Annotations.ReadOnly, "destructiveHint": t.Annotations.Destructive} {
		if hint != nil {
			lines = append(lines, fmt.Sprintf("annotation %s: %s", name, hintText(hint)))
		}
	}
	slices.Sort(lines[2:])
	return Text(strings.Join(lines, "\n"), MaxChanges)
}

func hintText(b *bool) string {
	if b == nil {
		return "not set"
	}
	return strconv.FormatBool(*b)
}

// differing returns the parts of two texts that differ, with a little of what is around them.
func differing(a, b string) (string, string) {
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < min(len(a), len(b))-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	part := func(s string) string {
		from, to := max(0, start-diffContext), min(len(s), len(s)-end+diffContext)
		for from > 0 && !utf8.RuneStart(s[from]) {
			from--
		}
		for to < len(s) && !utf8.RuneStart(s[to]) {
			to++
		}
		out := s[from:to]
		if from > 0 {
			out = "…" + out
		}
		if to < len(s) {
			out += "…"
		}
		return strconv.Quote(bound(out, maxDiffers))
	}
	return part(a), part(b)
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
		at := Line(name, 100)
		if had {
			lines = append(lines, fmt.Sprintf("- %s: %s = %s", what, at, Line(a, 200)))
		}
		if has {
			lines = append(lines, fmt.Sprintf("+ %s: %s = %s", what, at, Line(b, 200)))
		}
	}
	if more := len(lines) - maxDiffLines; more > 0 {
		lines = append(lines[:maxDiffLines], fmt.Sprintf("… and %d more lines about %s", more, what))
	}
	return lines
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
