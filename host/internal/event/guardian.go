package event

import "encoding/json"

// ReviewStarted says that a model reviews a call in place of a person.
type ReviewStarted struct {
	ID     string          `json:"id"`
	Call   CallID          `json:"call"`
	Action json.RawMessage `json:"action"` // the action under review
}

// ReviewStatus is the result of a review.
type ReviewStatus string

// What comes of it. Skipped: the reviewer could not be asked, and the question goes to a person.
const (
	ReviewApproved    ReviewStatus = "approved"
	ReviewDenied      ReviewStatus = "denied"
	ReviewTimedOut    ReviewStatus = "timed_out"
	ReviewAborted     ReviewStatus = "aborted"
	ReviewFailed      ReviewStatus = "failed" // counts as a denial
	ReviewUnavailable ReviewStatus = "left"
)

// ReviewEnded ends a review. Risk is "low", "medium", "high" or "critical". Authorization, by the user as far as the reviewer can
// tell, is "unknown", "low", "medium" or "high". Both are empty if there is no answer.
type ReviewEnded struct {
	ID            string       `json:"id"`
	Call          CallID       `json:"call"`
	Status        ReviewStatus `json:"status"`
	Risk          string       `json:"risk,omitempty"`
	Authorization string       `json:"authorization,omitempty"`
	Rationale     string       `json:"rationale,omitempty"`
	Attempts      int          `json:"attempts"`
	Threads       []ThreadID   `json:"threads,omitempty"` // threads of the reviewer
	DurationMS    int64        `json:"durationMs"`
}

func (ReviewStarted) Kind() string { return "approval.review.started" }
func (ReviewEnded) Kind() string   { return "approval.review.ended" }

func (ReviewStarted) durable() bool { return true }
func (ReviewEnded) durable() bool   { return true }
