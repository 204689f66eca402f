package event

// ThreadReverted reverts turns: the conversation continues from the point before them. Their events stay in the log for people.
// Changes of files are not undone, and processes that the turns left running are not ended.
type ThreadReverted struct {
	Before TurnID `json:"before"` // the first reverted turn; all later turns are reverted as well
	From   uint64 `json:"from"`   // the first event of that turn
	// Through is the last event that remains effective, usually the one before From. If no conversation would be left, it is the
	// last event with which the first turn described the context to the model, so that this need not be repeated.
	Through uint64 `json:"through"`
	Turns   int    `json:"turns"` // number of reverted turns
	// Thread is the state of the thread after the revert: model, usage and settings as they were at Through, everything else as
	// it is now.
	Thread Checkpoint `json:"thread"`
}

// ThreadForked follows the events of a forked thread that are copies of another thread's events.
type ThreadForked struct {
	From    ThreadID `json:"from"`
	Through uint64   `json:"through"` // the last event of From that was copied
	// Thread is the state of the thread that results from the copied events.
	Thread Checkpoint `json:"thread"`
}

// ThreadArchived removes a thread from the listing, or restores it. An archived thread can't be continued.
type ThreadArchived struct {
	Archived bool `json:"archived"`
}

// ThreadDescribed changes what clients have said about the repository in which the thread works. Nil fields stay as they are, empty ones
// are cleared.
type ThreadDescribed struct {
	SHA    *string `json:"sha,omitempty"` // of the commit
	Branch *string `json:"branch,omitempty"`
	Origin *string `json:"origin,omitempty"` // URL
}

func (ThreadDescribed) Kind() string  { return "thread.described" }
func (ThreadDescribed) durable() bool { return true }

func (ThreadReverted) Kind() string { return "thread.reverted" }
func (ThreadForked) Kind() string   { return "thread.forked" }
func (ThreadArchived) Kind() string { return "thread.archived" }

func (ThreadReverted) durable() bool { return true }
func (ThreadForked) durable() bool   { return true }
func (ThreadArchived) durable() bool { return true }
