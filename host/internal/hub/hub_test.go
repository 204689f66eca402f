package hub_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

// owner is the environment variable that makes this program the other process of a test; see other.
const owner = "GANTRY_HUB_TEST_HOME"

func TestMain(m *testing.M) {
	if home := os.Getenv(owner); home != "" {
		ownThreads(home)
		return
	}
	goleak.VerifyTestMain(m)
}

// binaries finds what `make build` made; these tests run real plugins.
func binaries(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("GANTRY_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "bin")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "gantry-provider-scripted")); err != nil {
		t.Skip("the plugin binaries are missing: run `make build` first")
	}
	return dir
}

// recite is a model that repeats what it is told. Its answer to "slow" begins and never ends; for "run" it runs a command.
const recite = `
[[step]]
when  = { user = "^slow" }
times = -1
do    = [{ text = "an answer that never ends", chunk = 1 }]
break = { how = "hang", after_bytes = 8 }
[[step]]
when  = { user = "^run", since_user = 0 }
times = -1
do    = [{ call = "exec_command", args = { cmd = "touch made", login = false } }]
[[step]]
times = -1
usage = { input = 100, output = 10 }
do    = [{ text = "heard ${user}" }]
`

// newHome creates a home folder whose configuration uses a model that plays a script.
func newHome(t testing.TB, script string) string {
	t.Helper()
	home, err := os.MkdirTemp("", "g") // short, for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	hcl := fmt.Sprintf(`
provider "scripted" {
  source      = "builtin/scripted"
  script_text = %q
}
model "default" {
  provider = "scripted"
  name     = "scripted"
}
approval {
  policy = "never"
}
`, script)
	hcl = strings.ReplaceAll(hcl, "${", "$${") // the script's, not the template's
	if err := os.WriteFile(filepath.Join(home, "gantry.hcl"), []byte(hcl), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// configuration returns the configuration of a hub like the command line's.
func configuration(home, bin string) hub.Config {
	return hub.Config{
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
	}
}

func open(t testing.TB, cfg hub.Config) *hub.Hub {
	t.Helper()
	h, err := hub.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func start(t testing.TB, h *hub.Hub, p hub.StartParams) *hub.Thread {
	t.Helper()
	if p.Dir == "" {
		p.Dir = t.TempDir()
	}
	th, err := h.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return th
}

func follow(t testing.TB, th *hub.Thread, after uint64) *hub.Events {
	t.Helper()
	evs, err := th.Follow(t.Context(), after, hub.Coalesce)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(evs.Close)
	return evs
}

func text(s string) hub.Input { return hub.Input{Parts: []llm.Part{&llm.Text{Text: s}}} }

func submit(t testing.TB, th *hub.Thread, task string) hub.Accepted {
	t.Helper()
	a, err := th.Submit(t.Context(), hub.Submission{Input: text(task), Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// until reads events up to the first one that matches.
func until(t testing.TB, evs *hub.Events, match func(event.Event) bool) (seen []event.Event) {
	t.Helper()
	for {
		e, err := evs.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d events: %v", len(seen), err)
		}
		seen = append(seen, e)
		if match(e) {
			return seen
		}
	}
}

func is[B event.Body](e event.Event) bool {
	_, ok := e.Body.(B)
	return ok
}

// ended returns the end of a turn.
func ended(t testing.TB, evs *hub.Events, turn event.TurnID) event.TurnEnded {
	t.Helper()
	seen := until(t, evs, func(e event.Event) bool { return is[event.TurnEnded](e) && e.Turn == turn })
	return seen[len(seen)-1].Body.(event.TurnEnded)
}

func ask(t testing.TB, th *hub.Thread, task string) event.TurnEnded {
	t.Helper()
	evs, err := th.Follow(t.Context(), hub.FromNow, hub.Lossless)
	if err != nil {
		t.Fatal(err)
	}
	defer evs.Close()
	return ended(t, evs, submit(t, th, task).Turn)
}

// change waits for a change of a thread.
func change(t testing.TB, c *hub.Changes, match func(hub.Change) bool) hub.Change {
	t.Helper()
	for {
		got, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if match(got) {
			return got
		}
	}
}

func kind(id event.ThreadID, k hub.ChangeKind) func(hub.Change) bool {
	return func(c hub.Change) bool { return c.Thread == id && c.Kind == k }
}

func code(err error) hub.Code {
	if err == nil {
		return ""
	}
	return hub.ErrorOf(err).Code
}

func TestAThreadRunsHere(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	changes := h.Watch()
	defer changes.Close()
	dir := t.TempDir()
	th := start(t, h, hub.StartParams{Workspace: hub.Workspace{Dir: dir}, Source: "test", Name: "mine", Sandbox: "read-only", BaseInstructions: "be brief", DeveloperInstructions: "cite sources"})
	if s := th.Started(); s.Cwd != dir || s.Source != "test" || s.Instructions != "be brief" || th.Remote() || th.Ephemeral() {
		t.Errorf("started %+v, remote %v", s, th.Remote())
	}
	if s, err := th.Settings(t.Context()); err != nil || s.Sandbox != "read-only" || s.Cwd != dir {
		t.Errorf("settings %+v, %v", s, err)
	}
	if c := change(t, changes, kind(th.ID(), hub.ThreadLoaded)); c.Status.State != hub.Idle {
		t.Errorf("loaded as %+v", c.Status)
	}
	// Events before the first turn are delivered to followers that come later, and not repeated to those that have seen some.
	if seen := until(t, follow(t, th, 1), func(e event.Event) bool { return e.Seq != 0 }); seen[len(seen)-1].Seq != 2 {
		t.Errorf("after event 1 came %+v", seen)
	}
	if end := ask(t, th, "one"); end.LastMessage != "heard one" {
		t.Errorf("end %+v", end)
	}
	seen := until(t, follow(t, th, 0), is[event.ContextUpdated])
	if told := seen[len(seen)-1].Body.(event.ContextUpdated).Reference.Sections; told[event.SectionDeveloper] != event.Digest("cite sources") {
		t.Errorf("the model was told %v", told)
	}
	for _, want := range []hub.State{hub.Active, hub.Idle} {
		if c := change(t, changes, kind(th.ID(), hub.ThreadStatus)); c.Status.State != want || (c.Status.Turn != "") != (want == hub.Active) {
			t.Errorf("status %+v, want %s", c.Status, want)
		}
	}
	if again, err := h.Resume(t.Context(), th.ID(), hub.ResumeParams{}); err != nil || again != th {
		t.Errorf("resumed as %v, %v", again, err)
	}
	if got := h.Loaded(); len(got) != 1 || got[0] != th.ID() {
		t.Errorf("loaded %v", got)
	}
	info, err := h.Info(t.Context(), "mine")
	if err != nil || info.ID != th.ID() || info.Turns != 1 {
		t.Errorf("info %+v, %v", info, err)
	}

	// Unloaded and resumed: the conversation goes on, with numbers without a gap.
	evs := follow(t, th, 0)
	if err := h.Unload(t.Context(), th.ID()); err != nil {
		t.Fatal(err)
	}
	change(t, changes, kind(th.ID(), hub.ThreadClosed))
	var last uint64
	for {
		e, err := evs.Next(t.Context())
		if code(err) == hub.Closed {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != 0 && e.Seq != last+1 {
			t.Errorf("event %d after %d", e.Seq, last)
		}
		last = max(last, e.Seq)
	}
	if _, err := th.Submit(t.Context(), hub.Submission{Input: text("lost")}); code(err) != hub.Closed {
		t.Errorf("submitted to an unloaded thread: %v", err)
	}
	again, err := h.Resume(t.Context(), th.ID(), hub.ResumeParams{Settings: event.Settings{Approval: "on-request"}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := again.Settings(t.Context()); err != nil || s.Approval != "on-request" || s.Sandbox != "" || s.Cwd != dir {
		t.Errorf("settings after resuming: %+v, %v", s, err)
	}
	evs = follow(t, again, last)
	turn := submit(t, again, "two").Turn
	for _, e := range until(t, evs, func(e event.Event) bool { return is[event.TurnEnded](e) && e.Turn == turn }) {
		if e.Seq != 0 && e.Seq != last+1 {
			t.Errorf("event %d after %d", e.Seq, last)
		}
		last = max(last, e.Seq)
	}
}

func TestInterruptWaitsForTheEnd(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	th := start(t, h, hub.StartParams{})
	if err := th.Interrupt(t.Context(), ""); code(err) != hub.NoTurn {
		t.Errorf("idle: %v", err)
	}
	evs := follow(t, th, hub.FromNow)
	a := submit(t, th, "slow")
	until(t, evs, is[event.ItemDelta])
	if err := th.Interrupt(t.Context(), "another"); code(err) != hub.OtherTurn {
		t.Errorf("another turn: %v", err)
	}
	if _, err := th.Steer(t.Context(), "another", text("hm")); code(err) != hub.OtherTurn {
		t.Errorf("steer another turn: %v", err)
	}
	if err := th.Interrupt(t.Context(), a.Turn); err != nil {
		t.Fatal(err)
	}
	if s := h.Status(th.ID()); s.State != hub.Idle {
		t.Errorf("status %+v right after the answer", s)
	}
	if end := ended(t, evs, a.Turn); end.Status != event.TurnInterrupted {
		t.Errorf("end %+v", end)
	}
}

// Close interrupts turns, and the log says so.
func TestCloseInterrupts(t *testing.T) {
	cfg := configuration(newHome(t, recite), binaries(t))
	h := open(t, cfg)
	th := start(t, h, hub.StartParams{})
	evs := follow(t, th, hub.FromNow)
	a := submit(t, th, "slow")
	until(t, evs, is[event.ItemDelta])
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if end := ended(t, evs, a.Turn); end.Status != event.TurnInterrupted {
		t.Errorf("end %+v", end)
	}
	if _, err := evs.Next(t.Context()); code(err) != hub.Closed {
		t.Errorf("after the end: %v", err)
	}
	if _, err := h.Start(t.Context(), hub.StartParams{Workspace: hub.Workspace{Dir: t.TempDir()}}); code(err) != hub.Closed {
		t.Errorf("started after the end: %v", err)
	}
	again := open(t, cfg)
	for e, err := range again.Events(t.Context(), th.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if end, ok := e.Body.(event.TurnEnded); ok && end.Status != event.TurnInterrupted {
			t.Errorf("stored end %+v", end)
		}
	}
}

func TestFoldersThatCannotBeUsed(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{"": "not an absolute path", "x": "not an absolute path", file: "is not a folder", file + "/none": "can't be used", filepath.Dir(file) + "/none": "doesn't exist"} {
		_, err := h.Start(t.Context(), hub.StartParams{Workspace: hub.Workspace{Dir: dir}})
		if err == nil || !strings.Contains(err.Error(), want) || hub.ErrorOf(err).Next == "" {
			t.Errorf("%q: %v, want %q and a next step", dir, err, want)
		}
	}
	if _, err := h.Start(t.Context(), hub.StartParams{Workspace: hub.Workspace{Dir: t.TempDir()}, Approval: "perhaps"}); err == nil {
		t.Error("an unknown approval policy was accepted")
	}
	if _, err := h.Resume(t.Context(), event.NewThreadID(), hub.ResumeParams{}); code(err) != hub.NotFound {
		t.Errorf("unknown thread: %v", err)
	}
	if got := h.Loaded(); len(got) > 0 {
		t.Errorf("loaded %v", got)
	}
}

func TestStoredThreads(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	changes := h.Watch()
	defer changes.Close()
	th := start(t, h, hub.StartParams{})
	for _, task := range []string{"one", "two", "three"} {
		ask(t, th, task)
	}
	ctx := t.Context()
	for _, loaded := range []bool{true, false} {
		fork, err := h.Fork(ctx, th.ID(), hub.Fork{Through: "1", Name: "copy"})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := h.Info(ctx, string(fork)); err != nil || info.Turns != 1 || info.Name != "copy" {
			t.Errorf("fork %+v, %v", info, err)
		}
		if r, err := h.Rollback(ctx, th.ID(), 1); err != nil || r.Turns != 1 {
			t.Errorf("loaded %v: rollback %+v, %v", loaded, r, err)
		}
		change(t, changes, kind(th.ID(), hub.ThreadReverted))
		if err := h.Rename(ctx, th.ID(), " name "); err != nil {
			t.Error(err)
		}
		if c := change(t, changes, kind(th.ID(), hub.ThreadNamed)); c.Name != "name" {
			t.Errorf("named %q", c.Name)
		}
		if err := h.Archive(ctx, th.ID()); err != nil {
			t.Error(err)
		}
		if c := change(t, changes, kind(th.ID(), hub.ThreadArchived)); c.Status.State != hub.NotLoaded {
			t.Errorf("archived as %+v", c.Status)
		}
		if _, err := h.Resume(ctx, th.ID(), hub.ResumeParams{}); code(err) != hub.IsArchived {
			t.Errorf("resumed an archived thread: %v", err)
		}
		if err := h.Archive(ctx, th.ID()); code(err) != hub.IsArchived {
			t.Errorf("archived again: %v", err)
		}
		if err := h.Unarchive(ctx, th.ID()); err != nil {
			t.Error(err)
		}
		change(t, changes, kind(th.ID(), hub.ThreadUnarchived))
		if err := h.Unarchive(ctx, th.ID()); err == nil {
			t.Error("unarchived again")
		}
		if err := h.Delete(ctx, fork); err != nil {
			t.Error(err)
		}
		change(t, changes, kind(fork, hub.ThreadDeleted))
	}
	turns, err := h.Turns(ctx, th.ID())
	if err != nil || len(turns) != 3 || turns[1].Reverted == 0 || turns[2].Reverted == 0 {
		t.Errorf("turns %+v, %v", turns, err)
	}
	if list, err := h.List(ctx, hub.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("list %+v, %v", list, err)
	}
	if hits, err := h.Search(ctx, "heard one", hub.Filter{}); err != nil || len(hits) != 1 {
		t.Errorf("hits %+v, %v", hits, err)
	}
	again, err := h.Resume(ctx, th.ID(), hub.ResumeParams{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Revert(ctx, th.ID(), ""); err == nil {
		t.Error("reverted nothing")
	}
	evs := follow(t, again, hub.FromNow)
	submit(t, again, "slow")
	until(t, evs, is[event.ItemDelta])
	if _, err := h.Revert(ctx, th.ID(), "1"); code(err) != hub.Busy {
		t.Errorf("reverted during a turn: %v", err)
	}
	if err := h.Delete(ctx, th.ID()); err != nil {
		t.Error(err)
	}
	if _, err := h.Info(ctx, string(th.ID())); code(err) != hub.NotFound {
		t.Errorf("deleted thread: %v", err)
	}
}

func TestEphemeralThreads(t *testing.T) {
	h := open(t, configuration(newHome(t, recite), binaries(t)))
	th := start(t, h, hub.StartParams{Workspace: hub.Workspace{Ephemeral: true}})
	ask(t, th, "one")
	if !th.Ephemeral() {
		t.Error("not ephemeral")
	}
	evs := follow(t, th, 0)
	until(t, evs, is[event.TurnEnded]) // from its own log
	if list, err := h.List(t.Context(), hub.Filter{}); err != nil || len(list) > 0 {
		t.Errorf("list %+v, %v", list, err)
	}
	if info, err := h.Info(t.Context(), string(th.ID())); err != nil || info.Turns != 1 {
		t.Errorf("info %+v, %v", info, err)
	}
	if err := h.Archive(t.Context(), th.ID()); err == nil {
		t.Error("archived an ephemeral thread")
	}
	fork, err := h.Fork(t.Context(), th.ID(), hub.Fork{})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := h.List(t.Context(), hub.Filter{}); err != nil || len(list) != 1 || list[0].ID != fork {
		t.Errorf("the fork of an ephemeral thread is stored: %+v, %v", list, err)
	}
}

// A thread runs under the configuration of its own folder, and threads with the same one share a host.
func TestWorkspaces(t *testing.T) {
	home := newHome(t, recite)
	project := t.TempDir()
	if err := os.MkdirAll(filepath.Join(project, ".gantry"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, ".gantry", "gantry.hcl"), []byte("sandbox {\n  mode = \"workspace-write\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hosts := 0
	cfg := configuration(home, binaries(t))
	opening := cfg.Open
	cfg.Open = func(ctx context.Context, w hub.Workspace, c *config.Config, shared host.Shared) (*host.Host, error) {
		hosts++
		return opening(ctx, w, c, shared)
	}
	h := open(t, cfg)
	mode := func(th *hub.Thread) string {
		t.Helper()
		evs := follow(t, th, hub.FromNow)
		submit(t, th, "hello")
		seen := until(t, evs, is[event.TurnStarted])
		until(t, evs, is[event.TurnEnded])
		return seen[len(seen)-1].Body.(event.TurnStarted).Sandbox
	}
	in := func(dir string, sets ...string) *hub.Thread {
		return start(t, h, hub.StartParams{Workspace: hub.Workspace{Dir: dir, Sets: sets}})
	}
	plain := in(t.TempDir())
	standard := mode(plain)
	in(t.TempDir())
	if hosts != 1 {
		t.Errorf("%d hosts for two folders with the same configuration", hosts)
	}
	if got := mode(in(project)); got != "read-only" || hosts != 2 {
		t.Errorf("an untrusted project: sandbox %q with %d hosts", got, hosts)
	}
	c, err := h.Configuration(t.Context(), hub.Workspace{Dir: project})
	if err != nil {
		t.Fatal(err)
	}
	if c.Project.Trusted {
		t.Error("the project became trusted by starting a thread in it")
	}
	if err := trust.Open(home).Add(t.Context(), project, c.Project.Digest); err != nil {
		t.Fatal(err)
	}
	if got := mode(in(project)); got != "workspace-write" || hosts != 3 {
		t.Errorf("a trusted project: sandbox %q with %d hosts", got, hosts)
	}
	if got := mode(in(t.TempDir(), "sandbox.mode=full-access")); got != "full-access" || hosts != 4 {
		t.Errorf("a setting of one thread: sandbox %q with %d hosts", got, hosts)
	}
	if got := mode(plain); got != standard {
		t.Errorf("the first thread: sandbox %q, was %q", got, standard)
	}
}

// trustedProject gives a folder a configuration of its own, which the user trusts.
func trustedProject(t testing.TB, home, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, ".gantry"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".gantry", "gantry.hcl"), []byte("sandbox {\n  mode = \"workspace-write\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := configuration(home, "").Load(t.Context(), hub.Workspace{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.Open(home).Add(t.Context(), dir, c.Project.Digest); err != nil {
		t.Fatal(err)
	}
}

// A thread that goes to a folder with another configuration runs under that one. Its followers, its name for clients, and what was set for
// it stay.
func TestMoves(t *testing.T) {
	home := newHome(t, recite)
	project := t.TempDir()
	trustedProject(t, home, project)
	cfg := configuration(home, binaries(t))
	opening, broken := cfg.Open, errors.New("the host can't be opened")
	var fail error
	cfg.Open = func(ctx context.Context, w hub.Workspace, c *config.Config, shared host.Shared) (*host.Host, error) {
		if fail != nil {
			return nil, fail
		}
		return opening(ctx, w, c, shared)
	}
	h := open(t, cfg)
	plain := t.TempDir()
	th := start(t, h, hub.StartParams{Workspace: hub.Workspace{Dir: plain}})
	if err := th.Configure(t.Context(), event.Settings{Approval: "on-request"}); err != nil {
		t.Fatal(err)
	}
	changes := h.Watch()
	defer changes.Close()
	leave, err := th.Attend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	evs := follow(t, th, 0)
	var last uint64
	turn := func(task, dir string) event.TurnStarted {
		t.Helper()
		a, err := th.Submit(t.Context(), hub.Submission{Input: text(task), Settings: event.Settings{Cwd: dir}, Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		var began event.TurnStarted
		until(t, evs, func(e event.Event) bool {
			if e.Seq != 0 && e.Seq != last+1 {
				t.Errorf("event %d follows %d", e.Seq, last)
			}
			last = max(last, e.Seq)
			if b, ok := e.Body.(event.TurnStarted); ok {
				began = b
			}
			return is[event.TurnEnded](e) && e.Turn == a.Turn
		})
		return began
	}
	before := turn("one", "")

	fail = broken
	if err := th.Configure(t.Context(), event.Settings{Cwd: project}); !errors.Is(err, broken) {
		t.Errorf("a folder whose host fails: %v", err)
	}
	fail = nil
	if got := turn("two", ""); got.Cwd != plain || got.Sandbox != before.Sandbox {
		t.Errorf("after the move that failed: %+v", got)
	}
	if got := turn("three", project); got.Cwd != project || got.Sandbox != "workspace-write" || got.Approval != "on-request" {
		t.Errorf("in the project: folder %s, sandbox %s, approval %s", got.Cwd, got.Sandbox, got.Approval)
	}
	if got := turn("four", plain); got.Cwd != plain || got.Sandbox != before.Sandbox {
		t.Errorf("back: folder %s, sandbox %s", got.Cwd, got.Sandbox)
	}
	if same, ok := h.Find(t.Context(), th.ID()); !ok || same != th {
		t.Error("the thread is another one for clients")
	}

	evs2 := follow(t, th, hub.FromNow)
	slow := submit(t, th, "slow")
	until(t, evs2, is[event.TurnStarted])
	if err := th.Configure(t.Context(), event.Settings{Cwd: project}); code(err) != hub.Busy {
		t.Errorf("during a turn: %v (code %q)", err, code(err))
	}
	if err := th.Interrupt(t.Context(), slow.Turn); err != nil {
		t.Fatal(err)
	}
	if err := h.Rename(t.Context(), th.ID(), "moved"); err != nil {
		t.Fatal(err)
	}
	for { // it was neither closed nor loaded for those that watch
		ch, err := changes.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ch.Kind == hub.ThreadClosed || ch.Kind == hub.ThreadLoaded {
			t.Errorf("a move is reported as %s", ch.Kind)
		}
		if ch.Kind == hub.ThreadNamed {
			break
		}
	}
	if err := h.Unload(t.Context(), th.ID()); err != nil {
		t.Fatal(err)
	}
	<-th.Done()
}

// followed follows a thread, which may be unloaded before that.
func followed(t *testing.T, h *hub.Hub, id event.ThreadID) (*hub.Thread, *hub.Events) {
	t.Helper()
	for {
		th, err := h.Resume(t.Context(), id, hub.ResumeParams{})
		if err != nil {
			t.Fatal(err)
		}
		evs, err := th.Follow(t.Context(), hub.FromNow, hub.Coalesce)
		if err == nil {
			t.Cleanup(evs.Close)
			return th, evs
		}
		if code(err) != hub.Closed {
			t.Fatal(err)
		}
	}
}

func TestIdleThreadsAreUnloaded(t *testing.T) {
	cfg := configuration(newHome(t, recite), binaries(t))
	cfg.IdleTimeout = time.Millisecond
	h := open(t, cfg)
	changes := h.Watch()
	defer changes.Close()
	unused := func() event.ThreadID {
		id := start(t, h, hub.StartParams{}).ID()
		change(t, changes, kind(id, hub.ThreadClosed))
		return id
	}
	id := unused()
	// A thread that is followed stays.
	th, evs := followed(t, h, id)
	unused()
	if end := ask(t, th, "still there"); end.LastMessage != "heard still there" {
		t.Errorf("end %+v", end)
	}
	// So does one with a running turn, until that ends.
	submit(t, th, "slow")
	until(t, evs, is[event.ItemDelta])
	evs.Close()
	unused()
	if got := h.Loaded(); len(got) != 1 || got[0] != id {
		t.Errorf("loaded %v", got)
	}
	if err := th.Interrupt(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	change(t, changes, kind(id, hub.ThreadClosed))
	if _, err := th.Follow(t.Context(), 0, hub.Coalesce); code(err) != hub.Closed {
		t.Errorf("followed: %v", err)
	}
}
