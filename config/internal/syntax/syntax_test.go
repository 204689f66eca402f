package syntax

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// Whatever a file says, reading and evaluating it ends, and does not end the process: the stack of a goroutine is
// bounded, and running out of it can't be recovered from.
func TestNothingOverflowsTheStack(t *testing.T) {
	const n = MaxBytes - 64
	for _, text := range map[string]string{
		"brackets":      "a = " + strings.Repeat("[", n),
		"parentheses":   "a = " + strings.Repeat("(", n/2) + "1" + strings.Repeat(")", n/2),
		"allowed depth": "a = " + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
		"blocks":        strings.Repeat("a {\n", n/4),
		"not":           "a = " + strings.Repeat("!", n) + "true",
		"minus":         "a = " + strings.Repeat("-", n) + "1",
		"minus apart":   "a = " + strings.Repeat("- ", n/2) + "1",
		"sum":           "a = 1" + strings.Repeat("+1", n/2),
		"condition":     "a = true" + strings.Repeat("?1:true", n/7),
		"attributes":    "a = b" + strings.Repeat(".c", n/2),
		"index":         "a = b" + strings.Repeat("[0]", n/3),
		"splat":         "a = b" + strings.Repeat("[*]", n/24),
		"templates":     "a = " + strings.Repeat(`"${`, n/3),
		"heredocs":      strings.Repeat("a = <<E\n", n/128),
	} {
		body, _ := Parse([]byte(text), "a.hcl")
		attrs, _ := body.JustAttributes()
		for _, a := range attrs {
			a.Expr.Value(&hcl.EvalContext{})
		}
	}
	Parse([]byte(strings.Repeat(`{"a":`, n/5)), "a.hcl.json")
	Parse([]byte(strings.Repeat(`[`, n)), "a.hcl.json")
}

func TestLimits(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("#", MaxBytes+1):                                        "the file is too large",
		"a = 1\nb = " + strings.Repeat("[", maxDepth+1):                        "brackets are nested too deeply",
		"a = " + strings.Repeat("(", maxDepth) + strings.Repeat(")", maxDepth): "invalid expression",
		"# " + strings.Repeat("-", 1000) + "\na = 1":                           "",
		"": "",
	} {
		_, ds := Parse([]byte(text), "a.hcl")
		switch {
		case want == "" && len(ds) > 0:
			t.Errorf("%.20q: %v", text, ds)
		case want != "" && (len(ds) == 0 || ds[0].Summary != want || ds[0].Range.File != "a.hcl" || ds[0].Next == ""):
			t.Errorf("%.20q: %v, want %s", text, ds, want)
		}
	}
	// What is no text is told once, with its line.
	for text, line := range map[string]int{
		"\x7fELF\x02\x01\x01\x00" + strings.Repeat("\x00\xff", 1000): 1,
		"a = 1\nb = \"caf\xe9\"\nc = \"caf\xe9\"\n":                  2,
		"\xff\xfea\x00 \x00=\x00 \x001\x00":                          1,
	} {
		for _, name := range []string{"a.hcl", "a.hcl.json"} {
			_, ds := Parse([]byte(text), name)
			if len(ds) != 1 || ds[0].Summary != "the file is not UTF-8 text" || ds[0].Range.Start.Line != line || ds[0].Next == "" {
				t.Errorf("%s %.20q: %v, want one problem in line %d", name, text, ds, line)
			}
		}
	}
	if _, ds := Parse([]byte(" \n"), "a.hcl.json"); len(ds) > 0 {
		t.Errorf("an empty JSON file: %v", ds)
	}
}
