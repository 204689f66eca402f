package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func TestTypedLine(t *testing.T) {
	for _, tc := range []struct {
		name      string
		pieces    []string
		line, all string
	}{
		{"nothing", nil, "", ""},
		{"a line", []string{"ls\n"}, "", ""},
		{"a piece of one", []string{"l", "s -", "l"}, "ls -l", "ls -l"},
		{"entered later", []string{"ls", "\r"}, "", ""},
		{"the beginning of the next", []string{"ls\necho "}, "echo ", "echo "},
		{"corrected", []string{"rm -x", "\x7ff"}, "rm -f", "rm -f"},
		{"no further than the line", []string{"a\n\b\b", "b"}, "b", "b"},
		{"given up", []string{"rm -f", "\x15ls"}, "ls", "ls"},
		{"interrupted", []string{"rm -f", "\x03"}, "", ""},
		{"a word less", []string{"rm -f x", "\x17y"}, "rm -f y", "rm -f y"},
		{"quotes", []string{"echo 'a\n", "b"}, "b", "echo 'a\nb"},
		{"quotes that are closed", []string{"echo 'a\n", "b'\n"}, "", ""},
		{"a backslash", []string{"rm \\\n", "-f x"}, "-f x", "rm \\\n-f x"},
		{"a loop", []string{"for i in 1; do\n", "rm -f $i\n"}, "", "for i in 1; do\nrm -f $i\n"},
		{"many bytes", []string{strings.Repeat("é", maxTyped)}, strings.Repeat("é", maxTyped/2), strings.Repeat("é", maxTyped/2)},
	} {
		var got Typed
		for _, p := range tc.pieces {
			got = got.After(p)
		}
		if got.Line != tc.line || got.All != tc.all {
			t.Errorf("%s: %.100q, want %.100q and %.100q", tc.name, got, tc.line, tc.all)
		}
	}
}

// A command that is typed in pieces is decided on as a whole.
func TestTypingInPieces(t *testing.T) {
	set, err := rules.Load([]rules.Source{{Path: "r.rules", Text: `prefix_rule(pattern=["factor", "13"], decision="forbidden")`}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		rules  *rules.Set
		pieces []string
		want   []Verdict
	}{
		{"whole", nil, []string{"rm -f x\n"}, []Verdict{Ask}},
		{"in pieces", nil, []string{"rm ", "-f", " x", "\n"}, []Verdict{Run, Ask, Ask, Ask}},
		{"corrected", nil, []string{"rm -x", "\x7ff x\n"}, []Verdict{Run, Ask}},
		{"given up", nil, []string{"rm ", "\x15", "-f x\n"}, []Verdict{Run, Run, Run}},
		{"behind a backslash", nil, []string{"rm \\\n", "-f x\n"}, []Verdict{Run, Ask}},
		{"in quotes", nil, []string{"echo 'rm \n", "-f x'\n"}, []Verdict{Run, Run}},
		{"a quote in no shell", nil, []string{"it's\n", "rm -f x\n"}, []Verdict{Run, Ask}},
		{"what comes later", nil, []string{"ls\n", "-f x\n"}, []Verdict{Run, Run}},
		{"a rule", set, []string{"fac", "tor 1", "3\n"}, []Verdict{Run, Run, Forbid}},
		{"a rule and quotes", set, []string{"fac''", "tor 13", "\n"}, []Verdict{Run, Forbid, Forbid}},
		{"completed", set, []string{"fact\t 13\n"}, []Verdict{Ask}},
		{"indented", set, []string{"\tls\n"}, []Verdict{Run}},
		{"recalled", set, []string{"\x1b[A\n"}, []Verdict{Ask}},
		{"recalled without rules", nil, []string{"\x1b[A\n"}, []Verdict{Run}},
	} {
		var typed Typed
		var got []Verdict
		for _, p := range tc.pieces {
			d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Rules: tc.rules, Typed: typed, Effects: []contract.Effect{contract.SessionInputEffect{SessionID: "1", Text: p}}})
			got = append(got, d.Verdict)
			typed = typed.After(p)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// The decision on the last piece of any input is at least as strict as the decision on the whole.
func FuzzTyping(f *testing.F) {
	f.Add("rm -f x\n", 3)
	f.Add("echo 'a\nb'; rm --force y\r", 9)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at < 0 || at > len(text) || strings.ContainsAny(text, "\x00\x03\x08\x15\x17\x1b\x7f") || strings.ContainsAny(text[:at], "\r\n") {
			t.Skip()
		}
		judge := func(before Typed, text string) Verdict {
			return Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Typed: before, Effects: []contract.Effect{contract.SessionInputEffect{Text: text}}}).Verdict
		}
		if whole, last := judge(Typed{}, text), judge(Typed{}.After(text[:at]), text[at:]); last < whole && strings.ToValidUTF8(text, "") == text {
			t.Errorf("%q | %q: %s, as a whole %s", text[:at], text[at:], last, whole)
		}
	})
}

// Input in another language than a shell's is not examined for commands. It is asked about under untrusted, and outside of the sandbox.
func TestInputInAnotherLanguage(t *testing.T) {
	set, err := rules.Load([]rules.Source{{Path: "r.rules", Text: `prefix_rule(pattern=["git", "push"], decision="forbidden")`}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"x = 1\nprint(x)", "df.groupby('a').sum()", "for i in range(3):\n    print(i)", "def f(x):\n\treturn x\n", "rm -rf /", "git push", "a \x1b[A",
	} {
		for _, tc := range []struct {
			name     string
			approval Approval
			sandbox  string
			outside  bool
			granular bool
			want     Verdict
		}{
			{"in the sandbox", OnRequest, "workspace-write", false, false, Run},
			{"in the sandbox, without questions", Never, "read-only", false, false, Run},
			{"in the sandbox, of the untrusted", Untrusted, "workspace-write", false, false, Ask},
			{"without a sandbox", OnRequest, FullAccess, true, false, Run},
			{"without a sandbox, of the untrusted", Untrusted, FullAccess, true, false, Ask},
			{"outside", OnRequest, "workspace-write", true, false, Ask},
			{"outside, without questions", Never, "workspace-write", true, false, Forbid},
			{"outside, with such questions off", Granular, "workspace-write", true, false, Forbid},
			{"outside, with such questions on", Granular, "workspace-write", true, true, Ask},
		} {
			d := Decide(Request{
				Approval: tc.approval, Questions: Questions{Sandbox: tc.granular}, Sandbox: tc.sandbox, Outside: tc.outside, Rules: set,
				Typed:   Typed{Line: "git ", All: "git "},
				Effects: []contract.Effect{contract.SessionInputEffect{SessionID: "1", Text: text, Language: "python"}},
			})
			if d.Verdict != tc.want {
				t.Errorf("%q %s: %s (%s), want %s", text, tc.name, d.Verdict, d.Reason, tc.want)
			}
		}
	}
}
