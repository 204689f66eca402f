package event

// ThreadReverted takes turns back: the conversation goes on from where it was before them. Their events stay in the log for
// people. What the turns did to files stays done, and what they left running goes on.
type ThreadReverted struct {
	Before TurnID `json:"before"` // the first turn that is taken back; all behind it are, too
	From   uint64 `json:"from"`   // the first event of that turn
	// Through is the last event that still counts: the one before From. Where that leaves nothing of the conversation, it is the
	// last one by which the turn told the model of its surroundings: that need not be said again.
	Through uint64 `json:"through"`
	Turns   int    `json:"turns"` // taken back by this
	// Thread is what the log says of the thread from here on: model, usage and settings as they were then, but who is asked what
	// and all else as it is now.
	Thread Checkpoint `json:"thread"`
}

// ThreadForked ends what a thread has from the one that it was forked from: its events up to here are copies.
type ThreadForked struct {
	From    ThreadID `json:"from"`
	Through uint64   `json:"through"` // the last event of From that was copied
	// Thread is what the copied events say of the thread.
	Thread Checkpoint `json:"thread"`
}

// ThreadArchived takes a thread out of the listing, or puts it back. An archived one can't be gone on with.
type ThreadArchived struct {
	Archived bool `json:"archived"`
}

func (ThreadReverted) Kind() string { return "thread.reverted" }
func (ThreadForked) Kind() string   { return "thread.forked" }
func (ThreadArchived) Kind() string { return "thread.archived" }

func (ThreadReverted) durable() bool { return true }
func (ThreadForked) durable() bool   { return true }
func (ThreadArchived) durable() bool { return true }
