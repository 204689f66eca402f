package gitconfig_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/box/gitconfig"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string // name=value
		bad  bool
	}{
		"plain":                   {"[core]\n\teditor = vi -f\n", []string{"core.editor=vi -f"}, false},
		"case":                    {"[CORE]\n\tHooksPath = X\n", []string{"core.hookspath=X"}, false},
		"a subsection":            {"[filter \"A b\"]\nclean=x\n", []string{"filter.A b.clean=x"}, false},
		"the old spelling":        {"[filter.Lfs]\nclean=x\n", []string{"filter.lfs.clean=x"}, false},
		"both":                    {"[a.B \"C\"]\nx=1\n", []string{"a.b.C.x=1"}, false},
		"an empty subsection":     {"[a \"\"]\nx=1\n", []string{"a..x=1"}, false},
		"on one line":             {"[core] fsmonitor=evil", []string{"core.fsmonitor=evil"}, false},
		"escapes":                 {`[a]` + "\nx = \"a\\\"b\\\\c\\td\" # not\n", []string{"a.x=a\"b\\c\td"}, false},
		"a line that goes on":     {"[a]\nx = one\\\n  two\n", []string{"a.x=one  two"}, false},
		"it goes on to the end":   {"[a]\nx = one\\", []string{"a.x=one"}, false},
		"blanks before the break": {"[a]\nx = one \\\n\n", []string{"a.x=one "}, false},
		"a comment":               {"[a]\nx = one ; two\ny = \"one ; two\"\n", []string{"a.x=one", "a.y=one ; two"}, false},
		"no value":                {"[a]\nx\ny=\n", []string{"a.x", "a.y="}, false},
		"line breaks of Windows":  {"[a]\r\nx = 1\r\n", []string{"a.x=1"}, false},
		"a mark at the beginning": {"\xef\xbb\xbf[a]\nx=1", []string{"a.x=1"}, false},
		"before any section":      {"x = 1\n[core]\nfsmonitor=evil\n", []string{"x=1", "core.fsmonitor=evil"}, false},
		"an error behind":         {"[a]\nx=1\n[b\ny=2\n", []string{"a.x=1"}, true},
		"a quote that is open":    {"[a]\nx=\"1\n", nil, true},
		"an escape that is none":  {"[a]\nx=\\q\n", nil, true},
		"nothing":                 {"", nil, false},
	} {
		list, err := gitconfig.Parse([]byte(tc.text))
		if got := shown(list); !reflect.DeepEqual(got, tc.want) || (err != nil) != tc.bad {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}

func shown(list []gitconfig.Setting) (out []string) {
	for _, s := range list {
		if s.Bare {
			out = append(out, s.Name())
		} else {
			out = append(out, s.Name()+"="+s.Value)
		}
	}
	return out
}

// git is what git reads of a file. ok: it has no complaint.
func git(t testing.TB, file string, more ...string) (list []string, ok bool) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"config", "--file", file, "--list", "-z"}, more...)...)
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(file))
	out, err := cmd.Output()
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if name, value, has := strings.Cut(string(entry), "\n"); has {
			list = append(list, name+"="+value)
		} else if name != "" {
			list = append(list, name)
		}
	}
	return list, err == nil
}

// blank makes white space alike: git before 2.45 makes a blank of each in a value.
func blank(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = strings.NewReplacer("\t", " ", "\r", " ").Replace(out[i])
	}
	return out
}

func FuzzParse(f *testing.F) {
	if _, err := exec.LookPath("git"); err != nil {
		f.Skip("git is missing")
	}
	for _, s := range []string{
		"[core]\n\tbare = false\n", "[a \"b\\\"c\"]\nx = \"y\\n\" z # c\n", "[a]\nx=1\\\n2\n", "[a.B]\nx\n", "x=1\n[a]y=2;z", "[a]\r\nx = 1 \r\n", "\xef\xbb\xbf[a]x=1",
		"[a \"\"]\nx=1\n[include]\npath=~/x", "[a]\nx = \"a  \" b  \n", "[]\nx=1\n",
	} {
		f.Add(s)
	}
	file := filepath.Join(f.TempDir(), "config")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := gitconfig.Parse([]byte(s))
		if strings.ContainsRune(s, 0) { // which ends names and values in git's output
			return
		}
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		want, ok := git(t, file, "--no-includes")
		if !ok {
			return // git says nothing of a file that it refuses
		}
		if err != nil || !slices.Equal(blank(shown(list)), blank(want)) {
			t.Fatalf("%q: %q (%v), and git says %q", s, shown(list), err, want)
		}
	})
}

// Generated files, with includes, are read as git reads them.
func TestMatchesGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is missing")
	}
	r := rand.New(rand.NewPCG(1, 2))
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	value := func() string {
		return one("x", "a b", `"a b"`, `"a;b" c`, "./tools/x.sh", `!sh -c \"x\"`, "a\\\n  b", "", "\t x \t", `"a\\b"`, "é", "a # c", "a;c", `""`) + one("", "", " ", " "+one("x", `"y"`))
	}
	for n := range 150 {
		dir := t.TempDir()
		for i := range 4 {
			var b strings.Builder
			for range 1 + r.IntN(6) {
				b.WriteString(one("[core]", "[CORE]", "[filter \"X y\"]", "[filter.lfs]", "[alias]", "[a \"q\\\"\\\\\"]", "# c") + one("\n", "\r\n", "\n\n"))
				if i == 0 && n%2 == 0 {
					fmt.Fprintf(&b, "[include]\n\tpath = %s\n[core]\n", one("f1", "./f2", "~/f3", `"f1"`, "none"))
				}
				if b.Len() > 3 && strings.Contains(b.String(), "[") {
					fmt.Fprintf(&b, "%s%s%s%s", one("\t", " ", ""), one("editor", "hooksPath", "X-1"), one(" = "+value(), "="+value(), ""), one("\n", "\r\n"))
				}
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		top := filepath.Join(dir, "f0")
		want, ok := git(t, top, "--includes")
		if !ok {
			continue
		}
		got := shown(gitconfig.ReadFile(top, dir).List)
		// A file that is included twice is read once here: what it names is the same.
		slices.Sort(want)
		slices.Sort(got)
		if got, want := slices.Compact(blank(got)), slices.Compact(blank(want)); !slices.Equal(got, want) {
			text, _ := os.ReadFile(top)
			t.Fatalf("%s\nis %q\ngit says %q", text, got, want)
		}
	}
}

// What is read is bounded, and nothing makes it wait.
func TestLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("circle", "[include]\npath = circle\n[a]\nx = 1\n")
	if s := gitconfig.ReadFile(filepath.Join(dir, "circle"), dir); len(s.List) != 2 || s.Cut {
		t.Errorf("%+v", s)
	}
	for i := range 30 {
		write(fmt.Sprintf("deep%d", i), fmt.Sprintf("[include]\npath = deep%d\n", i+1))
	}
	if s := gitconfig.ReadFile(filepath.Join(dir, "deep0"), dir); !s.Cut || len(s.Files) != 11 {
		t.Errorf("%+v", s)
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "[include]\npath = none%d\n", i)
	}
	write("many", many.String())
	if s := gitconfig.ReadFile(filepath.Join(dir, "many"), dir); !s.Cut || len(s.Files) != 200 {
		t.Errorf("%d files, cut %v", len(s.Files), s.Cut)
	}
	write("devices", "[include]\npath = /dev/zero\n[include]\npath = /dev\n[a]\nx=1\n")
	if s := gitconfig.ReadFile(filepath.Join(dir, "devices"), dir); len(s.List) != 3 {
		t.Errorf("%+v", s)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{ // those that run have a star
		"./tools/x.sh %f":       "./tools/x.sh* %f",
		"less -F":               "less",
		"sh tools/smudge":       "sh tools/smudge*",
		"python3 -u hooks/x.py": "python3 hooks/x.py*",
		"$PWD/tools/diff":       "/tools/diff*",
		"${X:-./tools/x} a":     "X ./tools/x /tools/x a",
		"$(git rev-parse --show-toplevel)/tools/m %": "git rev-parse /tools/m* %",
		"!cd tools && ./cred":                        "cd tools ./cred*",
		"!f() { . tools/other; }; f":                 "f . tools/other* f",
		"ext::./tools/ext %S":                        "ext ./tools/ext* %S",
		"A=b ./tools/editor -w":                      "b ./tools/editor*",
		"x --config=./conf/c -I./inc":                "x ./conf/c I./inc ./inc",
		"":                                           "",
	} {
		var got []string
		for _, w := range gitconfig.Words(line) {
			switch {
			case w.Text == line && strings.ContainsAny(line, " :,"):
			case w.Runs:
				got = append(got, w.Text+"*")
			default:
				got = append(got, w.Text)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q: %q, want %q", line, text, want)
		}
	}
	if n := len(gitconfig.Words(strings.Repeat("a ", 1<<20))); n > 1010 {
		t.Errorf("%d words", n)
	}
}
