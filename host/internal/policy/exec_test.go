package policy

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

func ruled(t testing.TB, text string) *rules.Set {
	t.Helper()
	s, err := rules.Load([]rules.Source{{Path: "my.rules", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func script(text string) []contract.Effect {
	return []contract.Effect{contract.ExecEffect{Argv: []string{"bash", "-lc", text}, Cwd: "/ws"}}
}

// installed trusts programs without a folder, or in one of the system's.
func installed(program, _ string) bool {
	return !strings.Contains(program, "/") || strings.HasPrefix(program, "/usr/bin/")
}

// Rows X1 to X11 of the attack list: however a forbidden command is written, wrapped or hidden, it does not run without an approval.
// Codex 0.169 ran those that are marked.
func TestForbiddenInEveryForm(t *testing.T) {
	set := ruled(t, `prefix_rule(pattern=["factor", "13"], decision="forbidden", justification="no primes")`)
	for _, tc := range []struct {
		row, script string
		asks        bool // what is started only shows when it runs
		ran         bool // by codex
	}{
		{"X1", "factor  13", false, false}, {"X1", "factor\t13", false, false}, {"X1", "factor \\\n13", false, false}, {"X1", "factor '13'", false, false}, {"X1", `factor 1"3"`, false, false},
		{"X2", "true && factor 13", false, false}, {"X2", "true; factor 13", false, false}, {"X2", "factor 13 | cat", false, false},
		{"X3", "/usr/bin/factor 13", false, false}, {"X3", "./../../usr/bin/factor 13", false, false},
		{"X4", `"factor" 13`, false, true}, {"X4", `fact\or 13`, false, true}, {"X4", `factor \13`, false, true},
		{"X5", "X=1 factor 13", false, true}, {"X5", "env factor 13", false, true}, {"X5", "command factor 13", false, true}, {"X5", "exec factor 13", false, true},
		{"X5", "nohup factor 13", false, true}, {"X5", "timeout 5 factor 13", false, true}, {"X5", "time factor 13", false, true}, {"X5", "! factor 13", false, true},
		{"X6", "factor 13 > f", false, true}, {"X6", "factor 13 2>&1", false, true}, {"X6", "factor 13 <<E\nx\nE", false, true},
		{"X7", "factor 13 # c", false, true}, {"X7", "# c\nfactor 13", false, true},
		{"X8", "(factor 13)", false, true}, {"X8", "{ factor 13; }", false, true}, {"X8", "if true; then factor 13; fi", false, true},
		{"X8", "for i in 1; do factor 13; done", false, true}, {"X8", "f() { factor 13; }; f", false, true}, {"X8", "true & factor 13", false, true},
		{"X9", "echo $(factor 13)", false, true}, {"X9", "echo `factor 13`", false, true}, {"X9", "factor $((10+3))", true, true}, {"X9", "factor {13,}", false, true},
		{"X9", "x=factor; $x 13", true, true}, {"X9", "x=13; factor $x", true, true},
		{"X10", "eval factor 13", false, true}, {"X10", "bash -c 'factor 13'", false, true}, {"X10", "sh -c 'factor 13'", false, true},
		{"X10", "echo 13 | xargs factor", true, true}, {"X10", "find . -exec factor 13 \\;", false, false}, {"X10", "sh <<E\nfactor 13\nE", false, false},
	} {
		for _, policy := range []Approval{Never, OnRequest, Untrusted, Granular} {
			for _, mode := range []string{"read-only", "full-access"} {
				d := Decide(Request{Approval: policy, Questions: Questions{Rules: true}, Sandbox: mode, Effects: script(tc.script), Rules: set})
				want := Forbid
				if tc.asks && policy != Never {
					want = Ask
				}
				if d.Verdict != want || !tc.asks && !strings.HasSuffix(d.Reason, "rejected: no primes") || len(d.Offer) > 0 || d.Wider != nil {
					t.Errorf("%s %q, %s: %+v, want %v", tc.row, tc.script, policy, d, want)
				}
			}
		}
	}
	// X11: a rule is for the words in their order.
	if d := Decide(Request{Approval: Never, Sandbox: "read-only", Effects: script("factor -- 13"), Rules: set}); d.Verdict != Run {
		t.Errorf("X11: %+v", d)
	}
}

// Rows X12 to X14: a command that a rule allows runs outside of the sandbox only if it does nothing else.
func TestAllowedAndNothingElse(t *testing.T) {
	set := ruled(t, `
prefix_rule(pattern=["git", "pull"])
prefix_rule(pattern=["make"])
prefix_rule(pattern=["touch", "/out/q"])
prefix_rule(pattern=["tool"])
host_executable(name="tool", paths=["/opt/tool"])
prefix_rule(pattern=["rm", "-f", "cache"])
prefix_rule(pattern=["find"])
prefix_rule(pattern=["sed", "-n", "1p"])
`)
	for _, tc := range []struct {
		script string
		free   bool // of the sandbox
		asked  bool
	}{
		{"git pull", true, false}, {"git pull --rebase && make -j2", true, false}, {"git pull | make", true, false}, {"tool *", true, false}, {"make *", false, false},
		{"/usr/bin/git pull", true, false}, {"rm -f cache", true, false},
		{"git pull > /out/x", false, false}, {"git pull; touch /out/x", false, false}, {"git pull $(touch /out/x)", false, false}, {"touch /out/q && touch /out/q2", false, false},
		{"PATH=. git pull", false, false}, {"./git pull", false, false}, {"/ws/bin/git pull", false, false}, {"git $x", false, false}, {"git pu*", false, false},
		{"git pull # c", false, false}, {"git pull &", false, false}, {"make <<E\nx\nE", false, false}, {"(make)", false, false}, {"env make", false, false},
		{"find . -name x", true, false}, {"find . -name x -exec touch /out/x ;", false, false}, {"git pull --upload-pack='touch /out/x;'", false, false},
		{"git pull --upload-p=x", false, false}, {"git pull ext::x", false, false}, {"git pull *", false, false}, {"sed -n 1p f", true, false}, {"sed -n 1p f -e '1e id'", false, false},
		{"tool", true, false}, {"/opt/tool", false, false}, {"./tool", false, false}, {"rm -f cache > log", false, true}, {"rm -f cache; rm -f b", false, true}, {"cd x; make", false, false},
	} {
		d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: script(tc.script), Rules: set, Trusted: installed})
		if (d.Verdict == Ask) != tc.asked || d.Verdict == Forbid || (d.Wider != nil && d.Wider.Unsandboxed) != tc.free {
			t.Errorf("%q: %+v, want free %v, asked %v", tc.script, d, tc.free, tc.asked)
		}
	}
	// A path that host_executable lists is trusted if the call can't have put the program there.
	anywhere := func(string, string) bool { return true }
	if d := Decide(Request{Approval: Untrusted, Sandbox: "workspace-write", Effects: script("/opt/tool"), Rules: set, Trusted: anywhere}); d.Verdict != Run || d.Wider == nil {
		t.Errorf("a listed path: %+v", d)
	}
	// Another program with the name of a shell is not a shell.
	other := []contract.Effect{contract.ExecEffect{Argv: []string{"/ws/bash", "-c", "make"}, Cwd: "/ws"}}
	if d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: other, Rules: set, Trusted: installed}); d.Verdict != Run || d.Wider != nil {
		t.Errorf("another shell: %+v", d)
	}
	// With another effect, or without a sandbox, a rule widens nothing.
	both := append(writes("/ws/a"), script("make")...)
	if d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: both, Rules: set, Trusted: installed, Writable: inside}); d.Verdict != Run || d.Wider != nil {
		t.Errorf("two effects: %+v", d)
	}
	if d := Decide(Request{Approval: Untrusted, Sandbox: FullAccess, Effects: script("make"), Rules: set, Trusted: installed}); d.Verdict != Run || d.Wider != nil {
		t.Errorf("full access: %+v", d)
	}
	// An escalation that a rule allows is not asked about.
	if d := Decide(Request{Approval: OnRequest, Sandbox: "read-only", Effects: script("make"), Rules: set, Trusted: installed,
		Escalation: &contract.Escalation{Unsandboxed: true}}); d.Verdict != Run || d.Wider == nil {
		t.Errorf("an escalation: %+v", d)
	}
}

func TestQuestionsOfRules(t *testing.T) {
	set := ruled(t, `
prefix_rule(pattern=["git", "push"], decision="prompt", justification="remote access")
prefix_rule(pattern=["git", "push", "--force"], decision="forbidden")
prefix_rule(pattern=["git", ["fetch", "pull"]], decision="prompt")
prefix_rule(pattern=["git"])
`)
	for _, tc := range []struct {
		script    string
		policy    Approval
		questions Questions
		want      Verdict
		why       string
	}{
		{"git push", OnRequest, Questions{}, Ask, "`bash -lc 'git push'` requires approval: remote access"},
		{"git pull", OnRequest, Questions{}, Ask, "`bash -lc 'git pull'` requires approval by policy"},
		{"git status && git push", OnRequest, Questions{}, Ask, "remote access"},
		{"git push --force", OnRequest, Questions{}, Forbid, "`bash -lc 'git push --force'` rejected: policy forbids commands starting with `git push --force`"},
		{"git push origin --force", OnRequest, Questions{}, Ask, "remote access"},
		{"git push", Never, Questions{}, Forbid, "approval required by policy, but AskForApproval is set to Never"},
		{"git push", Granular, Questions{Sandbox: true}, Forbid, "approval required by policy rule, but AskForApproval::Granular.rules is false"},
		{"git push", Granular, Questions{Rules: true}, Ask, "remote access"},
		{"git push", Untrusted, Questions{}, Ask, "remote access"},
		{"git $sub", OnRequest, Questions{}, Ask, "whether the rule for git push --force applies is only known when it runs"},
		{"$cmd push", OnRequest, Questions{}, Ask, "what this one starts is only known when it runs: $cmd"},
		{"if then", OnRequest, Questions{}, Ask, "can't be parsed"},
		{"if then", Never, Questions{}, Forbid, "can't be parsed"},
		{"git status", Untrusted, Questions{}, Run, ""},
		{"ls", OnRequest, Questions{}, Run, ""},
	} {
		d := Decide(Request{Approval: tc.policy, Questions: tc.questions, Sandbox: "workspace-write", Effects: script(tc.script), Rules: set, Trusted: installed})
		if d.Verdict != tc.want || !strings.Contains(d.Reason, tc.why) || tc.want != Run && len(d.Offer) > 0 {
			t.Errorf("%q, %s: %+v, want %v with %q", tc.script, tc.policy, d, tc.want, tc.why)
		}
	}
}

// Invalid rules may forbid anything.
func TestBrokenRules(t *testing.T) {
	set := ruled(t, `prefix_rule(pattern=["ls"])`)
	broken := errors.New("my.rules:3: invalid decision: maybe")
	for policy, want := range map[Approval]Verdict{Never: Forbid, OnRequest: Ask, Untrusted: Ask, Granular: Forbid} {
		d := Decide(Request{Approval: policy, Sandbox: "workspace-write", Effects: script("ls"), Rules: set, RulesErr: broken, Trusted: installed, SafeCommands: true})
		if d.Verdict != want || !strings.Contains(d.Reason, "my.rules:3") || d.Wider != nil || d.Offer != nil {
			t.Errorf("%s: %+v, want %v", policy, d, want)
		}
	}
	// The rules of valid files still forbid.
	forbids := ruled(t, `prefix_rule(pattern=["ls"], decision="forbidden")`)
	if d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: script("ls"), Rules: forbids, RulesErr: broken}); d.Verdict != Forbid {
		t.Errorf("beside a rule: %+v", d)
	}
	if d := Decide(Request{Approval: Never, Sandbox: "workspace-write", Effects: writes("/ws/a"), RulesErr: broken, Writable: inside}); d.Verdict != Run {
		t.Errorf("what is no command: %+v", d)
	}
}

func TestDangerousCommands(t *testing.T) {
	for _, tc := range []struct {
		script, mode string
		policy       Approval
		want         Verdict
		why          string
	}{
		{"rm -rf x", "read-only", OnRequest, Ask, "rm -rf x"},
		{"rm -rf x", "full-access", OnRequest, Ask, "rm -rf x"},
		{"rm -rf x", "full-access", Granular, Ask, "rm -rf x"},
		{"rm -rf x", "full-access", Never, Forbid, "`bash -lc 'rm -rf x'` rejected: rm -f style commands are not permitted. Use a safer approach"},
		{"git reset --hard", "workspace-write", Never, Forbid, "irreversibly discard data"},
		{"echo $(rm -f x)", "workspace-write", Never, Forbid, "rm -f style"},
		{"rm x", "workspace-write", Never, Run, ""},
	} {
		d := Decide(Request{Approval: tc.policy, Sandbox: tc.mode, Effects: script(tc.script)})
		if d.Verdict != tc.want || !strings.Contains(d.Reason, tc.why) || d.Offer != nil {
			t.Errorf("%q, %s, %s: %+v", tc.script, tc.mode, tc.policy, d)
		}
	}
}

// A command that can't be parsed is not considered harmless.
func TestCommandsThatCantBeParsed(t *testing.T) {
	for _, tc := range []struct {
		policy Approval
		mode   string
		want   Verdict
	}{
		{OnRequest, "full-access", Ask}, {OnRequest, "workspace-write", Ask}, {Untrusted, "read-only", Ask}, {Granular, "read-only", Ask},
		{Never, "full-access", Forbid}, {Never, "workspace-write", Run},
	} {
		d := Decide(Request{Approval: tc.policy, Sandbox: tc.mode, Effects: script("for x in; (")})
		if d.Verdict != tc.want || d.Offer != nil || d.Wider != nil {
			t.Errorf("%s, %s: %+v, want %v", tc.policy, tc.mode, d, tc.want)
		}
	}
}

func TestSafeCommandsUnderUntrusted(t *testing.T) {
	for _, tc := range []struct {
		script, mode string
		on           bool
		want         Verdict
	}{
		{"ls | wc", "read-only", true, Run}, {"ls", "full-access", true, Run}, {"ls", "read-only", false, Ask}, {"git status", "workspace-write", true, Run},
		{"git status", "full-access", true, Ask}, {"ls; touch x", "read-only", true, Ask}, {"./ls", "read-only", true, Ask}, {"ls > x", "read-only", true, Ask},
	} {
		d := Decide(Request{Approval: Untrusted, Sandbox: tc.mode, Effects: script(tc.script), SafeCommands: tc.on, Trusted: installed})
		if d.Verdict != tc.want || d.Wider != nil {
			t.Errorf("%q, %s, %v: %+v, want %v", tc.script, tc.mode, tc.on, d, tc.want)
		}
	}
	if d := Decide(Request{Approval: Untrusted, Sandbox: "read-only", Effects: script("ls"), SafeCommands: true}); d.Verdict != Ask {
		t.Errorf("where nothing is known of the programs: %+v", d)
	}
	if d := Decide(Request{Approval: Untrusted, Sandbox: "read-only", Effects: script("ls"), SafeCommands: true, Trusted: installed,
		Escalation: &contract.Escalation{Unsandboxed: true}}); d.Verdict != Ask {
		t.Errorf("outside of the sandbox: %+v", d)
	}
}

// All input to a session outside of the sandbox is asked about; input to a session in the sandbox is not, for that reason.
func TestTypingOutsideOfTheSandbox(t *testing.T) {
	for _, tc := range []struct {
		policy    Approval
		questions bool
		sandbox   string
		outside   bool
		want      Verdict
	}{
		{OnRequest, false, "workspace-write", true, Ask}, {OnFailure, false, "read-only", true, Ask}, {Untrusted, false, "workspace-write", true, Ask},
		{Granular, true, "workspace-write", true, Ask}, {Granular, false, "workspace-write", true, Forbid}, {Never, false, "workspace-write", true, Forbid},
		{OnRequest, false, FullAccess, true, Run}, {Never, false, FullAccess, true, Run},
		{OnRequest, false, "workspace-write", false, Run}, {Never, false, "workspace-write", false, Run},
	} {
		d := Decide(Request{
			Approval: tc.policy, Questions: Questions{Sandbox: tc.questions}, Sandbox: tc.sandbox, Outside: tc.outside,
			Effects: []contract.Effect{contract.SessionInputEffect{SessionID: "1", Text: "ls\n"}},
		})
		if d.Verdict != tc.want || d.Verdict != Run && !strings.Contains(d.Reason, "outside of the sandbox") {
			t.Errorf("%+v: %+v", tc, d)
		}
	}
}

// Input to a shell is a command (X20).
func TestTypedCommands(t *testing.T) {
	set := ruled(t, `prefix_rule(pattern=["factor", "13"], decision="forbidden")`)
	typed := func(text string) []contract.Effect {
		return []contract.Effect{contract.SessionInputEffect{SessionID: "1", Text: text}}
	}
	for _, tc := range []struct {
		text   string
		policy Approval
		want   Verdict
	}{
		{"factor 13\n", OnRequest, Forbid}, {"env factor 13\n", Never, Forbid}, {"$x\n", OnRequest, Ask}, {"'\n", OnRequest, Ask}, {"ls\n", OnRequest, Run},
		{"\x03", OnRequest, Run}, {"rm -rf x\n", OnRequest, Ask}, {"rm -rf x\n", Never, Forbid}, {"ls\n", Untrusted, Ask},
	} {
		if d := Decide(Request{Approval: tc.policy, Sandbox: "workspace-write", Effects: typed(tc.text), Rules: set}); d.Verdict != tc.want {
			t.Errorf("%q, %s: %+v, want %v", tc.text, tc.policy, d, tc.want)
		}
	}
}

// The rules that "always" would write. Row X15: none that allows arbitrary commands.
func TestOffer(t *testing.T) {
	set := ruled(t, `prefix_rule(pattern=["git", "fetch"], decision="prompt")`+"\n"+`prefix_rule(pattern=["make"])`)
	for _, tc := range []struct {
		script string
		prefix []string // that the model proposes
		want   [][]string
	}{
		{"touch a", nil, [][]string{{"touch", "a"}}},
		{"npm install left-pad", []string{"npm", "install"}, [][]string{{"npm", "install"}}},
		{"git pull && make", []string{"git", "pull"}, [][]string{{"git", "pull"}}},
		{"git pull && cargo build", []string{"git", "pull"}, [][]string{{"git", "pull"}, {"cargo", "build"}}},
		{"cargo build && git pull", []string{"git", "pull"}, [][]string{{"cargo", "build"}, {"git", "pull"}}},
		{"cat a && touch b; cat a", nil, [][]string{{"cat", "a"}, {"touch", "b"}}},
		{"cat a && env touch b", nil, nil}, {"cat a && touch *", nil, nil}, {"a; b; c; d; e; f", nil, nil},
		{"gіt pull", nil, nil}, {"cat mаin", nil, nil}, {"cat файл", nil, [][]string{{"cat", "файл"}}},
		{"make && touch b", nil, [][]string{{"touch", "b"}}},
		{"python3 x.py", []string{"python3"}, [][]string{{"python3", "x.py"}}},
		{"python3 -c 'print(1)'", []string{"python3", "-c"}, [][]string{{"python3", "-c", "print(1)"}}},
		{"touch a", []string{"bash"}, [][]string{{"touch", "a"}}},
		{"touch a", []string{"rm"}, [][]string{{"touch", "a"}}},
		{"env touch a", []string{"env"}, nil},
		{"sudo touch a", []string{"sudo", "touch"}, nil},
		{"timeout 5 touch a", []string{"timeout", "5"}, nil},
		{"git", []string{"git"}, nil},
		{"python3", nil, nil},
		{"bash -c", nil, nil},
		{"touch *", nil, nil},
		{"touch a > b", nil, nil},
		{"python3 <<E\nx\nE", []string{"python3"}, nil},
		{"git fetch", []string{"git", "fetch"}, nil},
		{"git fetch && touch a", []string{"touch"}, nil},
		{"rm -rf a", []string{"rm", "-rf"}, nil},
		{"touch a && rm -rf b", nil, nil},
		{"printf 'a\nb'", nil, nil},
		{"touch a", []string{"touch", "\x1b[2J"}, [][]string{{"touch", "a"}}},
		{"touch \u202ea", nil, nil},
		{"touch a\u2028b", nil, nil},
		{"git -c core.pager=x log", []string{"git", "-c"}, nil},
		{"git clone -c core.fsmonitor=x y", []string{"git", "clone"}, nil},
		{"find . -exec id ;", []string{"find", "."}, nil},
		{"find . -name x", []string{"find"}, [][]string{{"find"}}},
		{"awk '{print $1}' f", []string{"awk"}, [][]string{{"awk", "{print $1}", "f"}}},
		{"sed 1p f", []string{"sed"}, [][]string{{"sed", "1p", "f"}}},
		{"tar --to-command=id -xf a", []string{"tar"}, nil},
	} {
		d := Decide(Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: script(tc.script), Rules: set, Trusted: installed,
			Escalation: &contract.Escalation{Unsandboxed: true, PrefixRule: tc.prefix}})
		if d.Verdict != Ask || !reflect.DeepEqual(d.Offer, tc.want) {
			t.Errorf("%q with %q: %+v, want %q", tc.script, tc.prefix, d, tc.want)
		}
	}
}

// A zero byte hides nothing: no program is started with one, and shells ignore it in their input.
func TestZeroBytes(t *testing.T) {
	set := ruled(t, `prefix_rule(pattern=["factor", "13"], decision="forbidden")`)
	for _, effect := range []contract.Effect{
		script("factor 13\n\x00")[0], script("ls \x00")[0], contract.ExecEffect{Argv: []string{"factor\x00", "13"}, Cwd: "/w"},
		contract.SessionInputEffect{Text: "factor 13\x00\n"}, contract.SessionInputEffect{Text: "fac\x00tor 13\n"},
	} {
		if d := Decide(Request{Approval: OnRequest, Sandbox: FullAccess, Effects: []contract.Effect{effect}, Rules: set, Trusted: installed}); d.Verdict != Forbid {
			t.Errorf("%+v: %+v", effect, d)
		}
	}
}

// A decision names its rules.
func TestDecisionsNameTheirRules(t *testing.T) {
	set := ruled(t, "\nprefix_rule(pattern=[\"make\"])\nprefix_rule(pattern=[\"ssh\"], decision=\"forbidden\")")
	for text, want := range map[string]string{"make": "my.rules:2", "ssh x": "my.rules:3", "exec ssh x": "my.rules:3"} {
		d := Decide(Request{Approval: OnRequest, Sandbox: "read-only", Effects: script(text), Rules: set, Trusted: installed})
		if len(d.Rules) != 1 || d.Rules[0].Where() != want {
			t.Errorf("%q: %+v, want %s", text, d, want)
		}
	}
}

// No script widens anything, and a forbidden command is forbidden in any script.
func FuzzDecide(f *testing.F) {
	set := ruled(f, `prefix_rule(pattern=["factor", "13"], decision="forbidden")`+"\n"+`prefix_rule(pattern=["make"])`)
	for _, s := range []string{"ls", "make", "factor 13", "make && factor 13", "a <<E\nE", "rm -f x", "if", "x=$(make)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := Request{Approval: OnRequest, Sandbox: "workspace-write", Effects: script(text), Rules: set, Trusted: installed}
		d := Decide(r)
		if d.Verdict < Run || d.Wider != nil && (d.Verdict != Run || !strings.HasPrefix(strings.TrimSpace(text), "make")) {
			t.Errorf("%+v", d)
		}
		r.Effects = script("factor 13\n" + text)
		if d := Decide(r); d.Verdict != Forbid {
			t.Errorf("behind a forbidden command: %+v", d)
		}
		r.Approval = Never
		if Decide(r).Verdict != Forbid {
			t.Error("never")
		}
	})
}
