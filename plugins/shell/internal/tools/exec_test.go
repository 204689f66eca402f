//go:build unix

package tools_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

var (
	chunkLine   = regexp.MustCompile(`^Chunk ID: [0-9a-f]{6}$`)
	wallLine    = regexp.MustCompile(`^Wall time: \d+\.\d{4} seconds$`)
	runningLine = regexp.MustCompile(`^Process running with session ID (\d+)\n`)
)

// plain runs a command without the user's profile, which says things of its own on some machines.
func plain(cmd string) object { return object{"cmd": cmd, "login": false} }

func exited(code, tokens int, body string) string {
	return fmt.Sprintf("Process exited with code %d\nOriginal token count: %d\nOutput:\n%s", code, tokens, body)
}

func TestExec(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, tt := range []struct {
		name string
		args object
		want string
		code int32
	}{
		{"output", plain("printf abc"), exited(0, 1, "abc"), 0},
		{"both streams in order", plain("echo out; echo err 1>&2; exit 3"), exited(3, 2, "out\nerr\n"), 3},
		{"nothing", plain("true"), exited(0, 0, ""), 0},
		{"killed", plain("kill -9 $$"), exited(137, 0, ""), 137},
		{"empty command", plain(""), exited(0, 0, ""), 0},
		{"bytes that are no text", plain(`printf 'a\377\376b'`), exited(0, 1, "a\uFFFD\uFFFDb"), 0},
		{"no stdin", plain("cat; echo end"), exited(0, 1, "end\n"), 0},
		{"no terminal", plain("test -t 0 || test -t 1 || echo none"), exited(0, 2, "none\n"), 0},
		{"unknown shell", object{"cmd": "echo $0", "shell": "/bin/fish", "login": false}, exited(0, 2, "/bin/sh\n"), 0},
		{"other shell", object{"cmd": "echo $0", "shell": "sh", "login": false}, "", 0},
		{"login shell", object{"cmd": "echo $0", "shell": "/bin/sh"}, "", 0},
		{"null is absent", object{"cmd": "printf abc", "login": false, "yield_time_ms": nil, "tty": nil, "workdir": nil, "shell": nil}, exited(0, 1, "abc"), 0},
		{"unknown argument", object{"cmd": "printf abc", "login": false, "colour": "red"}, exited(0, 1, "abc"), 0},
		{"background job that holds the output", plain("sleep 60 & echo done"), exited(0, 2, "done\n"), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := r.call("exec_command", tt.args)
			if got := a.tail(); tt.want != "" && got != tt.want {
				t.Errorf("tail = %q, want %q", got, tt.want)
			}
			item, ok := a.Item.(*contract.CommandItem)
			if !ok || item.ExitCode == nil || *item.ExitCode != tt.code || item.Command != tt.args["cmd"] || item.SessionID != "" {
				t.Errorf("item = %+v, want exit code %d", a.Item, tt.code)
			}
			if a.IsError || a.SessionID != "" || a.SandboxDenied || a.Aborted || a.Structured != nil {
				t.Errorf("result = %+v", a.Result)
			}
		})
	}
}

func TestExecShowsOutputAsItAppears(t *testing.T) {
	r := newRig(t, rigOptions{})
	args := plain("echo first; until [ -e go ]; do sleep 0.01; done; echo second")
	run := r.start("exec_command", args, r.assess("exec_command", args), nil)
	run.until(func(e contract.CallEvent) bool { _, ok := e.(contract.Output); return ok })
	if run.a.Result != nil || run.a.output != "first\n" {
		t.Fatalf("output = %q, result = %v", run.a.output, run.a.Result)
	}
	if item, ok := run.a.started.(*contract.CommandItem); !ok || item.Command != args["cmd"] || item.Cwd != r.cwd {
		t.Errorf("started = %+v", run.a.started)
	}
	touch(t, r.cwd, "go")
	a := run.wait()
	if a.output != "first\nsecond\n" || a.tail() != exited(0, 4, "first\nsecond\n") {
		t.Errorf("output = %q, tail = %q", a.output, a.tail())
	}
}

func touch(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWorkdir(t *testing.T) {
	r := newRig(t, rigOptions{})
	if err := os.Mkdir(filepath.Join(r.cwd, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(r.cwd, "sub")
	for workdir, want := range map[string]string{"": r.cwd, "sub": sub, "./sub/../sub": sub, sub: sub} {
		a := r.call("exec_command", object{"cmd": "pwd -P", "workdir": workdir, "login": false})
		real, err := filepath.EvalSymlinks(want)
		if err != nil {
			t.Fatal(err)
		}
		if _, body, _ := strings.Cut(a.tail(), "Output:\n"); body != real+"\n" {
			t.Errorf("workdir %q: ran in %q, want %q", workdir, body, real)
		}
	}
	// Replaces the vector `exec_command failed: CreateProcess { message: "Rejected(…)" }`: printing a debug struct is a
	// known defect.
	a := r.call("exec_command", object{"cmd": "true", "workdir": "missing", "login": false})
	want := "exec_command failed: could not start the command in " + filepath.Join(r.cwd, "missing") + ": No such file or directory (os error 2)"
	if a.text() != want || !a.IsError || a.SandboxDenied {
		t.Errorf("missing: %q, %+v; want %q", a.text(), a.Result, want)
	}
}

func TestRefusedStart(t *testing.T) {
	r := newRig(t, rigOptions{host: processtest.Options{Refuse: func(*gantryv1.SpawnRequest) *gantryv1.SpawnError {
		return &gantryv1.SpawnError{Message: "the grant forbids it", Denied: true}
	}}})
	a := r.call("exec_command", plain("true"))
	if want := "exec_command failed: could not start the command in " + r.cwd + ": the grant forbids it"; a.text() != want || !a.SandboxDenied {
		t.Errorf("text = %q, denied %v, want %q", a.text(), a.SandboxDenied, want)
	}
	if again := r.call("exec_command", plain("true")); again.text() != a.text() {
		t.Errorf("again: %q", again.text())
	}
}

func TestDeniedBySandbox(t *testing.T) {
	r := newRig(t, rigOptions{})
	const cmd = "echo 'touch: Permission denied'; exit 1"
	if a := r.call("exec_command", plain(cmd)); a.SandboxDenied {
		t.Error("denied although there is no sandbox")
	}
	r.grant.SandboxMode = "workspace-write"
	a := r.call("exec_command", plain(cmd))
	if !a.SandboxDenied || a.IsError || !strings.HasPrefix(a.tail(), "Process exited with code 1\n") {
		t.Errorf("result = %+v, %q", a.Result, a.text())
	}
}

func TestEnvironment(t *testing.T) {
	r := newRig(t, rigOptions{})
	a := r.call("exec_command", plain("env"))
	for _, want := range []string{
		"NO_COLOR=1", "TERM=dumb", "COLORTERM=", "LANG=C.UTF-8", "LC_CTYPE=C.UTF-8", "LC_ALL=C.UTF-8", "PAGER=cat", "GIT_PAGER=cat",
		"GH_PAGER=cat", "GANTRY_CI=1", "GANTRY_THREAD_ID=thread", "GANTRY_TOOL_CALL_ID=call", "GANTRY_VERSION=0.0.0-test",
	} {
		if !slices.Contains(strings.Split(a.text(), "\n"), want) {
			t.Errorf("%s is missing in %s", want, a.text())
		}
	}
}

func TestLongOutputIsLeftToTheHost(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, tt := range []struct {
		name, cmd string
		max       any
		tokens    int // in the header
		limit     int64
		total     int64
		omitted   int64
		lines     int
	}{
		{"no tokens asked for", "seq 1 20", 0, 13, 0, 0, 0, 20},
		{"few tokens asked for", "seq 1 30000", 50, 42224, 50, 0, 0, 30000},
		{"the usual", "yes xxx | head -c 200000; echo", nil, 50001, 10000, 0, 0, 50001},
		{"many asked for", "echo a", 20000, 1, 20000, 0, 0, 1},
		{"more than is kept", "head -c 3000000 /dev/zero | tr '\\0' a; printf '\\nEND\\n'", nil, 750002, 10000, 3000005, 1951429, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := plain(tt.cmd)
			if tt.max != nil {
				args["max_output_tokens"] = tt.max
			}
			a := r.call("exec_command", args)
			header, body := a.Parts[0].(*contract.TextPart), a.Parts[1].(*contract.TextPart)
			if header.Fit != contract.FitVerbatim || !strings.HasSuffix(header.Text, fmt.Sprintf("\nOriginal token count: %d\nOutput:\n", tt.tokens)) {
				t.Errorf("header = %q", header.Text)
			}
			if body.Fit != contract.FitTruncatable || !body.AnnounceTruncation || body.MaxTokens == nil || *body.MaxTokens != tt.limit {
				t.Errorf("body: fit %v, announce %v, max %v", body.Fit, body.AnnounceTruncation, body.MaxTokens)
			}
			if body.TotalBytes != tt.total || body.OmittedBytes != tt.omitted || strings.Count(body.Text, "\n") != tt.lines {
				t.Errorf("body: total %d, omitted %d, %d lines", body.TotalBytes, body.OmittedBytes, strings.Count(body.Text, "\n"))
			}
			if len(a.Parts) != 2 || tt.omitted > 0 && !strings.HasSuffix(body.Text, "aa\nEND\n") {
				t.Errorf("%d parts, %d bytes of text", len(a.Parts), len(body.Text))
			}
		})
	}
}

func TestOutputFitsTheCaps(t *testing.T) {
	r := newRig(t, rigOptions{})
	args := plain("yes xxx | head -c 100000; head -c 100000 /dev/zero | tr '\\0' '\\377'")
	a := r.start("exec_command", args, r.assess("exec_command", args), func(s *contract.CallStart) {
		s.Caps.MaxInlineBytes = 30000
	}).wait()
	body := a.Parts[1].(*contract.TextPart)
	if len(body.Text) > 30000 || body.TotalBytes != 200000 || len(a.Parts) != 2 {
		t.Errorf("%d bytes of text, total %d, %d parts", len(body.Text), body.TotalBytes, len(a.Parts))
	}
	// The model may read all of it, so the omission must be reported.
	if want := fmt.Sprintf("\n... %d bytes omitted ...\n", body.OmittedBytes); !strings.Contains(body.Text, want) {
		t.Errorf("%q is missing", want)
	}
}

func TestNestedCallGetsAnObject(t *testing.T) {
	r := newRig(t, rigOptions{})
	args := plain("printf abc; exit 2")
	a := r.start("exec_command", args, r.assess("exec_command", args), func(s *contract.CallStart) { s.Parents = []string{"outer"} }).wait()
	want := regexp.MustCompile(`^\{"chunk_id":"[0-9a-f]{6}","wall_time_seconds":[0-9.e-]+,"exit_code":2,"original_token_count":1,"output":"abc"\}$`)
	if !want.Match(a.Structured) {
		t.Errorf("structured = %s", a.Structured)
	}
}

func TestArguments(t *testing.T) {
	r := newRig(t, rigOptions{})
	const parse = "failed to parse function arguments: "
	for _, tt := range []struct{ tool, args, want, also string }{
		{"exec_command", `{}`, parse, "missing field `cmd`"},
		{"exec_command", `not json`, parse, ""},
		{"exec_command", `{"cmd":5}`, parse, "`cmd`"},
		{"exec_command", `{"cmd":"x","yield_time_ms":-5}`, parse, "`yield_time_ms`"},
		{"exec_command", `{"cmd":"x","yield_time_ms":1.5}`, parse, "`yield_time_ms`"},
		{"exec_command", `{"cmd":"x","max_output_tokens":"many"}`, parse, "`max_output_tokens`"},
		{"exec_command", `{"cmd":"x","sandbox_permissions":"all"}`, parse, "`sandbox_permissions`"},
		{"exec_command", `{"cmd":"x","justification":"why not"}`, "`justification` requires an explicit `sandbox_permissions`;", "require_escalated"},
		{"exec_command", `{"cmd":"x","justification":"why not","sandbox_permissions":"use_default"}`, "`justification` requires an explicit", ""},
		{"exec_command", `{"cmd":"x","additional_permissions":{"network":{"enabled":true}}}`, "`additional_permissions` requires `sandbox_permissions` set to `with_additional_permissions`", ""},
		{"exec_command", `{"cmd":"x","sandbox_permissions":"with_additional_permissions"}`, "missing `additional_permissions`", ""},
		{"exec_command", `{"cmd":"x","sandbox_permissions":"with_additional_permissions","additional_permissions":{"network":{"enabled":false},"file_system":{"read":[]}}}`,
			"`additional_permissions` must name at least one permission", ""},
		{"exec_command", `{"cmd":"x","sandbox_permissions":"with_additional_permissions","additional_permissions":{"file_system":{"write":"/x"}}}`, parse, "write"},
		{"write_stdin", `{"chars":"x"}`, parse, "missing field `session_id`"},
		{"write_stdin", `{"session_id":"5"}`, parse, "`session_id`"},
		{"write_stdin", `{"session_id":99999999999}`, parse, "`session_id`"},
		{"view_image", `{}`, parse, "missing field `path`"},
		{"view_image", `{"path":"x","detail":"low"}`, "view_image.detail only supports `high` or `original`; omit `detail` for default high resized behavior, got `low`", ""},
	} {
		a := r.call(tt.tool, tt.args)
		if !a.early || !a.IsError || !strings.HasPrefix(a.text(), tt.want) || !strings.Contains(a.text(), tt.also) {
			t.Errorf("%s %s: %q, want %q … %q", tt.tool, tt.args, a.text(), tt.want, tt.also)
		}
	}
}

func TestAssessExec(t *testing.T) {
	r := newRig(t, rigOptions{config: `{"shell":"/bin/sh"}`})
	long := strings.Repeat("x", 200)
	a := r.assess("exec_command", object{
		"cmd": "make install\n" + long, "workdir": "sub", "tty": true, "sandbox_permissions": "require_escalated",
		"justification": "May I install it?", "prefix_rule": []string{"make", "install"},
	})
	effect, ok := a.Effects[0].(contract.ExecEffect)
	cwd := filepath.Join(r.cwd, "sub")
	if !ok || len(a.Effects) != 1 || !slices.Equal(effect.Argv, []string{"/bin/sh", "-lc", "make install\n" + long}) || effect.Cwd != cwd ||
		effect.ShellText != "make install\n"+long || !effect.TTY {
		t.Errorf("effects = %+v", a.Effects)
	}
	e := a.Escalation
	if e == nil || !e.Unsandboxed || e.Justification != "May I install it?" || !slices.Equal(e.PrefixRule, []string{"make", "install"}) {
		t.Errorf("escalation = %+v", e)
	}
	if a.Summary != "make install …" || a.ReadOnly || len(a.Discriminators) != 1 {
		t.Errorf("summary %q, read-only %v, discriminators %v", a.Summary, a.ReadOnly, a.Discriminators)
	}
	if item, ok := a.Item.(*contract.CommandItem); !ok || item.Cwd != cwd {
		t.Errorf("item = %+v", a.Item)
	}
	usual := r.assess("exec_command", object{"cmd": long, "login": false, "prefix_rule": []string{"x"}})
	if usual.Escalation != nil || usual.Discriminators != nil || len([]rune(usual.Summary)) != 122 {
		t.Errorf("assessment = %+v", usual)
	}
	with := func(permissions object) object {
		return object{"cmd": "a", "sandbox_permissions": "with_additional_permissions", "justification": "J", "additional_permissions": permissions}
	}
	wide := r.assess("exec_command", with(object{"network": object{"enabled": true}, "file_system": object{"read": []string{"../x"}, "write": []string{"/y"}}}))
	if e := wide.Escalation; e == nil || e.Unsandboxed || e.Justification != "J" || !reflect.DeepEqual(e.Additional, []contract.Effect{
		contract.ReadEffect{Paths: []string{filepath.Join(filepath.Dir(r.cwd), "x")}}, contract.WriteEffect{Paths: []string{"/y"}}, contract.NetworkEffect{Host: "*"},
	}) || wide.Discriminators != nil {
		t.Errorf("with additional permissions: %+v, %v", e, wide.Discriminators)
	}
	digests := map[string]bool{}
	for _, args := range []object{
		with(object{"network": object{"enabled": true}}), with(object{"file_system": object{"write": []string{"/y"}}}),
		{"cmd": "a"}, {"cmd": "b"}, {"cmd": "a", "tty": true}, {"cmd": "a", "login": false}, {"cmd": "a", "workdir": "/"},
		{"cmd": "a", "sandbox_permissions": "require_escalated"},
	} {
		digests[r.assess("exec_command", args).Digest] = true
	}
	if len(digests) != 8 {
		t.Errorf("%d digests for 8 commands", len(digests))
	}
}

func TestRunsOnlyWhatWasAssessed(t *testing.T) {
	r := newRig(t, rigOptions{})
	a := r.start("exec_command", plain("touch made"), r.assess("exec_command", plain("true")), nil).wait()
	if !a.IsError || !strings.HasPrefix(a.text(), "exec_command failed: ") {
		t.Errorf("text = %q", a.text())
	}
	if _, err := os.Stat(filepath.Join(r.cwd, "made")); err == nil {
		t.Error("the command ran")
	}
}

func TestConfig(t *testing.T) {
	r := newRig(t, rigOptions{config: `{"login":false,"terminal":false}`})
	for args, want := range map[string]string{
		`{"cmd":"x","login":true}`: "login shell is disabled by config; omit `login` or set it to false.",
		`{"cmd":"x","tty":true}`:   "TTY execution is disabled by config; omit `tty` or set it to false.",
	} {
		if a := r.call("exec_command", args); a.text() != want || !a.IsError {
			t.Errorf("%s: %q, want %q", args, a.text(), want)
		}
	}
	effect := r.assess("exec_command", object{"cmd": "x"}).Effects[0].(contract.ExecEffect)
	if effect.Argv[1] != "-c" {
		t.Errorf("argv = %q", effect.Argv)
	}
	for config, want := range map[string]string{
		`{"shell":"/no/such/bash"}`: "not a supported shell", `{"shell":"/bin/cat"}`: "not a supported shell", `{"max_poll":"0s"}`: "max_poll",
	} {
		ds := r.configure(config)
		if len(ds) != 1 || !strings.Contains(ds[0].GetSummary(), want) || len(ds[0].GetPath()) != 1 {
			t.Errorf("%s: %v", config, ds)
		}
	}
}

// An interrupt ends the command of the call. A session that an earlier call has left goes on.
func TestInterruptEndsTheCommand(t *testing.T) {
	r := newRig(t, rigOptions{})
	args := plain("echo $$ > pid; echo begun; until [ -e go ]; do sleep 0.01; done")
	run := r.start("exec_command", args, r.assess("exec_command", args), nil)
	run.until(func(e contract.CallEvent) bool { _, ok := e.(contract.Output); return ok })
	run.cancel("interrupted")
	a := run.wait()
	if !a.Aborted || a.SessionID != "" || !regexp.MustCompile(`^Wall time: \d+\.\d seconds\naborted by user$`).MatchString(a.text()) {
		t.Errorf("result = %+v, %q", a.Result, a.text())
	}
	b, err := os.ReadFile(filepath.Join(r.cwd, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the command runs: %v", err)
	}
}

// If a call reaches its deadline while its command is running, the result is the same as at the end of the wait.
func TestDeadlineIsTheCallsNotTheCommands(t *testing.T) {
	r := newRig(t, rigOptions{})
	args := plain("echo begun; until [ -e go ]; do sleep 0.01; done")
	run := r.start("exec_command", args, r.assess("exec_command", args), nil)
	run.until(func(e contract.CallEvent) bool { _, ok := e.(contract.Output); return ok })
	run.cancel("deadline")
	a := run.wait()
	if a.Aborted || a.SessionID == "" || !runningLine.MatchString(a.tail()) || !strings.HasSuffix(a.text(), "Output:\nbegun\n") {
		t.Errorf("result = %+v, %q", a.Result, a.text())
	}
}

func TestAttachWithoutDescriptors(t *testing.T) {
	r := newRig(t, rigOptions{host: processtest.Options{Attach: true}})
	if a := r.call("exec_command", plain("printf abc; exit 4")); a.tail() != exited(4, 1, "abc") {
		t.Errorf("text = %q", a.text())
	}
}

func TestTerminal(t *testing.T) {
	r := newRig(t, rigOptions{})
	a := r.call("exec_command", object{"cmd": "tty; stty size", "tty": true, "login": false})
	if !regexp.MustCompile(`Output:\n/dev/[a-z0-9/]+\r\n24 80\r\n$`).MatchString(a.text()) {
		t.Errorf("text = %q", a.text())
	}
	spawned := r.host.Spawned()
	last := spawned[len(spawned)-1]
	if last.GetTerminal().GetRows() != 24 || last.GetTerminal().GetCols() != 80 || !last.GetSession() || last.GetMergeStderr() || last.GetCallToken() != "ct" {
		t.Errorf("spawned with %v", last)
	}
}

func TestPythonInTerminal(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 here")
	}
	r := newRig(t, rigOptions{})
	a := r.call("exec_command", object{"cmd": "python3 -q -c 'import code; code.interact(banner=\"\", exitmsg=\"\")'", "tty": true, "login": false, "yield_time_ms": 250})
	id := sessionOf(t, a)
	seen := a.text()
	until := func(want, chars string) {
		t.Helper()
		for range 40 {
			if strings.Contains(seen, want) {
				return
			}
			b := r.call("write_stdin", object{"session_id": id, "chars": chars, "yield_time_ms": 250})
			seen += b.text()
			chars = "\r" // a new prompt
		}
		t.Fatalf("%q did not come: %q", want, seen)
	}
	until(">>> ", "")
	seen = ""
	until("asleep", "import time; print('as' + 'leep'); time.sleep(100)\r")
	seen = ""
	until("KeyboardInterrupt\r\n>>> ", "\x03")
	if !strings.Contains(seen, "^C") || !strings.Contains(seen, "Traceback") {
		t.Errorf("after Ctrl-C: %q", seen)
	}
}

func sessionOf(t *testing.T, a *answer) int {
	t.Helper()
	m := runningLine.FindStringSubmatch(a.tail())
	if m == nil || a.SessionID != m[1] {
		t.Fatalf("no running session: %q, session %q", a.text(), a.SessionID)
	}
	var id int
	if _, err := fmt.Sscan(m[1], &id); err != nil {
		t.Fatal(err)
	}
	return id
}
