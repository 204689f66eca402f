package service_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/secret"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a host's services on real sockets, and a thread whose calls are functions with the services at hand.
type world struct {
	commands service.Commands
	t        *testing.T
	services *service.Services
	tokens   *orchestrate.Tokens
	launcher *launch.Launcher
	limits   launch.Limits // of the grant
	thread   event.ThreadID
	desk     *approval.Broker
	events   chan event.Body
	known    redact.Redactor
	room     []plugin.Identity // who asked for it
	standby  bool              // who asks is not called yet
	earlier  bool              // an earlier process runs
	quota    service.Quota
	exceeded []string
	lacks    string                                          // a capability that no plugin has
	root     event.ThreadID                                  // of the thread; empty: it is the root
	grant    func(*launch.Grant)                             // changes what calls may do; nil: nothing
	mode     map[string]string                               // of the network settings of plugins
	judge    func(network.Request) network.Decision          // of connections of plugin "mine"
	opened   []string                                        // hosts, by plugin
	asked    []string                                        // about browser effects
	policy   policy.Verdict                                  // about browser effects
	narrow   chan launch.Grant                               // of narrow processes
	declared func(name string) (service.Declared, error)     // of plugin "mine"
	granted  func()                                          // called before a capability is judged; nil: nothing is
	permits  chan string                                     // to reach hosts, and their ends
	programs map[string]service.Program                      // that print the secrets of plugin "mine", by handle
	do       func(ctx context.Context, s contract.CallStart) // what a call of plugin "mine" does
	cut      error                                           // how it ends without a result; nil: it has one
}

func (w *world) Publish(_ context.Context, _ event.TurnID, bodies ...event.Body) (uint64, error) {
	for _, b := range bodies {
		if _, err := json.Marshal(event.Event{Body: b}); err != nil {
			return 0, err
		}
		select {
		case w.events <- b:
		default: // more than a test looks at
		}
	}
	return 0, nil
}
func (w *world) Barrier(context.Context, uint64) error { return nil }
func (w *world) Approvals() *approval.Broker           { return w.desk }

func (w *world) Grant(_ context.Context, r orchestrate.GrantRequest) (launch.Grant, error) {
	g := launch.Grant{Mode: "full-access", Network: true, Limits: w.limits}
	if w.grant != nil {
		w.grant(&g)
	}
	return g, nil
}
func (w *world) Writable(orchestrate.GrantRequest, string) bool { return true }
func (w *world) Resolve(_ string, p policy.Permissions) (policy.Permissions, error) {
	return p, nil
}

func (w *world) EndCall(ctx context.Context, o launch.Owner) error { return w.launcher.EndCall(ctx, o) }

func (w *world) Assess(context.Context, contract.AssessRequest) (*contract.Assessment, error) {
	return &contract.Assessment{}, nil
}

func (w *world) Call(ctx context.Context, s contract.CallStart, ctl tool.Control, _ func(contract.CallEvent)) (*contract.Result, error) {
	over := make(chan struct{})
	var steering sync.WaitGroup
	steering.Go(func() {
		for {
			select {
			case <-ctl.Waits:
			case <-over:
				return
			}
		}
	})
	defer steering.Wait()
	defer close(over)
	if s.Tool == "echo" {
		return contract.Text("echo " + string(s.Input.Arguments)), nil
	}
	w.do(ctx, s)
	if w.cut != nil {
		return nil, w.cut
	}
	return contract.Text("done"), nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	bin := os.Getenv("GANTRY_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "..", "bin")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(bin, "gantry-launch")
	if _, err := os.Stat(launcher); err != nil {
		t.Skip("the launcher's binary is missing: run `make build` first")
	}
	dir := t.TempDir()
	w := &world{t: t, tokens: orchestrate.NewTokens(), thread: event.NewThreadID(), events: make(chan event.Body, 100), narrow: make(chan launch.Grant, 1), permits: make(chan string, 100)}
	w.desk = approval.NewBroker(w)
	closing := func(name string, f func(context.Context) error) {
		t.Cleanup(func() {
			if err := f(context.Background()); err != nil {
				t.Errorf("close %s: %v", name, err)
			}
		})
	}
	st, err := store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "threads.db"), Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	closing("store", st.Close)
	state, err := pluginstate.Open(t.Context(), store.Database{}.Config(filepath.Join(dir, "state.db")), filepath.Join(dir, "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	closing("state", func(context.Context) error { return state.Close() })
	if w.launcher, err = launch.New(launch.Config{
		LauncherPath: launcher, Logger: hclog.NewNullLogger(), Confiners: []launch.Confiner{launch.Unconfined{}, narrowBox{got: w.narrow}},
	}); err != nil {
		t.Fatal(err)
	}
	closing("launcher", w.launcher.Close)
	w.services = service.New(service.Config{
		Denied: func(launch.Owner) []string { return nil },
		JudgeHost: func(_ context.Context, owner launch.Owner, q network.Request) network.Decision {
			if owner != (launch.Owner{Plugin: "mine", Thread: string(w.thread)}) {
				t.Errorf("judged for %+v", owner)
			}
			return w.judge(q)
		},
		OpenHost:    func(owner launch.Owner, q network.Request) { w.opened = append(w.opened, owner.Plugin+" "+q.Target()) },
		NetworkMode: func(label string) string { return w.mode[label] },
		Folders:     func(label string) []string { return []string{"/data/" + label, "/cache/" + label} },
		Tokens:      w.tokens, Launcher: w.launcher, Store: st, State: func(context.Context) (*pluginstate.Store, error) { return state, nil },
		Threads: func(id event.ThreadID) (service.Thread, bool) {
			return w, id == w.thread || w.root != "" && id == w.root
		},
		Redactor: &w.known,
		Root:     func(id event.ThreadID) event.ThreadID { return cmp.Or(w.root, id) },
		Sample: func(context.Context, orchestrate.Call, *llm.Request) (*service.Sampled, error) {
			return nil, errors.New("no model here")
		},
		Secrets: func(label, handle string) (service.Secret, bool) {
			p, ok := w.programs[handle]
			if ok {
				return service.Secret{Program: &p}, label == "mine"
			}
			return service.Secret{Value: "the value"}, label == "mine" && handle == "h1"
		},
		Stored: secret.Open(filepath.Join(dir, "secrets"), nil), Commands: &w.commands,
		CommandGrant: func(label string, changes bool) (launch.Grant, string, error) {
			if !changes {
				return launch.Grant{}, "", errors.New("there is no sandbox")
			}
			return launch.Grant{Mode: "full-access", Network: true}, dir, nil
		},
		Environment:     func() []string { return []string{"PATH=" + os.Getenv("PATH"), "KEEP=1", "DROP=1"} },
		UserEnvironment: func() []string { return []string{"PATH=" + os.Getenv("PATH"), "KEEP=1", "DROP=1"} },
		Known:           w.known.Add,
		Quota:           func(label string) service.Quota { return w.quota },
		Exceeded:        func(label, setting string, limit int64) { w.exceeded = append(w.exceeded, label+" "+setting) },
		Starts:          func(string, []string) (bool, error) { return false, nil },
		Declared: func(label, name string) (service.Declared, error) {
			if label != "mine" || w.declared == nil {
				return service.Declared{}, errors.New("another plugin's")
			}
			return w.declared(name)
		},
		Reaches: func(_ string, e contract.NetworkEffect) bool { return e.Host == "known.example" },
		Permit: func(label string, hosts []contract.NetworkEffect) func() {
			w.permits <- fmt.Sprint("+", label, hosts)
			return func() { w.permits <- fmt.Sprint("-", label, hosts) }
		},
		Granted: func(_ plugin.Identity, capability string) error {
			if w.granted != nil {
				w.granted()
			}
			if w.lacks == capability {
				return errors.New("it has no " + capability)
			}
			return nil
		},
		MakeRoom: func(_ context.Context, id plugin.Identity) bool {
			w.room = append(w.room, id)
			return !w.standby
		},
		Earlier: func(plugin.Identity) bool { return w.earlier },
	})
	return w
}

// client is a plugin process as the services see it.
func (w *world) client(label string) gantryv1.HostServiceClient { return w.process(label, 1) }

// process is a certain one of a plugin's.
func (w *world) process(label string, generation uint64) gantryv1.HostServiceClient {
	w.t.Helper()
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		w.t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		w.t.Fatal(err)
	}
	srv := grpc.NewServer()
	gantryv1.RegisterHostServiceServer(srv, w.services.For(plugin.Identity{Label: label, Generation: generation}))
	served := make(chan struct{})
	go func() { // owned by the test: its cleanup waits
		defer close(served)
		_ = srv.Serve(ln)
	}()
	conn, err := grpc.NewClient("unix:"+ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = conn.Close()
		srv.Stop()
		<-served
		_ = os.RemoveAll(dir)
	})
	return gantryv1.NewHostServiceClient(conn)
}

// call runs a call of the plugin "mine" to its end.
func (w *world) call(ctx context.Context, do func(context.Context, contract.CallStart)) orchestrate.Answer {
	w.t.Helper()
	w.do = do
	reg := registry.New()
	schema := json.RawMessage(`{"type":"object"}`)
	if problems := reg.Set("mine", contract.ToolSet{Tools: []contract.Descriptor{
		{Name: "work", InputSchema: schema}, {Name: "echo", InputSchema: schema}, {Name: "secret", InputSchema: schema, Exposure: contract.ExposureHidden},
		{Name: "person", InputSchema: schema, Nesting: contract.NestingNever}, {Name: "filter", InputSchema: schema, Nesting: contract.NestingOnly},
		{Name: "look", InputSchema: schema, ModelTraits: []string{"images"}}, {Name: "edit", InputSchema: schema, ModelTraits: []string{"edits"}},
	}}); len(problems) > 0 {
		w.t.Fatal(problems)
	}
	pipeline := orchestrate.New(orchestrate.Deps{
		Hooks: hook.None{}, Approver: w.desk, Granter: w, Journal: w, Retry: orchestrate.NoRetry, Processes: w,
		Policy: func(r policy.Request) policy.Decision {
			for _, e := range r.Effects {
				if n, ok := e.(contract.NetworkEffect); ok && n.Host == "forbidden.example" {
					return policy.Decision{Verdict: policy.Forbid, Reason: "not that host"}
				}
			}
			for _, e := range r.Effects {
				if _, ok := e.(contract.BrowserEffect); ok {
					w.asked = append(w.asked, fmt.Sprint(e, " ", r.Escalation.Justification))
					return policy.Decision{Verdict: w.policy, Reason: "the test says so"}
				}
			}
			return policy.Decision{Verdict: policy.Run}
		},
		Backends: func(string) (orchestrate.ToolBackend, bool) { return w, true },
	}, w.tokens, hclog.NewNullLogger())
	var gate orchestrate.Gate
	return pipeline.Dispatch(ctx, &gate, orchestrate.Call{
		Settings: orchestrate.Settings{
			Thread: w.thread, Turn: "u", Cwd: w.t.TempDir(), Approval: "on-request", Tools: reg.Snapshot(), Traits: []string{"images"},
			Output: history.Policy{Limit: 100},
		},
		Model: &llm.ToolCall{ID: "c1", Name: "work", Input: "{}"}, ID: "c1",
	}).Wait()
}

func code(err error) codes.Code { return status.Code(err) }

// Each rpc that works for a call takes the call's own token only, and none after its result.
func TestCallTokens(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	rpcs := map[string]func(c gantryv1.HostServiceClient, token string) error{
		"spawn": func(c gantryv1.HostServiceClient, token string) error {
			_, err := c.Spawn(t.Context(), &gantryv1.SpawnRequest{CallToken: token, Argv: []string{"true"}})
			return err
		},
		"authorize": func(c gantryv1.HostServiceClient, token string) error {
			_, err := c.Authorize(t.Context(), &gantryv1.AuthorizeRequest{CallToken: token})
			return err
		},
		"ask": func(c gantryv1.HostServiceClient, token string) error {
			_, err := c.Ask(t.Context(), &gantryv1.AskRequest{CallToken: token, Kind: gantryv1.AskKind_ASK_KIND_CHOICE})
			return err
		},
		"call tool": func(c gantryv1.HostServiceClient, token string) error {
			_, err := c.CallTool(t.Context(), &gantryv1.CallToolRequest{CallToken: token, Tool: "echo"})
			return err
		},
		"list tools": func(c gantryv1.HostServiceClient, token string) error {
			_, err := c.ListTools(t.Context(), &gantryv1.ListToolsRequest{CallToken: token})
			return err
		},
		"emit": func(c gantryv1.HostServiceClient, token string) error {
			_, err := c.Emit(t.Context(), &gantryv1.EmitRequest{Token: token, Kind: "x"})
			return err
		},
	}
	var token string
	w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
		token = s.CallToken
		for name, rpc := range rpcs {
			if err := rpc(mine, token); err != nil {
				t.Errorf("%s with the call's token: %v", name, err)
			}
			if err := rpc(other, token); code(err) != codes.PermissionDenied {
				t.Errorf("%s with another plugin's token: %v", name, err)
			}
			if err := rpc(mine, "guess"); code(err) != codes.PermissionDenied {
				t.Errorf("%s with a guess: %v", name, err)
			}
		}
	})
	for name, rpc := range rpcs {
		if err := rpc(mine, token); code(err) != codes.PermissionDenied {
			t.Errorf("%s after the result: %v", name, err)
		}
	}
}

func TestProcessesBelongToTheirPlugin(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	var left string
	w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
		p, err := mine.Spawn(t.Context(), &gantryv1.SpawnRequest{
			CallToken: s.CallToken, Argv: []string{"sh", "-c", `printf %s "$KEEP$SET$DROP"; read line; echo " $line"; exit 3`},
			Env: map[string]string{"SET": "2"}, Unset: []string{"DROP"}, Stdin: true,
		})
		if err != nil || p.GetError() != nil {
			t.Errorf("spawn: %v %v", p.GetError(), err)
			return // a Fatal would end the call's goroutine
		}
		if _, err := other.Wait(t.Context(), &gantryv1.WaitRequest{ProcessId: p.GetProcessId()}); code(err) != codes.NotFound {
			t.Errorf("another plugin waits for the process: %v", err)
		}
		if r, err := other.Signal(t.Context(), &gantryv1.SignalRequest{ProcessId: p.GetProcessId(), KillTree: true}); err != nil || !r.GetGone() {
			t.Errorf("another plugin signals the process: %v %v", r, err)
		}
		stream, err := mine.Attach(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		for _, m := range []*gantryv1.AttachRequest{{ProcessId: p.GetProcessId()}, {Stdin: []byte("hello\n"), CloseStdin: true}} {
			if err := stream.Send(m); err != nil {
				t.Error(err)
				return
			}
		}
		var out bytes.Buffer
		for {
			m, err := stream.Recv()
			if err != nil {
				t.Error(err)
				return
			}
			out.Write(m.GetStdout())
			if x := m.GetExited(); x != nil {
				if x.GetExitCode() != 3 || out.String() != "12 hello\n" {
					t.Errorf("exit %d, output %q", x.GetExitCode(), out.String())
				}
				break
			}
		}
		p, err = mine.Spawn(t.Context(), &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"sleep", "1000"}})
		if err != nil {
			t.Error(err)
			return
		}
		left = p.GetProcessId()
		if p, err := mine.Spawn(t.Context(), &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"/no/such/program"}}); err != nil || p.GetError().GetErrno() == 0 {
			t.Errorf("a program that is not there: %+v, %v", p, err)
		}
		if _, err := mine.Spawn(t.Context(), &gantryv1.SpawnRequest{CallToken: s.CallToken}); code(err) != codes.InvalidArgument {
			t.Errorf("no argv: %v", err)
		}
	})
	// What the call left running has ended with it.
	if p, ok := w.launcher.Process(left); ok {
		exit, err := p.Wait(t.Context())
		if err != nil || exit.Signal == 0 {
			t.Errorf("the process left behind: %+v, %v", exit, err)
		}
	}
}

// A plugin can tighten the limits of its processes, but not exceed those of the grant. The limit that ends a process is reported.
func TestLimitsOfAPluginsProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the limits of a process are inspected with Linux's ulimit")
	}
	w := newWorld(t)
	w.limits = launch.Limits{OpenFiles: 100}
	mine := w.client("mine")
	w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
		run := func(script string, limits *gantryv1.ProcessLimits) (string, *gantryv1.WaitResponse) {
			p, err := mine.Spawn(t.Context(), &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"sh", "-c", script}, Limits: limits})
			if err != nil || p.GetError() != nil {
				t.Errorf("spawn: %v %v", p.GetError(), err)
				return "", nil
			}
			stream, err := mine.Attach(t.Context())
			if err == nil {
				err = stream.Send(&gantryv1.AttachRequest{ProcessId: p.GetProcessId()})
			}
			var out strings.Builder
			for err == nil {
				var m *gantryv1.AttachResponse
				if m, err = stream.Recv(); err == nil {
					out.Write(m.GetStdout())
					if x := m.GetExited(); x != nil {
						return out.String(), x
					}
				}
			}
			t.Error(err)
			return "", nil
		}
		const show = "ulimit -n; ulimit -t; ulimit -d; ulimit -f"
		for _, tc := range []struct {
			name   string
			limits *gantryv1.ProcessLimits
			want   string
		}{
			{"none", nil, "100\nunlimited\nunlimited\nunlimited\n"},
			{"tighter", &gantryv1.ProcessLimits{OpenFiles: 57, CpuSeconds: 77, FileBytes: 1 << 20}, "57\n77\nunlimited\n2048\n"},
			{"wider", &gantryv1.ProcessLimits{OpenFiles: 1000}, "100\nunlimited\nunlimited\nunlimited\n"},
		} {
			if got, _ := run(show, tc.limits); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
			}
		}
		if _, x := run("exec head -c 5000 /dev/zero >f", &gantryv1.ProcessLimits{FileBytes: 1024}); x.GetLimit() != "file_size" {
			t.Errorf("a process that reached its limit: %v", x)
		}
		for _, limits := range []*gantryv1.ProcessLimits{{MemoryBytes: -1}, {Pids: -1}, {CpuSeconds: -1}, {OpenFiles: -1}, {FileBytes: -1}} {
			if _, err := mine.Spawn(t.Context(), &gantryv1.SpawnRequest{CallToken: s.CallToken, Argv: []string{"true"}, Limits: limits}); code(err) != codes.InvalidArgument {
				t.Errorf("%v: %v", limits, err)
			}
		}
	})
}

func TestStateIsThePluginsOwn(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	ctx := t.Context()
	put := func(c gantryv1.HostServiceClient, key, value string, version *uint64) *gantryv1.PutStateResponse {
		t.Helper()
		r, err := c.PutState(ctx, &gantryv1.PutStateRequest{Key: key, Value: []byte(value), IfVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := put(mine, "k", "one", nil)
	if r := put(mine, "k", "two", &first.Version); !r.GetStored() {
		t.Errorf("put with the right version: %+v", r)
	}
	if r := put(mine, "k", "three", &first.Version); r.GetStored() {
		t.Errorf("put with an old version: %+v", r)
	}
	if r, err := mine.GetState(ctx, &gantryv1.GetStateRequest{Key: "k"}); err != nil || string(r.GetValue()) != "two" {
		t.Errorf("get: %+v, %v", r, err)
	}
	if r, err := other.GetState(ctx, &gantryv1.GetStateRequest{Key: "k"}); err != nil || r.GetFound() {
		t.Errorf("another plugin's get: %+v, %v", r, err)
	}
	scoped := &gantryv1.GetStateRequest{Key: "k", Scope: gantryv1.StateScope_STATE_SCOPE_THREAD, ThreadId: string(w.thread)}
	if r, err := mine.GetState(ctx, scoped); err != nil || r.GetFound() {
		t.Errorf("get in a thread: %+v, %v", r, err)
	}
	scoped.ThreadId = "nope"
	if _, err := mine.GetState(ctx, scoped); code(err) != codes.InvalidArgument {
		t.Errorf("a thread that is none: %v", err)
	}
	for name, r := range map[string]*gantryv1.PutStateRequest{
		"no key": {}, "long key": {Key: strings.Repeat("k", pluginstate.MaxKeyBytes+1)}, "long value": {Key: "k", Value: make([]byte, pluginstate.MaxValueBytes+1)},
	} {
		if _, err := mine.PutState(ctx, r); code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := mine.ListState(ctx, &gantryv1.ListStateRequest{}); err != nil || len(r.GetKeys()) != 1 {
		t.Errorf("list: %+v, %v", r, err)
	}
}

func TestLeaseEndsWithItsHolder(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("mine")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	held, err := mine.Lease(ctx, &gantryv1.LeaseRequest{Name: "port"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := held.Recv()
	if err != nil || first.GetGranted() == 0 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	busy, err := other.Lease(t.Context(), &gantryv1.LeaseRequest{Name: "port"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := busy.Recv(); err != nil || r.GetBusy() == "" {
		t.Errorf("second: %+v, %v", r, err)
	}
	waiting, err := other.Lease(t.Context(), &gantryv1.LeaseRequest{Name: "port", WaitMs: 60_000})
	if err != nil {
		t.Fatal(err)
	}
	leave()
	if r, err := waiting.Recv(); err != nil || r.GetGranted() <= first.GetGranted() {
		t.Errorf("the next holder: %+v, %v, want a token behind %d", r, err, first.GetGranted())
	}
}

func TestArtifactsSecretsAndEvents(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	content := bytes.Repeat([]byte("0123456789"), 20_000)
	up, err := mine.PutArtifact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range []*gantryv1.PutArtifactRequest{{MediaType: "text/plain", Name: "a.txt", Data: content[:7]}, {}, {Data: content[7:]}} {
		if err := up.Send(m); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	put, err := up.CloseAndRecv()
	if err != nil || put.GetArtifact().GetSizeBytes() != int64(len(content)) {
		t.Fatalf("put: %+v, %v", put, err)
	}
	down, err := mine.GetArtifact(t.Context(), &gantryv1.GetArtifactRequest{Sha256: put.GetArtifact().GetSha256()})
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for {
		m, err := down.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got.Write(m.GetData())
	}
	if !bytes.Equal(got.Bytes(), content) {
		t.Errorf("%d bytes came back of %d", got.Len(), len(content))
	}
	for _, digest := range []string{"", "../../threads.db", strings.Repeat("0", 64)} {
		down, err := mine.GetArtifact(t.Context(), &gantryv1.GetArtifactRequest{Sha256: digest})
		if err == nil {
			_, err = down.Recv()
		}
		if code(err) != codes.NotFound {
			t.Errorf("artifact %q: %v", digest, err)
		}
	}
	if r, err := mine.Secret(t.Context(), &gantryv1.SecretRequest{Handle: "h1"}); err != nil || r.GetValue() != "the value" {
		t.Errorf("secret: %v, %v", r, err)
	}
	if got := w.known.Text("prints the value"); got != "prints "+redact.Placeholder {
		t.Errorf("what a plugin got is not known as a secret: %q", got)
	}
	if r, err := other.Secret(t.Context(), &gantryv1.SecretRequest{Handle: "h1"}); code(err) != codes.PermissionDenied || r.GetValue() != "" {
		t.Errorf("another plugin's secret: %v, %v", r, err)
	}
	w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
		if _, err := mine.Emit(t.Context(), &gantryv1.EmitRequest{Token: s.CallToken, Kind: "k", PayloadJson: []byte("{nope")}); code(err) != codes.InvalidArgument {
			t.Errorf("a payload that is no JSON: %v", err)
		}
		if r, err := mine.Authorize(t.Context(), &gantryv1.AuthorizeRequest{CallToken: s.CallToken, Effects: []*gantryv1.Effect{
			{Kind: &gantryv1.Effect_Network{Network: &gantryv1.NetworkEffect{Host: "forbidden.example"}}},
		}}); err != nil || r.GetGranted() || r.GetDenial() != "not that host" {
			t.Errorf("authorize: %+v, %v", r, err)
		}
		if r, err := mine.CallTool(t.Context(), &gantryv1.CallToolRequest{CallToken: s.CallToken, Tool: "echo"}); err != nil || r.GetResult().GetIsError() {
			t.Errorf("nested call without input: %+v, %v", r, err)
		}
		r, err := mine.ListTools(t.Context(), &gantryv1.ListToolsRequest{CallToken: s.CallToken})
		var names []string
		for _, d := range r.GetTools() {
			names = append(names, d.GetName())
		}
		if want := []string{"work", "echo", "filter", "look"}; err != nil || !slices.Equal(names, want) {
			t.Errorf("tools: %q, %v, want %q", names, err, want)
		}
		if _, err := mine.Sample(t.Context(), &gantryv1.SampleRequest{CallToken: s.CallToken}); err == nil {
			t.Error("a sample without a model")
		}
	})
}

// A question that a call leaves open is over with the call.
func TestQuestionEndsWithItsCall(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	defer w.desk.Attend()()
	outcome := make(chan gantryv1.AskOutcome, 1)
	w.call(t.Context(), func(_ context.Context, s contract.CallStart) {
		if _, err := mine.Ask(t.Context(), &gantryv1.AskRequest{
			CallToken: s.CallToken, Kind: gantryv1.AskKind_ASK_KIND_FORM, FormSchemaJson: []byte("{nope"),
		}); code(err) != codes.InvalidArgument {
			t.Errorf("a schema that is no JSON: %v", err)
		}
		go func() { // owned by the test: received below
			r, err := mine.Ask(t.Context(), &gantryv1.AskRequest{CallToken: s.CallToken, Kind: gantryv1.AskKind_ASK_KIND_CHOICE, Title: "?"})
			if err != nil {
				t.Error(err)
			}
			outcome <- r.GetOutcome()
		}()
		for b := range w.events {
			if b.Kind() == (event.QuestionAsked{}).Kind() {
				return // the call ends while the question is open
			}
		}
	})
	if got := <-outcome; got != gantryv1.AskOutcome_ASK_OUTCOME_CANCELLED {
		t.Errorf("outcome = %v", got)
	}
}
