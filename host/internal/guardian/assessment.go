package guardian

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// assessment is the reviewer's answer.
type assessment struct {
	Risk          string `json:"risk_level"`
	Authorization string `json:"user_authorization"`
	Outcome       string `json:"outcome"`
	Rationale     string `json:"rationale"`
}

// Values of an assessment.
const (
	allow = "allow"
	deny  = "deny"
)

var (
	risks          = []string{"low", "medium", "high", "critical"}
	authorizations = []string{"unknown", "low", "medium", "high"}
)

// parse parses an answer: as JSON, or the part between its first and its last brace. Only the outcome is required. An answer with
// an unknown level is invalid, and so is one that allows a call although its own levels forbid it.
func parse(text string) (assessment, error) {
	var a assessment
	text = strings.TrimSpace(text)
	if json.Unmarshal([]byte(text), &a) != nil {
		from, to := strings.Index(text, "{"), strings.LastIndex(text, "}")
		if from < 0 || from > to {
			return assessment{}, errors.New("the reviewer did not answer with JSON")
		}
		a = assessment{}
		if err := json.Unmarshal([]byte(text[from:to+1]), &a); err != nil {
			return assessment{}, fmt.Errorf("the reviewer's answer can't be read: %w", err)
		}
	}
	switch a.Outcome {
	case allow, deny:
	default:
		return assessment{}, fmt.Errorf("the reviewer's outcome is %q, which is neither allow nor deny", a.Outcome)
	}
	if a.Risk == "" {
		a.Risk = map[string]string{allow: "low", deny: "high"}[a.Outcome]
	}
	if a.Authorization == "" {
		a.Authorization = "unknown"
	}
	if !slices.Contains(risks, a.Risk) || !slices.Contains(authorizations, a.Authorization) {
		return assessment{}, fmt.Errorf("the reviewer's answer has an invalid risk %q or authorization %q", a.Risk, a.Authorization)
	}
	if a.Outcome == allow && (a.Risk == "critical" || a.Risk == "high" && slices.Index(authorizations, a.Authorization) < slices.Index(authorizations, "medium")) {
		a.Outcome = deny
		a.Rationale = strings.TrimSpace(fmt.Sprintf("The reviewer allowed it, but a risk that is %s with an authorization that is %s may not be taken. %s", a.Risk, a.Authorization, a.Rationale))
	}
	return a, nil
}
