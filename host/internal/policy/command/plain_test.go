package command

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

func TestPlain(t *testing.T) {
	for _, tc := range []struct {
		script string
		want   [][]string // nil: not plain
	}{
		{"ls -1", [][]string{{"ls", "-1"}}},
		{"ls && pwd; echo 'hi there' | wc -l", [][]string{{"ls"}, {"pwd"}, {"echo", "hi there"}, {"wc", "-l"}}},
		{`echo "/usr"'/'"local"/bin`, [][]string{{"echo", "/usr/local/bin"}}},
		{`rg -n "foo" -g"*.py"`, [][]string{{"rg", "-n", "foo", "-g*.py"}}},
		{"git commit -m \"l1\nl2\"", [][]string{{"git", "commit", "-m", "l1\nl2"}}},
		{"echo 123 456", [][]string{{"echo", "123", "456"}}},
		{"ls || true\npwd", [][]string{{"ls"}, {"true"}, {"pwd"}}},
		{`rg \--pre x f`, [][]string{{"rg", "--pre", "x", "f"}}},
		{"ls *.go", [][]string{{"ls", "*.go"}}},
		{`echo "$HOME"`, nil},
		{`echo "hi ${USER}"`, nil},
		{"echo `pwd`", nil},
		{"echo $(pwd)", nil},
		{`rg -g"$V" p`, nil},
		{"(ls)", nil},
		{"ls > o", nil},
		{"ls 2>&1", nil},
		{"a & b", nil},
		{"ls &", nil},
		{"FOO=bar ls", nil},
		{"FOO=bar", nil},
		{"ls &&", nil},
		{"&& ls", nil},
		{"ls ;; pwd", nil},
		{"ls | | wc", nil},
		{"ls;", nil},
		{"ls |& wc", nil},
		{"! ls", nil},
		{"time ls", nil},
		{"ls # why", nil},
		{"# why\nls", nil},
		{"ls\n# why", nil},
		{"'ls' -l", nil},
		{`"git" status`, nil},
		{`l\s`, nil},
		{"{ ls; }", nil},
		{"if true; then ls; fi", nil},
		{"f() { ls; }", nil},
		{"echo $'a'", nil},
		{`echo $"a"`, nil},
		{"~/ls", nil},
		{"echo $((1+2))", nil},
		{"cat <(ls)", nil},
		{"export A=b", nil},
		{"[[ -f a ]]", nil},
		{"", nil},
		{"# only", nil},
		{"ls \x00", nil},
		{strings.Repeat("ls\n", shellsyntax.MaxBytes/3+1), nil},
	} {
		got, ok := Plain(tc.script)
		var argvs [][]string
		for _, c := range got {
			argvs = append(argvs, c.Argv())
		}
		if ok != (tc.want != nil) || ok && !reflect.DeepEqual(argvs, tc.want) {
			t.Errorf("Plain(%.40q) = %q, %v, want %q", tc.script, argvs, ok, tc.want)
		}
	}
}

// Words that the shell expands are not fixed.
func TestPlainWords(t *testing.T) {
	got, ok := Plain(`cat a *.go ~/b {c,d} '*' \*`)
	want := Command{{"cat", true}, {"a", true}, {"*.go", false}, {"~/b", false}, {"c", true}, {"d", true}, {"*", true}, {"*", true}}
	if !ok || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("got %v, %v", got, ok)
	}
}

func TestLower(t *testing.T) {
	for _, tc := range []struct {
		argv  []string
		want  [][]string
		plain bool
		shell string
	}{
		{[]string{"git", "status"}, [][]string{{"git", "status"}}, true, ""},
		{[]string{"bash", "-lc", "ls; pwd"}, [][]string{{"ls"}, {"pwd"}}, true, "bash"},
		{[]string{"/bin/zsh", "-c", "ls"}, [][]string{{"ls"}}, true, "/bin/zsh"},
		{[]string{"sh", "-c", "cat <<E\nx\nE"}, [][]string{{"sh", "-c", "cat <<E\nx\nE"}}, false, "sh"},
		{[]string{"bash", "-c", "(ls)"}, [][]string{{"bash", "-c", "(ls)"}}, false, "bash"},
		{[]string{"bash", "-lc", "git", "status"}, [][]string{{"bash", "-lc", "git", "status"}}, true, ""},
		{[]string{"bash", "-c", "-x"}, [][]string{{"bash", "-c", "-x"}}, true, ""},
		{[]string{"fish", "-c", "ls"}, [][]string{{"fish", "-c", "ls"}}, true, ""},
	} {
		got := Lower(tc.argv)
		var argvs [][]string
		for _, c := range got.Commands {
			argvs = append(argvs, c.Argv())
		}
		if !reflect.DeepEqual(argvs, tc.want) || got.Plain != tc.plain || got.Shell != tc.shell {
			t.Errorf("Lower(%q) = %q, %+v", tc.argv, argvs, got)
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ a, b []string }{
		{[]string{"bash", "-lc", "git  status"}, []string{"git", "status"}},
		{[]string{"/bin/bash", "-c", `git "status"`}, []string{"/usr/bin/zsh", "-lc", "git status"}},
	} {
		if a, b := Canonical(tc.a), Canonical(tc.b); !reflect.DeepEqual(a, b) {
			t.Errorf("%q is %q, %q is %q", tc.a, a, tc.b, b)
		}
	}
	for _, tc := range []struct{ a, b []string }{
		{[]string{"bash", "-c", "ls > a"}, []string{"bash", "-lc", "ls > a"}},
		{[]string{"bash", "-c", "ls; pwd"}, []string{"bash", "-c", "ls;pwd"}},
		{[]string{"bash", "-c", "ls"}, []string{"./bash", "-c", "ls"}},
		{[]string{"bash", "-c", "ls *"}, []string{"ls", "*"}},
		{[]string{"bash", "-c", "ls"}, []string{"ls", ""}},
	} {
		if a, b := Canonical(tc.a), Canonical(tc.b); reflect.DeepEqual(a, b) {
			t.Errorf("%q and %q are both %q", tc.a, tc.b, a)
		}
	}
}

func TestSplitAndJoin(t *testing.T) {
	for _, argv := range [][]string{{"a", "b c", "", "it's", "$x", "*", "ä\n"}, {"x"}} {
		got, ok := Split(Join(argv))
		if !ok || !reflect.DeepEqual(got, argv) {
			t.Errorf("Split(Join(%q)) = %q, %v", argv, got, ok)
		}
	}
	for _, text := range []string{"a $b", "a; b", "a 'b", "a > b"} {
		if got, ok := Split(text); ok {
			t.Errorf("Split(%q) = %q", text, got)
		}
	}
}
