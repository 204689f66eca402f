package hosts_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hosts"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ pattern, yes, no string }{
		{"example.com.", "example.com", "api.example.com xexample.com example.co"},
		{"*.example.com", "api.example.com a.b.example.com", "example.com xexample.com"},
		{"**.example.com", "api.example.com example.com a.b.example.com", "xexample.com"},
		{"region*.v2.argotunnel.com", "region1.v2.argotunnel.com region12.v2.argotunnel.com",
			"region.v2.argotunnel.com xregion1.v2.argotunnel.com foo.region1.v2.argotunnel.com region1.x.v2.argotunnel.com"},
		{"db?.example.com", "db1.example.com", "db.example.com db12.example.com"},
		{"[::1]", "::1", "::2"},
		{"::1", "::1", "::2"},
		{"fe80::1%lo0", "fe80::1%lo0", "fe80::1%lo1 fe80::1"},
		{"Example.COM", "example.com", ""},
		{"127.0.0.1", "127.0.0.1", "127.0.0.10 1.127.0.0.1"},
		{"*", "example.com 127.0.0.1 ::1", ""},
		{"example.com:8443", "", "example.com"},
		{"example.com:443", "example.com", "api.example.com"},
		{"[::1]:443", "::1", ""},
	} {
		p := parse(t, tc.pattern)
		for host := range strings.FieldsSeq(tc.yes) {
			if !p.Match(host, 443) {
				t.Errorf("%q does not match %q", tc.pattern, host)
			}
		}
		for host := range strings.FieldsSeq(tc.no) {
			if p.Match(host, 443) {
				t.Errorf("%q matches %q", tc.pattern, host)
			}
		}
	}
	if (hosts.Pattern{}).Match("example.com", 443) {
		t.Error("a pattern that nobody has filled in matches")
	}
	for _, wrong := range []string{
		"", " ", "https://example.com", "example.com/x", "user@example.com", "a b", "example.com:0", "example.com:99999", "example.com:x",
		"a.**.b", "**", "**x.example.com", "127.0.0.*", "bücher.example", "a..b", "[::1", "-\x00", "1::2::3",
	} {
		if p, err := hosts.ParsePattern(wrong); err == nil {
			t.Errorf("%q is taken for a pattern: %+v", wrong, p)
		} else if !strings.Contains(err.Error(), "pattern") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"  ExAmPlE.CoM  ": "example.com", "example.com.:443": "example.com", "[::1]:443": "::1", "[fe80::1%25lo0]": "fe80::1%lo0",
		"example.com..": "example.com", "::1": "::1", "[::1]": "::1", "127.0.0.1:80": "127.0.0.1", "": "", ":80": "",
	} {
		if got := hosts.Normalize(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func parse(t *testing.T, text string) hosts.Pattern {
	t.Helper()
	p, err := hosts.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
