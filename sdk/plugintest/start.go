package plugintest

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

func checkHandshake(ctx context.Context, k *kit) verdict {
	p, err := k.running(ctx)
	if err != nil {
		bare := err
		k.withHome = true
		if p, err = k.running(ctx); err != nil {
			k.withHome = false
			return failed("as soon as the plugin listens, print `1|1|unix|FOLDER/NAME|grpc` as the first line, with a socket in the folder in "+
				wire.SocketDirEnv, "%v", bare)
		}
		k.bareErr = bare
	}
	k.first = p
	k.figures.StartMS = p.after.Milliseconds()
	return passed("%s", p.line)
}

func checkSocket(_ context.Context, k *kit) verdict {
	at := k.first.line.Address
	if filepath.Dir(at) != k.first.dir {
		return failed("create the socket in the folder in "+wire.SocketDirEnv, "the socket is %s, the folder is %s", at, k.first.dir)
	}
	if len(at) > wire.MaxSocketPath {
		return failed("choose a shorter name for the socket", "the path has %d bytes; the maximum is %d", len(at), wire.MaxSocketPath)
	}
	return passed("%s", filepath.Base(at))
}

func checkStartTime(_ context.Context, k *kit) verdict {
	took := k.first.after.Round(time.Millisecond)
	if limit := k.cfg.StartBudget; took > limit+k.cfg.Slack {
		return failed("listen first, and initialize the rest later", "after %v; the limit is %v", took, limit)
	}
	return passed("after %v", took)
}

func checkToken(ctx context.Context, k *kit, p *process) verdict {
	next := fmt.Sprintf("in every RPC except health checks and GRPCController, compare the metadata key %s with the token in the first line of the lifeline, and return UNAUTHENTICATED if they differ", wire.TokenKey)
	for what, token := range map[string]string{"without a token": "", "with a wrong token": wire.NewToken()} {
		conn, err := p.dial(token, localCredentials())
		if err != nil {
			return broken(err)
		}
		tries := map[string]func(context.Context) error{
			"Describe": func(ctx context.Context) error {
				_, err := gantryv1.NewPluginServiceClient(conn).Describe(ctx, &gantryv1.DescribeRequest{})
				return err
			},
		}
		if k.manifest != nil && k.manifest.Kind == contract.KindTool {
			tries["Watch"] = func(ctx context.Context) error {
				s, err := gantryv1.NewToolServiceClient(conn).Watch(ctx, &gantryv1.WatchRequest{})
				if err == nil {
					_, err = s.Recv()
				}
				return err
			}
		}
		for rpc, try := range tries {
			ctx, cancel := k.within(ctx, responseTimeout)
			err := try(ctx)
			cancel()
			if code := status.Code(err); code != codes.Unauthenticated {
				return failed(next, "%s %s: status %s", rpc, what, codeName(code))
			}
		}
	}
	return passed("UNAUTHENTICATED without a token and with a wrong one")
}

func checkHealth(ctx context.Context, k *kit, p *process) verdict {
	next := fmt.Sprintf("serve grpc.health.v1.Health and report SERVING for the service %q", wire.HealthService)
	conn, err := p.dial("", localCredentials())
	if err != nil {
		return broken(err)
	}
	ctx, cancel := k.within(ctx, responseTimeout)
	defer cancel()
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
	if err != nil {
		return failed(next, "%v", k.explain(ctx, p, err))
	}
	if s := resp.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return failed(next, "%s", s)
	}
	return passed("SERVING")
}

func checkDescribeEqual(ctx context.Context, k *kit, p *process) verdict {
	const next = "build both from the same value"
	for range 2 {
		resp, err := call(ctx, k, p, p.plugin().Describe, &gantryv1.DescribeRequest{ContractVersions: []uint32{contract.Version}})
		if err != nil {
			return failed(next, "%v", err)
		}
		if k.figures.FirstCallMS == 0 {
			k.figures.FirstCallMS = time.Since(p.began).Milliseconds()
		}
		if resp.GetManifest() == nil {
			return failed(next, "the response to Describe has no manifest")
		}
		got := append(convert.ManifestFromProto(resp.GetManifest()).Canonical(), '\n')
		if !bytes.Equal(got, k.described) {
			return failed(next, "%s", difference(k.described, got))
		}
	}
	return passed("identical")
}

func checkTLS(ctx context.Context, k *kit) verdict {
	const next = "if the transport in the hello is mtls, serve TLS with the certificate and key in the hello, and require a client certificate of its CA"
	k.drop()
	p, err := k.start(ctx, wire.TransportTLS)
	if p != nil {
		defer p.kill()
	}
	if err != nil {
		if p != nil && p.dead() && p.exitCode() != 0 && len(p.noise) == 0 {
			return skipped("", "it doesn't start with mutual TLS: %s", p.end())
		}
		return failed(next, "%v", err)
	}
	describe := func(creds credentials.TransportCredentials) error {
		conn, err := p.dial(p.hello.Token, creds)
		if err != nil {
			return err
		}
		ctx, cancel := k.within(ctx, responseTimeout)
		defer cancel()
		_, err = gantryv1.NewPluginServiceClient(conn).Describe(ctx, &gantryv1.DescribeRequest{})
		return err
	}
	if err := describe(localCredentials()); err == nil {
		return failed(next, "it serves connections without TLS")
	}
	tc, err := wire.ClientTLS(p.tls)
	if err != nil {
		return broken(err)
	}
	anonymous := tc.Clone()
	anonymous.Certificates, anonymous.GetClientCertificate = nil, nil
	if err := describe(credentials.NewTLS(anonymous)); err == nil {
		return failed(next, "it serves a client without a certificate")
	}
	if err := describe(credentials.NewTLS(tc)); err != nil {
		return failed(next, "with the host's certificate: %v", k.explain(ctx, p, err))
	}
	return passed("it serves only clients with the host's certificate")
}

func checkBare(_ context.Context, k *kit) verdict {
	if k.bareErr != nil {
		return failed("use the data and cache folders of Configure, and TMPDIR", "it works only with a home and a writable working directory: %v", k.bareErr)
	}
	return passed("all checks ran without a home and without a terminal, in %s", strings.TrimSpace(k.unwritable))
}
