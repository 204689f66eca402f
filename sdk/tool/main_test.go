package tool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plugin is a served plugin with clients as a host has them.
type plugin struct {
	gantryv1.PluginServiceClient
	gantryv1.ToolServiceClient
	server *tool.Server
}

// serve runs a plugin on a connection in memory until the test ends.
func serve(t *testing.T, p tool.Plugin) plugin {
	t.Helper()
	if p.Name == "" {
		p.Name, p.Version = "test", "1.0.0"
	}
	logger := hclog.New(&hclog.LoggerOptions{Output: t.Output(), Level: hclog.Trace})
	s, err := tool.NewServer(p, logger)
	if err != nil {
		t.Fatal(err)
	}
	ln := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	s.Register(srv)
	done := make(chan struct{})
	go func() { // owned by the test, which waits for it
		defer close(done)
		_ = srv.Serve(ln)
	}()
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		_ = conn.Close()
		srv.Stop()
		<-done
	})
	return plugin{gantryv1.NewPluginServiceClient(conn), gantryv1.NewToolServiceClient(conn), s}
}

// configured is serve with a configuration that the plugin accepts.
func configured(t *testing.T, p tool.Plugin, facts *gantryv1.HostFacts, config string) plugin {
	t.Helper()
	s := serve(t, p)
	if ds := s.configure(t, facts, config); len(ds) > 0 {
		t.Fatalf("diagnostics %v", ds)
	}
	return s
}

func (p plugin) configure(t *testing.T, facts *gantryv1.HostFacts, config string) []*gantryv1.Diagnostic {
	t.Helper()
	resp, err := p.Configure(t.Context(), &gantryv1.ConfigureRequest{
		ConfigJson: []byte(config), Host: facts, Generation: 1, Label: "test", DataDir: "/data", CacheDir: "/cache",
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetDiagnostics()
}

// call is a call as the host sees it.
type call struct {
	gantryv1.ToolService_CallClient
	t *testing.T
}

func (p plugin) start(t *testing.T, s *gantryv1.CallStart) call {
	t.Helper()
	return p.startCtx(t, t.Context(), s)
}

func (p plugin) startCtx(t *testing.T, ctx context.Context, s *gantryv1.CallStart) call {
	t.Helper()
	stream, err := p.Call(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := call{stream, t}
	if s.ThreadId == "" {
		s.ThreadId, s.TurnId, s.CallId, s.Cwd = "thread-1", "turn-1", "call-1", "/work"
	}
	if s.Input == nil {
		s.Input = arguments("{}")
	}
	c.control(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Start{Start: s}})
	return c
}

func arguments(s string) *gantryv1.CallInput {
	return &gantryv1.CallInput{Input: &gantryv1.CallInput_ArgumentsJson{ArgumentsJson: []byte(s)}}
}

func (c call) control(m *gantryv1.CallRequest) {
	c.t.Helper()
	if err := c.Send(m); err != nil && !errors.Is(err, io.EOF) {
		c.t.Fatal(err)
	}
}

func (c call) cancel(reason string, graceMS int64) {
	c.t.Helper()
	c.control(&gantryv1.CallRequest{Control: &gantryv1.CallRequest_Cancel{Cancel: &gantryv1.CallCancel{Reason: reason, GraceMs: graceMS}}})
}

// rest receives until the end and checks the order that every call has: started once and first, one result and last.
func (c call) rest() ([]*gantryv1.CallResponse, error) {
	c.t.Helper()
	var all []*gantryv1.CallResponse
	for {
		m, err := c.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				checkOrder(c.t, all)
				return all, nil
			}
			return all, err
		}
		all = append(all, m)
	}
}

func checkOrder(t *testing.T, all []*gantryv1.CallResponse) {
	t.Helper()
	started, results := 0, 0
	for i, m := range all {
		if m.GetStarted() != nil {
			started++
			if i != 0 {
				t.Errorf("started is event %d", i)
			}
		}
		if m.GetResult() != nil {
			results++
			if i != len(all)-1 {
				t.Errorf("result is event %d of %d", i, len(all))
			}
		}
	}
	if started != 1 || results != 1 {
		t.Errorf("%d started and %d results in %s", started, results, shape(all))
	}
}

// run makes a call and returns its result with all events.
func (p plugin) run(t *testing.T, s *gantryv1.CallStart) (*gantryv1.CallResult, []*gantryv1.CallResponse) {
	t.Helper()
	all, err := p.start(t, s).rest()
	if err != nil {
		t.Fatal(err)
	}
	return all[len(all)-1].GetResult(), all
}

// shape is a readable form of events.
func shape(all []*gantryv1.CallResponse) string {
	var out []string
	for _, m := range all {
		switch e := m.GetEvent().(type) {
		case *gantryv1.CallResponse_Started:
			out = append(out, "started"+itemShape(e.Started.GetItem()))
		case *gantryv1.CallResponse_Output:
			out = append(out, fmt.Sprintf("output@%d %q", e.Output.GetOffset(), e.Output.GetData()))
		case *gantryv1.CallResponse_Progress:
			out = append(out, fmt.Sprintf("progress %s %v/%v", e.Progress.GetMessage(), e.Progress.GetDone(), e.Progress.GetTotal()))
		case *gantryv1.CallResponse_Artifact:
			out = append(out, "artifact "+e.Artifact.GetName())
		case *gantryv1.CallResponse_Item:
			out = append(out, "item"+itemShape(e.Item))
		case *gantryv1.CallResponse_Note:
			out = append(out, "note "+e.Note.GetText())
		case *gantryv1.CallResponse_Result:
			out = append(out, "result "+resultShape(e.Result))
		}
	}
	return strings.Join(out, " | ")
}

func itemShape(i *gantryv1.Item) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf(" %s%s", i.GetCommand().GetCommand(), i.GetOther().GetTitle())
}

func resultShape(r *gantryv1.CallResult) string {
	var out strings.Builder
	for _, p := range r.GetParts() {
		out.WriteString(p.GetText().GetText())
		out.Write(p.GetJson())
	}
	if r.GetIsError() {
		out.WriteString(" (error)")
	}
	if r.GetAborted() {
		out.WriteString(" (aborted)")
	}
	if r.GetSandboxDenied() {
		out.WriteString(" (denied)")
	}
	return out.String()
}

func one(name string, run func(ctx context.Context, c *tool.Call, in struct{}) (*tool.Result, error), opts ...tool.Option) []tool.Tool {
	return []tool.Tool{tool.New(name, "A tool of a test.", run, opts...)}
}
