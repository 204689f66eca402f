package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a model that runs a command for "run", whose answer to "slow" never ends, and that otherwise repeats what it is told.
const script = `
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
do    = [{ text = "heard ${user}" }]
`

// newServer returns a server on a hub whose model plays the script, and whose approval policy is untrusted.
func newServer(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	bin := os.Getenv("GANTRY_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "..", "bin")
	}
	bin, err := filepath.Abs(bin)
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
	hcl := fmt.Sprintf("provider \"scripted\" {\n  source = \"builtin/scripted\"\n  script_text = %s\n}\nmodel \"default\" {\n  provider = \"scripted\"\n  name = \"scripted\"\n}\n"+
		"approval {\n  policy = \"untrusted\"\n}\nsandbox {\n  mode = \"full-access\"\n}\n", strings.ReplaceAll(fmt.Sprintf("%q", script), "${", "$${"))
	if err := os.WriteFile(filepath.Join(home, "gantry.hcl"), []byte(hcl), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := hub.New(t.Context(), hub.Config{
		Home: home, Store: store.Config{Path: filepath.Join(home, "threads.db")},
		Load: func(ctx context.Context, w hub.Workspace) (*config.Config, error) {
			cfg, ds := config.Load(ctx, config.Options{Home: home, Dir: w.Dir, Sets: w.Sets, System: "-"})
			return cfg, ds.Err()
		},
		Open: func(ctx context.Context, w hub.Workspace, cfg *config.Config, shared host.Shared) (*host.Host, error) {
			return host.New(ctx, host.Options{
				Home: home, BinDir: bin, Version: "0.0.0-test", Config: cfg, Logger: hclog.NewNullLogger(), Environ: []string{"PATH=" + os.Getenv("PATH")}, Shared: shared,
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
	cfg := Config{Hub: h, Version: "0.0.0-test", Workspace: hub.Workspace{Dir: t.TempDir()}}
	if change != nil {
		change(&cfg)
	}
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pipe returns both ends of a connection of a client: a stream for [Server.Serve], and a transport. The server is served until the client
// leaves, which the cleanup waits for.
func pipe(t *testing.T, s *Server) (mcp.Transport, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { // ends when the client leaves
		if err := s.Serve(context.WithoutCancel(t.Context()), rpc.Lines(ours, ours, ours)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = theirs.Close() // it may be closed already
		serving.Wait()
	})
	return &mcp.IOTransport{Reader: theirs, Writer: theirs}, theirs
}

// client connects a client of the SDK. answer answers its elicitations; nil: it has none.
func client(t *testing.T, transport mcp.Transport, answer func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)) *mcp.ClientSession {
	t.Helper()
	o := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if answer != nil {
		o.Capabilities.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}
		o.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return answer(ctx, r.Params)
		}
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}
