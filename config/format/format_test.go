package format

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFormat(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"a.hcl", "plugin \"x\" {\nsource=\"./x\"\n  version   = \"1.0\"\n}\n\n\n", "plugin \"x\" {\n  source  = \"./x\"\n  version = \"1.0\"\n}\n"},
		{"a.hcl", "# only a comment", "# only a comment\n"},
		{"a.hcl", "", ""},
		{"a.hcl.json", `{"a":  1}`, `{"a":  1}`},
	} {
		got, ds := Format([]byte(tt.in), tt.name)
		if string(got) != tt.want || len(ds) > 0 {
			t.Errorf("Format(%q) = %q, %v, want %q", tt.in, got, ds, tt.want)
		}
	}
	const broken = "plugin {\n source = \n"
	if got, ds := Format([]byte(broken), "a.hcl"); string(got) != broken || !ds.HasErrors() {
		t.Errorf("broken text: %q, %v, want it unchanged with an error", got, ds)
	}
}

func TestFormatTwiceIsFormatOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text string
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			text += rapid.SampledFrom([]string{
				"a=1\n", "  bc   = [1,2]\n", "x {\n", "}\n", "# c\n", "\n", "d = {a=1}\n", "e=<<E\n a=1\nE\n", "f = \"${env( \"A\" )}\"\n", "y \"l\"{z=1}\n",
			}).Draw(t, "line")
		}
		once, ds := Format([]byte(text), "a.hcl")
		if ds.HasErrors() {
			return
		}
		if twice, _ := Format(once, "a.hcl"); string(twice) != string(once) {
			t.Fatalf("%q became %q, then %q", text, once, twice)
		}
	})
}
