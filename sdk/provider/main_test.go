//go:build linux

package provider

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// process is a plugin binary that a test started.
type process struct {
	cmd      *exec.Cmd
	conn     *grpc.ClientConn
	lifeline *os.File
	stdout   io.Reader
}

// startProcess starts a provider binary the way a host does.
func startProcess(t testing.TB, path string, env ...string) *process {
	t.Helper()
	dir, err := os.MkdirTemp("", "gp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hello := wire.Hello{Token: wire.NewToken(), Transport: wire.TransportPeer}
	if err := wire.WriteHello(w, hello); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = append(env, wire.CookieKey+"="+wire.CookieValue, wire.SocketDirEnv+"="+dir, wire.LifelineEnv+"=3")
	cmd.ExtraFiles = []*os.File{r}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, lifeline: w, stdout: stdout}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	h, perr := wire.ParseHandshake(line)
	if err := errors.Join(err, perr); err != nil {
		p.end()
		t.Fatalf("%v; stderr: %s", err, stderr.String())
	}
	p.conn, err = grpc.NewClient("unix:"+h.Address, grpc.WithTransportCredentials(wire.PeerCredentials(wire.SameUser)),
		grpc.WithPerRPCCredentials(wire.Token(hello.Token)))
	if err != nil {
		p.end()
		t.Fatal(err)
	}
	return p
}

// end closes the lifeline and returns how the process ended.
func (p *process) end() error {
	if p.conn != nil {
		p.conn.Close()
	}
	p.lifeline.Close()
	return p.cmd.Wait()
}

func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func TestMainServes(t *testing.T) {
	out := func(arg string) string {
		t.Helper()
		cmd := exec.Command(self(t), arg)
		cmd.Env = []string{asPlugin + "=1"}
		b, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := out("--version"); got != "echo 1.0.0\n" {
		t.Errorf("--version prints %q", got)
	}
	p := startProcess(t, self(t), asPlugin+"=1")
	defer p.end()
	pc := gantryv1.NewPluginServiceClient(p.conn)
	d, err := pc.Describe(t.Context(), &gantryv1.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := out("--describe"), string(convert.ManifestFromProto(d.GetManifest()).Canonical())+"\n"; got != want {
		t.Errorf("--describe prints\n%sDescribe answers\n%s", got, want)
	}
	if _, err := pc.Configure(t.Context(), &gantryv1.ConfigureRequest{}); err != nil {
		t.Fatal(err)
	}
	events, err := receive(gantryv1.NewProviderServiceClient(p.conn).Stream(t.Context(), request("hello")))
	if err != nil || len(events) != 6 || events[2].(llm.BlockDelta).Text != "hello" {
		t.Errorf("stream: %v, %v", events, err)
	}
	if _, err := pc.Stop(t.Context(), &gantryv1.StopRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, p.stdout); err != nil { // ends with the process
		t.Error(err)
	}
	if err := p.end(); err != nil {
		t.Errorf("after Stop: %v", err)
	}
}

func TestMainReportsErrors(t *testing.T) {
	var stderr bytes.Buffer
	code := run(t.Context(), Plugin{Name: "broken"}, wire.ServeConfig{Stderr: &stderr, Args: []string{}})
	if code != 1 || !strings.Contains(stderr.String(), "has no New") {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

// host is the part of the host's services that a provider uses.
type host struct {
	gantryv1.UnimplementedHostServiceServer
	state map[string][]byte
	asked atomic.Int32 // for secrets
}

func (h *host) Secret(_ context.Context, r *gantryv1.SecretRequest) (*gantryv1.SecretResponse, error) {
	h.asked.Add(1)
	switch r.GetHandle() {
	case "h1":
		return &gantryv1.SecretResponse{Value: "s3cret"}, nil
	case "fixed":
		return &gantryv1.SecretResponse{Value: fmt.Sprintf("s%d", h.asked.Load()), Fixed: true}, nil
	}
	return nil, status.Error(codes.PermissionDenied, "not yours")
}

func (h *host) GetState(_ context.Context, r *gantryv1.GetStateRequest) (*gantryv1.GetStateResponse, error) {
	v, ok := h.state[r.GetKey()]
	return &gantryv1.GetStateResponse{Found: ok, Value: v}, nil
}

func (h *host) PutState(_ context.Context, r *gantryv1.PutStateRequest) (*gantryv1.PutStateResponse, error) {
	if r.GetDelete() {
		delete(h.state, r.GetKey())
	} else {
		h.state[r.GetKey()] = r.GetValue()
	}
	return &gantryv1.PutStateResponse{Stored: true}, nil
}

const content = "an image, as it were"

func (h *host) GetArtifact(r *gantryv1.GetArtifactRequest, ss grpc.ServerStreamingServer[gantryv1.GetArtifactResponse]) error {
	return errors.Join(
		ss.Send(&gantryv1.GetArtifactResponse{Data: []byte(content[:5])}), ss.Send(&gantryv1.GetArtifactResponse{Data: []byte(content[5:])}))
}

func TestHost(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "h")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	unary, stream := wire.RequireToken("services")
	srv := grpc.NewServer(grpc.Creds(wire.PeerCredentials(wire.SameUser)), grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	services := &host{state: map[string][]byte{}}
	gantryv1.RegisterHostServiceServer(srv, services)
	// Owner: the test; Stop ends it.
	go func() { _ = srv.Serve(ln) }()
	defer srv.Stop()

	p := &echo{}
	c, closed := connect(t, testPlugin(p), nil)
	defer closed()
	configure := func(facts *gantryv1.HostFacts) error {
		res, err := c.Configure(t.Context(), &gantryv1.ConfigureRequest{ConfigJson: []byte(`{"api_key":{"$secret":"h1"}}`), Host: facts})
		if err == nil && len(res.GetDiagnostics()) > 0 {
			t.Fatal(res.GetDiagnostics())
		}
		return err
	}
	if err := configure(&gantryv1.HostFacts{ServicesSocket: socket + "x"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a socket that is not there: %v", err)
	}
	if err := configure(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.env.Host.Secret(t.Context(), "h1", false); !errors.Is(err, ErrNoHost) {
		t.Errorf("without services: %v", err)
	}
	if _, err := p.env.Config.(*config).APIKey.Value(t.Context()); !errors.Is(err, ErrNoHost) {
		t.Errorf("without services: %v", err)
	}
	if err := configure(&gantryv1.HostFacts{ServicesSocket: socket, ServicesToken: "wrong"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.env.Host.Secret(t.Context(), "h1", false); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a wrong token: %v", err)
	}
	if err := configure(&gantryv1.HostFacts{ServicesSocket: socket, ServicesToken: "services"}); err != nil {
		t.Fatal(err)
	}
	h := p.env.Host
	if s, err := p.env.Config.(*config).APIKey.Value(t.Context()); err != nil || s != "s3cret" {
		t.Errorf("secret = %q, %v", s, err)
	}
	services.asked.Store(0)
	for _, tc := range []struct {
		handle string
		renew  bool
		want   string
		asked  int32 // so far
	}{
		{"h1", false, "s3cret", 1}, {"h1", false, "s3cret", 2},
		{"fixed", false, "s3", 3}, {"fixed", false, "s3", 3}, // asked for once
		{"fixed", true, "s4", 4}, {"fixed", false, "s4", 4}, // unless it was refused
	} {
		if v, err := h.Secret(t.Context(), tc.handle, tc.renew); err != nil || v != tc.want || services.asked.Load() != tc.asked {
			t.Errorf("%s, renew %v: %q, %v; the host was asked %d times, want %q, %d", tc.handle, tc.renew, v, err, services.asked.Load(), tc.want, tc.asked)
		}
	}
	if _, err := h.Secret(t.Context(), "h2", true); status.Code(err) != codes.PermissionDenied {
		t.Errorf("somebody else's secret: %v", err)
	}
	sum := sha256.Sum256([]byte(content))
	if b, err := h.Artifact(t.Context(), hex.EncodeToString(sum[:])); err != nil || string(b) != content {
		t.Errorf("artifact = %q, %v", b, err)
	}
	if _, err := h.Artifact(t.Context(), strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), "a different digest") {
		t.Errorf("tampered artifact: %v", err)
	}
	if err := h.SetState(t.Context(), "k", []byte("v")); err != nil {
		t.Error(err)
	}
	if v, found, err := h.State(t.Context(), "k"); err != nil || !found || string(v) != "v" {
		t.Errorf("state = %q, %v, %v", v, found, err)
	}
	if err := h.SetState(t.Context(), "k", nil); err != nil {
		t.Error(err)
	}
	if _, found, err := h.State(t.Context(), "k"); err != nil || found {
		t.Errorf("removed state: %v, %v", found, err)
	}
}
