// Package crashpoint names the moments at which the crash tests kill the host: around every operation that a crash could
// interrupt.
//
// It owns: the names, and killing the process. It must not know: what happens at a point, and which test uses it.
//
// Released programs have no crash points: without the build tag crashpoints, [At] is empty and [Enabled] is false, so the compiler
// removes them. e2e/crash builds a gantry with the tag, and checks the released one.
//
// Start with [At].
package crashpoint

// Point is a moment. Each one is reached in some run of e2e/crash.
type Point string

// The points. The detail that At receives is in brackets.
const (
	// The store: around accepting an event [its kind], and around waiting until it is durable.
	AppendBefore  Point = "append.before"
	AppendAfter   Point = "append.after"
	BarrierBefore Point = "barrier.before"
	BarrierAfter  Point = "barrier.after"

	// Inside a transaction: after each kind of row [which], and around its commit.
	RowsWritten  Point = "rows.written"
	CommitBefore Point = "commit.before"
	CommitAfter  Point = "commit.after"

	// A schema has been migrated to a version that is not committed [schema and version].
	Migrated Point = "migrated"

	// The write-ahead log is checkpointed: before, copied but not reset, done.
	CheckpointBefore Point = "checkpoint.before"
	CheckpointCopied Point = "checkpoint.copied"
	CheckpointAfter  Point = "checkpoint.after"

	// The rows of artifacts are deleted, and their files are not.
	ArtifactsForgotten Point = "artifacts.forgotten"

	// An artifact: its content is written, it is renamed to its final name, its row is queued.
	ArtifactWritten Point = "artifact.written"
	ArtifactPlaced  Point = "artifact.placed"
	ArtifactQueued  Point = "artifact.queued"

	// A thread: it was read for a resume, open calls and turns are closed, input is accepted and not acknowledged, then both; the
	// end of its turn is published and not durable, then both.
	ResumeRead    Point = "resume.read"
	ResumeDone    Point = "resume.done"
	InputAccepted Point = "input.accepted"
	InputDurable  Point = "input.durable"
	TurnEnded     Point = "turn.ended"
	TurnDurable   Point = "turn.durable"

	// A turn: the compacted history is in the log, and the turn does not use it yet.
	Compacted Point = "compacted"

	// An undo of files: all files are staged next to their final names, one file is in place, all are in place and nothing is
	// reported.
	FilesStaged   Point = "files.staged"
	FileSwapped   Point = "file.swapped"
	FilesRestored Point = "files.restored"

	// A call: a person has answered; it is in the journal and has not started; it has ended, and nothing is reported.
	QuestionAnswered Point = "question.answered"
	CallJournaled    Point = "call.journaled"
	CallReturned     Point = "call.returned"
)
