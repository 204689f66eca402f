package event

// Review is what a reviewer found.
type Review struct {
	Findings    []Finding `json:"findings"`
	Verdict     string    `json:"verdict,omitempty"` // "patch is correct" or "patch is incorrect", in the reviewer's words
	Explanation string    `json:"explanation,omitempty"`
	Confidence  float64   `json:"confidence,omitempty"` // 0 to 1; 0: it does not say
}

// Finding is one thing that is wrong.
type Finding struct {
	Title      string  `json:"title"`
	Body       string  `json:"body,omitempty"`
	Priority   *int    `json:"priority,omitempty"`   // 0 is the most urgent, 3 the least; nil: it does not say
	Confidence float64 `json:"confidence,omitempty"` // as above
	Path       string  `json:"path,omitempty"`       // absolute
	FirstLine  int     `json:"firstLine,omitempty"`  // from 1; 0: the whole file
	LastLine   int     `json:"lastLine,omitempty"`
}
