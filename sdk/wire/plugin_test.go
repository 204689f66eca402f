package wire_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// asPlugin makes the test binary be the test plugin.
const asPlugin = "GANTRY_WIRE_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		os.Exit(testPlugin())
	}
	goleak.VerifyTestMain(m)
}

var testManifest = &contract.Manifest{
	Name: "wire-test", Version: "1.2.3", Kind: contract.KindTool, ContractVersions: []uint32{1},
	Description: "Is started by the tests of the wire package.",
	Config: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{
		{Name: "units", Type: json.RawMessage(`"string"`), Default: json.RawMessage(` "metric" `), Allowed: []string{"metric", "imperial"}},
	}},
	Limits: contract.Limits{CallMS: 1000},
	Tools: []contract.Descriptor{{
		Name: "look", InputSchema: json.RawMessage(`{"type":"object", "properties":{"b":{"type":"number"},"a":{"type":"string"}}}`),
		Effects: []contract.Effect{contract.NetworkEffect{Host: "example.com"}, contract.ExecEffect{Argv: []string{"ls"}}},
	}},
}

// testPlugin is the plugin's main.
func testPlugin() int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &pluginService{stop: stop, stopped: make(chan struct{})}
	var once sync.Once
	return wire.Serve(ctx, wire.ServeConfig{
		Manifest: func() *contract.Manifest { return testManifest },
		Register: func(s *grpc.Server) {
			gantryv1.RegisterPluginServiceServer(s, p)
			gantryv1.RegisterToolServiceServer(s, toolService{})
		},
		Stop:            func(context.Context) { once.Do(func() { close(p.stopped) }) },
		MaxMessageBytes: 1 << 20,
	})
}

type pluginService struct {
	gantryv1.UnimplementedPluginServiceServer
	stop    func()
	stopped chan struct{}
}

func (p *pluginService) Describe(context.Context, *gantryv1.DescribeRequest) (*gantryv1.DescribeResponse, error) {
	return &gantryv1.DescribeResponse{Manifest: convert.ManifestToProto(testManifest)}, nil
}

func (p *pluginService) Stop(context.Context, *gantryv1.StopRequest) (*gantryv1.StopResponse, error) {
	p.stop()
	return &gantryv1.StopResponse{}, nil
}

// Command does what its name says.
func (p *pluginService) Command(ctx context.Context, r *gantryv1.CommandRequest) (*gantryv1.CommandResponse, error) {
	switch r.GetName() {
	case "echo":
		return &gantryv1.CommandResponse{OutputJson: r.GetInputJson()}, nil
	case "panic":
		panic("as asked")
	case "until-stop": // an honest call that finishes when it is asked to
		fmt.Fprintln(os.Stderr, "waiting")
		<-p.stopped
		return &gantryv1.CommandResponse{OutputJson: []byte(`"finished"`)}, nil
	case "until-cancelled":
		fmt.Fprintln(os.Stderr, "waiting")
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case "deaf": // ignores its context, for ever
		fmt.Fprintln(os.Stderr, "waiting")
		select {}
	}
	return nil, errors.New("no such command")
}

type toolService struct {
	gantryv1.UnimplementedToolServiceServer
}

func (toolService) Watch(_ *gantryv1.WatchRequest, ss grpc.ServerStreamingServer[gantryv1.WatchResponse]) error {
	if err := ss.Send(&gantryv1.WatchResponse{Revision: "1"}); err != nil {
		return err
	}
	<-ss.Context().Done()
	return nil
}

func (toolService) Thread(*gantryv1.ThreadRequest, grpc.ServerStreamingServer[gantryv1.ThreadResponse]) error {
	panic("as asked")
}

// plugin is a running test plugin.
type plugin struct {
	cmd      *exec.Cmd
	socket   string
	line     wire.Handshake
	token    string
	lifeline *os.File // the host's end
	stderr   *lines
	exited   chan struct{} // closed when the process has been reaped
	err      error         // how it ended; after exited
}

// command prepares the test plugin as a host would. The caller starts it and closes life afterwards.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = []string{asPlugin + "=1", "PATH=" + os.Getenv("PATH")}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		cmd.Env = append(cmd.Env, "GOCOVERDIR="+dir)
	}
	return cmd
}

// hosted adds what a host gives: cookie, socket folder and lifeline. It returns the host's end of the lifeline.
func hosted(t testing.TB, cmd *exec.Cmd, dir string, h wire.Hello) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if err := wire.WriteHello(w, h); err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{r}
	cmd.Env = append(cmd.Env, wire.CookieKey+"="+wire.CookieValue, wire.ProtocolVersionsEnv+"=1", wire.SocketDirEnv+"="+dir,
		wire.LifelineEnv+"=3")
	return w
}

// shortDir is a folder whose sockets have short enough paths whatever the test is called.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// start starts the test plugin and reads its handshake. It is killed at the end of the test at the latest.
func start(t testing.TB, h wire.Hello) *plugin {
	t.Helper()
	return startWith(t, h, nil)
}

// startWith is start with another stderr than a collected one.
func startWith(t testing.TB, h wire.Hello, stderr io.Writer) *plugin {
	t.Helper()
	cmd := command(t)
	p := &plugin{cmd: cmd, token: h.Token, stderr: newLines(), exited: make(chan struct{})}
	p.lifeline = hosted(t, cmd, shortDir(t), h)
	if cmd.Stderr = p.stderr; stderr != nil {
		cmd.Stderr = stderr
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles[0].Close()
	out := bufio.NewReader(stdout)
	line, lineErr := out.ReadString('\n')
	// Owner: the test, whose clean-up waits for it.
	go func() {
		_, _ = io.Copy(io.Discard, out)
		p.err = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.exited
	})
	if lineErr != nil {
		_ = cmd.Process.Kill()
		<-p.exited
		t.Fatalf("no handshake: %v; stderr: %s", lineErr, p.stderr.text())
	}
	if p.line, err = wire.ParseHandshake(line); err == nil {
		err = p.line.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.socket = p.line.Address
	return p
}

// dial connects to the plugin.
func (p *plugin) dial(t testing.TB, creds credentials.TransportCredentials, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+p.socket, append([]grpc.DialOption{grpc.WithTransportCredentials(creds)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// connect dials as the host does.
func (p *plugin) connect(t testing.TB) *grpc.ClientConn {
	t.Helper()
	return p.dial(t, wire.PeerCredentials(wire.SameUser), grpc.WithPerRPCCredentials(wire.Token(p.token)))
}

// wait returns how the process ended. Patience only turns a hang into a failure.
func (p *plugin) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-p.exited:
		return p.err
	case <-time.After(20 * time.Second):
		t.Fatalf("the plugin did not end; stderr: %s", p.stderr.text())
		return nil
	}
}

// socketsLeft lists what the plugin left in its folder.
func (p *plugin) socketsLeft(t testing.TB) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(filepath.Dir(p.socket), "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// lines collects output and lets tests wait for a piece of it.
type lines struct {
	mu struct {
		sync.Mutex
		b       strings.Builder
		changed chan struct{}
	}
}

func newLines() *lines {
	l := &lines{}
	l.mu.changed = make(chan struct{})
	return l
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
	return l.mu.b.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.b.String()
}

// await returns when the output holds s.
func (l *lines) await(t testing.TB, s string) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for {
		l.mu.Lock()
		text, changed := l.mu.b.String(), l.mu.changed
		l.mu.Unlock()
		if strings.Contains(text, s) {
			return
		}
		select {
		case <-changed:
		case <-patience:
			t.Fatalf("no %q in %q", s, text)
		}
	}
}

var noCredentials = insecure.NewCredentials()
