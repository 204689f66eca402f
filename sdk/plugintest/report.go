package plugintest

import (
	"fmt"
	"io"
	"strings"
)

// Report is the result of a run of the kit.
type Report struct {
	Path    string `json:"path"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	Kind    string `json:"kind,omitempty"` // "tool" or "provider"
	// Problem is set if the kit itself failed; the report is then incomplete.
	Problem string   `json:"problem,omitempty"`
	Checks  []Result `json:"checks"`
	Figures Figures  `json:"figures"`
	// NotChecked lists rules of the contract that the kit can't check, with the reasons.
	NotChecked []Unseen `json:"notChecked"`
}

// Result is the verdict of one check.
type Result struct {
	ID     string `json:"id"`  // stable
	Why    string `json:"why"` // the rule, in one sentence
	Status Status `json:"status"`
	Seen   string `json:"seen"`
	Next   string `json:"next,omitempty"` // the next step of a failed check, or how to make a skipped one run
	TookMS int64  `json:"tookMs"`
}

// Status of a check.
type Status string

// The statuses. A check is skipped if it does not apply, or if it depends on one that failed.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip"
)

// Figures are measurements taken during the run. 0: not measured.
type Figures struct {
	StartMS      int64 `json:"startMs"`      // until the handshake of the first start
	FirstCallMS  int64 `json:"firstCallMs"`  // until the first response after the first start
	IdleRSSBytes int64 `json:"idleRssBytes"` // resident memory after Configure; Linux only
	Restarts     int   `json:"restarts"`     // of the check restart.leaves
	DurationMS   int64 `json:"durationMs"`   // of the whole run
}

// Unseen is a rule that the kit does not check.
type Unseen struct {
	Rule string `json:"rule"`
	Why  string `json:"why"`
}

// OK reports whether no check failed and the run is complete.
func (r *Report) OK() bool { return r.Problem == "" && len(r.Failed()) == 0 }

// Failed returns the checks that failed.
func (r *Report) Failed() []Result { return r.with(Fail) }

func (r *Report) with(s Status) []Result {
	var out []Result
	for _, c := range r.Checks {
		if c.Status == s {
			out = append(out, c)
		}
	}
	return out
}

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", r.Path)
	if r.Name != "" {
		fmt.Fprintf(&b, ": %s %s, a %s plugin", r.Name, r.Version, r.Kind)
	}
	b.WriteString("\n\n")
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-4s  %-22s %s\n", c.Status, c.ID, indent(c.Seen))
		if c.Status == Fail {
			fmt.Fprintf(&b, "      %-22s rule: %s\n", "", indent(c.Why))
		}
		if c.Next != "" {
			fmt.Fprintf(&b, "      %-22s next: %s\n", "", indent(c.Next))
		}
	}
	b.WriteString("\nNot checked:\n")
	for _, u := range r.NotChecked {
		fmt.Fprintf(&b, "  %s: %s\n", u.Rule, u.Why)
	}
	f := r.Figures
	fmt.Fprintf(&b, "\nhandshake after %d ms, first response after %d ms, %.1f MiB when idle, %d restarts, %.1f s in total\n",
		f.StartMS, f.FirstCallMS, float64(f.IdleRSSBytes)/(1<<20), f.Restarts, float64(f.DurationMS)/1000)
	if r.Problem != "" {
		fmt.Fprintf(&b, "The run is incomplete: %s\n", r.Problem)
	}
	verdict := "conforms"
	if !r.OK() {
		verdict = "does not conform"
	}
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped\n", verdict, len(r.with(Pass)), len(r.with(Fail)), len(r.with(Skip)))
	_, err := io.WriteString(w, b.String())
	return err
}

// indent aligns further lines with their column.
func indent(s string) string {
	return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+strings.Repeat(" ", 29))
}

// notChecked lists rules that a reader of the report might expect to be checked.
func notChecked() []Unseen {
	return []Unseen{
		{"it uses the network over UDP only if it declares the capability", "the kit can block only TCP; the host's sandbox blocks both"},
		{"other calls than the examples stay within its permissions", "the kit runs only the examples; the host's sandbox enforces permissions"},
		{"it refuses connections of other users", "this requires a second user"},
		{"any output on stderr is harmless", "the host has to handle it, and the host's tests check that"},
		{"it has no descriptors but the lifeline", "the host must not pass on any others"},
	}
}
