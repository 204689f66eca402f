package script

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Condition is true if all its fields are true. Texts are regular expressions (RE2) that may match anywhere.
type Condition struct {
	User       string     `json:"user,omitempty"`         // the last user message
	Output     string     `json:"output,omitempty"`       // the tool results since the last response
	NoOutputOf []string   `json:"no_output_of,omitempty"` // call IDs or tool names without any result
	System     string     `json:"system,omitempty"`       // the base instructions
	Absent     string     `json:"absent,omitempty"`       // must not match anywhere in the conversation, in the form of Lines
	Tools      []string   `json:"tools,omitempty"`        // all of these are offered
	NoTools    []string   `json:"no_tools,omitempty"`     // none of these is offered
	Answers    Range      `json:"answers,omitempty"`      // responses in the conversation
	SinceUser  Range      `json:"since_user,omitempty"`   // responses since the last user message
	Not        *Condition `json:"not,omitempty"`
}

// Expect is a condition that must hold.
type Expect struct {
	Condition
	Message string `json:"message,omitempty"` // why it matters; shown if it fails
}

// Range is a number, or ">=2", "<5".
type Range string

func (r Range) bounds() (lo, hi int, err error) {
	number := strings.TrimLeft(string(r), ">=<")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return 0, 0, fmt.Errorf("%q is no number and no range such as \">=2\" or \"<5\"", string(r))
	}
	switch op := strings.TrimSuffix(string(r), number); op {
	case "":
		return n, n, nil
	case ">=":
		return n, math.MaxInt, nil
	case "<":
		return 0, n - 1, nil
	}
	return 0, 0, fmt.Errorf("%q is no number and no range such as \">=2\" or \"<5\"", string(r))
}

// UnmarshalJSON accepts a number or a string.
func (r *Range) UnmarshalJSON(b []byte) error {
	if n, err := strconv.Atoi(string(b)); err == nil {
		*r = Range(strconv.Itoa(n))
		return nil
	}
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return fmt.Errorf("a range is a number or a string such as \">=2\"")
	}
	*r = Range(s)
	return nil
}

// check is a compiled condition. It returns "" if it holds, otherwise what was expected and found.
type check func(*conversation) string

func (c *Condition) compile() ([]check, error) {
	if c == nil {
		return nil, nil
	}
	var checks []check
	var errs []string
	text := func(key, pattern string, get func(*conversation) string) {
		if pattern == "" {
			return
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			errs = append(errs, fmt.Sprintf("%s: %v", key, err))
			return
		}
		checks = append(checks, func(v *conversation) string {
			if got := get(v); !re.MatchString(got) {
				return mismatch(key, "to match "+quoteRE(pattern), excerpt(got))
			}
			return ""
		})
	}
	count := func(key string, r Range, get func(*conversation) int) {
		if r == "" {
			return
		}
		lo, hi, err := r.bounds()
		if err != nil {
			errs = append(errs, fmt.Sprintf("%s: %v", key, err))
			return
		}
		checks = append(checks, func(v *conversation) string {
			if got := get(v); got < lo || got > hi {
				return mismatch(key, "to be "+string(r), strconv.Itoa(got))
			}
			return ""
		})
	}

	text("user", c.User, func(v *conversation) string { return v.user })
	text("output", c.Output, func(v *conversation) string { return v.outputText() })
	for _, call := range c.NoOutputOf {
		checks = append(checks, func(v *conversation) string {
			if got, ok := v.latest(call); ok {
				return mismatch("no_output_of "+call, "no result", excerpt(got))
			}
			return ""
		})
	}
	text("system", c.System, func(v *conversation) string { return v.system() })
	if c.Absent != "" {
		re, err := regexp.Compile(c.Absent)
		if err != nil {
			errs = append(errs, fmt.Sprintf("absent: %v", err))
		} else {
			checks = append(checks, func(v *conversation) string {
				if got := re.FindString(v.text()); re.MatchString(v.text()) {
					return mismatch("absent", "nothing to match "+quoteRE(c.Absent), excerpt(got))
				}
				return ""
			})
		}
	}
	for _, tool := range c.Tools {
		checks = append(checks, func(v *conversation) string {
			if !v.offers(tool) {
				return mismatch("tools", "to offer "+tool, strings.Join(v.tools(), ", "))
			}
			return ""
		})
	}
	for _, tool := range c.NoTools {
		checks = append(checks, func(v *conversation) string {
			if v.offers(tool) {
				return mismatch("no_tools", "not to offer "+tool, strings.Join(v.tools(), ", "))
			}
			return ""
		})
	}
	count("answers", c.Answers, func(v *conversation) int { return v.answers })
	count("since_user", c.SinceUser, func(v *conversation) int { return v.sinceUser })
	if c.Not != nil {
		inner, err := c.Not.compile()
		if err != nil {
			errs = append(errs, fmt.Sprintf("not: %v", err))
		}
		checks = append(checks, func(v *conversation) string {
			if len(run(inner, v)) == 0 {
				return "- not: wanted the opposite, and it holds"
			}
			return ""
		})
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(errs, "; "))
	}
	return checks, nil
}

// run returns the conditions that do not hold.
func run(checks []check, conv *conversation) []string {
	var failed []string
	for _, c := range checks {
		if text := c(conv); text != "" {
			failed = append(failed, text)
		}
	}
	return failed
}

func mismatch(key, want, got string) string {
	return fmt.Sprintf("- %s: wanted %s\n+ %s: %s", key, want, key, got)
}

func quoteRE(s string) string { return "/" + oneLine(s) + "/" }

// excerpt shortens a text for an error message; the request log contains all of it.
func excerpt(s string) string {
	const most = 400
	s = oneLine(s)
	if s == "" {
		return "(nothing)"
	}
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !isBoundary(s, cut) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:cut], len(s))
}

// isBoundary reports whether cutting s before byte i does not split a character.
func isBoundary(s string, i int) bool {
	return i <= 0 || i >= len(s) || utf8.RuneStart(s[i])
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
