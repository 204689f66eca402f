//go:build unix

package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

func byHandMutants() []mutant {
	return []mutant{
		{check: "binary.runs", how: "not executable", prepare: func(c *Config) { c.Path = "reference_test.go" }},
		{check: "binary.runs", how: "missing", prepare: func(c *Config) { c.Path = "no-such-file" }},
		{check: "cookie", how: "status 0", change: func(r *reference) {
			r.byHand = func() int { fmt.Fprintln(os.Stderr, "a host starts this"); return 0 }
		}},
		{check: "cookie", how: "hint on stdout", change: func(r *reference) {
			r.byHand = func() int { fmt.Println("a host starts this"); return 1 }
		}},
		{check: "cookie", how: "no hint", change: func(r *reference) { r.byHand = func() int { return 1 } }},
		{check: "cookie", how: "serves", change: func(r *reference) { r.byHand = func() int { pause(time.Hour); return 1 } }},
		{check: "describe.flag", how: "indented", change: func(r *reference) {
			r.flag = func(out string) (string, int) { return strings.ReplaceAll(out, `,"`, ",\n  \""), 0 }
		}},
		{check: "describe.flag", how: "status 3", change: func(r *reference) {
			r.flag = func(out string) (string, int) { return out, 3 }
		}},
		{check: "describe.flag", how: "no JSON", change: func(r *reference) {
			r.flag = func(string) (string, int) { return "reference 1.2.3\n", 0 }
		}},
		{check: "version.flag", how: "version only", change: func(r *reference) { r.version = "1.2.3" }},
		{check: "describe.constant", how: "depends on the time zone", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.Description += " TZ=" + os.Getenv("TZ") }
		}},
		{check: "describe.constant", how: "depends on the folder", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.Instructions, _ = os.Getwd() }
		}},
		{check: "manifest.valid", how: "version", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.Version = "one" }
		}},
		{check: "manifest.valid", how: "another contract", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) { m.ContractVersions = []uint32{2} }
		}},
		{check: "config.schema", how: "endpoint with a default", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) {
				m.Config.Attributes = append(m.Config.Attributes, contract.ConfigAttribute{
					Name: "url", Type: json.RawMessage(`"string"`), Default: json.RawMessage(`"https://stranger.example"`), Endpoint: true,
				})
			}
		}},
		{check: "config.schema", how: "default of another type", change: func(r *reference) {
			r.manifest = func(m *contract.Manifest) {
				m.Config.Attributes = append(m.Config.Attributes, contract.ConfigAttribute{
					Name: "height", Type: json.RawMessage(`"number"`), Default: json.RawMessage(`"high"`),
				})
			}
		}},
	}
}

func startMutants() []mutant {
	return []mutant{
		{check: "start.handshake", how: "noise before it", change: prints(func(h wire.Handshake) string { return "listening\n" + h.String() + "\n" })},
		{check: "start.handshake", how: "another core version", change: prints(func(h wire.Handshake) string { h.Core = 2; return h.String() + "\n" })},
		{check: "start.handshake", how: "another protocol", change: prints(func(h wire.Handshake) string { h.Protocol = "netrpc"; return h.String() + "\n" })},
		{check: "start.handshake", how: "nobody listens there", change: prints(func(h wire.Handshake) string { h.Address += "x"; return h.String() + "\n" })},
		{check: "start.handshake", how: "exits", change: func(r *reference) {
			r.begin = func() { fmt.Fprintln(os.Stderr, "no licence found"); os.Exit(4) }
		}},
		{check: "start.handshake", how: "TCP", change: func(r *reference) {
			r.listen = func(string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
			r.line = func(h wire.Handshake) string { h.Network = "tcp"; return h.String() + "\n" }
		}},
		{check: "start.socket", how: "in the temporary folder", change: func(r *reference) {
			r.listen = func(string) (net.Listener, error) {
				return net.Listen("unix", filepath.Join(os.TempDir(), fmt.Sprintf("r%d", os.Getpid())))
			}
		}},
		{check: "start.socket", how: "in a folder below", change: func(r *reference) {
			r.listen = func(dir string) (net.Listener, error) {
				if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
					return nil, err
				}
				return net.Listen("unix", filepath.Join(dir, "below", "r"))
			}
		}},
		{
			check: "start.time", how: "slow", prepare: func(c *Config) { c.StartBudget, c.Slack = time.Second, time.Second },
			change: func(r *reference) {
				r.begin = func() { // the first time only, for the sake of the other checks
					if f, err := os.OpenFile(filepath.Join(os.TempDir(), "started"), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
						_ = f.Close()
						pause(2500 * time.Millisecond)
					}
				}
			},
		},
		{check: "start.token", how: "none needed", change: func(r *reference) {
			r.exempt = []string{"/gantry.v1.PluginService/", "/gantry.v1.ToolService/"}
		}},
		{check: "start.token", how: "none needed for streams", change: func(r *reference) { r.exempt = []string{"/gantry.v1.ToolService/"} }},
		{check: "start.health", how: "not serving", change: func(r *reference) { r.health = grpc_health_v1.HealthCheckResponse_NOT_SERVING }},
		{check: "start.health", how: "needs the token", change: func(r *reference) { r.closed = true }},
		{check: "start.mtls", how: "plain", change: func(r *reference) { r.plain = true }},
		{check: "start.mtls", how: "anybody", change: func(r *reference) { r.anybody = true }},
		{check: "start.bare", how: "needs HOME", change: func(r *reference) {
			r.begin = func() {
				if _, err := os.UserHomeDir(); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}},
		{check: "start.bare", how: "writes where it stands", change: unary(onConfigure(
			func(_ *gantryv1.ConfigureRequest, next func() (*gantryv1.ConfigureResponse, error)) (*gantryv1.ConfigureResponse, error) {
				if err := os.WriteFile("reference.log", nil, 0o600); err != nil {
					return &gantryv1.ConfigureResponse{Diagnostics: []*gantryv1.Diagnostic{{Summary: err.Error()}}}, nil
				}
				return next()
			}))},
		{check: "describe.equal", how: "another description", change: func(r *reference) {
			r.described = func(m *contract.Manifest) { m.Description = "Says something else when it runs." }
		}},
		{check: "describe.equal", how: "changes", change: unary(onUnary(gantryv1.PluginService_Describe_FullMethodName,
			func() func(context.Context, any, grpc.UnaryHandler) (any, error) {
				var calls atomic.Int32
				return func(ctx context.Context, req any, next grpc.UnaryHandler) (any, error) {
					resp, err := next(ctx, req)
					if err == nil && calls.Add(1) == 2 {
						m := resp.(*gantryv1.DescribeResponse)
						m.Manifest.Capabilities = append(m.Manifest.Capabilities, "second-thoughts")
					}
					return resp, err
				}
			}()))},
	}
}
