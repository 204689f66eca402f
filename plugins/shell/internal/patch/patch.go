// Package patch parses the patch format that models write, determines what a patch would change, and applies it.
//
// It owns: the grammar, the search for the position of a change, line endings, the order of writes, and the error messages for the
// model. It must not know: calls, approvals, grants, or the process in which it runs.
//
// Start with [Parse], then [Verify], which writes nothing, then [Plan.Apply].
package patch

import "github.com/gantry-agent/gantry/sdk/contract"

// Markers of the format.
const (
	beginMarker  = "*** Begin Patch"
	endMarker    = "*** End Patch"
	addMarker    = "*** Add File: "
	deleteMarker = "*** Delete File: "
	updateMarker = "*** Update File: "
	moveMarker   = "*** Move to: "
	envMarker    = "*** Environment ID:"
	eofMarker    = "*** End of File"
	chunkMarker  = "@@"
)

// Kind says what a hunk does to its file.
type Kind = contract.ChangeKind

// The kinds of hunks.
const (
	KindUnknown = contract.ChangeUnknown
	KindAdd     = contract.ChangeAdd
	KindUpdate  = contract.ChangeUpdate
	KindDelete  = contract.ChangeDelete
)

// Patch is a parsed patch. Its hunks are in the order of the text.
type Patch struct {
	Environment    string // of an Environment ID line
	HasEnvironment bool
	Hunks          []Hunk
}

// Hunk is the part of a patch about one file.
type Hunk struct {
	Kind    Kind
	Path    string // as spelled
	MoveTo  string // as spelled; only for updates; empty: the file is not moved
	Content string // only for new files; each line has an ending
	Chunks  []Chunk
	Line    int // line of its header, from 1
}

// Chunk is a change inside a file.
type Chunk struct {
	Context    string // a line before the change, from which the search starts
	HasContext bool
	Lines      []Line
	EndOfFile  bool // the change is at the end of the file
}

// Op is the operation of a line of a chunk.
type Op byte

// The operations, by their characters in a patch.
const (
	OpKeep   Op = ' '
	OpAdd    Op = '+'
	OpRemove Op = '-'
)

// Line is one line of a chunk, without its ending.
type Line struct {
	Op   Op
	Text string
}

// textsWithout returns the texts of all lines except those with the operation skip.
func textsWithout(lines []Line, skip Op) []string {
	var out []string
	for _, l := range lines {
		if l.Op != skip {
			out = append(out, l.Text)
		}
	}
	return out
}
