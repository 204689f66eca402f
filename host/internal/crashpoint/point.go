// Package crashpoint names the moments at which the crash suite ends the host: around everything that a crash could tear.
//
// It owns: the names, and dying there. It must not know: what happens at a point, who tests what.
//
// What is shipped has no points: without the build tag crashpoints [At] is empty and [Enabled] a constant false, so that
// nothing is left of them in the program. e2e/crash builds a gantry with the tag, and checks the shipped one.
//
// Start with [At].
package crashpoint

// Point is a moment. Each is passed in some run of e2e/crash.
type Point string

// The points. What At is told beside them is in brackets.
const (
	// Of the store: around handing an event over [its kind], and around waiting until it is durable.
	AppendBefore  Point = "append.before"
	AppendAfter   Point = "append.after"
	BarrierBefore Point = "barrier.before"
	BarrierAfter  Point = "barrier.after"

	// Inside a transaction: after each kind of row [which], and around its commit.
	RowsWritten  Point = "rows.written"
	CommitBefore Point = "commit.before"
	CommitAfter  Point = "commit.after"

	// A schema has reached a version that is not committed [schema and version].
	Migrated Point = "migrated"

	// The write-ahead log is moved: about to be, copied and not begun anew, done.
	CheckpointBefore Point = "checkpoint.before"
	CheckpointCopied Point = "checkpoint.copied"
	CheckpointAfter  Point = "checkpoint.after"

	// Rows of artifacts are gone, and their files are not.
	ArtifactsForgotten Point = "artifacts.forgotten"

	// An artifact: its content is written, it is in its place, its row is handed over.
	ArtifactWritten Point = "artifact.written"
	ArtifactPlaced  Point = "artifact.placed"
	ArtifactQueued  Point = "artifact.queued"

	// Of a thread: it was read for a resume, what was open is closed, input is accepted and not acknowledged, then both;
	// its turn's end is published and not durable, then both.
	ResumeRead    Point = "resume.read"
	ResumeDone    Point = "resume.done"
	InputAccepted Point = "input.accepted"
	InputDurable  Point = "input.durable"
	TurnEnded     Point = "turn.ended"
	TurnDurable   Point = "turn.durable"

	// Of a turn: the shorter history is in the log, and the turn does not go on with it yet.
	Compacted Point = "compacted"

	// An undo of files: everything stands beside its place, a file was put in its place, all of them are and nobody was told.
	FilesStaged   Point = "files.staged"
	FileSwapped   Point = "file.swapped"
	FilesRestored Point = "files.restored"

	// Of a call: a person has answered; it is in the journal and not begun; it has ended, which nobody was told.
	QuestionAnswered Point = "question.answered"
	CallJournaled    Point = "call.journaled"
	CallReturned     Point = "call.returned"
)
