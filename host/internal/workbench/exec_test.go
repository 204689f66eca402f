//go:build linux

package workbench_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/workbench"
)

func sh(script string) protocol.CommandExecParams {
	return protocol.CommandExecParams{Command: []string{"sh", "-c", script}}
}

// with returns the parameters with an id and changes.
func with(q protocol.CommandExecParams, id string, change func(*protocol.CommandExecParams)) protocol.CommandExecParams {
	if id != "" {
		q.ProcessID = &id
	}
	if change != nil {
		change(&q)
	}
	return q
}

// output returns what was streamed of a process so far, and whether the limit was reached.
func (w *world) output(id string, s protocol.OutputStream) (text string, capReached bool) {
	for _, n := range w.told() {
		var at protocol.CommandExecOutputDeltaNotification
		switch p := n.params.(type) {
		case protocol.CommandExecOutputDeltaNotification:
			at = p
		case protocol.ProcessOutputDeltaNotification:
			at = protocol.CommandExecOutputDeltaNotification{ProcessID: p.ProcessHandle, Stream: p.Stream, DeltaBase64: p.DeltaBase64, CapReached: p.CapReached}
		}
		if at.ProcessID != id || at.Stream != s {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(at.DeltaBase64)
		if err != nil || len(b) > 64<<10 || capReached {
			w.t.Errorf("a delta of %d bytes, %v, after the limit: %v", len(b), err, capReached)
		}
		text, capReached = text+string(b), at.CapReached
	}
	return text, capReached
}

// prints waits until a process has printed a text.
func (w *world) prints(id, text string) {
	w.t.Helper()
	w.await(func(note) bool {
		got, _ := w.output(id, protocol.StdoutStream)
		return strings.Contains(got, text)
	})
}

type answer struct {
	protocol.CommandExecResponse
	err error
}

// launched starts a command and returns its answer to come. The client may write to it.
func (w *world) launched(q protocol.CommandExecParams) <-chan answer {
	w.t.Helper()
	out, started := make(chan answer, 1), make(chan struct{})
	go func() { // ends with the command, at the latest with the world
		r, err := w.bench.CommandExec(context.Background(), q, func() { close(started) })
		out <- answer{r, err}
	}()
	select {
	case <-started:
	case a := <-out:
		out <- a
	}
	return out
}

func TestCommandExec(t *testing.T) {
	t.Parallel()
	w := commands(t, box.WorkspaceWrite)
	for _, tc := range []struct {
		name           string
		q              protocol.CommandExecParams
		code           int
		stdout, stderr string
	}{
		{"output and exit code", sh("echo a; echo b >&2; exit 3"), 3, "a\n", "b\n"},
		{"timeout", with(protocol.CommandExecParams{Command: []string{"sleep", "60"}}, "", func(q *protocol.CommandExecParams) { q.TimeoutMs = new(int64(200)) }), 124, "", ""},
		{"output before a timeout", with(sh("echo a; sleep 60"), "", func(q *protocol.CommandExecParams) { q.TimeoutMs = new(int64(500)) }), 124, "a\n", ""},
		{"limit on output", with(sh("printf %0100d 7; printf %010d 8 >&2"), "", func(q *protocol.CommandExecParams) { q.OutputBytesCap = new(uint64(10)) }), 0, strings.Repeat("0", 10), "0000000008"},
		{"no output", with(sh("echo a"), "", func(q *protocol.CommandExecParams) { q.OutputBytesCap = new(uint64(0)) }), 0, "", ""},
		{"default limit", sh("head -c 1100000 /dev/zero"), 0, strings.Repeat("\x00", 1<<20), ""},
		{"no limit", with(sh("head -c 1100000 /dev/zero"), "", func(q *protocol.CommandExecParams) { q.DisableOutputCap = true }), 0, strings.Repeat("\x00", 1_100_000), ""},
		{"environment", with(sh(`echo $FOO ${HOME-unset} $LANG`), "", func(q *protocol.CommandExecParams) {
			q.Env = map[string]*string{"FOO": new("1"), "HOME": nil}
		}), 0, "1 unset C\n", ""},
		{"folder", with(sh("pwd"), "", func(q *protocol.CommandExecParams) { q.Cwd = new(w.in("ws/sub")) }), 0, w.in("ws/sub") + "\n", ""},
		{"relative folder", with(sh("pwd"), "", func(q *protocol.CommandExecParams) { q.Cwd = new("sub") }), 0, w.in("ws/sub") + "\n", ""},
		{"no input", sh("cat; echo end"), 0, "end\n", ""},
		{"invalid text", sh(`printf 'a\377b'`), 0, "a\uFFFDb", ""},
		{"what it leaves ends", sh("sleep 1000 & echo a"), 0, "a\n", ""},
	} {
		got, err := w.bench.CommandExec(t.Context(), tc.q, nil)
		if want := (protocol.CommandExecResponse{ExitCode: tc.code, Stdout: tc.stdout, Stderr: tc.stderr}); err != nil || got != want {
			t.Errorf("%s: %d, %.80q, %.80q, %v", tc.name, got.ExitCode, got.Stdout, got.Stderr, err)
		}
	}
	if n := w.launcher.Count(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestCommandExecRefuses(t *testing.T) {
	t.Parallel()
	w := commands(t, box.WorkspaceWrite)
	size := &protocol.TerminalSize{Rows: 2, Cols: 3}
	cat := protocol.CommandExecParams{Command: []string{"cat"}}
	running := w.launched(with(cat, "running", func(q *protocol.CommandExecParams) { q.StreamStdin = true }))
	deaf := w.launched(with(sh("sleep 1000"), "deaf", nil))
	change := func(f func(q *protocol.CommandExecParams)) protocol.CommandExecParams { return with(sh("true"), "", f) }
	for _, tc := range []struct {
		q    protocol.CommandExecParams
		code int64
		text string
	}{
		{protocol.CommandExecParams{}, invalidRequest, "command must not be empty"},
		{protocol.CommandExecParams{Command: []string{""}}, invalidRequest, "command must not be empty"},
		{change(func(q *protocol.CommandExecParams) { q.Tty = true }), invalidRequest, "processId"},
		{change(func(q *protocol.CommandExecParams) { q.StreamStdin = true }), invalidRequest, "processId"},
		{change(func(q *protocol.CommandExecParams) { q.StreamStdoutStderr = true }), invalidRequest, "processId"},
		{change(func(q *protocol.CommandExecParams) { q.ProcessID = new("") }), invalidRequest, "processId"},
		{with(cat, "running", nil), invalidRequest, "duplicate active processId"},
		{change(func(q *protocol.CommandExecParams) { q.Size = size }), invalidParams, "size requires tty"},
		{with(cat, "t", func(q *protocol.CommandExecParams) { q.Tty, q.Size = true, &protocol.TerminalSize{} }), invalidParams, "size"},
		{change(func(q *protocol.CommandExecParams) { q.TimeoutMs, q.DisableTimeout = new(int64(1)), true }), invalidParams, "disableTimeout"},
		{change(func(q *protocol.CommandExecParams) { q.TimeoutMs = new(int64(-1)) }), invalidParams, "timeoutMs"},
		{change(func(q *protocol.CommandExecParams) { q.OutputBytesCap, q.DisableOutputCap = new(uint64(1)), true }), invalidParams, "disableOutputCap"},
		{change(func(q *protocol.CommandExecParams) { q.Env = map[string]*string{"A=B": nil} }), invalidParams, "env"},
		{change(func(q *protocol.CommandExecParams) { q.PermissionProfile = new("mine") }), invalidRequest, "permissionProfile"},
		{change(func(q *protocol.CommandExecParams) {
			q.PermissionProfile, q.SandboxPolicy = new(":workspace"), &protocol.SandboxPolicy{Body: protocol.ReadOnlyPolicy{}}
		}), invalidRequest, "permissionProfile"},
		{change(func(q *protocol.CommandExecParams) {
			q.SandboxPolicy = &protocol.SandboxPolicy{Body: protocol.WorkspaceWritePolicy{WritableRoots: []string{"x"}}}
		}), invalidParams, "writableRoots"},
		{protocol.CommandExecParams{Command: []string{"no-such-program"}}, internalError, "failed to spawn command: exec no-such-program: No such file or directory"},
		{change(func(q *protocol.CommandExecParams) { q.Cwd = new(w.in("none")) }), internalError, "failed to spawn command: chdir " + w.in("none") + ": No such file or directory"},
		{protocol.CommandExecParams{Command: []string{"a\x00b"}}, internalError, "Invalid argument"},
	} {
		_, err := w.bench.CommandExec(t.Context(), tc.q, nil)
		fails(t, tc.text, err, tc.code, tc.text)
	}
	ctx, data := t.Context(), new(coded("x"))
	write := func(id string, data *string, end bool) error {
		return w.bench.CommandExecWrite(ctx, protocol.CommandExecWriteParams{ProcessID: id, DeltaBase64: data, CloseStdin: end})
	}
	fails(t, "write to none", write("none", data, false), invalidRequest, "processId")
	fails(t, "write nothing", write("running", nil, false), invalidParams, "deltaBase64 or closeStdin")
	fails(t, "write garbage", write("running", new("%"), false), invalidParams, "deltaBase64")
	fails(t, "write without streamStdin", write("deaf", data, false), invalidRequest, "streamStdin")
	fails(t, "resize none", w.bench.CommandExecResize(ctx, protocol.CommandExecResizeParams{ProcessID: "none", Size: *size}), invalidRequest, "processId")
	fails(t, "resize without terminal", w.bench.CommandExecResize(ctx, protocol.CommandExecResizeParams{ProcessID: "running", Size: *size}), invalidRequest, "terminal")
	fails(t, "resize to nothing", w.bench.CommandExecResize(ctx, protocol.CommandExecResizeParams{ProcessID: "running"}), invalidParams, "size")
	fails(t, "terminate none", w.bench.CommandExecTerminate(ctx, protocol.CommandExecTerminateParams{ProcessID: "none"}), invalidRequest, "processId")

	fails(t, "end", write("running", nil, true), 0, "")
	fails(t, "write after the end", write("running", data, false), invalidRequest, "")
	if a := <-running; a.err != nil || a.ExitCode != 0 {
		t.Errorf("%+v", a)
	}
	fails(t, "terminate", w.bench.CommandExecTerminate(ctx, protocol.CommandExecTerminateParams{ProcessID: "deaf"}), 0, "")
	if a := <-deaf; a.err != nil || a.ExitCode != 143 {
		t.Errorf("%+v", a)
	}
	if _, err := w.bench.CommandExec(ctx, with(cat, "running", nil), nil); err != nil {
		t.Errorf("the id is not free again: %v", err)
	}
}

func TestCommandExecStreams(t *testing.T) {
	t.Parallel()
	w := commands(t, box.WorkspaceWrite)
	ctx := t.Context()
	in := with(protocol.CommandExecParams{Command: []string{"cat"}}, "cat", func(q *protocol.CommandExecParams) { q.StreamStdin, q.StreamStdoutStderr = true, true })
	cat := w.launched(in)
	fails(t, "write", w.bench.CommandExecWrite(ctx, protocol.CommandExecWriteParams{ProcessID: "cat", DeltaBase64: new(coded("hi"))}), 0, "")
	w.prints("cat", "hi")
	fails(t, "close", w.bench.CommandExecWrite(ctx, protocol.CommandExecWriteParams{ProcessID: "cat", CloseStdin: true}), 0, "")
	if a := <-cat; a.err != nil || a.CommandExecResponse != (protocol.CommandExecResponse{}) {
		t.Errorf("%+v", a)
	}
	// All deltas precede the response, and the last one of a stream says that the limit was reached.
	many := with(sh("head -c 300000 /dev/zero; printf %0100d 1 >&2"), "many", func(q *protocol.CommandExecParams) {
		q.StreamStdoutStderr, q.OutputBytesCap = true, new(uint64(200_000))
	})
	if got, err := w.bench.CommandExec(ctx, many, nil); err != nil || got != (protocol.CommandExecResponse{}) {
		t.Errorf("%+v, %v", got, err)
	}
	if text, full := w.output("many", protocol.StdoutStream); len(text) != 200_000 || !full {
		t.Errorf("%d bytes, limit reached: %v", len(text), full)
	}
	if text, full := w.output("many", protocol.StderrStream); len(text) != 100 || full {
		t.Errorf("%d bytes, limit reached: %v", len(text), full)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	w := commands(t, box.WorkspaceWrite)
	q := with(sh(`trap 'stty size' WINCH; stty -echo; stty size; echo ready; while read line; do echo "got $line"; done; echo end`), "t", func(q *protocol.CommandExecParams) {
		q.Tty, q.Size = true, &protocol.TerminalSize{Rows: 30, Cols: 90}
	})
	done := w.launched(q)
	ctx := t.Context()
	w.prints("t", "ready")
	if text, _ := w.output("t", protocol.StdoutStream); !strings.Contains(text, "30 90") {
		t.Errorf("%q", text)
	}
	fails(t, "write", w.bench.CommandExecWrite(ctx, protocol.CommandExecWriteParams{ProcessID: "t", DeltaBase64: new(coded("one\n"))}), 0, "")
	w.prints("t", "got one")
	fails(t, "resize", w.bench.CommandExecResize(ctx, protocol.CommandExecResizeParams{ProcessID: "t", Size: protocol.TerminalSize{Rows: 31, Cols: 91}}), 0, "")
	fails(t, "write", w.bench.CommandExecWrite(ctx, protocol.CommandExecWriteParams{ProcessID: "t", DeltaBase64: new(coded("two\n"))}), 0, "")
	w.prints("t", "31 91")
	fails(t, "close", w.bench.CommandExecWrite(ctx, protocol.CommandExecWriteParams{ProcessID: "t", CloseStdin: true}), 0, "")
	if a := <-done; a.err != nil || a.ExitCode != 0 {
		t.Errorf("%+v", a)
	}
	w.prints("t", "end")
}

// A command is confined as the configuration or the request says.
func TestCommandExecIsConfined(t *testing.T) {
	t.Parallel()
	w := commands(t, box.WorkspaceWrite)
	policy := func(p protocol.SandboxPolicyBody) func(*protocol.CommandExecParams) {
		return func(q *protocol.CommandExecParams) { q.SandboxPolicy = &protocol.SandboxPolicy{Body: p} }
	}
	profile := func(id string) func(*protocol.CommandExecParams) {
		return func(q *protocol.CommandExecParams) { q.PermissionProfile = &id }
	}
	try := fmt.Sprintf(`for p in ws/w ws/.git/hooks/w out/w home/.ssh/w; do touch %s/$p 2>/dev/null && echo $p; done; true`, w.top)
	for _, tc := range []struct {
		name   string
		change func(*protocol.CommandExecParams)
		want   string
	}{
		{"configuration", nil, "ws/w\n"},
		{"elsewhere", func(q *protocol.CommandExecParams) { q.Cwd = new(w.in("out")) }, "ws/w\n"},
		{"read-only", policy(protocol.ReadOnlyPolicy{}), ""},
		{"read-only profile", profile(":read-only"), ""},
		{"workspace", policy(protocol.WorkspaceWritePolicy{WritableRoots: []string{w.in("out")}}), "ws/w\nout/w\n"},
		{"workspace profile", profile(":workspace"), "ws/w\n"},
		{"full access", policy(protocol.FullAccessPolicy{}), "ws/w\nws/.git/hooks/w\nout/w\nhome/.ssh/w\n"},
	} {
		got, err := w.bench.CommandExec(t.Context(), with(sh(try), "", tc.change), nil)
		if err != nil || got.Stdout != tc.want {
			t.Errorf("%s: %+v, %v", tc.name, got, err)
		}
		for _, path := range strings.Fields(got.Stdout) {
			os.Remove(w.in(path))
		}
	}
	// What other programs would execute is moved aside when the command has ended.
	if got, err := w.bench.CommandExec(t.Context(), sh("mkdir -p lib/.codex; touch lib/.codex/x"), nil); err != nil || got.ExitCode != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Lstat(w.in("ws/lib/.codex")); err == nil {
		t.Error("settings of an agent were left")
	}
}

// The end of a connection ends its commands, even while the client does not read.
func TestCloseEndsCommands(t *testing.T) {
	t.Parallel()
	w := commands(t, launch.FullAccess)
	long := with(sh("sleep 1000 & echo $$ > pid; echo up; sleep 1000"), "long", func(q *protocol.CommandExecParams) { q.StreamStdoutStderr, q.DisableTimeout = true, true })
	done := w.launched(long)
	w.prints("long", "up")
	begin, err := w.bench.ProcessSpawn(t.Context(), protocol.ProcessSpawnParams{Command: []string{"sleep", "1000"}, ProcessHandle: "p", Cwd: w.in("ws")})
	if err != nil {
		t.Fatal(err)
	}
	_ = begin // the connection ends before the answer
	w.bench.Close()
	if a := <-done; a.err == nil {
		t.Errorf("%+v", a)
	}
	if n := w.launcher.Count(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	_, err = w.bench.CommandExec(t.Context(), sh("true"), nil)
	if err == nil {
		t.Error("a command runs without a connection")
	}
	w.bench.Close()
}

func TestProcess(t *testing.T) {
	t.Parallel()
	w := commands(t, launch.FullAccess)
	ctx := t.Context()
	spawn := func(q protocol.ProcessSpawnParams) error {
		begin, err := w.bench.ProcessSpawn(ctx, q)
		if err == nil {
			begin()
		}
		return err
	}
	exited := func(handle string) protocol.ProcessExitedNotification {
		return w.await(func(n note) bool {
			p, ok := n.params.(protocol.ProcessExitedNotification)
			return ok && p.ProcessHandle == handle
		}).params.(protocol.ProcessExitedNotification)
	}
	fails(t, "spawn", spawn(protocol.ProcessSpawnParams{Command: []string{"sh", "-c", "echo a; echo b >&2; exit 3"}, ProcessHandle: "a", Cwd: w.in("ws")}), 0, "")
	if got, want := exited("a"), (protocol.ProcessExitedNotification{ProcessHandle: "a", ExitCode: 3, Stdout: "a\n", Stderr: "b\n"}); got != want {
		t.Errorf("%+v", got)
	}
	fails(t, "again", spawn(protocol.ProcessSpawnParams{
		Command: []string{"cat"}, ProcessHandle: "a", Cwd: w.in("ws"), StreamStdin: true, StreamStdoutStderr: true, OutputBytesCap: new(uint64(2)),
	}), 0, "")
	fails(t, "duplicate", spawn(protocol.ProcessSpawnParams{Command: []string{"cat"}, ProcessHandle: "a", Cwd: w.in("ws")}), invalidRequest, "processHandle")
	fails(t, "write", w.bench.ProcessWriteStdin(ctx, protocol.ProcessWriteStdinParams{ProcessHandle: "a", DeltaBase64: new(coded("hey")), CloseStdin: true}), 0, "")
	got := w.await(func(n note) bool {
		p, ok := n.params.(protocol.ProcessExitedNotification)
		return ok && p.StdoutCapReached
	}).params
	if want := (protocol.ProcessExitedNotification{ProcessHandle: "a", StdoutCapReached: true}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if text, full := w.output("a", protocol.StdoutStream); text != "he" || !full {
		t.Errorf("%q, %v", text, full)
	}
	fails(t, "timeout", spawn(protocol.ProcessSpawnParams{Command: []string{"sleep", "100"}, ProcessHandle: "s", Cwd: w.in("ws"), TimeoutMs: new(int64(50))}), 0, "")
	if got := exited("s"); got.ExitCode != 124 {
		t.Errorf("%+v", got)
	}
	fails(t, "kill none", w.bench.ProcessKill(ctx, protocol.ProcessKillParams{ProcessHandle: "s"}), invalidRequest, "processHandle")
	fails(t, "spawn", spawn(protocol.ProcessSpawnParams{Command: []string{"sleep", "100"}, ProcessHandle: "k", Cwd: w.in("ws")}), 0, "")
	fails(t, "kill", w.bench.ProcessKill(ctx, protocol.ProcessKillParams{ProcessHandle: "k"}), 0, "")
	if got := exited("k"); got.ExitCode != 143 {
		t.Errorf("%+v", got)
	}
	fails(t, "relative", spawn(protocol.ProcessSpawnParams{Command: []string{"true"}, ProcessHandle: "r", Cwd: "x"}), invalidRequest, "cwd")
	fails(t, "no program", spawn(protocol.ProcessSpawnParams{Command: []string{"no-such"}, ProcessHandle: "r", Cwd: w.in("ws")}), internalError, "No such file")
	fails(t, "resize", w.bench.ProcessResizePty(ctx, protocol.ProcessResizePtyParams{ProcessHandle: "r", Size: protocol.TerminalSize{Rows: 1, Cols: 1}}), invalidRequest, "processHandle")
}

func TestProcessNeedsFullAccess(t *testing.T) {
	t.Parallel()
	w := commands(t, box.WorkspaceWrite)
	_, err := w.bench.ProcessSpawn(t.Context(), protocol.ProcessSpawnParams{Command: []string{"true"}, ProcessHandle: "a", Cwd: w.in("ws")})
	fails(t, "spawn", err, invalidRequest, "without a sandbox")
	if _, next := hint.Split(err); !strings.Contains(next, "command/exec") {
		t.Errorf("next: %q", next)
	}
}

// Input that a process does not read is bounded, and neither blocks the client nor keeps the process from being ended.
func TestInputIsBounded(t *testing.T) {
	t.Parallel()
	w := commands(t, box.WorkspaceWrite)
	done := w.launched(with(sh("sleep 1000"), "s", func(q *protocol.CommandExecParams) { q.StreamStdin, q.DisableTimeout = true, true }))
	part := new(coded(strings.Repeat("x", 1<<20)))
	var err error
	for range 20 {
		if err = w.bench.CommandExecWrite(t.Context(), protocol.CommandExecWriteParams{ProcessID: "s", DeltaBase64: part}); err != nil {
			break
		}
	}
	fails(t, "write", err, invalidRequest, "wait for the process")
	fails(t, "terminate", w.bench.CommandExecTerminate(t.Context(), protocol.CommandExecTerminateParams{ProcessID: "s"}), 0, "")
	<-done
}

// The workspace with the deepest folder above a path applies.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	first, second := commands(t, box.ReadOnly), commands(t, box.WorkspaceWrite)
	b := workbench.New(workbench.Config{Notify: first.notify, Workspaces: func() []*workbench.Workspace {
		return []*workbench.Workspace{first.ws, second.ws}
	}})
	defer b.Close()
	write := func(path string) error {
		return b.FsWriteFile(t.Context(), protocol.FsWriteFileParams{Path: path})
	}
	fails(t, "the second", write(second.in("ws/new")), 0, "")
	fails(t, "the first", write(first.in("ws/new")), invalidRequest, "read-only")
	fails(t, "neither", write(filepath.Join(second.top, "out/new")), invalidRequest, "read-only")
	second.write("ws/denied.env", "")
	fails(t, "what the second denies", b.FsCopy(t.Context(), protocol.FsCopyParams{SourcePath: second.in("ws/denied.env"), DestinationPath: second.in("ws/x")}),
		invalidRequest, "can't be read")
	first.cfg.Sandbox.WritableRoots = []string{second.cfg.Dir}
	first.cfg.Sandbox.Mode, second.cfg.Sandbox.Mode = box.WorkspaceWrite, box.ReadOnly
	fails(t, "a folder of the first that is a workspace of its own", write(second.in("ws/new")), invalidRequest, "read-only")
}

// The runner of a workspace starts the commands in its folder, under its rules.
func TestRunnersOfWorkspaces(t *testing.T) {
	t.Parallel()
	first, second := commands(t, launch.FullAccess), commands(t, box.ReadOnly)
	one, two := &caught{}, &caught{}
	first.ws.Runner, second.ws.Runner = one, two
	first.cfg.Sandbox.DenyRead = nil
	b := workbench.New(workbench.Config{Notify: first.notify, Workspaces: func() []*workbench.Workspace {
		return []*workbench.Workspace{first.ws, second.ws}
	}})
	defer b.Close()
	q := sh("true")
	_, err := b.CommandExec(t.Context(), q, nil)
	fails(t, "the first", err, internalError, "failed to spawn")
	dir := second.cfg.Dir
	q.Cwd = &dir
	_, err = b.CommandExec(t.Context(), q, nil)
	fails(t, "the second", err, internalError, "failed to spawn")
	if one.spec.Cwd != first.cfg.Dir || one.spec.Grant.Mode != launch.FullAccess || two.spec.Cwd != dir || two.spec.Grant.Mode != box.ReadOnly {
		t.Errorf("%+v\n%+v", one.spec, two.spec)
	}
	// A path is resolved before its workspace is chosen.
	link := first.in("ws/link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	_, err = b.ProcessSpawn(t.Context(), protocol.ProcessSpawnParams{Command: []string{"true"}, ProcessHandle: "h", Cwd: link})
	fails(t, "by a link", err, invalidRequest, "without a sandbox")
}

// What is done with a whole folder keeps to the rules of the workspaces inside of it.
func TestWorkspaceInsideAnother(t *testing.T) {
	t.Parallel()
	outer := newWorld(t, box.WorkspaceWrite)
	outer.cfg.Sandbox.DenyRead = nil
	inner := *outer.ws
	cfg := *outer.cfg
	outer.write("ws/tree/in/b.txt", "")
	cfg.Dir = outer.in("ws/tree/in")
	cfg.Sandbox.Mode, cfg.Sandbox.DenyRead = box.ReadOnly, []string{"**/b.txt"}
	inner.Dir, inner.Config, inner.Granter.Config = cfg.Dir, &cfg, &cfg
	list := []*workbench.Workspace{outer.ws, &inner}
	b := workbench.New(workbench.Config{Notify: outer.notify, Workspaces: func() []*workbench.Workspace { return list }})
	defer b.Close()
	found := func() int {
		r, err := b.FuzzyFileSearch(t.Context(), protocol.FuzzyFileSearchParams{Query: "btxt", Roots: []string{outer.in("ws")}})
		fails(t, "search", err, 0, "")
		return len(r.Files)
	}
	fails(t, "copy from it", b.FsCopy(t.Context(), protocol.FsCopyParams{SourcePath: outer.in("ws/tree"), DestinationPath: outer.in("ws/copy"), Recursive: true}),
		invalidRequest, "b.txt can't be read")
	outer.write("ws/more/in/x", "")
	fails(t, "copy into it", b.FsCopy(t.Context(), protocol.FsCopyParams{SourcePath: outer.in("ws/more"), DestinationPath: outer.in("ws/tree"), Recursive: true}),
		invalidRequest, "read-only")
	fails(t, "remove", b.FsRemove(t.Context(), protocol.FsRemoveParams{Path: outer.in("ws/tree")}), invalidRequest, "commands may not write")
	if n := found(); n != 1 { // that of another folder
		t.Errorf("a search finds %d files", n)
	}
	for _, dir := range []string{"home/.ssh", "ws/.git/hooks"} {
		inner.Dir, cfg.Sandbox.Mode = outer.in(dir), box.WorkspaceWrite
		fails(t, dir, b.FsWriteFile(t.Context(), protocol.FsWriteFileParams{Path: outer.in(dir + "/new")}), invalidRequest, "")
	}
	list = list[:1]
	if n := found(); n != 2 {
		t.Errorf("without the inner workspace a search finds %d files", n)
	}
}

// caught is a runner that keeps what it should start.
type caught struct{ spec launch.Spec }

func (c *caught) Spawn(_ context.Context, s launch.Spec) (workbench.Process, error) {
	c.spec = s
	return nil, os.ErrInvalid
}

func (*caught) EndCall(context.Context, launch.Owner) error { return nil }

func TestNetworkOfAPolicy(t *testing.T) {
	t.Parallel()
	w := commands(t, box.WorkspaceWrite)
	for _, tc := range []struct {
		name              string
		network           bool   // of the configuration
		mode              string // of the configuration's network
		policy            protocol.SandboxPolicyBody
		network2, proxied bool
	}{
		{"configuration", true, "", nil, true, false},
		{"proxy", false, "proxy", nil, false, true},
		{"less", true, "", protocol.ReadOnlyPolicy{}, false, false},
		{"more", false, "", protocol.WorkspaceWritePolicy{NetworkAccess: true}, true, false},
		{"no more than the proxy allows", false, "proxy", protocol.ReadOnlyPolicy{NetworkAccess: true}, false, true},
		{"not even the proxy", false, "proxy", protocol.ReadOnlyPolicy{}, false, false},
		{"full", false, "proxy", protocol.FullAccessPolicy{}, true, false},
	} {
		w.cfg.Sandbox.Network, w.cfg.Network.Mode = tc.network, tc.mode
		c := &caught{}
		w.ws.Runner = c
		b := workbench.New(workbench.Config{Notify: w.notify, Workspaces: func() []*workbench.Workspace { return []*workbench.Workspace{w.ws} }})
		q := sh("true")
		if tc.policy != nil {
			q.SandboxPolicy = &protocol.SandboxPolicy{Body: tc.policy}
		}
		_, err := b.CommandExec(t.Context(), q, nil)
		fails(t, tc.name, err, internalError, "failed to spawn command")
		if g := c.spec.Grant; g.Network != tc.network2 || g.Proxied != tc.proxied {
			t.Errorf("%s: network %v, proxied %v", tc.name, g.Network, g.Proxied)
		}
		b.Close()
	}
}

// Without a sandbox too, what a command has left running ends with it.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	w := commands(t, launch.FullAccess)
	w.cfg.Sandbox.DenyRead = nil // or a sandbox would end with its first process
	got, err := w.bench.CommandExec(t.Context(), sh("sleep 1000 & echo $!"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(got.Stdout)); got.Stdout == "" || err == nil {
		t.Errorf("%q is running, %v", got.Stdout, err)
	}
}

// FuzzCommandExec sends parameters as a client does. No process is started: it must be refused with a code of JSON-RPC.
func FuzzCommandExec(f *testing.F) {
	for _, s := range []string{
		`{"command":["a"]}`, `{"command":[]}`, `{"command":["a"],"tty":true,"processId":"x","size":{"rows":1,"cols":0}}`, `{"command":["a"],"timeoutMs":-1}`,
		`{"command":["a"],"timeoutMs":9223372036854775807,"outputBytesCap":18446744073709551615}`, `{"command":["a"],"env":{"A":null,"":"x"}}`,
		`{"command":["a\u0000"],"cwd":"../.."}`, `{"command":["a"],"sandboxPolicy":{"type":"workspaceWrite","writableRoots":["/",""]}}`,
		`{"command":["a"],"permissionProfile":":workspace"}`, `{"command":["a"],"sandboxPolicy":{"type":"externalSandbox","networkAccess":"enabled"}}`,
	} {
		f.Add([]byte(s))
	}
	w := commands(f, box.WorkspaceWrite)
	w.ws.Runner = &caught{}
	b := workbench.New(workbench.Config{Notify: w.notify, Workspaces: func() []*workbench.Workspace { return []*workbench.Workspace{w.ws} }})
	f.Cleanup(b.Close)
	f.Fuzz(func(t *testing.T, data []byte) {
		var q protocol.CommandExecParams
		if json.Unmarshal(data, &q) != nil {
			return
		}
		if _, err := b.CommandExec(t.Context(), q, nil); err == nil {
			t.Error("it was not refused")
		} else if _, ok := errors.AsType[*rpc.Error](err); !ok {
			t.Errorf("%v is a %T", err, err)
		}
	})
}
