package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// commanding is a model that runs one command and says that it is done.
const commanding = `
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo ran >> ran", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`

// hookFile writes hooks in the form of other programs, and agrees to them.
func hookFile(t *testing.T, r *rig.Rig, groups map[string][]hookGroup) {
	t.Helper()
	writeHooks(t, r, filepath.Join(r.Home, "hooks.json"), groups)
	r.OK("hooks", "trust", "--yes")
}

type hookGroup struct {
	Matcher string       `json:"matcher,omitempty"`
	Hooks   []hookDetail `json:"hooks"`
}

type hookDetail struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout,omitempty"`
	Async   bool   `json:"async,omitempty"`
}

func writeHooks(t *testing.T, r *rig.Rig, path string, groups map[string][]hookGroup) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"hooks": groups})
	if err != nil {
		t.Fatal(err)
	}
	r.Write(path, string(b))
}

// on is one group with commands.
func on(matcher string, commands ...string) []hookGroup {
	g := hookGroup{Matcher: matcher}
	for _, c := range commands {
		g.Hooks = append(g.Hooks, hookDetail{Type: "command", Command: c})
	}
	return []hookGroup{g}
}

// says is a command that prints JSON.
func says(s string) string { return "cat >/dev/null; echo '" + s + "'" }

// Before a call: each way in which a hook ends, as other programs know it.
func TestHookBeforeACall(t *testing.T) {
	t.Parallel()
	specific := func(s string) string { return says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse",` + s + `}}`) }
	for _, tt := range []struct {
		name   string
		groups []hookGroup
		ran    string
		output string // of the call, as the model reads it
	}{
		{"silent", on("", "true"), "ran\n", ""},
		{"refuses", on("Bash", "echo nope >&2; exit 2"), "", "Command blocked by PreToolUse hook: nope. Command: echo ran >> ran"},
		{"status 2 in silence", on("Bash", "exit 2"), "ran\n", ""},
		{"status 1", on("Bash", "exit 1"), "ran\n", ""},
		{"too slow", []hookGroup{{Hooks: []hookDetail{{Type: "command", Command: "sleep 60 & sleep 60", Timeout: 1}}}}, "ran\n", ""},
		{"bad JSON", on("Bash", says("{bad json")), "ran\n", ""},
		{"plain text", on("Bash", says("hello")), "ran\n", ""},
		{"no such program", on("Bash", "/there/is/none"), "ran\n", ""},
		{"asks, where nobody is asked", on("Bash", specific(`"permissionDecision":"ask","permissionDecisionReason":"a look"`)), "", "a PreToolUse hook asks for the user's approval (a look)"},
		{"allows what would run anyway", on("Bash", specific(`"permissionDecision":"allow"`)), "ran\n", ""},
		{"denies", on("Bash", specific(`"permissionDecision":"deny","permissionDecisionReason":"R"`)), "", "hook: R. Command"},
		{"denies twice", on("Bash", `echo '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"R"}}'; echo SE >&2; exit 2`), "", "hook: SE. Command"},
		{"blocks, the old way", on("Bash", says(`{"decision":"block","reason":"R"}`)), "", "hook: R. Command"},
		{"rewrites", on("Bash", specific(`"permissionDecision":"allow","updatedInput":{"command":"echo CHANGED >> ran"}`)), "CHANGED\n", ""},
		{"one rewrites, one refuses", on("Bash", specific(`"permissionDecision":"allow","updatedInput":{"command":"echo CHANGED >> ran"}`), "echo no >&2; exit 2"), "", "hook: no. Command"},
		{"by the model's name for the tool", on("exec_command", "echo nope >&2; exit 2"), "", "blocked by PreToolUse hook: nope"},
		{"by a pattern", on("^(Bash|Write)$", "echo nope >&2; exit 2"), "", "blocked by PreToolUse hook: nope"},
		{"for another tool", on("Write|Edit", "echo nope >&2; exit 2"), "ran\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, commanding)
			hookFile(t, r, map[string][]hookGroup{"PreToolUse": tt.groups})
			r.OK("exec", "go")
			if got := r.Read("ran"); got != tt.ran {
				t.Errorf("ran %q, want %q", got, tt.ran)
			}
			if out := r.Last().Outputs()["c1"]; !strings.Contains(out, tt.output) {
				t.Errorf("the model reads %q, want %q", out, tt.output)
			}
			r.NothingLeft()
		})
	}
}

// A script of a user of other programs runs unchanged: it reads what they write, and finds its project.
func TestHookScriptReadsWhatOthersWrite(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commanding)
	r.Write(filepath.Join(r.Home, "user", ".claude", "hooks", "seen.sh"), "cat > \"$CLAUDE_PROJECT_DIR/seen.json\"\n")
	writeHooks(t, r, filepath.Join(r.Home, "user", ".claude", "settings.json"), map[string][]hookGroup{"PreToolUse": on("Bash", "sh ~/.claude/hooks/seen.sh")})
	r.Config("hook \"claude\" {\n  file = \"~/.claude/settings.json\"\n}\n")
	r.OK("hooks", "trust", "--yes")
	r.OK("exec", "go")
	var in struct {
		Session    string          `json:"session_id"`
		Transcript json.RawMessage `json:"transcript_path"`
		Cwd        string
		Event      string `json:"hook_event_name"`
		Model      string
		Turn       string `json:"turn_id"`
		Mode       string `json:"permission_mode"`
		Tool       string `json:"tool_name"`
		Input      struct{ Command string }
		Use        string                   `json:"tool_use_id"`
		ToolInput  struct{ Command string } `json:"tool_input"`
	}
	if err := json.Unmarshal([]byte(r.Read("seen.json")), &in); err != nil {
		t.Fatal(err)
	}
	if in.Session == "" || string(in.Transcript) != "null" || in.Cwd != r.Dir || in.Event != "PreToolUse" || in.Model != "scripted" || in.Turn == "" ||
		in.Mode != "bypassPermissions" || in.Tool != "Bash" || in.ToolInput.Command != "echo ran >> ran" || in.Use != "c1" {
		t.Errorf("the hook reads %s", r.Read("seen.json"))
	}
}

func TestHookAfterACall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ command, output, note string }{
		"feedback":             {says(`{"decision":"block","reason":"R"}`), "R", ""},
		"feedback by a status": {"echo R >&2; exit 2", "R", ""},
		"stops":                {says(`{"continue":false,"stopReason":"R"}`), "R", ""},
		"context":              {says(`{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"NOTE"}}`), "", "NOTE"},
		"fails":                {"exit 1", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, commanding)
			hookFile(t, r, map[string][]hookGroup{"PostToolUse": on("Bash", tt.command)})
			r.OK("exec", "go")
			out := r.Last().Outputs()["c1"]
			if tt.output != "" && out != tt.output || tt.output == "" && !strings.Contains(out, "exited with code 0") {
				t.Errorf("the model reads %q, want %q", out, tt.output)
			}
			if slices.Contains(r.Last().Texts(llm.RoleSystem), tt.note) != (tt.note != "") {
				t.Errorf("the model is told %q", r.Last().Texts(llm.RoleSystem))
			}
		})
	}
}

func TestHookOfAPrompt(t *testing.T) {
	t.Parallel()
	t.Run("holds it back", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		hookFile(t, r, map[string][]hookGroup{"UserPromptSubmit": on("", `grep -q secret && { echo "no secrets" >&2; exit 2; }; true`)})
		res := r.OK("exec", "the secret is 42")
		if !strings.Contains(res.Stderr, "no secrets") {
			t.Errorf("the user reads:\n%s", res.Stderr)
		}
		if text, err := os.ReadFile(r.Log); err == nil && len(text) > 0 {
			t.Errorf("the model was asked: %s", text)
		}
		r.OK("resume", "--last", "something else")
		for _, text := range r.Last().Texts(llm.RoleUser) {
			if strings.Contains(text, "42") {
				t.Errorf("the model reads %q", text)
			}
		}
	})
	t.Run("tells the model", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		hookFile(t, r, map[string][]hookGroup{
			"UserPromptSubmit": on("", "cat >/dev/null; echo plain text", says(`{"hookSpecificOutput":{"hookEventName":"UserPromptSubmit","additionalContext":"from JSON"}}`)),
			"SessionStart":     on("startup", "cat >/dev/null; echo begun"),
		})
		r.OK("exec", "go")
		told := r.Last().Texts(llm.RoleSystem)
		for _, want := range []string{"plain text", "from JSON", "begun"} {
			if n := len(slices.DeleteFunc(slices.Clone(told), func(s string) bool { return s != want })); n != 1 {
				t.Errorf("the model is told %q %d times: %q", want, n, told)
			}
		}
	})
}

func TestHookMakesTheTurnGoOn(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	hookFile(t, r, map[string][]hookGroup{
		"Stop": on("", `tee -a stops | grep -q '"stop_hook_active":true' || { echo "run the tests" >&2; exit 2; }`),
	})
	r.OK("exec", "go")
	if n := len(r.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
	texts := r.Last().Texts(llm.RoleUser)
	last := texts[len(texts)-1]
	if !strings.HasPrefix(last, `<hook_prompt hook_run_id="stop:0:`) || !strings.HasSuffix(last, ">run the tests</hook_prompt>") {
		t.Errorf("the model reads %q", last)
	}
	if got := r.Read("stops"); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"last_assistant_message":"done"`) {
		t.Errorf("the hook reads %s", got)
	}
}

// A hook that is never content costs a bounded number of requests.
func TestHookThatNeverLetsATurnEnd(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	hookFile(t, r, map[string][]hookGroup{"Stop": on("", says(`{"decision":"block","reason":"again"}`))})
	if res := r.OK("exec", "go"); !strings.Contains(res.Stderr, "8 times") {
		t.Errorf("the user reads:\n%s", res.Stderr)
	}
	if n := len(r.Requests()); n != 9 {
		t.Errorf("%d requests, want 9", n)
	}
}

// Hooks answer in a person's place, when there is none.
func TestHookOfAQuestion(t *testing.T) {
	t.Parallel()
	decides := func(s string) string {
		return says(`{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":` + s + `}}`)
	}
	for name, tt := range map[string]struct {
		commands []string
		ran      bool
		output   string
	}{
		"allows":                {[]string{decides(`{"behavior":"allow"}`)}, true, ""},
		"denies":                {[]string{decides(`{"behavior":"deny","message":"M"}`)}, false, "rejected: M"},
		"denies by a status":    {[]string{"echo M >&2; exit 2"}, false, "rejected: M"},
		"one of each":           {[]string{decides(`{"behavior":"allow"}`), decides(`{"behavior":"deny","message":"M"}`)}, false, "rejected: M"},
		"fails":                 {[]string{"exit 1"}, false, "nobody to ask"},
		"is silent":             {[]string{"true"}, false, "nobody to ask"},
		"wants other arguments": {[]string{decides(`{"behavior":"allow","updatedInput":{}}`)}, false, "nobody to ask"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, commanding)
			hookFile(t, r, map[string][]hookGroup{"PermissionRequest": on("Bash", tt.commands...)})
			r.OK("exec", "-c", "approval.policy=untrusted", "go")
			if ran := r.Read("ran") != ""; ran != tt.ran {
				t.Errorf("ran: %v, want %v", ran, tt.ran)
			}
			if out := r.Last().Outputs()["c1"]; !strings.Contains(out, tt.output) {
				t.Errorf("the model reads %q, want %q", out, tt.output)
			}
		})
	}
}

// A hook before the call has a person asked, or spares the person the question.
func TestHookThatDecidesWhoIsAsked(t *testing.T) {
	t.Parallel()
	says := func(decision string) []hookGroup {
		return on("Bash", says(`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"`+decision+`","permissionDecisionReason":"so says the hook"}}`))
	}
	r := rig.New(t, commanding)
	hookFile(t, r, map[string][]hookGroup{"PreToolUse": says("allow")})
	r.OK("exec", "-c", "approval.policy=untrusted", "go")
	if got := r.Read("ran"); got != "ran\n" {
		t.Errorf("allowed: ran %q; the model reads %q", got, r.Last().Outputs()["c1"])
	}

	r = rig.New(t, commanding)
	hookFile(t, r, map[string][]hookGroup{"PreToolUse": says("ask"), "Notification": on("permission_prompt", "cat >told.tmp && mv told.tmp told")})
	run := r.Terminal("exec", "-c", "approval.policy=on-request", "go")
	run.Sees("answer: ")
	r.Until("the notification", func() bool { return r.Read("told") != "" })
	run.Type("deny\n")
	if res := run.Wait(); !strings.Contains(res.Stdout, "so says the hook") || r.Read("ran") != "" {
		t.Errorf("asked: ran %q, it said\n%s", r.Read("ran"), res.Stdout)
	}
	var told map[string]any
	if err := json.Unmarshal([]byte(r.Read("told")), &told); err != nil || told["notification_type"] != "permission_prompt" ||
		told["message"] != "gantry needs your permission: echo ran >> ran" || told["hook_event_name"] != "Notification" {
		t.Errorf("told %v, %v", told, err)
	}
}

// Nothing runs that the user did not agree to, and nothing that was changed since: neither the hook nor the script behind it.
func TestHooksNeedConsent(t *testing.T) {
	t.Parallel()
	guard := on("Bash", "sh hooks/guard.sh")
	refuse := "echo refused >&2; exit 2\n"
	t.Run("a project's hooks", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		r.Write("hooks/guard.sh", "touch was_here\n")
		writeHooks(t, r, filepath.Join(r.Dir, ".gantry", "hooks.json"), map[string][]hookGroup{"PreToolUse": guard})
		res := r.OK("exec", "go")
		if r.Read("ran") == "" {
			t.Error("the command did not run")
		}
		if _, err := os.Stat(filepath.Join(r.Dir, "was_here")); err == nil {
			t.Error("a hook ran that nobody agreed to")
		}
		if !strings.Contains(res.Stderr, "gantry hooks trust") {
			t.Errorf("the user is not told:\n%s", res.Stderr)
		}
	})
	t.Run("a hook of a repository for another program", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		for _, name := range []string{".codex/hooks.json", ".claude/settings.json"} {
			writeHooks(t, r, filepath.Join(r.Dir, name), map[string][]hookGroup{"PreToolUse": on("", "touch was_here; exit 2")})
		}
		r.OK("exec", "go")
		if _, err := os.Stat(filepath.Join(r.Dir, "was_here")); err == nil {
			t.Error("a hook ran that nobody named")
		}
	})
	t.Run("a script that was changed", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		r.Write("hooks/guard.sh", refuse)
		hookFile(t, r, map[string][]hookGroup{"PreToolUse": guard})
		r.Write("hooks/guard.sh", "touch was_here\n")
		res := r.OK("exec", "go")
		if _, err := os.Stat(filepath.Join(r.Dir, "was_here")); err == nil {
			t.Error("a script ran that nobody agreed to")
		}
		if !strings.Contains(res.Stderr, "changed since you agreed") {
			t.Errorf("the user is not told:\n%s", res.Stderr)
		}
		if list := r.OK("hooks", "list").Stdout; !strings.Contains(list, "modified") {
			t.Errorf("list:\n%s", list)
		}
	})
	t.Run("a script that the agent changes while it guards", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, `
[[step]]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo true > hooks/guard.sh", login = false } }]
[[step]]
do = [{ call = "exec_command", id = "c2", args = { cmd = "echo forbidden >> ran", login = false } }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
		r.Write("hooks/guard.sh", "grep -q forbidden && { echo refused >&2; exit 2; }; true\n")
		hookFile(t, r, map[string][]hookGroup{"PreToolUse": guard})
		r.OK("exec", "go")
		if r.Read("ran") != "" {
			t.Error("the agent switched its guard off")
		}
		if out := r.Last().Outputs()["c2"]; !strings.Contains(out, "has changed since you trusted it") {
			t.Errorf("the model reads %q", out)
		}
	})
	t.Run("revoked", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		r.Write("hooks/guard.sh", refuse)
		hookFile(t, r, map[string][]hookGroup{"PreToolUse": guard})
		r.OK("hooks", "trust", "--revoke")
		r.OK("exec", "go")
		if r.Read("ran") == "" {
			t.Error("a hook ran whose consent was taken back")
		}
	})
}

// What a hook's failure means is the user's to say, and the machine's hooks mean no.
func TestHookThatFailsMeansNo(t *testing.T) {
	t.Parallel()
	block := func(event, command string) string {
		return fmt.Sprintf("hook \"guard\" {\n  event    = %q\n  command  = %q\n  on_error = \"block\"\n}\n", event, command)
	}
	t.Run("before a call", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		r.Config(block("PreToolUse", "exit 3"))
		r.OK("hooks", "trust", "--yes")
		r.OK("exec", "go")
		if out := r.Last().Outputs()["c1"]; r.Read("ran") != "" || !strings.Contains(out, "exit status 3") {
			t.Errorf("the model reads %q", out)
		}
	})
	t.Run("not trusted yet", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		r.Config(block("PreToolUse", "true"))
		r.OK("exec", "go")
		if out := r.Last().Outputs()["c1"]; r.Read("ran") != "" || !strings.Contains(out, "not trusted yet") {
			t.Errorf("the model reads %q", out)
		}
	})
	t.Run("a prompt", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		r.Config(block("UserPromptSubmit", "kill -9 $$"))
		r.OK("hooks", "trust", "--yes")
		r.OK("exec", "go")
		if text, err := os.ReadFile(r.Log); err == nil && len(text) > 0 {
			t.Errorf("the model was asked: %s", text)
		}
	})
	t.Run("of the machine", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		r.Env = append(r.Env, "GANTRY_SYSTEM_CONFIG="+filepath.Join(r.Home, "etc", "gantry.hcl"))
		writeHooks(t, r, filepath.Join(r.Home, "etc", "hooks.json"), map[string][]hookGroup{"PreToolUse": on("Bash", "exit 1")})
		r.OK("exec", "go")
		if out := r.Last().Outputs()["c1"]; r.Read("ran") != "" || !strings.Contains(out, "exit status 1") {
			t.Errorf("the model reads %q", out)
		}
		r.Write(filepath.Join(r.Home, "etc", "hooks.json"), "{")
		if res := r.Gantry("exec", "go"); res.Code == 0 || !strings.Contains(res.Stderr, "a hook in the machine's configuration") {
			t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
		}
	})
	t.Run("only those of the machine", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, commanding)
		r.Env = append(r.Env, "GANTRY_SYSTEM_CONFIG="+filepath.Join(r.Home, "etc", "gantry.hcl"))
		r.Write(filepath.Join(r.Home, "etc", "gantry.hcl"), "hooks {\n  managed_only = true\n}\n")
		r.Config(block("PreToolUse", "exit 2"))
		r.OK("exec", "-c", "hooks.managed_only=false", "go")
		if r.Read("ran") == "" {
			t.Error("a user's hook ran")
		}
	})
}

// What hooks did stands in the thread's log, and nobody waits for those that are asynchronous.
func TestHooksInTheLog(t *testing.T) {
	t.Parallel()
	r := rig.New(t, commanding)
	groups := map[string][]hookGroup{
		"PreToolUse": on("Bash", "true", "echo no >&2; exit 2"),
		"SessionEnd": on("", "cat > ended.json"),
	}
	groups["PreToolUse"] = append(groups["PreToolUse"], hookGroup{Hooks: []hookDetail{{
		Type: "command", Command: "until [ -e go ]; do sleep 0.01; done; cat > late.json; echo '{\"decision\":\"block\",\"reason\":\"too late\"}'", Async: true,
	}}})
	hookFile(t, r, groups)
	run := r.Start("exec", "go")
	storedTimes(t, r, `"hook.started"`, 3)
	r.Write("go", "")
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	shown := r.OK("threads", "show", "--events", threads(t, r)[0].ID).Stdout
	for _, want := range []string{`"status":"blocked"`, `"scope":"user"`, `"call":"c1"`, `"async":true`, `"feedback","text":"no"`} {
		if !strings.Contains(strings.ReplaceAll(shown, " ", ""), want) {
			t.Errorf("no %s in the log:\n%s", want, shown)
		}
	}
	if got := r.Read("ended.json"); !strings.Contains(got, `"reason":"other"`) || strings.Contains(got, "permission_mode") {
		t.Errorf("at the end the hook reads %q", got)
	}
	r.NothingLeft()
}

// A text that is too long for the conversation lies in a file, which a command can read.
func TestHookThatSaysTooMuch(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	hookFile(t, r, map[string][]hookGroup{"UserPromptSubmit": on("", "cat >/dev/null; head -c 50000 /dev/zero | tr '\\0' x; echo END")})
	r.OK("exec", "go")
	for _, text := range r.Last().Texts(llm.RoleSystem) {
		if strings.HasPrefix(text, "xxx") {
			if len(text) > 11_000 || !strings.Contains(text, "all of it is in /") || !strings.HasSuffix(text, "END") {
				t.Errorf("%d bytes: %.100s", len(text), text[4900:])
			}
			return
		}
	}
	t.Error("the model was not told")
}
