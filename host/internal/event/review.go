package event

// Review is the result of a code review.
type Review struct {
	Findings    []Finding `json:"findings"`
	Verdict     string    `json:"verdict,omitempty"` // "patch is correct" or "patch is incorrect"
	Explanation string    `json:"explanation,omitempty"`
	Confidence  float64   `json:"confidence,omitempty"` // up to 1; 0: not given
}

// Finding is a problem that the reviewer found.
type Finding struct {
	Title      string  `json:"title"`
	Body       string  `json:"body,omitempty"`
	Priority   *int    `json:"priority,omitempty"`   // 0 is the most urgent, 3 the least; nil: not given
	Confidence float64 `json:"confidence,omitempty"` // as above
	Path       string  `json:"path,omitempty"`       // absolute
	FirstLine  int     `json:"firstLine,omitempty"`  // from 1; 0: the whole file
	LastLine   int     `json:"lastLine,omitempty"`
}
