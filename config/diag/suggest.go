package diag

import (
	"fmt"
	"strings"
)

// Suggest returns the candidate that given is probably a misspelling of, or "". It ignores case and treats dashes and underscores
// as equal. Among equally close candidates it returns the first.
func Suggest(given string, candidates []string) string {
	if given == "" {
		return ""
	}
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	g := plain(given)
	// The limit is a third of the letters, at least one and at most three: "x" does not suggest "approval", but "modle" suggests
	// "model".
	limit := min(max(len([]rune(g))/3, 1), 3)
	best, bestDistance := "", limit+1
	for _, c := range candidates {
		if c == given || c == "" {
			continue
		}
		p := plain(c)
		d := distance(g, p)
		if len(g) >= 4 && (strings.HasPrefix(p, g) || strings.HasPrefix(g, p) && len(p) >= 4) {
			d = min(d, limit)
		}
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// DidYouMean returns a next step: `did you mean "NAME"?`, the names if there are only a few, or otherwise.
func DidYouMean(given string, candidates []string, otherwise string) string {
	if s := Suggest(given, candidates); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	switch n := len(candidates); {
	case n == 1:
		return "use " + Quoted(candidates)
	case n > 1 && n <= 8:
		return "use one of " + Quoted(candidates)
	}
	return otherwise
}

// Quoted formats names as "a", "b" or "c".
func Quoted(names []string) string {
	var b strings.Builder
	for i, n := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", n)
	}
	return b.String()
}

// distance returns the number of letters to insert, remove, replace or swap with their neighbour to turn a into b. Only the first
// 64 letters are compared.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	x, y = x[:min(len(x), 64)], y[:min(len(y), 64)]
	var rows [3][65]int
	before, above, here := rows[0][:len(y)+1], rows[1][:len(y)+1], rows[2][:len(y)+1]
	for j := range above {
		above[j] = j
	}
	for i := range x {
		here[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			here[j+1] = min(above[j+1]+1, here[j]+1, above[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				here[j+1] = min(here[j+1], before[j-1]+1)
			}
		}
		before, above, here = above, here, before
	}
	return above[len(y)]
}
