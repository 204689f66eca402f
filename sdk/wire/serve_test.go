//go:build linux

package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

func peerHello() wire.Hello { return wire.Hello{Token: wire.NewToken(), Transport: wire.TransportPeer} }

func echo(ctx context.Context, conn *grpc.ClientConn, text string) error {
	want := fmt.Sprintf("%q", text)
	res, err := gantryv1.NewPluginServiceClient(conn).Command(ctx, &gantryv1.CommandRequest{Name: "echo", InputJson: []byte(want)})
	if err == nil && string(res.GetOutputJson()) != want {
		err = fmt.Errorf("echo of %s is %s", want, res.GetOutputJson())
	}
	return err
}

// connPlugin hands out go-plugin's connection.
type connPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (connPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("not a server")
}
func (connPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// TestGoPluginClient lets the library's own client start the plugin and stop it, over both transports.
func TestGoPluginClient(t *testing.T) {
	server, client, err := wire.NewMaterials()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		hello wire.Hello
	}{
		{"peer credentials", peerHello()},
		{"mutual tls", wire.Hello{Token: wire.NewToken(), Transport: wire.TransportTLS, TLS: server}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := command(t)
			lifeline := hosted(t, cmd, shortDir(t), tt.hello)
			cfg := &goplugin.ClientConfig{
				HandshakeConfig: goplugin.HandshakeConfig{
					ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
				},
				Plugins:          goplugin.PluginSet{"it": connPlugin{}},
				Cmd:              cmd,
				SkipHostEnv:      true,
				AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
				Logger:           hclog.NewNullLogger(),
				GRPCDialOptions:  []grpc.DialOption{grpc.WithPerRPCCredentials(wire.Token(tt.hello.Token))},
			}
			if tt.hello.TLS == nil {
				cfg.GRPCDialOptions = append(cfg.GRPCDialOptions, grpc.WithTransportCredentials(wire.PeerCredentials(wire.SameUser)))
			} else if cfg.TLSConfig, err = wire.ClientTLS(client); err != nil {
				t.Fatal(err)
			}
			c := goplugin.NewClient(cfg)
			defer c.Kill()
			rpc, err := c.Client()
			if err != nil {
				t.Fatal(err)
			}
			if err := rpc.Ping(); err != nil {
				t.Errorf("ping: %v", err)
			}
			raw, err := rpc.Dispense("it")
			if err != nil {
				t.Fatal(err)
			}
			conn := raw.(*grpc.ClientConn)
			if err := echo(t.Context(), conn, "hi"); err != nil {
				t.Error(err)
			}
			c.Kill() // through the controller service
			if !c.Exited() {
				t.Error("still running after Kill")
			}
			if s := cmd.ProcessState; s == nil || !s.Success() {
				t.Errorf("ended with %v, want a clean exit", s)
			}
			lifeline.Close()
		})
	}
}

func TestTokenIsRequired(t *testing.T) {
	p := start(t, peerHello())
	if err := echo(t.Context(), p.connect(t), "hi"); err != nil {
		t.Errorf("with the token: %v", err)
	}
	without := p.dial(t, wire.PeerCredentials(wire.SameUser))
	if err := echo(t.Context(), without, "hi"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	wrong := p.dial(t, wire.PeerCredentials(nil), grpc.WithPerRPCCredentials(wire.Token(p.token+"x")))
	if err := echo(t.Context(), wrong, "hi"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a wrong token: %v", err)
	}
	watch, err := gantryv1.NewToolServiceClient(without).Watch(t.Context(), &gantryv1.WatchRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("stream without a token: %v", err)
	}
	h, err := grpc_health_v1.NewHealthClient(without).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
	if err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health without a token: %v, %v", h.GetStatus(), err)
	}
}

func TestMutualTLSRefusesStrangers(t *testing.T) {
	server, client, err := wire.NewMaterials()
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := wire.NewMaterials()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, wire.Hello{Token: "t", Transport: wire.TransportTLS, TLS: server})
	der, err := p.line.Certificate()
	if err != nil || len(der) == 0 {
		t.Errorf("certificate field: %d bytes, %v", len(der), err)
	}
	token := grpc.WithPerRPCCredentials(wire.Token("t"))
	dial := func(m *wire.Material) *grpc.ClientConn {
		tc, err := wire.ClientTLS(m)
		if err != nil {
			t.Fatal(err)
		}
		return p.dial(t, credentials.NewTLS(tc), token)
	}
	if err := echo(t.Context(), dial(client), "hi"); err != nil {
		t.Errorf("the host: %v", err)
	}
	stranger.CA = client.CA // it believes in our authority, which didn't sign it
	if err := echo(t.Context(), dial(stranger), "hi"); status.Code(err) != codes.Unavailable {
		t.Errorf("a stranger: %v", err)
	}
	if err := echo(t.Context(), p.dial(t, noCredentials), "hi"); status.Code(err) != codes.Unavailable {
		t.Errorf("without tls: %v", err)
	}
}

func TestPeerCheckDecides(t *testing.T) {
	p := start(t, peerHello())
	var seen wire.Peer
	conn := p.dial(t, wire.PeerCredentials(func(p wire.Peer) error { seen = p; return nil }), grpc.WithPerRPCCredentials(wire.Token(p.token)))
	if err := echo(t.Context(), conn, "hi"); err != nil {
		t.Fatal(err)
	}
	if want := (wire.Peer{PID: p.cmd.Process.Pid, UID: uint32(os.Getuid())}); seen != want {
		t.Errorf("peer = %+v, want %+v", seen, want)
	}
	refuse := p.dial(t, wire.PeerCredentials(func(wire.Peer) error { return errors.New("not this one") }))
	if err := echo(t.Context(), refuse, "hi"); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "not this one") {
		t.Errorf("refused peer: %v", err)
	}
}

func TestPanicFailsOneCall(t *testing.T) {
	p := start(t, peerHello())
	conn := p.connect(t)
	_, err := gantryv1.NewPluginServiceClient(conn).Command(t.Context(), &gantryv1.CommandRequest{Name: "panic"})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "as asked") {
		t.Errorf("unary: %v", err)
	}
	stream, err := gantryv1.NewToolServiceClient(conn).Thread(t.Context(), &gantryv1.ThreadRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Internal {
		t.Errorf("stream: %v", err)
	}
	if err := echo(t.Context(), conn, "still there"); err != nil {
		t.Errorf("after the panics: %v", err)
	}
	p.stderr.await(t, "plugin_test.go") // the stack
	if strings.HasPrefix(p.stderr.text(), "panic:") || strings.Contains(p.stderr.text(), "\npanic:") {
		t.Errorf("stderr reads like a dying process: %s", p.stderr.text())
	}
}

func TestMessageLimit(t *testing.T) {
	p := start(t, peerHello())
	conn := p.connect(t)
	if err := echo(t.Context(), conn, strings.Repeat("x", 1<<20-100)); err != nil {
		t.Errorf("below the limit: %v", err)
	}
	if err := echo(t.Context(), conn, strings.Repeat("x", 1<<20)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("above the limit: %v", err)
	}
	if err := echo(t.Context(), conn, "small again"); err != nil {
		t.Error(err)
	}
}

// TestEnds goes through all ways in which a plugin ends, each with a call of every kind in flight.
func TestEnds(t *testing.T) {
	shutdown := func(ctx context.Context, p *plugin, conn *grpc.ClientConn) error {
		return conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &gantryv1.StopRequest{}, &gantryv1.StopResponse{})
	}
	ways := []struct {
		name string
		end  func(ctx context.Context, p *plugin, conn *grpc.ClientConn) error
		gone bool // the host has died, so there is no receiver for results
	}{
		{name: "shutdown", end: shutdown},
		{name: "shutdown twice", end: func(ctx context.Context, p *plugin, conn *grpc.ClientConn) error {
			return errors.Join(shutdown(ctx, p, conn), ignoreUnavailable(shutdown(ctx, p, conn)))
		}},
		{name: "stop", end: func(ctx context.Context, _ *plugin, conn *grpc.ClientConn) error {
			_, err := gantryv1.NewPluginServiceClient(conn).Stop(ctx, &gantryv1.StopRequest{})
			return err
		}},
		{name: "SIGTERM", end: func(_ context.Context, p *plugin, _ *grpc.ClientConn) error {
			return p.cmd.Process.Signal(syscall.SIGTERM)
		}},
		{name: "interrupt does nothing, SIGTERM then does", end: func(ctx context.Context, p *plugin, conn *grpc.ClientConn) error {
			return errors.Join(p.cmd.Process.Signal(os.Interrupt), echo(ctx, conn, "still there"), p.cmd.Process.Signal(syscall.SIGTERM))
		}},
		{name: "the host's end", gone: true, end: func(_ context.Context, p *plugin, _ *grpc.ClientConn) error {
			return p.lifeline.Close()
		}},
	}
	calls := []struct{ name, want string }{
		{"", ""},
		{"until-stop", `"finished"`},
		{"until-cancelled", ""},
		{"deaf", ""},
	}
	for _, way := range ways {
		for _, call := range calls {
			t.Run(way.name+"/"+call.name, func(t *testing.T) {
				t.Parallel()
				p := start(t, peerHello())
				conn := p.connect(t)
				watch, err := gantryv1.NewToolServiceClient(conn).Watch(t.Context(), &gantryv1.WatchRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := watch.Recv(); err != nil {
					t.Fatal(err)
				}
				answer := make(chan string, 1)
				if call.name == "" {
					answer <- ""
				} else {
					// Owner: the test, which reads its answer.
					go func() {
						res, _ := gantryv1.NewPluginServiceClient(conn).Command(t.Context(), &gantryv1.CommandRequest{Name: call.name})
						answer <- string(res.GetOutputJson())
					}()
					p.stderr.await(t, "waiting")
				}
				if err := way.end(t.Context(), p, conn); err != nil {
					t.Fatal(err)
				}
				if err := p.wait(t); err != nil {
					t.Errorf("ended with %v; stderr: %s", err, p.stderr.text())
				}
				if got := <-answer; !way.gone && got != call.want {
					t.Errorf("the call in flight answered %q, want %q", got, call.want)
				}
				if left := p.socketsLeft(t); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			})
		}
	}
}

// When the host is killed, stdout and stderr of the plugin have no reader. Writing to them must not kill the plugin.
func TestPipesOfADeadHost(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startWith(t, peerHello(), w)
	w.Close()
	r.Close()
	if err := echo(t.Context(), p.connect(t), "hi"); err != nil {
		t.Fatal(err)
	}
	p.lifeline.Close()
	if err := p.wait(t); err != nil {
		t.Errorf("ended with %v", err)
	}
	if left := p.socketsLeft(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func ignoreUnavailable(err error) error {
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}

// output runs the test plugin to its end.
func output(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestDescribeFlagMatchesTheRPC(t *testing.T) {
	printed, stderr, code := output(t, command(t, "--describe"))
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	again, _, _ := output(t, command(t, "--describe"))
	if printed != again {
		t.Error("two runs print different manifests")
	}
	p := start(t, peerHello())
	res, err := gantryv1.NewPluginServiceClient(p.connect(t)).Describe(t.Context(), &gantryv1.DescribeRequest{ContractVersions: []uint32{1}})
	if err != nil {
		t.Fatal(err)
	}
	answered := convert.ManifestFromProto(res.GetManifest())
	if got := string(answered.Canonical()) + "\n"; got != printed {
		t.Errorf("Describe answers\n%swhat is printed is\n%s", got, printed)
	}
	parsed, err := contract.ParseManifest([]byte(printed))
	if err != nil || parsed.Digest() != answered.Digest() {
		t.Errorf("what is printed has another digest: %v", err)
	}
}

func TestVersion(t *testing.T) {
	if out, _, code := output(t, command(t, "--version")); out != "wire-test 1.2.3\n" || code != 0 {
		t.Errorf("printed %q, exit code %d", out, code)
	}
}

func TestRefusesToStart(t *testing.T) {
	long := filepath.Join(shortDir(t), strings.Repeat("d", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		setUp func(cmd *exec.Cmd)
		want  string
	}{
		{"without the cookie", func(*exec.Cmd) {}, "must be started by a gantry host"},
		{"with a wrong cookie", func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, wire.CookieKey+"=x") }, "must be started by a gantry host"},
		{"without a lifeline", func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, wire.CookieKey+"="+wire.CookieValue, wire.SocketDirEnv+"="+t.TempDir())
		}, wire.LifelineEnv},
		{"with a lifeline that is not open", func(cmd *exec.Cmd) {
			hosted(t, cmd, t.TempDir(), peerHello())
			cmd.Env = append(cmd.Env, wire.LifelineEnv+"=77")
		}, "descriptor 77"},
		{"with stdin as the lifeline", func(cmd *exec.Cmd) {
			hosted(t, cmd, t.TempDir(), peerHello())
			cmd.Env = append(cmd.Env, wire.LifelineEnv+"=0")
		}, "greater than 2"},
		{"with a host that dies before hello", func(cmd *exec.Cmd) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			hosted(t, cmd, t.TempDir(), peerHello())
			w.Close()
			t.Cleanup(func() { r.Close() })
			cmd.ExtraFiles = []*os.File{r}
		}, "read hello"},
		{"without a folder", func(cmd *exec.Cmd) { hosted(t, cmd, "", peerHello()) }, wire.SocketDirEnv},
		{"with a missing folder", func(cmd *exec.Cmd) { hosted(t, cmd, "/nowhere", peerHello()) }, "no such file"},
		{"with a long folder", func(cmd *exec.Cmd) { hosted(t, cmd, long, peerHello()) }, "use a folder with a shorter path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := command(t)
			tt.setUp(cmd)
			stdout, stderr, code := output(t, cmd)
			if code != 1 || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, tt.want)
			}
		})
	}
}
