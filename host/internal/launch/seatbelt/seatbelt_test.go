package seatbelt_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt/seatbelttest"
)

func profile(t testing.TB, p seatbelt.Policy) (*seatbelttest.Judge, seatbelt.Profile) {
	t.Helper()
	out, err := p.Profile()
	if err != nil {
		t.Fatal(err)
	}
	return seatbelttest.New(t, out), out
}

func pattern(t testing.TB, text string) glob.Pattern {
	t.Helper()
	p, err := glob.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hostile are names that would be rules, or end one, if they were in the text of a profile.
var hostile = []string{
	`/w/"`, `/w/")(allow default)(deny x (literal "`, "/w/a\nb", "/w/a)b(c", `/w/a\`, `/w/#"x"`, "/w/;comment", "/w/äöü", "/w/日本", "/w/(param \"P0\")",
	"/w/a b", "/w/$HOME", "/w/=", "/w/[a-z]*", "/w/^$.|?*+{}", "/w/\x01\x7f", "/w/\u200c.git", "/w/'", "/w/%s",
}

// The rules are the same whatever a path is called, and contain no part of it.
func TestPathsAreNotRules(t *testing.T) {
	t.Parallel()
	build := func(p string) seatbelt.Profile {
		_, out := profile(t, seatbelt.Policy{Network: seatbelt.NetworkNone, Sockets: []string{p}, Files: []seatbelt.Rule{
			{Access: seatbelt.AccessRead, Path: p}, {Access: seatbelt.AccessWrite, Path: p + "/w"}, {Access: seatbelt.AccessNone, Match: seatbelt.Literal(p), Except: []string{p + "/w"}},
			{Access: seatbelt.AccessFixed, Path: p + "/f"}, {Access: seatbelt.AccessKept, Match: seatbelt.Named(p, ".git")},
		}})
		return out
	}
	plain := build("/w/plain")
	for _, p := range hostile {
		out := build(p)
		if out.Text != plain.Text {
			t.Errorf("%q changes the rules:\n%s", p, out.Text)
		}
		if len(out.Parameters) != len(plain.Parameters) {
			t.Errorf("%q: %d parameters, not %d", p, len(out.Parameters), len(plain.Parameters))
		}
		j := seatbelttest.New(t, out)
		if j.Reads(p) || j.Reads(p+"/x") || !j.Writes(p+"/w/x") || j.Reads("/w/other") || j.Writes(p+"/w2") {
			t.Errorf("%q is not what the rules are about", p)
		}
		if args := out.Args(); args[0] != "-p" || args[1] != out.Text || args[2] != "-D" || args[3] != "P0="+out.Parameters[0].Value || len(args) != 2+2*len(out.Parameters) {
			t.Errorf("arguments: %q", args)
		}
	}
}

func TestInvalidPolicies(t *testing.T) {
	t.Parallel()
	none := seatbelt.NetworkNone
	for name, p := range map[string]seatbelt.Policy{
		"not a clean absolute":  {Network: none, Files: []seatbelt.Rule{{Access: seatbelt.AccessRead, Path: "a"}}},
		"not a clean absolute ": {Network: none, Files: []seatbelt.Rule{{Access: seatbelt.AccessRead, Path: "/a/../b"}}},
		"NUL byte":              {Network: none, Files: []seatbelt.Rule{{Access: seatbelt.AccessRead, Path: "/a\x00"}}},
		"either a path or":      {Network: none, Files: []seatbelt.Rule{{Access: seatbelt.AccessRead}}},
		"either a path or ":     {Network: none, Files: []seatbelt.Rule{{Access: seatbelt.AccessRead, Path: "/a", Match: "/a"}}},
		"has no access":         {Network: none, Files: []seatbelt.Rule{{Path: "/a"}}},
		"no network":            {},
		"proxy port 0":          {Network: seatbelt.NetworkProxy},
		"a clean":               {Network: none, Sockets: []string{"x"}},
		"more than":             {Network: none, Files: []seatbelt.Rule{{Access: seatbelt.AccessRead, Path: "/" + strings.Repeat("x", 600<<10)}}},
	} {
		if _, err := p.Profile(); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The last rule applies, whatever the depth of its path; names stay fixed whatever comes later.
func TestLastRuleApplies(t *testing.T) {
	t.Parallel()
	j, _ := profile(t, seatbelt.Policy{Network: seatbelt.NetworkNone, Files: []seatbelt.Rule{
		{Access: seatbelt.AccessRead, Path: "/"},
		{Access: seatbelt.AccessNone, Path: "/home/keys"},
		{Access: seatbelt.AccessWrite, Path: "/home/keys/test"},
		{Access: seatbelt.AccessRead, Path: "/home/keys/test/.git"},
		{Access: seatbelt.AccessFixed, Path: "/home/keys/test/sub"},
		{Access: seatbelt.AccessWrite, Path: "/home/keys/test/sub/more"},
		{Access: seatbelt.AccessNone, Match: seatbelt.Regexp(pattern(t, "/home/keys/test/**/*.pem")), Except: []string{"/home/keys/test/x.pem/in"}},
		{Access: seatbelt.AccessKept, Path: "/home/keys/test/kept"},
	}})
	for path, want := range map[string]string{
		"/etc/passwd": "r", "/home": "r", "/home/keys": "", "/home/keys/x": "", "/home/keys/test": "rw", "/home/keys/test/x": "rw", "/home/keys/testx": "",
		"/home/keys/test/.git": "r", "/home/keys/test/.git/config": "r", "/home/keys/test/.gitx": "rw", "/home/keys/test/sub/more/x": "rw",
		"/home/keys/test/A.PEM": "", "/home/keys/test/a/b.pem": "", "/home/keys/test/a/b.pem/c": "", "/home/keys/test/x.pem/in/y": "rw", "/home/keys/test/b.pemx": "rw", "/home/keys/test/kept/x": "r",
	} {
		got := ""
		if j.Reads(path) {
			got = "r"
		}
		if j.Writes(path) {
			got += "w"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]bool{"/home/keys/test/sub": false, "/home/keys/test/sub/x": true, "/home/keys/test/kept": false, "/home/keys/test/other": true} {
		if got := j.Removes(path, true); got != want {
			t.Errorf("%s can be renamed: %v", path, got)
		}
	}
	if !j.Allows("file-read-metadata", seatbelttest.Subject{Path: "/home/keys"}) || j.Allows("file-read-metadata", seatbelttest.Subject{Path: "/home/keys/x"}) {
		t.Error("what is denied must be seen to be there, and what is in it not")
	}
}

// Nothing can be done by way of other processes or services.
func TestAlwaysDenied(t *testing.T) {
	t.Parallel()
	none, _ := profile(t, seatbelt.Policy{Network: seatbelt.NetworkNone, Files: []seatbelt.Rule{{Access: seatbelt.AccessWrite, Path: "/w"}}})
	full, _ := profile(t, seatbelt.Policy{Network: seatbelt.NetworkFull, Files: []seatbelt.Rule{{Access: seatbelt.AccessRead, Path: "/"}}})
	proxy, _ := profile(t, seatbelt.Policy{Network: seatbelt.NetworkProxy, Port: 4711, Sockets: []string{"/s"}})
	ip, other, own, docker, dns := seatbelttest.Subject{Remote: "ip 10.0.0.1:443"}, seatbelttest.Subject{Remote: "ip localhost:4712"}, seatbelttest.Subject{Remote: "ip localhost:4711"},
		seatbelttest.Subject{Remote: "unix /private/var/run/docker.sock"}, seatbelttest.Subject{Remote: "unix /private/var/run/mDNSResponder"}
	for _, tc := range []struct {
		op                string
		s                 seatbelttest.Subject
		none, proxy, full bool
	}{
		{"network-outbound", ip, false, false, true},
		{"network-outbound", other, false, false, true},
		{"network-outbound", own, false, true, true},
		{"network-outbound", docker, false, false, false},
		{"network-outbound", dns, false, false, true},
		{"network-outbound", seatbelttest.Subject{Remote: "unix /s/x"}, false, true, false},
		{"network-bind", ip, false, false, true},
		{"network-bind", seatbelttest.Subject{Remote: "unix /w/x"}, false, false, false},
		{"network-inbound", own, false, false, true},
		{"mach-lookup", seatbelttest.Subject{Name: "com.apple.SecurityServer"}, false, false, false},
		{"mach-lookup", seatbelttest.Subject{Name: "com.apple.securityd.xpc"}, false, false, false},
		{"mach-lookup", seatbelttest.Subject{Name: "com.apple.pasteboard.1"}, false, false, false},
		{"mach-lookup", seatbelttest.Subject{Name: "com.apple.coreservices.launchservicesd"}, false, false, false},
		{"mach-lookup", seatbelttest.Subject{Name: "com.apple.trustd.agent"}, false, true, true},
		{"appleevent-send", seatbelttest.Subject{}, false, false, false},
		{"lsopen", seatbelttest.Subject{}, false, false, false},
		{"job-creation", seatbelttest.Subject{}, false, false, false},
		{"forbidden-exec-sugid", seatbelttest.Subject{}, false, false, false},
		{"mach-priv-task-port", seatbelttest.Subject{Target: "others"}, false, false, false},
		{"process-info-pidinfo", seatbelttest.Subject{Target: "others"}, false, false, false},
		{"process-info-pidinfo", seatbelttest.Subject{Target: "same-sandbox"}, true, true, true},
		{"signal", seatbelttest.Subject{Target: "others"}, false, false, false},
		{"signal", seatbelttest.Subject{Target: "same-sandbox"}, true, true, true},
		{"sysctl-read", seatbelttest.Subject{Name: "kern.procargs2"}, false, false, false},
		{"sysctl-read", seatbelttest.Subject{Name: "kern.proc.pid.1"}, false, false, false},
		{"sysctl-read", seatbelttest.Subject{Name: "kern.osrelease"}, true, true, true},
		{"sysctl-write", seatbelttest.Subject{Name: "kern.hostname"}, false, false, false},
		{"system-socket", seatbelttest.Subject{Name: "AF_UNIX"}, true, true, true},
		{"system-socket", seatbelttest.Subject{Name: "AF_SYSTEM"}, false, false, false},
		{"ipc-posix-shm-write-data", seatbelttest.Subject{Name: "x"}, false, false, false},
		{"file-issue-extension", seatbelttest.Subject{Path: "/w/x"}, false, false, false},
		{"file-mount", seatbelttest.Subject{Path: "/w/x"}, false, false, false},
		{"file-write-data", seatbelttest.Subject{Path: "/dev/null"}, true, true, true},
		{"file-write-data", seatbelttest.Subject{Path: "/dev/ttys003"}, false, false, false},
		{"process-exec", seatbelttest.Subject{Path: "/bin/sh"}, true, true, true},
	} {
		for i, j := range []*seatbelttest.Judge{none, proxy, full} {
			if got, want := j.Allows(tc.op, tc.s), []bool{tc.none, tc.proxy, tc.full}[i]; got != want {
				t.Errorf("%s %+v with %s: %v", tc.op, tc.s, []string{"no network", "the proxy", "the network"}[i], got)
			}
		}
	}
}

// An open policy denies what its rules deny, and nothing else.
func TestOpen(t *testing.T) {
	t.Parallel()
	j, out := profile(t, seatbelt.Policy{Open: true, Files: []seatbelt.Rule{{Access: seatbelt.AccessNone, Path: "/keys"}, {Access: seatbelt.AccessRead, Path: "/keys/pub"}}})
	if j.Reads("/keys/x") || j.Writes("/keys/x") || !j.Reads("/keys/pub/x") || j.Writes("/keys/pub/x") || !j.Writes("/etc/x") || !j.Allows("network-outbound", seatbelttest.Subject{Remote: "ip a:1"}) {
		t.Error(out.Text)
	}
}

// Every spelling that some file system treats as a protected name is covered.
func TestNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		hits []string
		not  []string
	}{
		{".git", []string{".git", ".GIT", ".gIt", ".g\u200cit", "\u200c.git", ".git\ufeff", ".gİt"}, []string{".gitignore", ".gi", "git", "x.git", ".gitä.x", ".g.it"}},
		{".agents", []string{".agents", ".AgentS", ".agentſ"}, []string{".agent", ".agentsx", ".agents.md"}},
		{".aws", []string{".AWS", ".awſ"}, []string{".awsx"}},
	} {
		re := regexp.MustCompile("^" + seatbelt.Named("/w[", tc.name) + "(/|$)")
		for _, h := range tc.hits {
			if !re.MatchString("/w["+h) && !re.MatchString("/w[/"+h) {
				t.Errorf("%q is not %s", h, tc.name)
			}
			if !re.MatchString("/w[/" + h + "/x") {
				t.Errorf("what is in %q is not in %s", h, tc.name)
			}
		}
		for _, n := range tc.not {
			if re.MatchString("/w[/" + n) {
				t.Errorf("%q is %s", n, tc.name)
			}
		}
	}
}

func TestRegexps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern string
		hits    []string
		not     []string
	}{
		{"/w/a.b", []string{"/w/a.b", "/W/A.B", "/w/a.b/c"}, []string{"/w/axb", "/w/a.bc"}},
		{"/w/é", []string{"/w/é", "/w/e\u0301", "/w/E\u0301", "/w/É"}, []string{"/w/e"}},
		{"/w/e\u0301x", []string{"/w/éx", "/w/e\u0301X"}, nil},
		{"/w/k*s", []string{"/w/ks", "/w/KxS", "/w/\u212a\u017f"}, []string{"/w/k/s"}},
		{"/w/**/x[a-cK]y", []string{"/w/xay", "/w/q/r/xBY", "/w/xky", "/w/x\u212ay"}, []string{"/w/xdy", "/w/x/y"}},
		{"/w/x[^a-c]", []string{"/w/xd", "/w/xä", "/w/x]"}, []string{"/w/xa", "/w/xB", "/w/x/"}},
		{`/w/x[\]\^\-\\]`, []string{"/w/x]", "/w/x^", "/w/x-", `/w/x\`}, []string{"/w/xa"}},
		{"/w/x[ä-ü]", []string{"/w/xö", "/w/xÖ"}, nil},
		{"/w/a;`Ω", []string{"/w/a\u037e\u1fef\u2126"}, []string{"/w/a"}},
		{"/w/?", []string{"/w/a", "/w/日", "/w/e\u0301"}, []string{"/w/ab", "/w"}},
		{"/w/a\nb*", []string{"/w/a\nbc"}, []string{"/w/a"}},
		{"/w/**/keys/**/*.pem", []string{"/w/keys/a.pem", "/w/x/Keys/y/z/a.PEM"}, []string{"/w/a.pem", "/w/xkeys/a.pem"}},
	} {
		re := regexp.MustCompile("^" + seatbelt.Regexp(pattern(t, tc.pattern)) + "(/|$)")
		for _, h := range tc.hits {
			if !re.MatchString(h) {
				t.Errorf("%s does not fit %q: %s", tc.pattern, h, re)
			}
		}
		for _, n := range tc.not {
			if re.MatchString(n) {
				t.Errorf("%s fits %q: %s", tc.pattern, n, re)
			}
		}
	}
	if got := seatbelt.Within(pattern(t, "/w/**/*.env"), "/w/a.env/in"); len(got) == 0 {
		t.Error("nothing of a pattern goes on below a folder")
	}
	for text, folder := range map[string]string{"/w/a/b": "/w/a", "/w/a/*": "/w/a", "/w/a/b/*.env": "/w"} {
		if got := seatbelt.Within(pattern(t, text), folder); len(got) != 1 || got[0] != seatbelt.Regexp(pattern(t, text)) {
			t.Errorf("below %s, %s is %q", folder, text, got)
		}
	}
}

// names are parts of paths, chosen so that patterns and paths match often.
var names = []string{"a", "A", "b", "ab", "a.env", "A.ENV", ".env", "x", "keys", "Keys", "é", "e\u0301", "k", "\u212a", "s", "ſ", "[", "a]", "a b", "日本", "i", "İ", "^", "-", `\`, ".git"}

// An expression matches everything that its pattern matches.
func TestExpressionCoversItsPattern(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { narrower(t) })
}

func FuzzRegexp(f *testing.F) { f.Fuzz(rapid.MakeFuzz(narrower)) }

func narrower(t *rapid.T) {
	piece := rapid.OneOf(rapid.SampledFrom(names), rapid.SampledFrom([]string{"*", "**", "?", "[a-c]", "[^a]", "[kK]*", "*.env", "?*", `\*`, "[ä-ü]", `[\]]`, "[s-]", "[i]"}), rapid.StringN(1, 3, -1))
	text := "/w/" + strings.Join(rapid.SliceOfN(piece, 1, 4).Draw(t, "pattern"), "/")
	p, err := glob.Parse(text)
	if err != nil {
		t.Skip(err)
	}
	re, err := regexp.Compile("^" + seatbelt.Regexp(p) + "(/|$)")
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	path := filepath.Clean("/w/" + strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(names), rapid.StringN(1, 3, -1)), 1, 5).Draw(t, "path"), "/"))
	if p.Match(path) != "" && !re.MatchString(path) {
		t.Fatalf("%q stands for %q, %s does not", text, path, re)
	}
	for i := strings.LastIndexByte(path, '/'); i > 2; i = strings.LastIndexByte(path[:i], '/') {
		folder := path[:i]
		deepest := p.Match(path)
		hit := false
		for _, w := range seatbelt.Within(p, folder) {
			hit = hit || regexp.MustCompile("^"+w+"(/|$)").MatchString(path)
		}
		if len(deepest) > len(folder) && !hit {
			t.Fatalf("below %q %q stands for %q, which nothing says", folder, text, path)
		}
	}
}

// Whatever paths are called, the profile can be parsed, has the same rules, and contains no path.
func FuzzPaths(f *testing.F) {
	for _, p := range hostile {
		f.Add(p, "x")
	}
	f.Fuzz(func(t *testing.T, dir, file string) {
		path := "/" + strings.Trim(strings.ReplaceAll(dir, "/", ""), ".")
		if path == "/" { // it has no folders above it
			return
		}
		policy := func(p, file string) seatbelt.Policy {
			return seatbelt.Policy{Network: seatbelt.NetworkFull, Files: []seatbelt.Rule{
				{Access: seatbelt.AccessWrite, Path: p}, {Access: seatbelt.AccessNone, Match: seatbelt.Literal(p + "/" + file), Except: []string{p}},
				{Access: seatbelt.AccessFixed, Match: seatbelt.Named(p, ".git")},
			}}
		}
		out, err := policy(path, file).Profile()
		if err != nil {
			return
		}
		if _, err := seatbelttest.Parse(out.Text); err != nil {
			t.Fatal(err)
		}
		plain, err := policy("/plain", "file").Profile()
		if err != nil || out.Text != plain.Text {
			t.Fatalf("%q, %q change the rules (%v):\n%s", path, file, err, out.Text)
		}
		for _, x := range out.Parameters {
			if strings.HasPrefix(x.Value, "^") {
				if _, err := regexp.Compile(strings.ToValidUTF8(x.Value, "")); err != nil {
					t.Fatalf("%q: %v", x.Value, err)
				}
			}
		}
	})
}

func ExamplePolicy_Profile() {
	p, err := seatbelt.Policy{Open: true, Files: []seatbelt.Rule{{Access: seatbelt.AccessNone, Path: "/Users/a/(keys)"}}}.Profile()
	fmt.Println(err)
	fmt.Print(p.Text)
	fmt.Println(p.Parameters)
	// Output:
	// <nil>
	// (version 1)
	// (allow default)
	// (deny file-read* file-map-executable file-write* file-clone file-link (subpath (param "P0")))
	// (deny network-outbound (remote unix-socket (subpath (param "P0"))))
	// (allow file-read-metadata (literal (param "P0")))
	// [{P0 /Users/a/(keys)}]
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"(", ")", "(a", `("a`, "()", `(a "b\n")`, "(a))"} {
		if _, err := seatbelttest.Parse(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	j := seatbelttest.New(t, seatbelt.Profile{Text: `(version 1)(deny default)(allow file-read* (subpath (param "A")))(deny file-read* (literal "/a/b"))` +
		`(allow file-read-metadata (literal "/a/b"))(allow file-write*)(deny file-write-unlink (require-all (vnode-type DIRECTORY) (regex "^/x(/|$)")))`,
		Parameters: []seatbelt.Parameter{{Name: "A", Value: "/a"}}})
	for _, tc := range []struct {
		op   string
		s    seatbelttest.Subject
		want bool
	}{
		{"file-read-data", seatbelttest.Subject{Path: "/a/c"}, true},
		{"file-read-data", seatbelttest.Subject{Path: "/a/b"}, false},
		{"file-read-metadata", seatbelttest.Subject{Path: "/a/b"}, true},
		{"file-read-data", seatbelttest.Subject{Path: "/b"}, false},
		{"file-write-unlink", seatbelttest.Subject{Path: "/x/y", Folder: true}, false},
		{"file-write-unlink", seatbelttest.Subject{Path: "/x/y"}, true},
		{"mach-lookup", seatbelttest.Subject{Name: "x"}, false},
	} {
		if got := j.Allows(tc.op, tc.s); got != tc.want {
			t.Errorf("%s %+v: %v", tc.op, tc.s, got)
		}
	}
}
