package tools

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// cellArgs are the arguments of python.
type cellArgs struct {
	Code      string `json:"code" jsonschema:"Python code. The value of its last expression is shown."`
	TimeoutMS *int64 `json:"timeout_ms,omitempty" jsonschema:"How long the code may run, in milliseconds."`
}

// resetArgs are the arguments of python_reset.
type resetArgs struct {
	SandboxPermissions string `json:"sandbox_permissions,omitempty" enum:"use_default,require_escalated" jsonschema:"Use require_escalated to start a kernel that runs outside of the sandbox."`
	Justification      string `json:"justification,omitempty" jsonschema:"Only with require_escalated: a question to the user that says why."`
}

func (a resetArgs) escalated() bool { return a.SandboxPermissions == "require_escalated" }

// timeout returns how long a cell may run.
func (p *pythonPlugin) timeout(a cellArgs) (time.Duration, error) {
	if a.TimeoutMS == nil {
		return p.config.Timeout, nil
	}
	if *a.TimeoutMS <= 0 {
		return 0, fmt.Errorf("timeout_ms is %d; it must be positive", *a.TimeoutMS)
	}
	return min(time.Duration(min(*a.TimeoutMS, math.MaxInt32))*time.Millisecond, p.config.MaxTimeout), nil
}

// parseSize parses a size such as "4GiB".
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGTiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := map[string]int{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[s[len(digits):]]
	if err != nil || !ok || n < 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is not a size; write a number with KiB, MiB or GiB, such as \"4GiB\"", s)
	}
	return n << shift, nil
}

// oneLine returns the first line of a text, shortened if necessary.
func oneLine(s string) string {
	const most = 120
	first, _, cut := strings.Cut(strings.TrimSpace(s), "\n")
	if r := []rune(first); len(r) > most {
		first, cut = string(r[:most]), true
	}
	if cut {
		first += " …"
	}
	return first
}
