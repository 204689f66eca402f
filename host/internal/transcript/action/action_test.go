package action_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/transcript/action"
)

// brief returns actions in a short form: "read NAME PATH", "list PATH", "search QUERY PATH" or "unknown".
func brief(actions []protocol.CommandAction) string {
	value := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	var out []string
	for _, a := range actions {
		switch a := a.Body.(type) {
		case protocol.ReadAction:
			out = append(out, fmt.Sprintf("read %s %s", a.Name, a.Path))
		case protocol.ListFilesAction:
			out = append(out, "list "+value(a.Path))
		case protocol.SearchAction:
			out = append(out, fmt.Sprintf("search %s %s", value(a.Query), value(a.Path)))
		case protocol.UnknownAction:
			out = append(out, "unknown")
		default:
			out = append(out, fmt.Sprintf("%T", a))
		}
	}
	return strings.Join(out, "; ")
}

func TestOf(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"cat a.txt", "read a.txt /w/a.txt"},
		{"cat -n /etc/hosts", "read hosts /etc/hosts"},
		{"cat a b/c", "read a /w/a; read c /w/b/c"},
		{"cat -- -odd", "read -odd /w/-odd"},
		{"sed -n '1,200p' src/main.go", "read main.go /w/src/main.go"},
		{"sed -nE 5p x", "read x /w/x"},
		{"sed -n -e '10,$p' x", "read x /w/x"},
		{"head -n 5 x", "read x /w/x"},
		{"head -20 x", "read x /w/x"},
		{"tail -n +3 x", "read x /w/x"},
		{"nl -ba x | sed -n '1,5p'", "read x /w/x"},
		{"cd pkg && cat x", "read x /w/pkg/x"},
		{"cd /a; cd b; cat ../x", "read x /a/x"},
		{"bash -lc 'cat x'", "read x /w/x"},
		{"/bin/cat x", "read x /w/x"},

		{"ls", "list -"},
		{"ls -la src", "list src"},
		{"cd src && ls", "list src"},
		{"ls a b", "list a; list b"},
		{"ls *.go", "list *.go"},
		{"find . -name '*.go' | head -n 3", "list ."},
		{"rg --files", "list -"},
		{"rg --files src | sort | uniq -c", "list src"},
		{"tree -L 2 src", "list src"},
		{"git ls-files", "list -"},
		{"fd", "list -"},

		{"rg foo", "search foo -"},
		{"rg -n 'a b' src", "search a b src"},
		{"rg -g '*.go' -C3 foo src lib", "search foo src lib"},
		{"rg -e foo src", "search foo src"},
		{"grep -rn --include='*.go' foo .", "search foo ."},
		{"grep -rnA2 foo src | wc -l", "search foo src"},
		{"git grep -n foo -- src", "search foo src"},
		{"git --no-pager grep foo", "search foo -"},
		{"fd main src", "search main src"},
		{"echo one && rg foo", "search foo -"},

		{"", "unknown"},
		{"go test ./...", "unknown"},
		{"cat x && go test ./...", "unknown"},
		{"cat x > y", "unknown"},
		{"cat $x", "unknown"},
		{"cat *.go", "unknown"},
		{"cat", "unknown"},
		{"cat x | xargs rm", "unknown"},
		{"cd src", "unknown"},
		{"cd - && ls", "unknown"},
		{"echo hi", "unknown"},
		{"sed -i s/a/b/ x", "unknown"},
		{"sed -ni 1p x", "unknown"},
		{"sed s/a/b/ x", "unknown"},
		{"sed -n '1!G;h;$p' x", "unknown"},
		{"find . -delete", "unknown"},
		{"find . -exec rm {} +", "unknown"},
		{"fd -x rm", "unknown"},
		{"rg --pre=./evil foo", "unknown"},
		{"rg -f patterns", "unknown"},
		{"sort -o x", "unknown"},
		{"git status", "unknown"},
		{"git grep -O foo", "unknown"},
		{"git", "unknown"},
		{"head -n", "unknown"},
		{"ls &", "unknown"},
		{"ls 'unclosed", "unknown"},
	} {
		if got := brief(action.Of(c.line, "/w")); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
}

func TestOfKeepsTheCommand(t *testing.T) {
	for line, want := range map[string]string{
		`cd x && cat "a b"`: `{"type":"read","command":"cat 'a b'","name":"a b","path":"/w/x/a b"}`,
		`make; ls`:          `{"type":"unknown","command":"make; ls"}`,
		`rg x`:              `{"type":"search","command":"rg x","query":"x","path":null}`,
	} {
		got, err := json.Marshal(action.Of(line, "/w"))
		if err != nil || string(got) != "["+want+"]" {
			t.Errorf("%s: %s, %v", line, got, err)
		}
	}
	if long := "ls " + strings.Repeat("a", 1<<15); brief(action.Of(long, "/w")) != "unknown" {
		t.Error("a very long line was parsed")
	}
}

// FuzzOf checks that every line has actions, that an unknown one is alone and has the whole line, and that all can be encoded.
func FuzzOf(f *testing.F) {
	for _, line := range []string{"cat x", "cd a && rg -n -e 'x y' b | head -5", "sed -n 1,5p x", "find . -name x", "git grep -e", "ls -", "rg --", "tail -c", "bash -c ls", "nl -- -- a"} {
		f.Add(line, "/w")
	}
	f.Fuzz(func(t *testing.T, line, cwd string) {
		actions := action.Of(line, cwd)
		if len(actions) == 0 {
			t.Fatal("no actions")
		}
		for _, a := range actions {
			if u, ok := a.Body.(protocol.UnknownAction); ok && (len(actions) > 1 || u.Command != line) {
				t.Fatalf("unknown action %+v among %d", u, len(actions))
			}
		}
		if b, err := json.Marshal(actions); err != nil || !utf8.Valid(b) {
			t.Fatalf("%s, %v", b, err)
		}
	})
}
