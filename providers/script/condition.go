package script

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Condition is true when all that it names is true. Texts are regular expressions (RE2) that may match anywhere.
type Condition struct {
	User         string            `json:"user,omitempty"`         // what the user said last
	Assistant    string            `json:"assistant,omitempty"`    // the text of the last answer
	Output       string            `json:"output,omitempty"`       // the tool results since the last answer
	OutputError  *bool             `json:"output_error,omitempty"` // whether one of these is an error
	OutputOf     map[string]string `json:"output_of,omitempty"`    // call id or tool name → its latest result, however old; "": any
	NoOutputOf   []string          `json:"no_output_of,omitempty"` // call ids or tool names without any result
	System       string            `json:"system,omitempty"`       // the base instructions
	Conversation string            `json:"conversation,omitempty"` // all of it, as Lines shows it, with real line ends
	Absent       string            `json:"absent,omitempty"`       // must not match anywhere in the conversation
	Shape        string            `json:"shape,omitempty"`        // must match the whole shape: "D X U C:c1 O:c1"
	Model        string            `json:"model,omitempty"`        // the model asked for
	Effort       string            `json:"effort,omitempty"`       // the reasoning effort asked for
	Tools        []string          `json:"tools,omitempty"`        // all of these are offered
	NoTools      []string          `json:"no_tools,omitempty"`     // none of these is offered
	ToolCount    Range             `json:"tool_count,omitempty"`
	Answers      Range             `json:"answers,omitempty"`    // answers in the conversation
	SinceUser    Range             `json:"since_user,omitempty"` // answers since the user spoke last
	Messages     Range             `json:"messages,omitempty"`   // messages in all
	Request      Range             `json:"request,omitempty"`    // which request of its thread it is, from 1
	Vars         map[string]string `json:"vars,omitempty"`       // variable → its value; one that is not set never matches
	Any          []Condition       `json:"any,omitempty"`        // at least one of these
	Not          *Condition        `json:"not,omitempty"`
}

// Expect is a condition that must hold. Sees, when given, lists the lines of the conversation ([Lines] without the base
// instructions): "*" stands for any text within a line, a line "..." for any number of lines.
type Expect struct {
	Condition
	Sees    []string `json:"sees,omitempty"`
	Message string   `json:"message,omitempty"` // why it matters; shown when it fails
}

// Range is a number, or "2..5", "2..", "..5", ">=2", "<=5", ">2", "<5".
type Range string

func (r Range) bounds() (lo, hi int, err error) {
	const most = int(^uint(0) >> 1)
	s := strings.TrimSpace(string(r))
	bad := fmt.Errorf("%q is no number and no range such as \"2..5\" or \">=2\"", string(r))
	num := func(s string, none int) int {
		s = strings.TrimSpace(s)
		if s == "" {
			return none
		}
		n, convErr := strconv.Atoi(s)
		if convErr != nil || n < 0 {
			err = bad
		}
		return n
	}
	switch {
	case s == "" || s == "..":
		return 0, 0, bad
	case strings.Contains(s, ".."):
		a, b, _ := strings.Cut(s, "..")
		lo, hi = num(a, 0), num(b, most)
	case strings.HasPrefix(s, ">="):
		lo, hi = num(s[2:], -1), most
	case strings.HasPrefix(s, "<="):
		lo, hi = 0, num(s[2:], -1)
	case strings.HasPrefix(s, ">"):
		lo, hi = num(s[1:], -2)+1, most
	case strings.HasPrefix(s, "<"):
		lo, hi = 0, num(s[1:], 0)-1
	default:
		lo = num(s, -1)
		hi = lo
	}
	if err == nil && (lo < 0 || hi < lo) {
		err = bad
	}
	return lo, hi, err
}

// UnmarshalJSON takes a number or a string.
func (r *Range) UnmarshalJSON(b []byte) error {
	if n, err := strconv.Atoi(string(b)); err == nil {
		*r = Range(strconv.Itoa(n))
		return nil
	}
	s, err := strconv.Unquote(string(b))
	if err != nil {
		return fmt.Errorf("a range is a number or a string such as \"2..5\"")
	}
	*r = Range(s)
	return nil
}

// moment is what conditions look at.
type moment struct {
	conv    *conversation
	vars    map[string]string
	request int
}

// check is one compiled demand. It returns "" when it holds, else what was wanted and what was found.
type check func(m moment) string

func (c *Condition) compile() ([]check, error) {
	if c == nil {
		return nil, nil
	}
	var checks []check
	var errs []string
	text := func(key, pattern string, get func(moment) string) {
		if pattern == "" {
			return
		}
		re, err := regexp.Compile(pattern)
		if err != nil {
			errs = append(errs, fmt.Sprintf("%s: %v", key, err))
			return
		}
		checks = append(checks, func(m moment) string {
			if got := get(m); !re.MatchString(got) {
				return mismatch(key, "to match "+quoteRE(pattern), excerpt(got))
			}
			return ""
		})
	}
	count := func(key string, r Range, get func(moment) int) {
		if r == "" {
			return
		}
		lo, hi, err := r.bounds()
		if err != nil {
			errs = append(errs, fmt.Sprintf("%s: %v", key, err))
			return
		}
		checks = append(checks, func(m moment) string {
			if got := get(m); got < lo || got > hi {
				return mismatch(key, "to be "+string(r), strconv.Itoa(got))
			}
			return ""
		})
	}

	text("user", c.User, func(m moment) string { return m.conv.user })
	text("assistant", c.Assistant, func(m moment) string { return m.conv.assistant })
	text("output", c.Output, func(m moment) string { return m.conv.outputText() })
	if want := c.OutputError; want != nil {
		checks = append(checks, func(m moment) string {
			if got := m.conv.failed(); got != *want {
				return mismatch("output_error", fmt.Sprintf("to be %t", *want), excerpt(m.conv.outputText()))
			}
			return ""
		})
	}
	for _, call := range sortedKeys(c.OutputOf) {
		re, err := regexp.Compile(c.OutputOf[call])
		if err != nil {
			errs = append(errs, fmt.Sprintf("output_of %s: %v", call, err))
			continue
		}
		checks = append(checks, func(m moment) string {
			got, ok := m.conv.latest(call)
			switch {
			case !ok:
				return mismatch("output_of "+call, "to be there", "no result of that call or tool")
			case !re.MatchString(got.text):
				return mismatch("output_of "+call, "to match "+quoteRE(re.String()), excerpt(got.text))
			}
			return ""
		})
	}
	for _, call := range c.NoOutputOf {
		checks = append(checks, func(m moment) string {
			if got, ok := m.conv.latest(call); ok {
				return mismatch("no_output_of "+call, "no result", excerpt(got.text))
			}
			return ""
		})
	}
	text("system", c.System, func(m moment) string { return m.conv.system() })
	text("conversation", c.Conversation, func(m moment) string { return m.conv.text() })
	if c.Absent != "" {
		re, err := regexp.Compile(c.Absent)
		if err != nil {
			errs = append(errs, fmt.Sprintf("absent: %v", err))
		} else {
			checks = append(checks, func(m moment) string {
				if got := re.FindString(m.conv.text()); re.MatchString(m.conv.text()) {
					return mismatch("absent", "nothing to match "+quoteRE(c.Absent), excerpt(got))
				}
				return ""
			})
		}
	}
	if c.Shape != "" {
		re, err := regexp.Compile(`\A(?:` + c.Shape + `)\z`)
		if err != nil {
			errs = append(errs, fmt.Sprintf("shape: %v", err))
		} else {
			checks = append(checks, func(m moment) string {
				if got := m.conv.shape(); !re.MatchString(got) {
					return mismatch("shape", c.Shape, got)
				}
				return ""
			})
		}
	}
	text("model", c.Model, func(m moment) string { return m.conv.req.Model })
	text("effort", c.Effort, func(m moment) string { return m.conv.req.ReasoningEffort })
	for _, tool := range c.Tools {
		checks = append(checks, func(m moment) string {
			if !m.conv.offers(tool) {
				return mismatch("tools", "to offer "+tool, strings.Join(m.conv.tools(), ", "))
			}
			return ""
		})
	}
	for _, tool := range c.NoTools {
		checks = append(checks, func(m moment) string {
			if m.conv.offers(tool) {
				return mismatch("no_tools", "not to offer "+tool, strings.Join(m.conv.tools(), ", "))
			}
			return ""
		})
	}
	count("tool_count", c.ToolCount, func(m moment) int { return len(m.conv.req.Tools) })
	count("answers", c.Answers, func(m moment) int { return m.conv.answers })
	count("since_user", c.SinceUser, func(m moment) int { return m.conv.sinceUser })
	count("messages", c.Messages, func(m moment) int { return len(m.conv.req.Messages) })
	count("request", c.Request, func(m moment) int { return m.request })
	for _, name := range sortedKeys(c.Vars) {
		re, err := regexp.Compile(c.Vars[name])
		if err != nil {
			errs = append(errs, fmt.Sprintf("vars %s: %v", name, err))
			continue
		}
		checks = append(checks, func(m moment) string {
			got, ok := m.vars[name]
			switch {
			case !ok:
				return mismatch("vars "+name, "to be set", "not set")
			case !re.MatchString(got):
				return mismatch("vars "+name, "to match "+quoteRE(re.String()), excerpt(got))
			}
			return ""
		})
	}
	if len(c.Any) > 0 {
		alternatives := make([][]check, len(c.Any))
		for i := range c.Any {
			var err error
			if alternatives[i], err = c.Any[i].compile(); err != nil {
				errs = append(errs, fmt.Sprintf("any %d: %v", i+1, err))
			}
		}
		checks = append(checks, func(m moment) string {
			var all []string
			for _, alternative := range alternatives {
				failed := run(alternative, m)
				if len(failed) == 0 {
					return ""
				}
				all = append(all, failed...)
			}
			return "any of:\n" + indent(strings.Join(all, "\n"))
		})
	}
	if c.Not != nil {
		inner, err := c.Not.compile()
		if err != nil {
			errs = append(errs, fmt.Sprintf("not: %v", err))
		}
		checks = append(checks, func(m moment) string {
			if len(run(inner, m)) == 0 {
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

func (e *Expect) compile() ([]check, error) {
	checks, err := e.Condition.compile()
	if err != nil || len(e.Sees) == 0 {
		return checks, err
	}
	patterns := globs(e.Sees)
	return append(checks, func(m moment) string {
		got := Lines(m.conv.req)[len(m.conv.req.System):]
		if seen(patterns, got) {
			return ""
		}
		return "sees (- wanted, + came):\n" + indent(diffLines(e.Sees, patterns, got))
	}), nil
}

// run returns what does not hold.
func run(checks []check, m moment) []string {
	var failed []string
	for _, c := range checks {
		if text := c(m); text != "" {
			failed = append(failed, text)
		}
	}
	return failed
}

func mismatch(key, want, got string) string {
	return fmt.Sprintf("- %s: wanted %s\n+ %s: %s", key, want, key, got)
}

func quoteRE(s string) string { return "/" + oneLine(s) + "/" }

// excerpt shortens a text so that an error stays readable; the request log has it whole.
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

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
