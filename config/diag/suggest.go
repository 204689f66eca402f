package diag

import (
	"fmt"
	"strings"
)

// Suggest returns the name among candidates that was probably meant by given, or "". Upper and lower case, dashes and
// underscores count as equal. Of equally near ones the first in the list wins.
func Suggest(given string, candidates []string) string {
	if given == "" {
		return ""
	}
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	g := plain(given)
	// A third of the letters, at least one and at most three: "x" never means "approval", "modle" means "model".
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

// DidYouMean returns a next step: `did you mean "NAME"?`, or else the names when there are few, or else otherwise.
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

// Quoted lists names: "a", "b" or "c".
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

// distance is the number of letters to insert, remove, replace or swap with their neighbour to make b of a. Names are
// short, longer ones than 64 letters are cut.
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
