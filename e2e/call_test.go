package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// `gantry call` calls a tool without a model. What it leaves running ends with it, unless it is a call of a session.
func TestCall(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	if out := r.OK("call", "shell", "exec_command", `{"cmd": "echo $((6*7))"}`).Stdout; !strings.Contains(out, "42") {
		t.Errorf("a call:\n%s", out)
	}
	for _, tc := range []struct {
		code int
		want string // on either output
		args []string
	}{
		{2, "the arguments are not a JSON object", []string{"shell", "exec_command", "[1]"}},
		{1, `the plugin "shell" has no tool "sing"; it has apply_patch, edit_file, exec_command`, []string{"shell", "sing"}},
		{1, `there is no plugin "other"`, []string{"other", "sing"}},
		{1, `missing`, []string{"shell", "exec_command"}},
		{2, "invalid name of a session", []string{"--session", "../x", "shell", "exec_command"}},
	} {
		res := r.Gantry(append([]string{"call"}, tc.args...)...)
		if res.Code != tc.code || !strings.Contains(res.Stdout+res.Stderr, tc.want) {
			t.Errorf("%q: exit %d, want %d and %q:\n%s%s", tc.args, res.Code, tc.code, tc.want, res.Stdout, res.Stderr)
		}
	}
}

// The calls of a session are made by one process, whichever folder and terminal they come from, and their questions are asked where they come from.
func TestCallSession(t *testing.T) {
	t.Parallel()
	r := boxed(t, finished)
	call := func(name, args string) string {
		t.Helper()
		return r.OK("-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write", "call", "--session", "work", "shell", name, args).Stdout
	}
	out := call("exec_command", `{"cmd": "read x; echo got $x", "yield_time_ms": 250, "tty": true}`)
	_, id, ok := strings.Cut(out, "session ID ")
	if !ok {
		t.Fatalf("the command has ended:\n%s", out)
	}
	t.Cleanup(func() { r.Gantry("session", "stop", "work") })
	id, _, _ = strings.Cut(id, "\n")
	if list := r.OK("session", "list").Stdout; !strings.Contains(list, "work") {
		t.Errorf("session list:\n%s", list)
	}
	if out := call("write_stdin", fmt.Sprintf(`{"session_id": %s, "chars": "tea\n"}`, id)); !strings.Contains(out, "got tea") {
		t.Errorf("the second call:\n%s", out)
	}
	run := r.Terminal("call", "--session", "work", "shell", "exec_command", `{"cmd": "touch ../out/made", "sandbox_permissions": "require_escalated", "justification": "a test"}`)
	run.Sees("answer: ")
	run.Type("y\n")
	if res := run.Wait(); res.Code != 0 || !exists(filepath.Dir(r.Dir), "out/made") {
		t.Errorf("an approved call: exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	for _, tc := range [][3]string{
		{"python", "exec_command", `no plugin "python"`}, {"other", "exec_command", `no plugin "other"`}, {"shell", "sing", `the plugin "shell" has no tool "sing"; it has apply_patch`},
	} {
		res := r.Gantry("call", "--session", "work", tc[0], tc[1], `{"cmd": "touch wrong"}`)
		if res.Code != 1 || !strings.Contains(res.Stderr, tc[2]) || exists(r.Dir, "wrong") {
			t.Errorf("%q: exit %d, want %q\n%s%s", tc, res.Code, tc[2], res.Stdout, res.Stderr)
		}
	}
	slow := r.Start("call", "--session", "work", "shell", "exec_command", `{"cmd": "touch runs; sleep 600", "yield_time_ms": 30000}`)
	r.Until("the call runs", func() bool { return exists(r.Dir, "runs") })
	slow.Signal(os.Interrupt)
	if res := slow.Wait(); res.Code != 130 {
		t.Errorf("an interrupted call: exit %d, want 130:\n%s", res.Code, res.Stderr)
	}
	r.OK("session", "stop", "work")
	if list := r.OK("session", "list").Stdout; strings.Contains(list, "work") {
		t.Errorf("after its end:\n%s", list)
	}
	if res := r.Gantry("session", "stop", "work"); res.Code != 1 || !strings.Contains(res.Stderr, `there is no session "work"`) {
		t.Errorf("stop without a session: exit %d\n%s", res.Code, res.Stderr)
	}
	broken := r.Gantry("-c", "model.none.provider=nobody", "-c", "approval.policy=sometimes", "call", "--session", "other", "shell", "exec_command", `{"cmd": "true"}`)
	if broken.Code != 1 || !strings.Contains(broken.Stderr, "sometimes") {
		t.Errorf("a session that does not start: exit %d\n%s", broken.Code, broken.Stderr)
	}
}

// The commands of the browser plugin call its tools; a session keeps the browser.
func TestBrowserCommands(t *testing.T) {
	t.Parallel()
	r := newBrowser(t, "chromium-headless-shell", modelSays("extract information", "What is it", "It is a form.")+
		operates("Look at it", `{"done":{"text":"It was looked at.","success":true}}`)+finished)
	site := form(t)
	run := func(args ...string) string {
		t.Helper()
		return r.OK(append(reaching("workspace-write"), append([]string{"browser"}, args...)...)...).Stdout
	}
	t.Cleanup(func() { r.Gantry("session", "stop", "work") })
	if out := run("open", site.URL, "--session", "work"); !strings.Contains(out, "Greet") {
		t.Errorf("open:\n%s", out)
	}
	if out := run("act", `[{"input": {"index": 1, "text": "Ann"}}, {"click": {"index": 2}}]`, "--session", "work"); !strings.Contains(out, "Hello Ann") {
		t.Errorf("act:\n%s", out)
	}
	if out := run("state", "--mode", "full", "--session", "work"); !strings.Contains(out, "Hello Ann") {
		t.Errorf("state:\n%s", out)
	}
	out := run("screenshot", "--session", "work", "--save", ".")
	if pictures, err := filepath.Glob(filepath.Join(r.Dir, "image-*")); err != nil || len(pictures) != 1 {
		t.Errorf("screenshot: %q, %v\n%s", pictures, err, out)
	}
	r.Write("title.js", `console.log("the title:", await page.js("document.title")); return 6 * 7`)
	r.Write("history.json", fmt.Sprintf(`{"history":[{"model_output":{"evaluation_previous_goal":"","memory":"","next_goal":"","action":[{"navigate":{"url":%q}}]},"result":[{}],"state":{"url":"","title":"","tabs":[],"screenshot_path":null,"interacted_element":[null]}}]}`, site.URL+"/again"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"execute", "title.js"}, "Result: 42"},
		{[]string{"configure", "--dialogs", "accept", "--block", "ads.example.com"}, "1 blocked patterns, dialogs: accept"},
		{[]string{"record", "start", "--kinds", "har"}, "Recording har"},
		{[]string{"replay", "history.json"}, "All steps were replayed."},
		{[]string{"record", "stop"}, "requests.har"},
		{[]string{"recover", "reload"}, "The page was loaded again."},
		{[]string{"status"}, "MiB"}, {[]string{"tabs"}, site.URL + "/again"},
		{[]string{"extract", "What is it?"}, "It is a form."},
		{[]string{"task", "Look at it", "--max-steps", "3", "--judge=false"}, "It was looked at."},
		{[]string{"close"}, "The browser has ended"}, {[]string{"status"}, "No browser runs"},
	} {
		if out := run(append(c.args, "--session", "work")...); !strings.Contains(out, c.want) {
			t.Errorf("%s: no %q in\n%s", c.args, c.want, out)
		}
	}
	r.OK("session", "stop", "work")
	noProfileLeft(t, r)
}
