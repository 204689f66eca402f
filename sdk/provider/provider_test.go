package provider

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// asPlugin makes the test binary be the test plugin.
const asPlugin = "GANTRY_PROVIDER_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		Main(testPlugin(&echo{}))
	}
	goleak.VerifyTestMain(m)
}

type config struct {
	Model  string             `json:"model" default:"small" enum:"small,large" doc:"Which model."`
	APIKey configblock.Secret `json:"api_key" sensitive:"true"`
}

// echo is a provider that repeats the user's message, unless stream is set.
type echo struct {
	env    Env
	stream func(ctx context.Context, r *StreamRequest, emit func(llm.Event) error) error
	closed atomic.Int32
}

func (e *echo) Models(context.Context) ([]llm.ModelRow, error) {
	if e.env.Config.(*config).Model == "large" {
		return nil, &llm.Error{Code: llm.ErrAuthentication, Message: "the key is not good.", Next: "Log in again."}
	}
	return []llm.ModelRow{{ID: "small", ContextWindow: 1000}}, nil
}

func (e *echo) Prepare(_ context.Context, r *llm.Request) (*Prepared, error) {
	if r.Model == "" {
		return nil, errors.New("which model?")
	}
	return &Prepared{Method: "POST", URL: "https://example.com/" + r.Model, Headers: []Header{{"authorization", "…"}}, Body: []byte("{}")}, nil
}

func (e *echo) Stream(ctx context.Context, r *StreamRequest, emit func(llm.Event) error) error {
	if e.stream != nil {
		return e.stream(ctx, r, emit)
	}
	return answer(emit, r.Messages[len(r.Messages)-1].Text())
}

func (e *echo) Close() error {
	e.closed.Add(1)
	return nil
}

// manyDeltas asks for an answer in a thousand pieces.
const manyDeltas = "many deltas"

// answer emits a whole answer of one text.
func answer(emit func(llm.Event) error, text string) error {
	events := []llm.Event{llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "0"}}
	pieces := 1
	if text == manyDeltas {
		pieces = 1000
	}
	for range pieces {
		events = append(events, llm.BlockDelta{Kind: llm.BlockText, ID: "0", Text: text})
	}
	events = append(events, llm.BlockEnd{Kind: llm.BlockText, ID: "0"}, llm.StepFinish{Reason: llm.FinishStop},
		llm.Finish{Reason: llm.FinishStop})
	for _, ev := range events {
		if err := emit(ev); err != nil {
			return err
		}
	}
	return nil
}

func testPlugin(ps ...*echo) Plugin {
	n := 0
	return Plugin{
		Name: "echo", Version: "1.0.0", Description: "Says what it was told.", Config: &config{}, Capabilities: []string{"state", "network"},
		Commands: []Command{{
			Name: "whoami",
			Run: func(_ context.Context, env Env, input json.RawMessage) (out json.RawMessage, err error) {
				if string(input) == "null" {
					return nil, errors.New("nobody")
				}
				return input, nil
			},
		}},
		New: func(_ context.Context, env Env) (Provider, error) {
			p := ps[min(n, len(ps)-1)]
			n++
			p.env = env
			return p, nil
		},
	}
}

// clients are connected to a plugin that runs in this process.
type clients struct {
	gantryv1.PluginServiceClient
	gantryv1.ProviderServiceClient
	server *server
}

// connect serves p in memory until the test ends, or in a bubble until closed is called.
func connect(t *testing.T, p Plugin, stop func()) (c clients, closed func()) {
	t.Helper()
	s, err := newServer(p, hclog.NewNullLogger(), stop)
	if err != nil {
		t.Fatal(err)
	}
	ln := bufconn.Listen(1 << 20)
	srv := grpc.NewServer()
	s.register(srv)
	// Owner: this connection; Stop ends it.
	go func() { _ = srv.Serve(ln) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	return clients{gantryv1.NewPluginServiceClient(conn), gantryv1.NewProviderServiceClient(conn), s}, func() {
		conn.Close()
		srv.Stop()
		s.shutdown(context.Background())
	}
}

// configured is connect with a Configure that must succeed.
func configured(t *testing.T, p Plugin) (clients, func()) {
	t.Helper()
	c, closed := connect(t, p, func() {})
	res, err := c.Configure(t.Context(), &gantryv1.ConfigureRequest{ConfigJson: []byte("{}"), Label: "it"})
	if err != nil || len(res.GetDiagnostics()) > 0 {
		t.Fatalf("configure: %v, %v", res.GetDiagnostics(), err)
	}
	return c, closed
}
