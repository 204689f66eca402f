package hub

// Code is the kind of an error, for programs. It is the same whether the thread runs here or in another process.
type Code string

// The codes.
const (
	NotFound     Code = "not_found" // a thread, an artifact or a setting
	Locked       Code = "locked"    // another process runs the thread, and can't be reached
	IsArchived   Code = "archived"  // the thread is archived
	Damaged      Code = "damaged"   // the stored data of a thread or an artifact
	Refused      Code = "refused"   // undo would lose changes
	Foreign      Code = "foreign"   // the host that runs the thread has started this process
	Busy         Code = "busy"      // a turn runs
	NoTurn       Code = "no_turn"   // no turn runs
	OtherTurn    Code = "other_turn"
	NotSteerable Code = "not_steerable" // the running turn accepts no input
	Answered     Code = "answered"      // the question is not pending
	Closed       Code = "closed"        // the thread has ended or was unloaded, or the hub is closed
	Lagged       Code = "lagged"        // the reader was too slow
)

// Error describes an error of the hub for a front end.
type Error struct {
	Code    Code // "": no kind of its own
	Message string
	Next    string // what the user can do; "": unknown
	Task    string // of NotSteerable: what the turn does: "compact", "review", "user_shell"
}

// ErrorOf describes an error that the hub, a thread, [Events] or [Changes] returned.
func ErrorOf(err error) Error { panic("not implemented") }
