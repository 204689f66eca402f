package extract

import (
	"strings"
	"unicode/utf8"
)

const (
	// partSize is how much of a page the model is given at once, in bytes.
	partSize = 100_000
	// overlap is how many lines of the part before are repeated.
	overlap = 5
	// maxBefore bounds what is repeated, in bytes.
	maxBefore = 2000
)

// Chunk is a part of a text. The parts of a text, in their order, are the text.
type Chunk struct {
	Text       string
	Start, End int    // bytes
	Before     string // what it can't be understood without: the last lines before it, or the head of the table that it continues
}

// block is what is not divided: a heading, a block of code, a row of a table, an entry of a list, a paragraph.
type block struct {
	start, end   int
	heading, row bool
	table        int // where the table begins; of rows
}

// blocks divides a text. Each byte is in exactly one block.
func blocks(text string) []block {
	var out []block
	code, inTable, table := false, false, 0
	open := false // the last block continues with the next line
	at := 0
	for line := range strings.Lines(text) {
		start := at
		at += len(line)
		trimmed := strings.TrimSpace(line)
		last := len(out) - 1
		fence := isFence(strings.TrimRight(line, "\n"))
		if code {
			out[last].end = at
			if fence {
				code, open = false, false
			}
			continue
		}
		row := tableRow(trimmed)
		if row && !inTable {
			table = start
		}
		inTable = row
		switch {
		case trimmed == "" && last >= 0:
			out[last].end, open = at, false
		case fence:
			out = append(out, block{start: start, end: at})
			code = true
		case row:
			out, open = append(out, block{start: start, end: at, row: true, table: table}), false
		case strings.HasPrefix(trimmed, "#"):
			out, open = append(out, block{start: start, end: at, heading: true}), false
		case open && !entry(trimmed):
			out[last].end = at
		default:
			out, open = append(out, block{start: start, end: at}), true
		}
	}
	return out
}

// entry reports whether a line begins an entry of a list.
func entry(line string) bool {
	if len(line) > 1 && strings.ContainsRune("-*+", rune(line[0])) && line[1] == ' ' {
		return true
	}
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	return digits > 0 && digits < 10 && strings.HasPrefix(line[digits:], ". ")
}

// Chunks divides a text into parts of about the given size, at most: between blocks, and rather before a heading if the part is at least half full
// then. A block that is larger is divided between lines, or where it must be.
func Chunks(text string, size int) []Chunk {
	var all []block
	for _, b := range blocks(text) {
		for b.end-b.start > size {
			cut := b.start + size
			if i := strings.LastIndexByte(text[b.start:cut], '\n'); i > 0 {
				cut = b.start + i + 1
			} else {
				for cut > b.start+1 && !utf8.RuneStart(text[cut]) {
					cut--
				}
			}
			part := b
			part.end, b.start = cut, cut
			all = append(all, part)
		}
		all = append(all, b)
	}
	var out []Chunk
	first := 0 // block of the part
	for i := range all {
		if i == first || all[i].end-all[first].start <= size {
			continue
		}
		end := i
		for j := i; j > first && all[j].start-all[first].start >= size/2; j-- {
			if all[j].heading {
				end = j
				break
			}
		}
		out = append(out, chunk(text, all, first, all[end].start))
		first = end
		if all[i].end-all[first].start > size { // what is left before the block is a part of its own
			out = append(out, chunk(text, all, first, all[i].start))
			first = i
		}
	}
	if first < len(all) {
		out = append(out, chunk(text, all, first, len(text)))
	}
	return out
}

func chunk(text string, all []block, first, end int) Chunk {
	b := all[first]
	c := Chunk{Text: text[b.start:end], Start: b.start, End: end}
	switch {
	case b.start == 0:
	case b.row && b.start > b.table:
		lines := strings.SplitAfterN(text[b.table:b.start], "\n", 3)
		c.Before = strings.Join(lines[:min(2, len(lines))], "") // its head and the line below
	default:
		lines := strings.SplitAfter(strings.TrimRight(text[max(0, b.start-maxBefore):b.start], "\n"), "\n")
		c.Before = strings.Join(lines[max(0, len(lines)-overlap):], "") + "\n"
	}
	if len(c.Before) > maxBefore {
		c.Before = strings.ToValidUTF8(c.Before[:maxBefore], "") + "\n"
	}
	c.Before = strings.ToValidUTF8(c.Before, "")
	return c
}
