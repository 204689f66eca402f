package script

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// glob compiles a line pattern in which "*" stands for any text.
func glob(s string) *regexp.Regexp {
	parts := strings.Split(strings.ToValidUTF8(s, "\uFFFD"), "*")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
}

// globs compiles line patterns; "..." becomes nil.
func globs(lines []string) []*regexp.Regexp {
	patterns := make([]*regexp.Regexp, len(lines))
	for i, l := range lines {
		if l != "..." {
			patterns[i] = glob(l)
		}
	}
	return patterns
}

// seen tells whether the lines match the patterns; a nil pattern stands for any number of lines. The usual table of
// "do the first i patterns match the first j lines", a row at a time.
func seen(patterns []*regexp.Regexp, lines []string) bool {
	row := make([]bool, len(lines)+1)
	row[0] = true
	for _, p := range patterns {
		next := make([]bool, len(lines)+1)
		next[0] = p == nil && row[0]
		for j, l := range lines {
			if p == nil {
				next[j+1] = row[j+1] || next[j]
			} else {
				next[j+1] = row[j] && p.MatchString(l)
			}
		}
		row = next
	}
	return row[len(lines)]
}

// diffLines aligns wanted and found lines by the longest common subsequence and marks what is missing and too much.
func diffLines(want []string, patterns []*regexp.Regexp, got []string) string {
	n, m := len(want), len(got)
	best := make([][]int, n+1) // best[i][j]: matches among want[i:] and got[j:]
	for i := range best {
		best[i] = make([]int, m+1)
	}
	match := func(i, j int) bool { return patterns[i] != nil && patterns[i].MatchString(got[j]) }
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if match(i, j) {
				best[i][j] = max(best[i][j], best[i+1][j+1]+1)
			}
		}
	}
	var out []string
	skips := false // a "..." swallows what came and is not wanted
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && patterns[i] == nil:
			skips = true
			out = append(out, "  ...")
			i++
		case i < n && j < m && match(i, j) && best[i][j] == best[i+1][j+1]+1:
			skips = false
			out = append(out, "  "+excerpt(got[j]))
			i, j = i+1, j+1
		case j < m && (i == n || best[i][j+1] >= best[i+1][j]):
			if !skips {
				out = append(out, "+ "+excerpt(got[j]))
			}
			j++
		default:
			skips = false
			out = append(out, "- "+want[i])
			i++
		}
	}
	return strings.Join(out, "\n")
}

// isBoundary tells whether s may be cut before byte i without tearing a character.
func isBoundary(s string, i int) bool {
	return i <= 0 || i >= len(s) || utf8.RuneStart(s[i])
}
