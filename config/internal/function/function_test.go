package function

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

func TestFunctions(t *testing.T) {
	base := t.TempDir()
	for name, text := range map[string]string{"key": "k\n", "two": "a\n\n", "crlf": "a\r\n", "binary": "\xff", "large": strings.Repeat("x", maxFileBytes+1)} {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := NewScope(Sources{
		LookupEnv: func(n string) (string, bool) {
			v, ok := map[string]string{"SET": "value", "EMPTY": ""}[n]
			return v, ok
		},
		Secret: func(n string) (string, error) {
			if n == "good" {
				return "s3cret", nil
			}
			return "", errors.New("locked")
		},
		Home: base,
	}, base)
	for text, want := range map[string]string{
		`env("SET")`:                  "value",
		`env("EMPTY")`:                "",
		`env("EMPTY", "x")`:           "",
		`env("NOPE", "x")`:            "x",
		`env("NOPE", null)`:           "<null>",
		`env("NOPE", secret("good"))`: "s3cret (secret)",
		`env("NOPE")`:                 `!environment variable "NOPE" is not set`,
		`env("")`:                     `!`,
		`env("A=B")`:                  `!`,
		`file("key")`:                 "k",
		`file("two")`:                 "a\n",
		`file("crlf")`:                "a",
		`file("~/key")`:               "k",
		`file("` + filepath.ToSlash(filepath.Join(base, "key")) + `")`: "k",
		`file("binary")`:       `!file "binary" can't be used: The reason is: it is not UTF-8 text.`,
		`file("large")`:        `!file "large" can't be used: The reason is: it is larger than 1048576 bytes.`,
		`file("")`:             `!file "" can't be used: The reason is: the path is empty.`,
		`file(".")`:            `!file "." can't be used: The reason is: it is not a regular file.`,
		`secret("good")`:       "s3cret (secret)",
		`secret("bad")`:        `!secret "bad" can't be used: The reason is: locked.`,
		`"x${secret("good")}"`: "xs3cret (secret)",
	} {
		x, hds := hclsyntax.ParseExpression([]byte(text), "x", hcl.InitialPos)
		if hds.HasErrors() {
			t.Fatal(hds)
		}
		v, hds := x.Value(s.Context())
		var got string
		if hds.HasErrors() {
			got = "!"
			if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](hds[0]); ok && want != "!" {
				got += call.FunctionCallError().Error()
			}
		} else {
			plain, marks := v.Unmark()
			if got = "<null>"; !plain.IsNull() {
				got = plain.AsString()
			}
			if _, ok := marks[Secret{}]; ok {
				got += " (secret)"
			}
		}
		if got != want {
			t.Errorf("%s = %q, want %q", text, got, want)
		}
	}
}

func TestRecordingReadsNothing(t *testing.T) {
	s := NewScope(Sources{
		LookupEnv: func(n string) (string, bool) { return "v", n == "A" },
		Secret:    func(string) (string, error) { t.Error("a secret was read"); return "", nil },
	}, "/nowhere")
	x, hds := hclsyntax.ParseExpression([]byte(`"${env("A")}${secret("s")}${file("f")}${env("B", env("C"))}${command(["x", env("D")], { timeout = env("E", "1s") })}"`), "x", hcl.InitialPos)
	if hds.HasErrors() {
		t.Fatal(hds)
	}
	var names []string
	v, hds := x.Value(s.Recording(func(n string) { names = append(names, n) }))
	slices.Sort(names)
	if hds.HasErrors() || v.Type() != cty.String || strings.Join(names, " ") != "A B C D E" {
		t.Errorf("names = %v, %v", names, hds)
	}
}
