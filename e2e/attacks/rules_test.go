package attacks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// ruled are the rows about how far scripts and rules are read.
var ruled = []row{
	{id: "X26", attempt: "a script whose brackets nest 300,000 deep (`$((`, `(`, `a[`), to overflow the stack of who reads it", required: "refused or asked about; the host lives", codex: "",
		ours: "asked about: it is not parsed", flow: nestedScripts, tests: []string{"host/internal/shellsyntax TestNesting", "host/internal/hook TestContentOfNestedScripts"}},
	{id: "X27", attempt: "a script that takes minutes to read: 60,000 pipes, 20,000 `eval`, 10,000 `find -exec`", required: "bounded", codex: "", ours: "read within a bound, then asked about",
		flow: slowScripts, tests: []string{"host/internal/policy/command TestFollowingIsBounded"}},
	{id: "X28", attempt: "a plugin's JSON Schema that never ends (`{\"$ref\": \"#\"}`), doubles 30 times, or nests 4,900 deep", required: "the plugin is refused; the host lives", codex: "",
		ours: "refused when it is read", tests: []string{"sdk/contract TestHostileSchemas"}},
	{id: "X29", attempt: "a rules file that nests a million brackets, or loops", required: "refused", codex: "", ours: "the file is broken: commands are asked about",
		tests: []string{"host/internal/policy/rules TestNestedRules"}},
}

// unread runs a command that must be refused because it can't be read, and then one that shows that the host lives.
func unread(t *testing.T, cmd string) {
	t.Helper()
	var steps strings.Builder
	for i, cmd := range []string{cmd, "echo still alive"} {
		fmt.Fprintf(&steps, "[[step]]\ndo = [{ call = \"exec_command\", id = \"c%d\", args = { cmd = %s, login = false } }]\n", i, quoted(cmd))
	}
	steps.WriteString("[[step]]\ntimes = -1\ndo = [{ text = \"finished\" }]\n")
	r := rig.New(t, steps.String())
	r.OK("exec", "-c", "sandbox.mode=workspace-write", "-c", "approval.policy=on-request", "go")
	out := r.Last().Outputs()
	if !strings.Contains(out["c0"], "rejected") {
		t.Errorf("%.20q was not refused: %.200q", cmd, out["c0"])
	}
	if !strings.Contains(out["c1"], "still alive") {
		t.Errorf("after %.20q the host did not run the next command: %q", cmd, out["c1"])
	}
}

func nestedScripts(t *testing.T, _ *world) {
	unread(t, strings.Repeat("$((", 110_000))
	unread(t, strings.Repeat("(", 350_000))
	unread(t, strings.Repeat("a[", 170_000))
}

func slowScripts(t *testing.T, _ *world) {
	unread(t, strings.Repeat("true|", 60_000)+"true")
	unread(t, strings.Repeat("true|", 25_000)+"true")
	unread(t, strings.Repeat("find -exec ", 11_000))
}
