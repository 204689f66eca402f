package version

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, s := range []string{"1.2.3", "1.2.3-beta+foo.bar", "0.0.0", "10.20.30-rc.1"} {
		v, err := Parse(s)
		if err != nil || v.String() != s {
			t.Errorf("Parse(%q) = %q, %v, want it unchanged", s, v, err)
		}
	}
	for s, want := range map[string]string{
		"":           `version "" is not a semantic version like "1.4.2"`,
		"v1.0.0":     `version "v1.0.0" is not in canonical form: write "1.0.0"`,
		"1.0":        `version "1.0" is not in canonical form: write "1.0.0"`,
		"1":          `version "1" is not in canonical form: write "1.0.0"`,
		"1.02":       `version "1.02" is not in canonical form: write "1.2.0"`,
		"1.2.3.4":    `version "1.2.3.4" is not a semantic version like "1.4.2"`,
		"latest":     `version "latest" is not a semantic version like "1.4.2"`,
		"1.2.3-":     `version "1.2.3-" is not a semantic version like "1.4.2"`,
		"1.2.3-01":   `version "1.2.3-01" is not a semantic version like "1.4.2"`,
		"1.2.3 ":     `version "1.2.3 " is not in canonical form: write "1.2.3"`,
		"1.2.x":      `version "1.2.x" is not a semantic version like "1.4.2"`,
		"-1.2.3":     `version "-1.2.3" is not a semantic version like "1.4.2"`,
		"1.2.3+a\n1": "version \"1.2.3+a\\n1\" is not a semantic version like \"1.4.2\"",
	} {
		if v, err := Parse(s); err == nil || err.Error() != want {
			t.Errorf("Parse(%q) = %q, %v, want error %s", s, v, err, want)
		}
	}
}

func TestConstraintsCanonical(t *testing.T) {
	for s, want := range map[string]string{
		"1.2.3":                          "1.2.3",
		"1.2.3-beta+foo.bar":             "1.2.3-beta+foo.bar",
		"= 1.2":                          "1.2.0",
		">= 3":                           ">= 3.0.0",
		"~> 3":                           "~> 3.0",
		"~> 3.0.0":                       "~> 3.0.0",
		">= 3.0, < 4.0":                  ">= 3.0.0, < 4.0.0",
		">= 1.2.3, 1.2.3, ~> 1.2, 1.2.3": "~> 1.2, >= 1.2.3, 1.2.3",
		">= 2.68, >= 2.68.0":             ">= 2.68.0",
		"~> 1.2, >= 1.2, 1.2.4":          ">= 1.2.0, ~> 1.2, 1.2.4",
		">= 2, >= 1.2, < 1.3":            ">= 1.2.0, < 1.3.0, >= 2.0.0",
		"~> 1, ~> 1.0, ~> 1.0.0":         "~> 1.0, ~> 1.0.0",
		">=1.0,<2":                       ">= 1.0.0, < 2.0.0",
		"> 1.0.0, < 1.0.0, >= 1.0.0, <= 1.0.0, != 1.0.0": "> 1.0.0, >= 1.0.0, <= 1.0.0, < 1.0.0, != 1.0.0",
	} {
		cs, err := ParseConstraints(s)
		if err != nil {
			t.Errorf("ParseConstraints(%q): %v", s, err)
			continue
		}
		if got := cs.String(); got != want {
			t.Errorf("%q printed as %q, want %q", s, got, want)
		}
	}
}

func TestConstraintsRefused(t *testing.T) {
	for s, want := range map[string]string{
		"":           `empty version constraint: use one like "~> 1.4", or remove it`,
		"  ":         `empty version constraint: use one like "~> 1.4", or remove it`,
		"== 1.0":     `version constraint "== 1.0": write "=" or nothing instead of "=="`,
		"^1.2":       `version constraint "^1.2": write "~>" instead of "^"`,
		"=> 1.2":     `version constraint "=> 1.2": write ">=" instead of "=>"`,
		"<> 1.2":     `version constraint "<> 1.2": unknown operator "<>"; use =, !=, >, >=, <, <= or ~>`,
		">=":         `version constraint ">=": missing version`,
		">= 1.0,":    `version constraint "": missing version`,
		">= 1.0 < 2": `version constraint ">= 1.0 < 2": separate comparisons with commas`,
		">= v1.0":    `version constraint ">= v1.0": "v1.0" is not in canonical form: write "1.0.0"`,
		"1.02":       `version constraint "1.02": "1.02" is not in canonical form: write "1.2.0"`,
		"1.x":        `version constraint "1.x": "1.x" is not a version`,
	} {
		if cs, err := ParseConstraints(s); err == nil || err.Error() != want {
			t.Errorf("ParseConstraints(%q) = %q, %v, want error %s", s, cs, err, want)
		}
	}
}

func TestConstraintsAllow(t *testing.T) {
	for _, tt := range []struct {
		constraints, version string
		want                 bool
	}{
		{"~> 1.2", "1.2.0", true},
		{"~> 1.2", "1.9.9", true},
		{"~> 1.2", "2.0.0", false},
		{"~> 1.2", "1.1.9", false},
		{"~> 1.2.3", "1.2.3", true},
		{"~> 1.2.3", "1.2.10", true},
		{"~> 1.2.3", "1.3.0", false},
		{"~> 1", "1.5.0", true},
		{"~> 1", "2.0.0", false},
		{"= 1.2.3", "1.2.3", true},
		{"1.2.3", "1.2.4", false},
		{"!= 1.2.3", "1.2.4", true},
		{"!= 1.2.3", "1.2.3", false},
		{"> 1.0, < 2.0", "1.0.0", false},
		{"> 1.0, < 2.0", "1.0.1", true},
		{">= 1.0, <= 2.0", "2.0.0", true},
		{">= 1.0, <= 2.0", "2.0.1", false},
		// A pre-release matches only where it is mentioned.
		{">= 1.0.0", "1.1.0-beta", false},
		{"~> 1.2", "1.3.0-rc.1", false},
		{"1.1.0-beta", "1.1.0-beta", true},
		{">= 1.1.0-beta", "1.1.0-beta", true},
		{">= 1.1.0-beta", "1.2.0-beta", false},
		{">= 1.1.0-beta", "1.1.0", true},
		{"> 1.1.0-beta", "1.1.0-beta", false},
		{"!= 1.1.0-beta", "1.1.0-beta", false},
		{"1.2.3+a", "1.2.3+b", true},
	} {
		cs, err := ParseConstraints(tt.constraints)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Parse(tt.version)
		if err != nil {
			t.Fatal(err)
		}
		if got := cs.Allows(v); got != tt.want {
			t.Errorf("%q allows %s = %v, want %v", tt.constraints, tt.version, got, tt.want)
		}
	}
	if !(Constraints)(nil).Allows(Version{"3.0.0"}) || (Constraints)(nil).Allows(Version{"3.0.0-rc1"}) {
		t.Error("no constraint should allow every release and no pre-release")
	}
}

func TestBest(t *testing.T) {
	cs, err := ParseConstraints("~> 1.2")
	if err != nil {
		t.Fatal(err)
	}
	vs := []Version{{"1.2.0"}, {"1.10.0"}, {"1.9.0"}, {"2.0.0"}, {"1.11.0-rc.1"}}
	if got, ok := Best(cs, vs); !ok || got.String() != "1.10.0" {
		t.Errorf("Best = %q, %v, want 1.10.0", got, ok)
	}
	if got, ok := Best(cs, vs[3:]); ok {
		t.Errorf("Best = %q, want none", got)
	}
}

// The printed form reads back as itself and allows the same versions.
func canonicalProperty(t *rapid.T) {
	number := rapid.IntRange(0, 3)
	var text string
	for i := range rapid.IntRange(1, 4).Draw(t, "n") {
		if i > 0 {
			text += ", "
		}
		text += rapid.SampledFrom([]string{"", "=", ">", ">=", "<", "<=", "!=", "~>"}).Draw(t, "op")
		text += " " + rapid.SampledFrom([]string{"0", "1", "2", "1.0", "1.2", "2.1", "1.2.3", "1.2.0", "1.2.3-beta"}).Draw(t, "v")
	}
	cs, err := ParseConstraints(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	printed := cs.String()
	again, err := ParseConstraints(printed)
	if err != nil {
		t.Fatalf("%q printed as %q: %v", text, printed, err)
	}
	if again.String() != printed {
		t.Fatalf("%q printed as %q, then as %q", text, printed, again)
	}
	v := Version{text: ""}
	v.text = itoa(number.Draw(t, "a")) + "." + itoa(number.Draw(t, "b")) + "." + itoa(number.Draw(t, "c"))
	if rapid.Bool().Draw(t, "beta") {
		v.text += "-beta"
	}
	if cs.Allows(v) != again.Allows(v) {
		t.Fatalf("%q and its canonical form %q differ on %s", text, printed, v)
	}
}

func itoa(n int) string { return string(rune('0' + n)) }

func TestCanonicalProperty(t *testing.T) { rapid.Check(t, canonicalProperty) }

func FuzzParseConstraints(f *testing.F) {
	for _, s := range []string{"~> 1.2", ">= 1.2.3, < 2", "1.2.3-beta+foo.bar", "=> x", ",,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cs, err := ParseConstraints(s)
		if err != nil {
			return
		}
		again, err := ParseConstraints(cs.String())
		if err != nil || again.String() != cs.String() {
			t.Errorf("%q printed as %q, which reads as %q, %v", s, cs, again, err)
		}
	})
}
