package configblock

// Nearest returns the candidate with the smallest edit distance to written, or "" if none is close enough for a typo: at most one edit
// for short names, and a third of the length for long ones. Swapping two adjacent letters is one edit.
func Nearest(written string, candidates []string) string {
	best, bestDistance := "", max(1, len(written)/3)+1
	for _, c := range candidates {
		if d := distance(written, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func distance(a, b string) int {
	const maxLen = 64 // longer than names are
	if len(a) > maxLen || len(b) > maxLen {
		return maxLen
	}
	var older []int
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, prev = prev, row
	}
	return prev[len(b)]
}
