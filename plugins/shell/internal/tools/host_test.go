//go:build unix

package tools_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gantry-agent/gantry/plugins/shell/internal/helper"
	"github.com/gantry-agent/gantry/plugins/shell/internal/tools"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

func TestMain(m *testing.M) {
	if helper.Wanted(os.Args) { // the test binary is its own helper, as the plugin's is
		// Not os.Exit: with the race detector that takes a second.
		syscall.Exit(helper.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// rig is the plugin behind a real gRPC connection, with a host that starts real processes.
type rig struct {
	t     *testing.T
	host  *processtest.Host
	stop  func() // as a host stops it; the first time counts
	plug  gantryv1.PluginServiceClient
	tools gantryv1.ToolServiceClient
	cwd   string
	home  string // of the user, where a test made one

	grant  contract.GrantFacts
	traits []string

	mu     sync.Mutex
	events []contract.ThreadEvent
	told   chan struct{} // closed and replaced with every event
}

type rigOptions struct {
	config string // JSON of the block
	host   processtest.Options
	after  *rig // the process before this one, which was stopped: same host, same folder
}

// newRig makes the test a parallel one: rigs share nothing.
func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	if o.after == nil {
		t.Parallel()
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server, err := tool.NewServer(tools.New("0.0.0", binary), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, told: make(chan struct{}),
		grant: contract.GrantFacts{SandboxMode: "full-access"}, traits: []string{"images"},
	}
	generation := uint64(1)
	if o.after != nil {
		r.host, r.cwd, generation = o.after.host, o.after.cwd, 2
	} else {
		r.host, r.cwd = processtest.Start(t, o.host), t.TempDir()
	}
	listener := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.MaxRecvMsgSize(16<<20), grpc.MaxSendMsgSize(16<<20))
	server.Register(g)
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(listener) })
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	r.plug, r.tools = gantryv1.NewPluginServiceClient(conn), gantryv1.NewToolServiceClient(conn)
	r.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		_ = conn.Close()
		g.Stop()
		serving.Wait()
	})
	t.Cleanup(r.stop)
	if o.config == "" {
		o.config = "{}"
	}
	for _, d := range r.configureAs(generation, o.config) {
		t.Fatalf("configure: %s", d.GetSummary())
	}
	r.listen(conn)
	return r
}

func (r *rig) configure(config string) []*gantryv1.Diagnostic { return r.configureAs(1, config) }

func (r *rig) configureAs(generation uint64, config string) []*gantryv1.Diagnostic {
	r.t.Helper()
	resp, err := r.plug.Configure(context.Background(), &gantryv1.ConfigureRequest{
		ConfigJson: []byte(config), Host: r.host.Facts(), Generation: generation, Label: "shell",
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.GetDiagnostics()
}

// listen keeps what happens in the thread.
func (r *rig) listen(conn *grpc.ClientConn) {
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := r.tools.Thread(ctx, &gantryv1.ThreadRequest{ThreadId: "thread", Cwd: r.cwd, ThreadToken: "tt"})
	if err != nil {
		r.t.Fatal(err)
	}
	var listening sync.WaitGroup
	listening.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if e, ok := convert.ThreadEventFromProto(m); ok {
				r.mu.Lock()
				r.events = append(r.events, e)
				close(r.told)
				r.told = make(chan struct{})
				r.mu.Unlock()
			}
		}
	})
	r.t.Cleanup(func() { cancel(); listening.Wait() })
}

// await returns when the thread's events satisfy ok.
func (r *rig) await(what string, ok func([]contract.ThreadEvent) bool) {
	r.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		r.mu.Lock()
		done, told := ok(r.events), r.told
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-told:
		case <-limit:
			r.t.Fatalf("%s did not happen; the thread said %+v", what, r.events)
		}
	}
}

// answer is all that a call gave.
type answer struct {
	*contract.Result
	assessment *contract.Assessment
	started    contract.Item
	output     string // of the deltas
	early      bool
}

// text is what the model reads, before the host cuts it.
func (a *answer) text() string {
	var b strings.Builder
	for _, p := range a.Parts {
		if t, ok := p.(*contract.TextPart); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// tail is the text behind the lines that differ from run to run: chunk and wall time.
func (a *answer) tail() string {
	chunk, rest, _ := strings.Cut(a.text(), "\n")
	wall, rest, _ := strings.Cut(rest, "\n")
	if !chunkLine.MatchString(chunk) || !wallLine.MatchString(wall) {
		return "no header: " + a.text()
	}
	return rest
}

// running is a call that has been started.
type running struct {
	r      *rig
	stream gantryv1.ToolService_CallClient
	a      *answer
}

func (r *rig) input(name string, args any) contract.Input {
	r.t.Helper()
	if name == "apply_patch" {
		return contract.Input{Text: args.(string), Freeform: true}
	}
	if s, ok := args.(string); ok {
		return contract.Input{Arguments: json.RawMessage(s)}
	}
	b, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	return contract.Input{Arguments: b}
}

func (r *rig) assess(name string, args any) *contract.Assessment {
	r.t.Helper()
	resp, err := r.tools.Assess(context.Background(), convert.AssessRequestToProto(&contract.AssessRequest{
		ThreadID: "thread", TurnID: "turn", CallID: "call", Tool: name, Input: r.input(name, args), Cwd: r.cwd, CallToken: "ct",
	}))
	if err != nil {
		r.t.Fatal(err)
	}
	return convert.AssessmentFromProto(resp)
}

type object = map[string]any

// call does what a host does: assess, then run on what was assessed.
func (r *rig) call(name string, args any) *answer {
	r.t.Helper()
	a := r.assess(name, args)
	if a.Early != nil {
		return &answer{Result: a.Early, assessment: a, early: true}
	}
	return r.start(name, args, a, nil).wait()
}

func (r *rig) start(name string, args any, a *contract.Assessment, change func(*contract.CallStart)) *running {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r.t.Cleanup(cancel)
	stream, err := r.tools.Call(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	start := &contract.CallStart{
		ThreadID: "thread", TurnID: "turn", CallID: "call", Tool: name, Input: r.input(name, args), AssessDigest: a.Digest,
		Grant: r.grant, Cwd: r.cwd, CallToken: "ct", ModelTraits: r.traits, Attempt: 1,
	}
	if change != nil {
		change(start)
	}
	err = stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: convert.CallStartToProto(start)}})
	if err != nil {
		r.t.Fatal(err)
	}
	return &running{r: r, stream: stream, a: &answer{assessment: a}}
}

// until reads events until one of them satisfies ok, or the result is there.
func (c *running) until(ok func(contract.CallEvent) bool) {
	c.r.t.Helper()
	for c.a.Result == nil {
		m, err := c.stream.Recv()
		if err != nil {
			c.r.t.Fatalf("call: %v", err)
		}
		e, known := convert.CallEventFromProto(m)
		if !known {
			continue
		}
		switch e := e.(type) {
		case contract.Started:
			c.a.started = e.Item
		case contract.Output:
			c.a.output += string(e.Data)
		case *contract.Result:
			c.a.Result = e
		}
		if ok(e) {
			return
		}
	}
}

func (c *running) wait() *answer {
	c.r.t.Helper()
	c.until(func(contract.CallEvent) bool { return false })
	return c.a
}

func (c *running) cancel(reason string) {
	c.r.t.Helper()
	err := c.stream.Send(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Cancel{Cancel: &gantryv1.CallCancel{Reason: reason, GraceMs: 5000}}})
	if err != nil {
		c.r.t.Fatal(err)
	}
}
