package patch

import (
	"cmp"
	"slices"
	"strings"
)

// edit replaces del lines at index at with ins.
type edit struct {
	at, del int
	ins     []string
	atEnd   bool // at the end of the file, after other edits at this index
}

// update returns content with the chunks applied. name is the file's name in errors. Only lines that a chunk removes or adds are changed:
// context lines remain as they are in the file, even if the patch spells them differently.
func update(name, content string, chunks []Chunk) (string, error) {
	if err := checkText(content); err != nil {
		return "", refuse("Failed to read file to update %s: %v", name, err)
	}
	t := splitText(content)
	edits, err := t.place(name, chunks)
	if err != nil {
		return "", err
	}
	for _, e := range edits {
		for _, line := range e.ins {
			if t.eightBit && !isASCII(line) {
				return "", refuse("Failed to read file to update %s: %v", name, invalidUTF8(content))
			}
		}
	}
	t.apply(edits)
	return t.join(), nil
}

// place finds the position of each chunk and returns the edits. The chunks must be in the order of the file.
func (t *text) place(name string, chunks []Chunk) ([]edit, error) {
	m := matcher{lines: t.lines}
	var edits []edit
	next := 0 // start of the search for the next chunk
	for i := range chunks {
		c := &chunks[i]
		if c.HasContext {
			at, ok := m.seek([]string{c.Context}, next, false)
			if !ok {
				return nil, refuse("Failed to find context '%s' in %s", c.Context, name)
			}
			next = at + 1
		}
		lines := c.Lines
		old := textsWithout(lines, OpAdd)
		at, ok := 0, false
		if len(old) > 0 {
			at, ok = m.seek(old, next, c.EndOfFile)
		}
		if n := len(old); !ok && n > 0 && old[n-1] == "" {
			// A blank line before the next header or the end marker is parsed as context, but may not be in the file.
			lines = withoutLastBlank(lines)
			if old = old[:n-1]; len(old) > 0 {
				at, ok = m.seek(old, next, c.EndOfFile)
			}
		}
		switch {
		case len(old) == 0:
			edits = append(edits, t.insertion(c, lines, next)...)
			continue
		case !ok:
			return nil, refuse("Failed to find expected lines in %s:\n%s", name, strings.Join(textsWithout(c.Lines, OpAdd), "\n"))
		}
		edits = append(edits, runs(lines, at)...)
		next = at + len(old)
	}
	return edits, nil
}

// insertion returns the edit of a chunk that only adds lines. They are inserted after the context line if there is one, otherwise, or with
// an end-of-file marker, at the end of the file.
func (t *text) insertion(c *Chunk, lines []Line, next int) []edit {
	ins := textsWithout(lines, OpRemove)
	if len(ins) == 0 {
		return nil
	}
	if c.HasContext && !c.EndOfFile {
		return []edit{{at: next, ins: ins}}
	}
	return []edit{{at: len(t.lines), ins: ins, atEnd: true}}
}

// runs returns the edits of a chunk that was found at index at, one for each run of changed lines.
func runs(lines []Line, at int) []edit {
	var edits []edit
	open := false
	for _, l := range lines {
		if l.Op == OpKeep {
			at++
			open = false
			continue
		}
		if !open {
			edits = append(edits, edit{at: at})
			open = true
		}
		e := &edits[len(edits)-1]
		if l.Op == OpAdd {
			e.ins = append(e.ins, l.Text)
		} else {
			e.del++
			at++
		}
	}
	return edits
}

// withoutLastBlank removes the last context or removed line of a chunk, which is empty, and an empty line at the end of the chunk's new
// lines.
func withoutLastBlank(lines []Line) []Line {
	lines = slices.Clone(lines)
	i := lastIndex(lines, OpAdd)
	if lines[i].Op == OpKeep {
		lines[i].Op = OpAdd
	} else {
		lines = slices.Delete(lines, i, i+1)
	}
	if i := lastIndex(lines, OpRemove); i >= 0 && lines[i].Text == "" {
		if lines[i].Op == OpKeep {
			lines[i].Op = OpRemove
		} else {
			lines = slices.Delete(lines, i, i+1)
		}
	}
	return lines
}

// lastIndex returns the index of the last line whose operation is not skip, or -1.
func lastIndex(lines []Line, skip Op) int {
	for i, l := range slices.Backward(lines) {
		if l.Op != skip {
			return i
		}
	}
	return -1
}

// apply applies the edits. They don't overlap, because chunks are searched in order.
func (t *text) apply(edits []edit) {
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(boolInt(a.atEnd), boolInt(b.atEnd)))
	})
	out := make([]fileLine, 0, len(t.lines))
	from := 0
	for _, e := range edits {
		out = append(out, t.lines[from:e.at]...)
		from = e.at + e.del
		for _, line := range e.ins {
			out = append(out, fileLine{text: line, eol: t.eol})
		}
	}
	t.lines = append(out, t.lines[from:]...)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
