package review

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// answer is the format that the rubric requests. Compatible with codex.
type answer struct {
	Findings []struct {
		Title      string  `json:"title"`
		Body       string  `json:"body"`
		Confidence float64 `json:"confidence_score"`
		Priority   *int    `json:"priority"`
		Location   struct {
			Path  string `json:"absolute_file_path"`
			Lines struct {
				Start int `json:"start"`
				End   int `json:"end"`
			} `json:"line_range"`
		} `json:"code_location"`
	} `json:"findings"`
	Verdict     string  `json:"overall_correctness"`
	Explanation string  `json:"overall_explanation"`
	Confidence  float64 `json:"overall_confidence_score"`
}

// Parse parses the reviewer's last message: as JSON, or the part between its first and its last brace. If both fail, the whole
// message is the explanation.
func Parse(text string) event.Review {
	text = strings.TrimSpace(text)
	if r, ok := decode(text); ok {
		return r
	}
	if from, to := strings.Index(text, "{"), strings.LastIndex(text, "}"); from >= 0 && from < to {
		if r, ok := decode(text[from : to+1]); ok {
			return r
		}
	}
	return event.Review{Findings: []event.Finding{}, Explanation: text}
}

func decode(text string) (event.Review, bool) {
	var a answer
	if json.Unmarshal([]byte(text), &a) != nil || a.Findings == nil {
		return event.Review{}, false
	}
	r := event.Review{
		Findings: make([]event.Finding, 0, len(a.Findings)), Verdict: a.Verdict, Explanation: strings.TrimSpace(a.Explanation), Confidence: a.Confidence,
	}
	for _, f := range a.Findings {
		first, last := max(f.Location.Lines.Start, 0), max(f.Location.Lines.End, 0)
		r.Findings = append(r.Findings, event.Finding{
			Title: strings.TrimSpace(f.Title), Body: strings.TrimSpace(f.Body), Priority: f.Priority, Confidence: f.Confidence,
			Path: f.Location.Path, FirstLine: first, LastLine: max(first, last),
		})
	}
	return r, true
}

// Render formats a review for people and for the model.
func Render(r event.Review) string {
	var b strings.Builder
	if r.Explanation != "" {
		b.WriteString(r.Explanation + "\n\n")
	}
	if r.Verdict != "" {
		fmt.Fprintf(&b, "Verdict: %s\n", r.Verdict)
	}
	switch len(r.Findings) {
	case 0:
		if r.Verdict != "" || r.Explanation == "" {
			b.WriteString("No findings.\n")
		}
	case 1:
		b.WriteString("One finding:\n")
	default:
		fmt.Fprintf(&b, "%d findings:\n", len(r.Findings))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\n- %s", f.Title)
		if f.Priority != nil && !strings.HasPrefix(f.Title, "[P") {
			fmt.Fprintf(&b, " (P%d)", *f.Priority)
		}
		if f.Path != "" {
			fmt.Fprintf(&b, "\n  %s", place(f))
		}
		for line := range strings.Lines(f.Body) {
			b.WriteString("\n  " + strings.TrimRight(line, "\r\n"))
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}

func place(f event.Finding) string {
	switch {
	case f.FirstLine == 0:
		return f.Path
	case f.FirstLine == f.LastLine:
		return fmt.Sprintf("%s:%d", f.Path, f.FirstLine)
	}
	return fmt.Sprintf("%s:%d-%d", f.Path, f.FirstLine, f.LastLine)
}
