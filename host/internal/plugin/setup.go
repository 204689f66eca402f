package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/host/internal/plugin/manifest"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// hostCapabilities are the capabilities that the host announces to plugins.
func hostCapabilities() []string { return []string{"descriptors", "services"} }

// setUp requests the plugin's manifest, checks it, and configures the plugin.
func (g *generation) setUp(ctx context.Context, cfg Config, data, cache string) error {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, g.spec.StartTimeout,
		fmt.Errorf("no answer within %v", g.spec.StartTimeout))
	defer cancel()
	client := gantryv1.NewPluginServiceClient(g.conn)
	d, err := client.Describe(ctx, &gantryv1.DescribeRequest{
		ContractVersions: []uint32{contract.Version}, HostCapabilities: hostCapabilities(),
	})
	if err != nil {
		return g.setUpProblem(ctx, PhaseDescribe, err)
	}
	g.took.Connect = time.Since(began)
	if err := g.accept(cfg.manifests(), d.GetManifest()); err != nil {
		return err
	}
	cfg.OnDescribed(g.id, g.manifest)
	return g.configure(ctx, client, cfg, data, cache)
}

// accept checks the manifest against the slot's specification, the lock file and the cache.
func (g *generation) accept(cache manifest.Cache, p *gantryv1.Manifest) error {
	if p == nil {
		return g.problem(PhaseDescribe, errors.New("it responded without a manifest"))
	}
	m := convert.ManifestFromProto(p)
	cached := cache.Contains(g.program, m.Canonical())
	if !cached {
		rest := *m
		if m.Kind == contract.KindTool {
			rest.Tools = nil // the registry checks each tool and leaves out invalid ones; a provider must not have any
		}
		if err := rest.Validate(); err != nil {
			return g.problem(PhaseDescribe, fmt.Errorf("its manifest is not valid: %w", err))
		}
	}
	if g.spec.Kind != contract.KindUnknown && m.Kind != g.spec.Kind {
		return g.problem(PhaseDescribe, fmt.Errorf("it is a %s plugin, but a %s plugin is expected here", m.Kind, g.spec.Kind)).withNext("use it in a block of its kind: `plugin` for tool plugins, `provider` for providers")
	}
	if !slices.Contains(m.ContractVersions, uint32(contract.Version)) {
		return g.problem(PhaseDescribe, fmt.Errorf("it supports the contract versions %v, but the host has version %d", m.ContractVersions, contract.Version)).withNext("use a version of the plugin that was built for this version of gantry")
	}
	if want := g.spec.ManifestDigest; want != "" && m.Digest() != want {
		return g.unlocked(cache.Get(g.program), m, want)
	}
	if n := m.Limits.MaxMessageBytes; n > 0 {
		g.maxSend.Store(n)
	}
	g.manifest = m
	if cached {
		return nil
	}
	if known := cache.Get(g.program); known != nil {
		if diff := manifest.Difference(known, m); diff != "" {
			if err := cache.Remove(g.program); err != nil {
				g.logger.Warn("can't remove a manifest from the cache", "err", err)
			}
			return g.problem(PhaseDescribe, fmt.Errorf("its manifest differs from the one that the same binary returned before: %s", diff)).withNext("a manifest must not depend on time, location or configuration; if you changed the plugin's environment on purpose, try again")
		}
	} else if err := cache.Put(g.program, m); err != nil {
		g.logger.Warn("can't cache a manifest; listing tools will start the plugin", "err", err)
	}
	return nil
}

// unlocked describes how a manifest differs from the locked one, if that is in the cache.
func (g *generation) unlocked(known, m *contract.Manifest, want string) *Error {
	what := fmt.Sprintf("its manifest has the digest %s, but the lock file has %s", m.Digest(), want)
	if known != nil && known.Digest() == want {
		what = "its manifest differs from the one in the lock file: " + manifest.Difference(known, m)
		if more := manifest.AddedCapabilities(known, m); len(more) > 0 {
			what += "; new capabilities: " + strings.Join(more, ", ")
		}
	}
	return g.problem(PhaseDescribe, errors.New(what)).withNext(fmt.Sprintf("review it with `gantry plugin inspect %s`, then accept it with `gantry plugin lock %s`", g.id.Label, g.id.Label))
}

// configure renders the user's block for the manifest and configures the plugin with it.
func (g *generation) configure(ctx context.Context, client gantryv1.PluginServiceClient, cfg Config, data, cache string) error {
	began := time.Now()
	config := []byte("{}")
	var diags []contract.Diagnostic
	if g.spec.Configure != nil {
		config, diags = g.spec.Configure(ctx, g.manifest)
		if hasErrors(diags) {
			return g.misconfigured(diags)
		}
	}
	g.toolSet = manifest.ToolSetKey(g.program, config, g.spec.Env)
	// The time that the plugin requested for itself begins here: rendering the block may have asked a keyring or a person.
	if ms := g.manifest.Limits.StartMS; ms > 0 {
		limit := min(time.Duration(ms)*time.Millisecond, maxConfigureTime)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("no answer within %v", limit))
		defer cancel()
	}
	if g.manifest.Kind == contract.KindProvider && g.readable() {
		g.logger.Warn("other processes of this user can read the provider's memory, including its API key",
			"next", "make `source` the provider's own program, not one that starts it; put gantry's home on a file system that is not mounted noexec")
	}
	var egress func(net.Listener)
	if g.online() && cfg.Egress != nil {
		egress = func(ln net.Listener) { cfg.Egress(g.id, ln) }
	}
	if err := g.sockets.ServeEgress(egress, g.checkPeer); err != nil {
		return g.problem(PhaseStart, err)
	}
	r, err := client.Configure(ctx, &gantryv1.ConfigureRequest{
		ConfigJson: config, DataDir: data, CacheDir: cache, Generation: g.id.Generation, Label: g.id.Label,
		Host: &gantryv1.HostFacts{
			Version:           cfg.HostVersion,
			ServicesSocket:    g.sockets.ServicesPath,
			ServicesToken:     g.sockets.Token,
			DescriptorsSocket: g.sockets.DescriptorsPath,
			EgressSocket:      g.sockets.EgressPath,
			Limits:            &gantryv1.Limits{MaxMessageBytes: wire.DefaultMaxMessageBytes, MaxInlineBytes: 1 << 20, MaxOutputBytes: 8 << 20},
			Capabilities:      hostCapabilities(),
			ContractVersion:   contract.Version,
		},
	})
	if err != nil {
		return g.setUpProblem(ctx, PhaseConfigure, err)
	}
	reported := convert.DiagnosticsFromProto(r.GetDiagnostics())
	if g.spec.Place != nil && len(reported) > 0 {
		reported = g.spec.Place(reported)
	}
	diags = append(diags, reported...)
	if hasErrors(diags) {
		return g.misconfigured(diags)
	}
	g.warnings = diags
	g.took.Configure = time.Since(began)
	return nil
}

// online reports whether the plugin reaches the network through the host. Providers reach it by themselves.
func (g *generation) online() bool {
	return g.manifest.Kind == contract.KindTool && slices.Contains(g.manifest.Capabilities, "network")
}

// maxConfigureTime bounds the time that a plugin may request for its configuration.
const maxConfigureTime = time.Minute

func hasErrors(diags []contract.Diagnostic) bool {
	return slices.ContainsFunc(diags, func(d contract.Diagnostic) bool { return d.Severity != contract.SeverityWarning })
}

// misconfigured returns the error for a block that the host or the plugin rejects.
func (g *generation) misconfigured(diags []contract.Diagnostic) *Error {
	var errs []string
	next := ""
	for _, d := range diags {
		if d.Severity != contract.SeverityWarning {
			errs = append(errs, d.Error())
			if next == "" {
				next = d.Next
			}
		}
	}
	e := g.problem(PhaseConfigure, errors.New(strings.Join(errs, "; ")))
	e.Diagnostics = diags
	e.Next = cmp.Or(next, "correct the block and try again")
	return e
}

// overdue reports whether ctx has ended. The plugin knows the deadline as well, and its DEADLINE_EXCEEDED may come a little
// earlier.
func overdue(ctx context.Context) bool {
	const early = 100 * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < early {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// setUpProblem explains a failed Describe or Configure.
func (g *generation) setUpProblem(ctx context.Context, phase Phase, err error) *Error {
	switch code := status.Code(err); code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		if overdue(ctx) {
			return g.problem(phase, context.Cause(ctx)).withNext("raise start_timeout if the plugin needs longer")
		}
		if refused := g.peerErr.Load(); refused != nil {
			return g.problem(PhaseConnect, fmt.Errorf("a process other than the plugin listens on its socket: %w", refused.err)).withNext("if the plugin serves from another process on purpose, use the mtls transport")
		}
		select {
		case <-g.Exited():
			return g.problem(phase, errors.New("the process ended"))
		case <-time.After(exitTimeout):
		}
		if g.took.Connect == 0 {
			return g.problem(PhaseConnect, fmt.Errorf("no connection to the socket in its handshake line: %s", status.Convert(err).Message()))
		}
		return g.problem(phase, errors.New(status.Convert(err).Message()))
	case codes.Unimplemented:
		return g.problem(phase, errors.New("it doesn't serve gantry.v1.PluginService")).withNext("check whether the binary is a plugin for gantry")
	default:
		return g.problem(phase, fmt.Errorf("%s: %s", code, status.Convert(err).Message()))
	}
}
