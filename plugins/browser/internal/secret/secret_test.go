package secret_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/secret"
)

// The rows say where a secret with a domain may be typed. A port is always compared, and no wildcard stands for what anybody can register.
func TestAllows(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		origin, domain string
		want           bool
	}{
		{"https://example.com", "example.com", true},
		{"http://example.com", "example.com", false},
		{"https://www.example.com", "example.com", false},
		{"https://sub.example.com", "*.example.com", true},
		{"https://sub.example.com", "**.example.com", true},
		{"https://example.com", "*.example.com", true},
		{"http://example.com", "http*://example.com", true},
		{"https://example.com:444", "example.com:80", false},
		{"https://example.com:444", "example.com:444", true},
		{"https://example.com:444", "example.com", false},
		{"https://example.com", "https://example.com:443", true},
		{"https://x.y", "*", true},
		{"http://x.y", "*", false},
		{"about:blank", "*", false},
		{"null", "*", false},
		{"", "*", false},
		{"file:///etc/passwd", "*", false},
		{"chrome-extension://abc", "*", false},
		{"https://EXAMPLE.com", "Example.COM", true},
		{"https://example.com.", "example.com", true},
		{"https://example.com.evil.org", "example.com", false},
		{"https://notexample.com", "*.example.com", false},
		{"https://user@example.com", "example.com", false},
		{"https://example.com@evil.org", "example.com", false},
		{"http://localhost:8080", "http://localhost:8080", true},
		{"http://localhost:8081", "http://localhost:8080", false},
		{"http://[::1]:8080", "http://[::1]:8080", true},
	} {
		s, err := secret.New("k", "", []string{row.domain})
		if err != nil {
			t.Errorf("%s: %v", row.domain, err)
		} else if got := s.Allows(row.origin); got != row.want {
			t.Errorf("%s on %s: %v", row.domain, row.origin, got)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, domain := range []string{"google.*", "*.*.com", "*google.com", "chrome-extension://*", "", "https://", "*.", "a b", "a.com/x", "user@a.com", "file:///", "*.*"} {
		if _, err := secret.New("k", "", []string{domain}); err == nil || !strings.Contains(err.Error(), "is not a domain of a secret") {
			t.Errorf("%q: %v", domain, err)
		}
	}
	for want, row := range map[string][3]string{
		"is not the name": {"a<b", "", "a.com"}, "it is \"password\" or \"totp\"": {"a", "x", "a.com"},
	} {
		if _, err := secret.New(row[0], row[1], []string{row[2]}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", row, err)
		}
	}
	if _, err := secret.New("a", "", nil); err == nil {
		t.Error("a secret without domains is accepted")
	}
}

// The codes are those of RFC 6238, of its key "12345678901234567890", with six digits.
func TestTyped(t *testing.T) {
	t.Parallel()
	s, err := secret.New("code", secret.TOTP, []string{"a.com"})
	if err != nil {
		t.Fatal(err)
	}
	const key = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	for at, want := range map[int64]string{59: "287082", 1111111109: "081804", 2000000000: "279037"} {
		for _, value := range []string{key, strings.ToLower(key), "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ", "otpauth://totp/x?issuer=y&secret=" + key} {
			if got, err := s.Typed(value, time.Unix(at, 0)); got != want || err != nil {
				t.Errorf("%d: %q, %v", at, got, err)
			}
		}
	}
	if got, err := s.Typed("not a key 1!", time.Unix(0, 0)); err == nil || strings.Contains(err.Error(), "not a key 1!") {
		t.Errorf("%q, %v", got, err)
	}
	p, err := secret.New("pw", "", []string{"a.com"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Typed("hunter2", time.Time{}); got != "hunter2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := p.Typed("ab", time.Time{}); err == nil {
		t.Error("a value that can't be masked is typed")
	}
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	const text = "a<secret>x</secret>b<secret>y</secret><secret>x</secret>"
	if got := secret.Names(text); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("%q", got)
	}
	value := func(name string) (string, error) {
		if name == "z" {
			return "", errors.New("no z")
		}
		return strings.ToUpper(name), nil
	}
	if got, err := secret.Fill(text, value); got != "aXbYX" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := secret.Fill("<secret>z</secret>", value); err == nil || err.Error() != "no z" {
		t.Error(err)
	}
	for text, ok := range map[string]bool{text: true, "plain": true, "<secret>x": false, "x</secret>": false, "<secret></secret>": false, "<secret>a<b</secret>": false} {
		if err := secret.CheckText(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMasks(t *testing.T) {
	t.Parallel()
	var m secret.Masks
	m.Add("k1", "abc")
	m.Add("k2", "abc123")
	m.Add("odd", `p&"w <x> ä/`)
	m.Add("long", "correct horse battery staple")
	m.Add("short", "ab")
	for in, want := range map[string]string{
		"pw=abc123 abc":                                "pw=<secret>k2</secret> <secret>k1</secret>",
		"ab":                                           "ab",
		"u?p=p%26%22w+%3Cx%3E+%C3%A4%2F":               "u?p=<secret>odd</secret>",
		`{"p":"p\u0026\"w \u003cx\u003e ä/"}`:          `{"p":"<secret>odd</secret>"}`,
		"p&amp;&#34;w &lt;x&gt; ä/":                    "<secret>odd</secret>",
		"value=correct horse batt...":                  "value=<secret>long</secret>...",
		"...horse battery staple":                      "...<secret>long</secret>",
		"a correct answer":                             "a correct answer",
		"Basic " + b64("correct horse battery staple"): "Basic <secret>long</secret>",
		"": "",
	} {
		if got := m.Text(in); strings.TrimRight(got, "=") != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if !m.Has("xabcx") || m.Has("nothing") {
		t.Error("Has")
	}
	for i := range 300 {
		m.Add("code", fmt.Sprintf("%06d", 100000+i))
	}
	if got := m.Text("100299 abc"); got != "<secret>code</secret> abc" {
		t.Errorf("%q: old values are not given up", got)
	}
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// Nothing of a value is left in any text, in any of the forms, whatever is around it; a text without it stays as it is.
func FuzzMasks(f *testing.F) {
	f.Add("hunter2-hunter2", "before ", " after")
	f.Add("correct horse battery staple", "<secret>", "correct")
	f.Add("äöü", "ä", "ü")
	f.Fuzz(func(t *testing.T, value, before, after string) {
		var m secret.Masks
		m.Add("k", value)
		if len(value) < 3 {
			if got := m.Text(before + after); got != before+after {
				t.Errorf("%q", got)
			}
			return
		}
		if strings.Contains("<secret>k</secret>", value) {
			return // the mask itself
		}
		for _, form := range []string{value, url.QueryEscape(value), base64.StdEncoding.EncodeToString([]byte(value))} {
			got := m.Text(before + " " + form + " " + after)
			for part := range strings.SplitSeq(got, "<secret>k</secret>") {
				if strings.Contains(part, value) || len(value) > 16 && strings.Contains(part, value[:13]) {
					t.Errorf("%q, or a part of it, is in %q", value, got)
				}
			}
		}
	})
}

// Whatever a model writes: what is filled in has no placeholder left that names a secret, and nothing panics.
func FuzzPlaceholders(f *testing.F) {
	for _, s := range []string{"<secret>a</secret>", "<secret><secret>a</secret></secret>", "<secret>", "</secret><secret>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var asked []string
		out, err := secret.Fill(s, func(name string) (string, error) { asked = append(asked, name); return "V", nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range secret.Names(s) {
			if !slices.Contains(asked, n) {
				t.Errorf("%q was not asked for", n)
			}
		}
		if len(asked) == 0 && out != s {
			t.Errorf("%q became %q", s, out)
		}
		_ = secret.CheckText(s)
	})
}
