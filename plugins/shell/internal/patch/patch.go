// Package patch reads the patch format that models write, finds out what a patch would do to the files it names, and does
// it.
//
// It owns: the grammar, the search for the place of a change, line endings, the order of writes, and the texts that the
// model reads when something does not fit. It must not know: calls, approvals, grants, or in which process it runs.
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

// Patch is a patch as it was written, in its order.
type Patch struct {
	Environment    string // of an Environment ID line
	HasEnvironment bool
	Hunks          []Hunk
}

// Hunk is what a patch says about one file.
type Hunk struct {
	Kind    Kind
	Path    string // as spelled
	MoveTo  string // as spelled; update only; empty: the file stays where it is
	Content string // add only; each line is terminated
	Chunks  []Chunk
	Line    int // of its header, from 1
}

// Chunk is one change inside a file.
type Chunk struct {
	Context    string // the line after which the change is looked for
	HasContext bool
	Lines      []Line
	EndOfFile  bool // the change is at the very end
}

// Op is what a line of a chunk does.
type Op byte

// The operations, as they are written.
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

// textsWithout returns the texts of all lines but those with the operation skip.
func textsWithout(lines []Line, skip Op) []string {
	var out []string
	for _, l := range lines {
		if l.Op != skip {
			out = append(out, l.Text)
		}
	}
	return out
}
