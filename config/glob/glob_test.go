package glob

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ pattern, path, want string }{
		{"/w/a", "/w/a", "/w/a"},
		{"/w/a", "/w/a/b/c", "/w/a"},
		{"/w/a", "/w/ab", ""},
		{"/w/a/", "/w/a", "/w/a"},
		{"/w//./a", "/w/a", "/w/a"},
		{"/w/*.env", "/w/x.env", "/w/x.env"},
		{"/w/*.env", "/w/.env", "/w/.env"},
		{"/w/*.env", "/w/sub/x.env", ""},
		{"/w/*.env", "/w/x.env/below", "/w/x.env"},
		{"/w/*.env", "/w", ""},
		{"/w/**/*.env", "/w/x.env", "/w/x.env"},
		{"/w/**/*.env", "/w/a/b/c/x.env", "/w/a/b/c/x.env"},
		{"/w/**/*.env", "/w/a/b/c/x.envy", ""},
		{"/w/**/*.env", "/x/a.env", ""},
		{"/w/**/*.ENV", "/w/a/SECRET.env", "/w/a/SECRET.env"},
		{"/w/**/*.env", "/w/a/SECRET.ENV", "/w/a/SECRET.ENV"},
		{"/w/**/keys/**/*.pem", "/w/keys/x.pem", "/w/keys/x.pem"},
		{"/w/**/keys/**/*.pem", "/w/a/keys/b/c/x.pem", "/w/a/keys/b/c/x.pem"},
		{"/w/**/keys/**/*.pem", "/w/a/x.pem", ""},
		{"/w/secrets/**", "/w/secrets", "/w/secrets"},
		{"/w/secrets/**", "/w/secrets/a/b", "/w/secrets"},
		{"/w/**/secrets/**", "/w/a/secrets/b", "/w/a/secrets"},
		{"/w/**/secrets/**", "/w/secrets/b/secrets/c", "/w/secrets/b/secrets"},
		{"/w/?.key", "/w/a.key", "/w/a.key"},
		{"/w/?.key", "/w/ab.key", ""},
		{"/w/?.key", "/w/ä.key", "/w/ä.key"},
		{"/w/[a-c].key", "/w/b.key", "/w/b.key"},
		{"/w/[^a-c].key", "/w/b.key", ""},
		{"/w/[^a-c].key", "/w/d.key", "/w/d.key"},
		{"/w/[a.key", "/w/[a.key", "/w/[a.key"},
		{"/w/[a*.key", "/w/[abc.key", "/w/[abc.key"},
		{"/w/[]", "/w/[]", "/w/[]"},
		{`/w/\*.key`, "/w/*.key", "/w/*.key"},
		{`/w/\*.key`, "/w/a.key", ""},
		{`/w/a\[b`, "/w/a[b", "/w/a[b"},
		{"/w/**/**/x", "/w/x", "/w/x"},
		{"/w/a**b", "/w/axxb", "/w/axxb"},
		{"/w/a**b", "/w/ax/xb", ""},
		{"/w/line\nbreak*", "/w/line\nbreaks", "/w/line\nbreaks"},
	} {
		p, err := Parse(tc.pattern)
		if err != nil {
			t.Errorf("%s: %v", tc.pattern, err)
			continue
		}
		if got := p.Match(tc.path); got != tc.want {
			t.Errorf("%s on %s: %q, want %q", tc.pattern, tc.path, got, tc.want)
		}
	}
	if got := (Pattern{}).Match("/a"); got != "" {
		t.Errorf("no pattern matches %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "empty", "a/b": "not absolute", "/": "everything", "/**": "everything", "/**/*.pem": "start with a folder", "/*/x": "start with a folder",
		"/w/../x": `".."`, "/w/\x00": "bytes", "/w/\xff": "bytes", "/" + strings.Repeat("x", 5000): "too long", `/w/*\`: "backslash",
	} {
		if p, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %+v, %v, want %q", text, p, err, want)
		}
	}
}

func TestPathAndBase(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, base string
		path, any  bool
	}{
		{"/w/a", "/w/a", true, false}, {"/w/a/**", "/w/a", true, false}, {"/w/a/*.x", "/w/a", false, false}, {"/w/**/*.x", "/w", false, true},
		{`/w/\*`, "/w/*", true, false}, {"/w/[x", "/w/[x", true, false}, {"/w/**/a/*.x", "/w", false, false},
	} {
		p, err := Parse(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		if name, ok := p.Path(); p.Base() != tc.base || ok != tc.path || ok && name != tc.base || p.AnyFolder() != tc.any || p.String() != tc.text {
			t.Errorf("%s: base %q, path %v, any %v", tc.text, p.Base(), ok, p.AnyFolder())
		}
	}
	if got := Below("/w/[a]*", "**/*.env"); got != `/w/\[a]\*/**/*.env` {
		t.Errorf("below: %q", got)
	}
}

// What quoting makes stands for that path and no other; nothing panics, whatever is parsed.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"/a/[b", `/a/\*`, "/w/**/x?", "/w/[^]a]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if p, err := Parse(name); err == nil {
			p.Match("/w/a/b")
		}
		p, err := Parse(Quote(name))
		if err != nil {
			return
		}
		base, ok := p.Path()
		if !ok {
			t.Fatalf("%q is not a path any more", name)
		}
		if p.Match(base) != base {
			t.Errorf("%q does not match itself", name)
		}
	})
}
