package acp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/acp"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a model: its answer to "slow" begins and never ends; for "run" it runs a command, for "patch" it changes a file.
const script = `
[[step]]
when  = { user = "^slow" }
times = -1
do    = [{ text = "an answer that never ends", chunk = 1 }]
break = { how = "hang", after_bytes = 8 }
[[step]]
when  = { user = "^run", since_user = 0 }
times = -1
do    = [{ call = "exec_command", id = "c1", args = { cmd = "echo made > made; cat made", login = false } }]
[[step]]
when  = { user = "^patch", since_user = 0 }
times = -1
do    = [{ call = "apply_patch", id = "p1", freeform = "*** Begin Patch\n*** Update File: old.txt\n@@\n-two\n+TWO\n*** End Patch\n" }]
[[step]]
when  = { user = "^boom" }
times = -1
error = { code = "authentication", message = "no such key" }
[[step]]
times = -1
usage = { input = 100, output = 10 }
do    = [{ reasoning = "hmm" }, { text = "heard ${user}" }]
`

// newHub opens a hub like the command line's, with a model that plays the script.
func newHub(t testing.TB, approval string) *hub.Hub {
	t.Helper()
	bin, err := filepath.Abs(cmpOr(os.Getenv("GANTRY_BIN"), filepath.Join("..", "..", "..", "bin")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "gantry-provider-scripted")); err != nil {
		t.Skip("the plugin binaries are missing: run `make build` first")
	}
	home, err := os.MkdirTemp("", "g") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	hcl := fmt.Sprintf(`
provider "scripted" {
  source      = "builtin/scripted"
  script_text = %s
}
model "default" {
  provider = "scripted"
  name     = "scripted"
}
model "other" {
  provider = "scripted"
  name     = "scripted"
}
approval {
  policy = %q
}
`, strings.ReplaceAll(fmt.Sprintf("%q", script), "${", "$${"), approval)
	if err := os.WriteFile(filepath.Join(home, "gantry.hcl"), []byte(hcl), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(t.Context(), hub.Config{
		Home:  home,
		Store: store.Config{Path: filepath.Join(home, "threads.db")},
		Load: func(ctx context.Context, w hub.Workspace) (*config.Config, error) {
			cfg, ds := config.Load(ctx, config.Options{Home: home, Dir: w.Dir, Sets: w.Sets, Profile: w.Profile, System: "-", Trusted: trust.Open(home).Trusted})
			return cfg, ds.Err()
		},
		Open: func(ctx context.Context, w hub.Workspace, cfg *config.Config, shared host.Shared) (*host.Host, error) {
			return host.New(ctx, host.Options{
				Home: home, BinDir: bin, Version: "0.0.0-test", Config: cfg, Logger: hclog.NewNullLogger(), Ephemeral: w.Ephemeral,
				Environ: []string{"PATH=" + os.Getenv("PATH")}, Shared: shared,
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), os.RemoveAll(home)); err != nil {
			t.Error(err)
		}
	})
	return h
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// editor is the SDK's client of a connection.
type editor struct {
	*sdk.ClientSideConnection
	t     testing.TB
	leave func()

	mu      sync.Mutex
	changed *sync.Cond
	updates []sdk.SessionUpdate
	asked   []sdk.RequestPermissionRequest
	choose  func(context.Context, sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome
}

// connect connects an editor to an agent.
func connect(t testing.TB, h *hub.Hub, caps sdk.ClientCapabilities) *editor {
	t.Helper()
	e := &editor{t: t}
	e.changed = sync.NewCond(&e.mu)
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	served := make(chan error, 1)
	go func() { // ends with the connection
		defer out.Close()
		served <- acp.Serve(context.WithoutCancel(t.Context()), acp.Config{Hub: h, Version: "1.2.3", Workspace: hub.Workspace{Dir: t.TempDir()}, Login: []string{"/bin/gantry", "login"}}, rpc.Lines(in, out, nil))
	}()
	e.ClientSideConnection = sdk.NewClientSideConnection(e, toAgent, fromAgent)
	e.leave = sync.OnceFunc(func() {
		_ = toAgent.Close() // its error is always nil
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-e.Done()
	})
	t.Cleanup(e.leave)
	r, err := e.Initialize(t.Context(), sdk.InitializeRequest{
		ProtocolVersion: 7, ClientCapabilities: caps, ClientInfo: &sdk.Implementation{Name: "ed", Version: "1"},
	})
	if err != nil || r.ProtocolVersion != 1 || r.AgentInfo.Name != "gantry" || !r.AgentCapabilities.LoadSession {
		t.Fatalf("initialized: %+v, %v", r, err)
	}
	return e
}

func (e *editor) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates = append(e.updates, n.Update)
	e.changed.Broadcast()
	return nil
}

func (e *editor) RequestPermission(ctx context.Context, p sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	e.mu.Lock()
	e.asked = append(e.asked, p)
	choose := e.choose
	e.changed.Broadcast()
	e.mu.Unlock()
	if choose == nil {
		return sdk.RequestPermissionResponse{}, errors.New("no answer")
	}
	return sdk.RequestPermissionResponse{Outcome: choose(ctx, p)}, nil
}

var errUnused = errors.New("the agent must not use this")

func (e *editor) unused() error { e.t.Error(errUnused); return errUnused }

func (e *editor) ReadTextFile(context.Context, sdk.ReadTextFileRequest) (r sdk.ReadTextFileResponse, err error) {
	return r, e.unused()
}
func (e *editor) WriteTextFile(context.Context, sdk.WriteTextFileRequest) (r sdk.WriteTextFileResponse, err error) {
	return r, e.unused()
}
func (e *editor) CreateTerminal(context.Context, sdk.CreateTerminalRequest) (r sdk.CreateTerminalResponse, err error) {
	return r, e.unused()
}
func (e *editor) KillTerminal(context.Context, sdk.KillTerminalRequest) (r sdk.KillTerminalResponse, err error) {
	return r, e.unused()
}
func (e *editor) TerminalOutput(context.Context, sdk.TerminalOutputRequest) (r sdk.TerminalOutputResponse, err error) {
	return r, e.unused()
}
func (e *editor) ReleaseTerminal(context.Context, sdk.ReleaseTerminalRequest) (r sdk.ReleaseTerminalResponse, err error) {
	return r, e.unused()
}
func (e *editor) WaitForTerminalExit(context.Context, sdk.WaitForTerminalExitRequest) (r sdk.WaitForTerminalExitResponse, err error) {
	return r, e.unused()
}

// patience is how long an editor waits. A test that waits longer has failed.
const patience = 20 * time.Second

// until waits until the updates so far fulfil a condition, and returns them.
func (e *editor) until(ok func([]sdk.SessionUpdate) bool) []sdk.SessionUpdate {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	timer := time.AfterFunc(patience, e.changed.Broadcast)
	defer timer.Stop()
	for deadline := time.Now().Add(patience); !ok(e.updates); e.changed.Wait() {
		if time.Now().After(deadline) {
			e.t.Fatalf("only\n  %s", strings.Join(summary(e.updates), "\n  "))
		}
	}
	return slices.Clone(e.updates)
}

// clear forgets the updates so far.
func (e *editor) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates, e.asked = nil, nil
}

func (e *editor) begin(dir string) sdk.NewSessionResponse {
	e.t.Helper()
	r, err := e.NewSession(e.t.Context(), sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}})
	if err != nil {
		e.t.Fatal(err)
	}
	e.until(func(us []sdk.SessionUpdate) bool {
		return slices.ContainsFunc(us, func(u sdk.SessionUpdate) bool { return u.AvailableCommandsUpdate != nil })
	})
	return r
}

func (e *editor) say(id sdk.SessionId, blocks ...sdk.ContentBlock) sdk.StopReason {
	e.t.Helper()
	r, err := e.Prompt(e.t.Context(), sdk.PromptRequest{SessionId: id, Prompt: blocks})
	if err != nil {
		e.t.Fatal(err)
	}
	return r.StopReason
}

// summary shows updates in a few words. Chunks of the same kind are joined.
func summary(us []sdk.SessionUpdate) []string {
	var out []string
	add := func(kind, text string) {
		if n := len(out); n > 0 && strings.HasPrefix(out[n-1], kind+": ") && kind != "tool" {
			out[n-1] += text
			return
		}
		out = append(out, kind+": "+text)
	}
	for _, u := range us {
		switch {
		case u.UserMessageChunk != nil:
			add("user", contentText(u.UserMessageChunk.Content))
		case u.AgentMessageChunk != nil:
			add("agent", contentText(u.AgentMessageChunk.Content))
		case u.AgentThoughtChunk != nil:
			add("thought", contentText(u.AgentThoughtChunk.Content))
		case u.ToolCall != nil:
			c := u.ToolCall
			out = append(out, fmt.Sprintf("call %s: %s %q %s%s", c.ToolCallId, c.Kind, c.Title, c.Status, toolText(c.Content)))
		case u.ToolCallUpdate != nil:
			c := u.ToolCallUpdate
			status := ""
			if c.Status != nil {
				status = " " + string(*c.Status)
			}
			out = append(out, fmt.Sprintf("update %s:%s%s", c.ToolCallId, status, toolText(c.Content)))
		case u.SessionInfoUpdate != nil:
			out = append(out, "title: "+*u.SessionInfoUpdate.Title)
		case u.CurrentModeUpdate != nil:
			out = append(out, "mode: "+string(u.CurrentModeUpdate.CurrentModeId))
		case u.ConfigOptionUpdate != nil:
			out = append(out, "options")
		case u.UsageUpdate != nil:
			out = append(out, "usage")
		case u.AvailableCommandsUpdate != nil:
			out = append(out, "commands")
		case u.Plan != nil:
			out = append(out, "plan")
		}
	}
	return out
}

func contentText(c sdk.ContentBlock) string {
	switch {
	case c.Text != nil:
		return c.Text.Text
	case c.Image != nil:
		return fmt.Sprintf("(%s of %d)", c.Image.MimeType, len(c.Image.Data))
	}
	return "?"
}

func toolText(cs []sdk.ToolCallContent) string {
	out := ""
	for _, c := range cs {
		switch {
		case c.Content != nil:
			out += " [" + contentText(c.Content.Content) + "]"
		case c.Diff != nil:
			old := "-"
			if c.Diff.OldText != nil {
				old = fmt.Sprintf("%q", *c.Diff.OldText)
			}
			out += fmt.Sprintf(" %s: %s → %q", filepath.Base(c.Diff.Path), old, c.Diff.NewText)
		case c.Terminal != nil:
			out += " terminal " + c.Terminal.TerminalId
		}
	}
	return out
}

// expect compares the updates since the last call of clear, except partial outputs and usage.
func (e *editor) expect(want ...string) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	got := slices.DeleteFunc(summary(e.updates), func(s string) bool {
		return s == "usage" || strings.HasPrefix(s, "update ") && !strings.Contains(s, " completed") && !strings.Contains(s, " failed")
	})
	if !slices.Equal(got, want) {
		e.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// A prompt is answered when everything about its turn was sent.
func TestPrompt(t *testing.T) {
	e := connect(t, newHub(t, "never"), sdk.ClientCapabilities{})
	s := e.begin(t.TempDir())
	e.clear()
	if stop := e.say(s.SessionId, sdk.TextBlock("hi\nthere")); stop != sdk.StopReasonEndTurn {
		t.Error(stop)
	}
	e.expect("title: hi", "thought: hmm", "agent: heard hi\nthere")
	e.clear()
	e.say(s.SessionId, sdk.TextBlock("again"))
	e.expect("thought: hmm", "agent: heard again")
}

// A command, its output and its end.
func TestCommand(t *testing.T) {
	e := connect(t, newHub(t, "never"), sdk.ClientCapabilities{})
	dir := t.TempDir()
	s := e.begin(dir)
	e.clear()
	e.say(s.SessionId, sdk.TextBlock("run it"))
	e.expect("title: run it", `call c1: execute "echo made > made; cat made" in_progress`, "update c1: completed [```\nmade\n```]",
		"thought: hmm", "agent: heard run it")
}

func yes(answer string) func(context.Context, sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
	return func(context.Context, sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		return sdk.NewRequestPermissionOutcomeSelected(sdk.PermissionOptionId(answer))
	}
}

// The text of a file before and after the patch. Its diff does not have the first lines.
const (
	before = "0\n1\n2\n3\ntwo\n"
	after  = "0\n1\n2\n3\nTWO\n"
)

// A change of a file asks for permission, and is shown with the whole text before and after it.
func TestPatchWithPermission(t *testing.T) {
	e := connect(t, newHub(t, "untrusted"), sdk.ClientCapabilities{})
	dir := t.TempDir()
	file := filepath.Join(dir, "old.txt")
	write := func() {
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := e.begin(dir)
	for _, tt := range []struct{ answer, update, content string }{
		{hub.Deny, fmt.Sprintf("update p1: failed old.txt: %q → %q", before[6:], after[6:]), before},
		{hub.Approve, fmt.Sprintf("update p1: completed old.txt: %q → %q", before, after), after},
	} {
		write()
		e.clear()
		e.choose = yes(tt.answer)
		e.say(s.SessionId, sdk.TextBlock("patch it"))
		got := slices.DeleteFunc(summary(e.until(func([]sdk.SessionUpdate) bool { return true })), func(s string) bool { return !strings.HasPrefix(s, "update p1: ") })
		if !slices.Equal(got, []string{tt.update}) {
			t.Errorf("got %q, want %q", got, tt.update)
		}
		if raw, err := os.ReadFile(file); err != nil || string(raw) != tt.content {
			t.Errorf("%s: the file is %q, %v", tt.answer, raw, err)
		}
		if len(e.asked) != 1 || e.asked[0].ToolCall.ToolCallId != "p1" || len(e.asked[0].ToolCall.Content) == 0 || e.asked[0].ToolCall.Content[0].Diff == nil {
			t.Errorf("asked %+v", e.asked)
		}
	}
}

// The options of a command's approval include the rule that would be written.
func TestPermissionOptions(t *testing.T) {
	e := connect(t, newHub(t, "untrusted"), sdk.ClientCapabilities{})
	s := e.begin(t.TempDir())
	e.choose = func(context.Context, sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		return sdk.NewRequestPermissionOutcomeCancelled()
	}
	if stop := e.say(s.SessionId, sdk.TextBlock("run it")); stop != sdk.StopReasonCancelled {
		t.Errorf("stopped with %s", stop)
	}
	var got []string
	for _, o := range e.asked[0].Options {
		got = append(got, string(o.Kind)+" "+o.Name)
	}
	want := []string{"allow_once Allow", "allow_always Allow for this session", "reject_once Reject"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// A question that another client answers is withdrawn.
func TestQuestionAnsweredElsewhere(t *testing.T) {
	h := newHub(t, "untrusted")
	e := connect(t, h, sdk.ClientCapabilities{})
	s := e.begin(t.TempDir())
	withdrawn := make(chan struct{})
	evs := follow(t, h, s.SessionId)
	asked := make(chan struct{})
	e.choose = func(ctx context.Context, _ sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		close(asked)
		<-ctx.Done()
		close(withdrawn)
		return sdk.NewRequestPermissionOutcomeCancelled()
	}
	done := make(chan sdk.StopReason)
	go func() { done <- e.say(s.SessionId, sdk.TextBlock("run it")) }() // waited for below
	q := next(t, evs, func(ev event.Event) bool { _, ok := ev.Body.(event.QuestionAsked); return ok }).Body.(event.QuestionAsked)
	<-asked
	th, _ := h.Find(t.Context(), event.ThreadID(s.SessionId))
	if err := th.Answer(t.Context(), q.ID, hub.Answer{Choice: hub.Approve}); err != nil {
		t.Fatal(err)
	}
	<-withdrawn
	if stop := <-done; stop != sdk.StopReasonEndTurn {
		t.Errorf("stopped with %s", stop)
	}
}

// follow follows a thread from now on.
func follow(t *testing.T, h *hub.Hub, id sdk.SessionId) *hub.Events {
	t.Helper()
	th, ok := h.Find(t.Context(), event.ThreadID(id))
	if !ok {
		t.Fatal("the thread is not loaded")
	}
	evs, err := th.Follow(t.Context(), hub.FromNow, hub.Coalesce)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(evs.Close)
	return evs
}

// next waits for an event.
func next(t *testing.T, evs *hub.Events, match func(event.Event) bool) event.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		e, err := evs.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if match(e) {
			return e
		}
	}
}

func said(text string) func([]sdk.SessionUpdate) bool {
	return func(us []sdk.SessionUpdate) bool { return strings.Contains(strings.Join(summary(us), "\n"), text) }
}

// session/cancel ends the turn and all prompts that wait for it; so does the end of a prompt's request.
func TestCancel(t *testing.T) {
	h := newHub(t, "never")
	e := connect(t, h, sdk.ClientCapabilities{})
	s := e.begin(t.TempDir())
	done := make(chan sdk.StopReason, 2)
	go func() { done <- e.say(s.SessionId, sdk.TextBlock("slow one")) }() // waited for below
	e.until(said("an ans"))
	go func() { done <- e.say(s.SessionId, sdk.TextBlock("and this")) }() // waited for below
	if err := e.Cancel(t.Context(), sdk.CancelNotification{SessionId: s.SessionId}); err != nil {
		t.Fatal(err)
	}
	if stop := <-done; stop != sdk.StopReasonCancelled {
		t.Errorf("stopped with %s", stop)
	}
	// The second prompt arrived before or after the cancellation. After it, it starts a turn of its own.
	if stop := <-done; stop != sdk.StopReasonCancelled && stop != sdk.StopReasonEndTurn {
		t.Errorf("stopped with %s", stop)
	}
	e.clear()
	if stop := e.say(s.SessionId, sdk.TextBlock("next")); stop != sdk.StopReasonEndTurn {
		t.Errorf("stopped with %s", stop)
	}
	evs := follow(t, h, s.SessionId)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	e.clear()
	go func() { // waited for below
		_, err := e.Prompt(ctx, sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("slow two")}})
		failed <- err
	}()
	e.until(said("an ans"))
	cancel()
	if err := <-failed; err == nil {
		t.Error("no error")
	}
	next(t, evs, func(ev event.Event) bool {
		end, ok := ev.Body.(event.TurnEnded)
		return ok && end.Status == event.TurnInterrupted
	})
	if stop := e.say(s.SessionId, sdk.TextBlock("last")); stop != sdk.StopReasonEndTurn {
		t.Errorf("stopped with %s", stop)
	}
}

// A reloaded session has the same items, with images and diffs; a resumed one sends none of them.
func TestLoad(t *testing.T) {
	h := newHub(t, "never")
	e := connect(t, h, sdk.ClientCapabilities{})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old.txt"), []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e.begin(dir)
	var buf bytes.Buffer
	if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString(buf.Bytes())
	e.say(s.SessionId, sdk.TextBlock("patch this"), sdk.ImageBlock(data, "image/png"))
	e.say(s.SessionId, sdk.TextBlock("second"))
	list, err := e.ListSessions(t.Context(), sdk.ListSessionsRequest{Cwd: &dir})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != s.SessionId || *list.Sessions[0].Title != "patch this" {
		t.Errorf("listed %+v, %v", list, err)
	}
	e.leave()
	if err := h.Unload(t.Context(), event.ThreadID(s.SessionId)); err != nil {
		t.Fatal(err)
	}

	e = connect(t, h, sdk.ClientCapabilities{})
	if _, err := e.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: s.SessionId, Cwd: dir, McpServers: []sdk.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	e.until(said("commands"))
	e.expect(fmt.Sprintf("user: patch this(image/png of %d)", len(data)), fmt.Sprintf(`call p1: edit "Edit old.txt" completed old.txt: %q → %q`, before, after), "thought: hmm", "agent: heard patch this", "user: second", "thought: hmm", "agent: heard second",
		"title: patch this", "commands")
	e.clear()
	e.say(s.SessionId, sdk.TextBlock("third"))
	e.expect("thought: hmm", "agent: heard third")

	// A fork continues on its own.
	fork, err := e.UnstableForkSession(t.Context(), sdk.UnstableForkSessionRequest{SessionId: s.SessionId, Cwd: dir})
	if err != nil || fork.SessionId == s.SessionId {
		t.Fatalf("fork %+v, %v", fork, err)
	}
	e.clear()
	e.say(fork.SessionId, sdk.TextBlock("fourth"))
	e.until(said("heard fourth"))

	if _, err := e.CloseSession(t.Context(), sdk.CloseSessionRequest{SessionId: s.SessionId}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Prompt(t.Context(), sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("x")}}); err == nil {
		t.Error("a closed session accepts a prompt")
	}
	e.clear()
	if _, err := e.ResumeSession(t.Context(), sdk.ResumeSessionRequest{SessionId: s.SessionId, Cwd: dir}); err != nil {
		t.Fatal(err)
	}
	e.until(said("commands"))
	e.expect("commands")
}

// What other clients do in a thread is shown as well; the thread is continued after it was unloaded.
func TestOtherClients(t *testing.T) {
	h := newHub(t, "never")
	first, second := connect(t, h, sdk.ClientCapabilities{}), connect(t, h, sdk.ClientCapabilities{})
	dir := t.TempDir()
	s := first.begin(dir)
	first.say(s.SessionId, sdk.TextBlock("one"))
	if _, err := second.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: s.SessionId, Cwd: dir, McpServers: []sdk.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	second.until(said("commands"))
	first.clear()
	second.clear()
	first.say(s.SessionId, sdk.TextBlock("two"))
	second.until(said("heard two"))
	second.expect("user: two", "thought: hmm", "agent: heard two")
	first.expect("thought: hmm", "agent: heard two")
	if _, err := first.SetSessionMode(t.Context(), sdk.SetSessionModeRequest{SessionId: s.SessionId, ModeId: "read-only"}); err != nil {
		t.Fatal(err)
	}
	first.until(said("options"))
	if err := h.Unload(t.Context(), event.ThreadID(s.SessionId)); err != nil {
		t.Fatal(err)
	}
	first.clear()
	first.say(s.SessionId, sdk.TextBlock("three"))
	first.expect("thought: hmm", "agent: heard three")
	if th, ok := h.Find(t.Context(), event.ThreadID(s.SessionId)); !ok {
		t.Error("the thread was not continued")
	} else if set, err := th.Settings(t.Context()); err != nil || set.Sandbox != "read-only" {
		t.Errorf("the mode was not kept: %+v, %v", set, err)
	}
}

// Modes are presets of approval and sandbox. Editors that know config options use those.
func TestModesAndOptions(t *testing.T) {
	e := connect(t, newHub(t, "never"), sdk.ClientCapabilities{})
	s := e.begin(t.TempDir())
	if m := s.Modes; m.CurrentModeId != "configured" || len(m.AvailableModes) != 5 {
		t.Errorf("modes %+v", m)
	}
	e.clear()
	if _, err := e.SetSessionMode(t.Context(), sdk.SetSessionModeRequest{SessionId: s.SessionId, ModeId: "read-only"}); err != nil {
		t.Fatal(err)
	}
	e.until(said("options"))
	e.expect("mode: read-only", "options")
	set := func(id, value string) (sdk.SetSessionConfigOptionResponse, error) {
		return e.SetSessionConfigOption(t.Context(), sdk.SetSessionConfigOptionRequest{ValueId: &sdk.SetSessionConfigOptionValueId{
			SessionId: s.SessionId, ConfigId: sdk.SessionConfigId(id), Value: sdk.SessionConfigValueId(value),
		}})
	}
	for _, v := range []struct{ id, value string }{{"model", "other"}, {"effort", "high"}, {"mode", "auto"}} {
		r, err := set(v.id, v.value)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(r.ConfigOptions, func(o sdk.SessionConfigOption) bool { return string(o.Select.Id) == v.id })
		if got := r.ConfigOptions[i].Select.CurrentValue; string(got) != v.value {
			t.Errorf("%s is %s", v.id, got)
		}
	}
	for _, v := range []struct{ id, value, field string }{{"model", "none", "value"}, {"mode", "none", "modeId"}, {"speed", "high", "configId"}} {
		_, err := set(v.id, v.value)
		expectField(t, err, v.field)
	}
	e.clear()
	e.say(s.SessionId, sdk.TextBlock("/rename A name"))
	e.until(said("title: A name"))
}

func expectField(t *testing.T, err error, field string) {
	t.Helper()
	failed, ok := errors.AsType[*sdk.RequestError](err)
	if !ok {
		t.Errorf("%s: error %v", field, err)
		return
	}
	raw, _ := json.Marshal(failed.Data) // compared below
	if failed.Code != -32602 || string(raw) != fmt.Sprintf(`{"field":%q}`, field) || !strings.HasPrefix(failed.Message, field+": ") {
		t.Errorf("%s: error %d %s %s", field, failed.Code, failed.Message, raw)
	}
}

// Errors name the field.
func TestBadRequests(t *testing.T) {
	e := connect(t, newHub(t, "never"), sdk.ClientCapabilities{})
	_, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: "relative", McpServers: []sdk.McpServer{}})
	expectField(t, err, "cwd")
	_, err = e.LoadSession(t.Context(), sdk.LoadSessionRequest{SessionId: "x", Cwd: "/", McpServers: []sdk.McpServer{}})
	expectField(t, err, "sessionId")
	_, err = e.Authenticate(t.Context(), sdk.AuthenticateRequest{MethodId: "magic"})
	expectField(t, err, "methodId")
	_, err = e.ListSessions(t.Context(), sdk.ListSessionsRequest{Cursor: sdk.Ptr("?")})
	expectField(t, err, "cursor")
	_, err = e.Prompt(t.Context(), sdk.PromptRequest{SessionId: "x", Prompt: []sdk.ContentBlock{sdk.TextBlock("x")}})
	expectField(t, err, "sessionId")
	if _, err = e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: "/does/not/exist", McpServers: []sdk.McpServer{}}); err == nil {
		t.Error("a session in a folder that does not exist")
	}
	s := e.begin(t.TempDir())
	_, err = e.Prompt(t.Context(), sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{}})
	expectField(t, err, "prompt")
	_, err = e.Prompt(t.Context(), sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{sdk.ImageBlock("!", "image/png")}})
	expectField(t, err, "prompt[0].data")
	if _, err = e.CallExtension(t.Context(), "_unknown", nil); err == nil || !strings.Contains(err.Error(), "-32601") && !strings.Contains(err.Error(), "not found") {
		t.Errorf("unknown method: %v", err)
	}
	// A provider that refuses its key makes the editor offer a login.
	_, err = e.Prompt(t.Context(), sdk.PromptRequest{SessionId: s.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("boom")}})
	if failed, ok := errors.AsType[*sdk.RequestError](err); !ok || failed.Code != -32000 {
		t.Errorf("error %v", err)
	}
}

// MCP servers of the editor are not available yet, which the session says.
func TestServersOfTheEditor(t *testing.T) {
	e := connect(t, newHub(t, "never"), sdk.ClientCapabilities{})
	_, err := e.NewSession(t.Context(), sdk.NewSessionRequest{Cwd: t.TempDir(), McpServers: []sdk.McpServer{{Stdio: &sdk.McpServerStdio{
		Name: "s", Command: "/bin/true", Args: []string{}, Env: []sdk.EnvVariable{},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	e.until(said("Warning: the MCP servers"))
}
