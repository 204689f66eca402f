package event

import "encoding/json"

// ReviewStarted: a model looks at a call in a person's place.
type ReviewStarted struct {
	ID     string          `json:"id"`
	Call   CallID          `json:"call"`
	Action json.RawMessage `json:"action"` // what it is asked to judge
}

// ReviewStatus is what came of such a look.
type ReviewStatus string

// What comes of it. Skipped: the reviewer could not be asked, and the question goes to a person.
const (
	ReviewApproved    ReviewStatus = "approved"
	ReviewDenied      ReviewStatus = "denied"
	ReviewTimedOut    ReviewStatus = "timed_out"
	ReviewAborted     ReviewStatus = "aborted"
	ReviewFailed      ReviewStatus = "failed" // which is a no
	ReviewUnavailable ReviewStatus = "left"
)

// ReviewEnded ends it. Risk: "low", "medium", "high" or "critical"; Authorization, of the user as far as the reviewer sees:
// "unknown", "low", "medium" or "high"; both empty where there is no answer.
type ReviewEnded struct {
	ID            string       `json:"id"`
	Call          CallID       `json:"call"`
	Status        ReviewStatus `json:"status"`
	Risk          string       `json:"risk,omitempty"`
	Authorization string       `json:"authorization,omitempty"`
	Rationale     string       `json:"rationale,omitempty"`
	Attempts      int          `json:"attempts"`
	Threads       []ThreadID   `json:"threads,omitempty"` // in which it was done
	DurationMS    int64        `json:"durationMs"`
}

func (ReviewStarted) Kind() string { return "approval.review.started" }
func (ReviewEnded) Kind() string   { return "approval.review.ended" }

func (ReviewStarted) durable() bool { return true }
func (ReviewEnded) durable() bool   { return true }
