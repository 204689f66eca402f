package diff

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// context is the number of unchanged lines around a change.
const context = 3

// Limits of a comparison by lines, which takes less than 100 ms within them (BenchmarkWorst). Beyond them the diff replaces everything
// from the first to the last differing line as a whole, which is correct and cheap.
const (
	maxCompared      = 8 << 20 // bytes, before and after together
	maxComparedLines = 200_000
)

// change replaces the lines [start, end) of the old text with the lines [from, to) of the new text.
type change struct{ start, end, from, to int }

// hunks compares two texts. The result has no file headers, and is empty if the texts are equal.
func hunks(before, after string) (diff string, added, removed int) {
	old, now := lines(before), lines(after)
	changes := compare(old, now)
	if len(changes) == 0 {
		return "", 0, 0
	}
	var b strings.Builder
	for first := 0; first < len(changes); {
		last := first
		for last+1 < len(changes) && changes[last+1].start-changes[last].end <= 2*context {
			last++
		}
		hunk(&b, old, now, changes[first:last+1])
		first = last + 1
	}
	for _, c := range changes {
		removed += c.end - c.start
		added += c.to - c.from
	}
	return b.String(), added, removed
}

func hunk(b *strings.Builder, old, now []string, changes []change) {
	first, last := changes[0], changes[len(changes)-1]
	lead := min(context, first.start, first.from)
	tail := min(context, len(old)-last.end, len(now)-last.to)
	b.WriteString("@@ -")
	extent(b, first.start-lead, last.end+tail)
	b.WriteString(" +")
	extent(b, first.from-lead, last.to+tail)
	b.WriteString(" @@\n")
	at := first.start - lead
	for _, c := range changes {
		write(b, ' ', old[at:c.start])
		write(b, '-', old[c.start:c.end])
		write(b, '+', now[c.from:c.to])
		at = c.end
	}
	write(b, ' ', old[at:at+tail])
}

// extent writes the position and the number of a hunk's lines. If there are none, the position is the line before them; if there is
// one, the number is omitted.
func extent(b *strings.Builder, start, end int) {
	n := end - start
	if n > 0 {
		start++
	}
	b.WriteString(strconv.Itoa(start))
	if n != 1 {
		b.WriteByte(',')
		b.WriteString(strconv.Itoa(n))
	}
}

func write(b *strings.Builder, sign byte, lines []string) {
	for _, l := range lines {
		b.WriteByte(sign)
		b.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lines splits a text after each line feed; a carriage return is part of its line.
func lines(s string) []string {
	out := make([]string, 0, strings.Count(s, "\n")+1)
	for l := range strings.Lines(s) {
		out = append(out, l)
	}
	return out
}

// compare returns the differing lines, in order.
func compare(old, now []string) []change {
	c := comparison{old: old, now: now}
	whole := c.trim(change{0, len(old), 0, len(now)})
	o, n := old[whole.start:whole.end], now[whole.from:whole.to]
	if len(o)+len(n) > maxComparedLines || size(o)+size(n) > maxCompared {
		return []change{whole}
	}
	// If there are more than about a hundred edits, the library gives up and returns everything in between as one change. In that
	// case, let it compare only the stretches between lines that occur exactly once in both texts.
	c.gap(whole)
	if c.edits() < exact {
		return c.changes
	}
	c.changes = nil
	from, at := whole.start, whole.from
	for _, a := range anchors(o, n) {
		c.gap(change{from, whole.start + a.old, at, whole.from + a.now})
		from, at = whole.start+a.old+1, whole.from+a.now+1
	}
	c.gap(change{from, whole.end, at, whole.to})
	return c.changes
}

// exact is the number of edits up to which the library's result is exact.
const exact = 50

func (c *comparison) edits() (n int) {
	for _, ch := range c.changes {
		n += ch.end - ch.start + ch.to - ch.from
	}
	return n
}

// comparison has two texts and their differences.
type comparison struct {
	old, now []string
	changes  []change
}

// trim removes equal lines at both ends of a stretch.
func (c *comparison) trim(s change) change {
	for s.start < s.end && s.from < s.to && c.old[s.start] == c.now[s.from] {
		s.start, s.from = s.start+1, s.from+1
	}
	for s.start < s.end && s.from < s.to && c.old[s.end-1] == c.now[s.to-1] {
		s.end, s.to = s.end-1, s.to-1
	}
	return s
}

// gap compares a stretch between two anchors.
func (c *comparison) gap(s change) {
	s = c.trim(s)
	switch {
	case s.start == s.end && s.from == s.to:
	case s.start == s.end || s.from == s.to:
		c.changes = append(c.changes, s)
	default:
		for _, d := range lcs.DiffLines(c.old[s.start:s.end], c.now[s.from:s.to]) {
			c.changes = append(c.changes, change{s.start + d.Start, s.start + d.End, s.from + d.ReplStart, s.from + d.ReplEnd})
		}
	}
}

// anchor is a line that occurs exactly once in both texts, with its positions.
type anchor struct{ old, now int }

// anchors returns the longest sequence of lines that occur exactly once in both texts and have the same order in both.
func anchors(old, now []string) []anchor {
	// lines has the first position of each line in the old text, place its position in the new text.
	const unseen, again = -1, -2
	lines := make(map[string]int, len(old))
	place := make([]int, len(old))
	for i, l := range old {
		first, seen := lines[l]
		switch {
		case seen:
			place[first], place[i] = again, again
		default:
			lines[l], place[i] = i, unseen
		}
	}
	for i, l := range now {
		if first, ok := lines[l]; ok {
			if place[first] == unseen {
				place[first] = i
			} else {
				place[first] = again
			}
		}
	}
	var unique []anchor
	for i, at := range place {
		if at >= 0 {
			unique = append(unique, anchor{i, at})
		}
	}
	return rising(unique)
}

// rising returns the longest increasing subsequence, by now, of a list that is sorted by old.
func rising(list []anchor) []anchor {
	ends := make([]int, 0, len(list)) // for each length, the index of the last element of the best subsequence
	before := make([]int, len(list))  // the index of the previous element in the subsequence; -1: none
	for i, a := range list {
		at, _ := slices.BinarySearchFunc(ends, a.now, func(end, now int) int { return cmp.Compare(list[end].now, now) })
		before[i] = -1
		if at > 0 {
			before[i] = ends[at-1]
		}
		if at == len(ends) {
			ends = append(ends, i)
		} else {
			ends[at] = i
		}
	}
	out := make([]anchor, len(ends))
	if len(ends) == 0 {
		return nil
	}
	for i, at := len(ends)-1, ends[len(ends)-1]; i >= 0; i, at = i-1, before[at] {
		out[i] = list[at]
	}
	return out
}

func size(lines []string) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}
