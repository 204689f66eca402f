package rules

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const example = `
prefix_rule(pattern=["git", "status"])
prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="remote access")
prefix_rule(pattern=["git", "push", "--force"], decision="forbidden", justification="no force")
prefix_rule(pattern=[["bash", "sh"], ["-c", "-l"]], decision="prompt")
prefix_rule(pattern=["npm", "test"], match=["npm test -- x", ["npm", "test"]], not_match=["npm", "npm run test"])
host_executable(name="git", paths=["/usr/bin/git"])
`

func load(t testing.TB, text string) *Set {
	t.Helper()
	s, err := Load([]Source{{Path: "a.rules", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMatch(t *testing.T) {
	s := load(t, example)
	for _, tc := range []struct {
		argv   string
		byName bool
		want   string // prefix=decision ...
		is     Decision
	}{
		{"git status", false, "git status=allow", Allow},
		{"git status --short", false, "git status=allow", Allow},
		{"git push origin", false, "git push=prompt", Prompt},
		{"git push origin --force", false, "git push=prompt", Prompt},
		{"git push --force", false, "git push=prompt git push --force=forbidden", Forbidden},
		{"git fetch", false, "git fetch=prompt", Prompt},
		{"npm test -- x", false, "npm test=allow", Allow},
		{"npm", false, "", Unknown},
		{"bash -lc 'git status'", false, "", Unknown},
		{"bash -c 'git status'", false, "bash -c=prompt", Prompt},
		{"sh -l", false, "sh -l=prompt", Prompt},
		{"git stat", false, "", Unknown},
		{"env git status", false, "", Unknown},
		{"git -C /x status", false, "", Unknown},
		{"GIT status", false, "", Unknown},
		{"'git ' status", false, "", Unknown},
		{"git ' status'", false, "", Unknown},
		{"/usr/bin/git status", false, "", Unknown},
		{"/usr/bin/git status", true, "git status=allow", Allow},
		{"/opt/git status", true, "", Unknown},
		{"./git status", true, "", Unknown},
		{"./npm test", true, "npm test=allow", Allow},
	} {
		var got []string
		matches := s.Match(split(t, tc.argv), tc.byName)
		for _, m := range matches {
			got = append(got, strings.Join(m.Prefix, " ")+"="+m.Rule.Decision.String())
			if (m.Program != "") != (tc.byName && strings.Contains(tc.argv, "/")) {
				t.Errorf("%s: program %q", tc.argv, m.Program)
			}
		}
		if strings.Join(got, " ") != tc.want || Strictest(matches) != tc.is {
			t.Errorf("%s: %q, %v, want %q", tc.argv, got, Strictest(matches), tc.want)
		}
	}
	if got := s.Match(split(t, "git push"), false)[0].Rule; got.Where() != "a.rules:3" || got.Justification != "remote access" {
		t.Errorf("the rule is %+v", got)
	}
}

func split(t *testing.T, s string) []string {
	t.Helper()
	var out []string
	for _, w := range strings.Split(s, " '") {
		if q, ok := strings.CutSuffix(w, "'"); ok {
			out = append(out, q)
			continue
		}
		if q, rest, ok := strings.Cut(w, "' "); ok {
			out = append(append(out, strings.TrimPrefix(q, "'")), strings.Fields(rest)...)
			continue
		}
		out = append(out, strings.Fields(w)...)
	}
	return out
}

func TestLanguage(t *testing.T) {
	s := load(t, `
def forbid(*words):
    prefix_rule(pattern=list(words), decision="forbidden", justification="no %s" % words[0])
forbid("factor", "13")
[prefix_rule(pattern=["make", t]) for t in ["test", "lint"]]
for t in ["a", "b"]:
    if t == "a":
        prefix_rule(pattern=["cargo", t], decision="prompt")
print("not shown")
`)
	for argv, want := range map[string]Decision{"factor 13": Forbidden, "make lint": Allow, "make all": Unknown, "cargo a": Prompt, "cargo b": Unknown} {
		if got := Strictest(s.Match(strings.Fields(argv), false)); got != want {
			t.Errorf("%s: %v, want %v", argv, got, want)
		}
	}
	if !s.Restricts() || load(t, `prefix_rule(pattern=["a"])`).Restricts() || s.Len() != 4 {
		t.Errorf("restricts %v, %d rules", s.Restricts(), s.Len())
	}
}

func TestInvalidFiles(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		line       int
	}{
		{"\nprefix_rule(pattern=[])", "invalid pattern element: pattern cannot be empty", 2},
		{"prefix_rule(pattern=[[]])", "invalid pattern element", 1},
		{"prefix_rule(pattern=[1])", "invalid pattern element", 1},
		{"prefix_rule(pattern=['a', ['b', 1]])", "invalid pattern element", 1},
		{"prefix_rule(pattern=[''])", "the first word cannot be empty", 1},
		{"prefix_rule(pattern='a')", "pattern", 1},
		{"prefix_rule()", "missing argument for pattern", 1},
		{"prefix_rule(pattern=['a'], colour='red')", "colour", 1},
		{"prefix_rule(pattern=['a'], decision='maybe')", "invalid decision: maybe", 1},
		{"\n\nprefix_rule(pattern=['a', 'b'], match=['a c'])", "expected every example to match at least one rule", 3},
		{"prefix_rule(pattern=['a', 'b'], not_match=[['a', 'b', 'c']])", "expected example to not match rule", 1},
		{"prefix_rule(pattern=['a'], match=['a $x'])", "not a plain list of words", 1},
		{"prefix_rule(pattern=['a'], match=[''])", "example cannot be empty", 1},
		{"prefix_rule(pattern=['a'], justification='  ')", "invalid rule: justification cannot be empty", 1},
		{"prefix_rule(pattern=['a'], justification=1)", "justification must be a string", 1},
		{"network_rule(host='*.x.com', protocol='https', decision='allow')", "network_rule host must be a specific host; wildcards are not allowed", 1},
		{"network_rule(host='https://x.com', protocol='https', decision='allow')", "without scheme", 1},
		{"network_rule(host='x.com', protocol='gopher', decision='allow')", "gopher", 1},
		{"network_rule(host='x.com', protocol='https', decision='perhaps')", "invalid decision: perhaps", 1},
		{"host_executable(name='git', paths=['git'])", "host_executable paths must be absolute (got git)", 1},
		{"host_executable(name='git', paths=['/usr/bin/hg'])", "must end in git", 1},
		{"host_executable(name='bin/git', paths=[])", "bare name", 1},
		{"load('x.star', 'y')", "No imports are available", 1},
		{"prefix_rule(pattern=['a']", "got end of file", 1},
		{"prefix_rul(pattern=['a'])", "undefined: prefix_rul", 1},
		{"x = 1 // 0", "division by zero", 1},
		{"def f():\n  g()\ndef g():\n  prefix_rule(pattern=[])\nf()", "pattern cannot be empty", 4},
		{"x = 0\nwhile True:\n  x += 1", "takes too many steps", 0},
		{"def f(): f()\nf()", "called recursively", 1},
		{strings.Repeat("#", maxBytes+1), "is limited to", 0},
	} {
		s, err := Load([]Source{{Path: "good.rules", Text: `prefix_rule(pattern=["good"])`}, {Path: "dir/bad.rules", Text: tc.text}})
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(err.Error(), tc.want) || e.Path != "dir/bad.rules" || tc.line > 0 && e.Line != tc.line {
			t.Errorf("%.50q: %v, want %q in line %d", tc.text, err, tc.want, tc.line)
		}
		if s.Len() != 1 {
			t.Errorf("%.50q: %d rules of the broken file and the good one count", tc.text, s.Len())
		}
	}
}

func TestNetworkRules(t *testing.T) {
	s := load(t, `
network_rule(host="Example.COM.", protocol="https_connect", decision="allow")
network_rule("::1", "http", "deny", justification="local")
network_rule("[::1]", "socks5_tcp", "prompt")
`)
	want := []Network{
		{Host: "example.com", Protocol: "https", Decision: Allow, Path: "a.rules", Line: 2},
		{Host: "::1", Protocol: "http", Decision: Forbidden, Justification: "local", Path: "a.rules", Line: 3},
		{Host: "::1", Protocol: "socks5_tcp", Decision: Prompt, Path: "a.rules", Line: 4},
	}
	if !reflect.DeepEqual(s.Network(), want) {
		t.Errorf("got %+v", s.Network())
	}
}

// The last host_executable for a program applies; one without paths permits no path.
func TestHostExecutable(t *testing.T) {
	s := load(t, `
prefix_rule(pattern=["git"])
prefix_rule(pattern=["hg"])
host_executable(name="git", paths=["/a/git"])
host_executable(name="git", paths=["/b/git"])
host_executable(name="hg", paths=[])
`)
	for program, want := range map[string]bool{"/a/git": false, "/b/git": true, "/c/git": false, "/a/hg": false, "git": true, "hg": true} {
		if got := len(s.Match([]string{program}, true)) == 1; got != want {
			t.Errorf("%s: %v", program, got)
		}
	}
}

func TestRestrictive(t *testing.T) {
	s := load(t, example)
	if got := s.Restrictive("git"); len(got) != 2 || slices.ContainsFunc(got, func(p *Prefix) bool { return p.Decision == Allow }) {
		t.Errorf("git: %d", len(got))
	}
	var none *Set
	if none.Restricts() || none.Len() != 0 || none.Match([]string{"a"}, true) != nil || none.Network() != nil || none.Restrictive("a") != nil {
		t.Error("no set has rules")
	}
}

// Loading any file ends, and an invalid one adds no rules.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{example, "load('a', 'b')", "prefix_rule(pattern=[])", "[prefix_rule(pattern=[str(x)]) for x in range(10)]", "def f(x): return x\nf(1)",
		"network_rule(host='a', protocol='http', decision='deny')", "x = {1: 2}\nfor a in x: pass", "'%s' % 1", "prefix_rule(pattern=['a'], match=['a b'])"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Load([]Source{{Path: "f.rules", Text: text}})
		if err != nil && s.Len() != 0 {
			t.Errorf("%v, and yet %d rules", err, s.Len())
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f.rules:") {
			t.Errorf("the error does not begin with the file: %v", err)
		}
	})
}

// A written rule is read back unchanged.
func FuzzPrefixLine(f *testing.F) {
	f.Add("git", "status", "-m\n\"'\\\x00")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		argv := []string{a, b, c}
		if slices.ContainsFunc(argv, func(w string) bool { return !utf8.ValidString(w) }) { // such words are never offered
			t.Skip()
		}
		line := PrefixLine(argv)
		if strings.ContainsAny(line, "\r\n") {
			t.Fatalf("%q is more than a line", line)
		}
		s, err := Load([]Source{{Path: "f.rules", Text: line}})
		if a == "" {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Match(argv, false); len(got) != 1 || got[0].Rule.Decision != Allow {
			t.Errorf("%s does not match %q", line, argv)
		}
	})
}

// No rules file may overflow the stack of its parser, or run forever.
func TestNestedRules(t *testing.T) {
	for _, unit := range []string{"(", "[", "{", "not ", "-", "~", "lambda:", "1 if 1 else ", "a(", "[1 for x in ", "1+", "a[0]", "a.a.", "x = [x]\n"} {
		text := "x = " + strings.Repeat(unit, 2<<20/len(unit))
		for _, n := range []int{maxBytes, len(text)} {
			if _, err := Load([]Source{{Path: "x.rules", Text: text[:n]}}); err == nil {
				t.Errorf("%d bytes of %q are read", n, unit)
			}
		}
	}
	if _, err := Load([]Source{{Path: "x.rules", Text: "x = [1]\nwhile True:\n  x = [x]\n"}}); err == nil {
		t.Error("a loop came to no end, and was read")
	}
}
