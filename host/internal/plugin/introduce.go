package plugin

import (
	"context"
	"errors"
	"fmt"
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

// hostCapabilities are the abilities that the host announces.
func hostCapabilities() []string { return []string{"descriptors", "services"} }

// introduce asks the plugin what it is, compares that with what it was, and configures it.
func (g *generation) introduce(ctx context.Context, l *launcher, data, cache string) error {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, g.spec.StartTimeout,
		fmt.Errorf("no answer within %v", g.spec.StartTimeout))
	defer cancel()
	client := gantryv1.NewPluginServiceClient(g.conn)
	d, err := client.Describe(ctx, &gantryv1.DescribeRequest{
		ContractVersions: []uint32{contract.Version}, HostCapabilities: hostCapabilities(),
	})
	if err != nil {
		return g.introductionProblem(ctx, PhaseDescribe, err)
	}
	g.took.Connect = time.Since(began)
	if err := g.accept(l.cfg.manifests(), d.GetManifest()); err != nil {
		return err
	}
	l.cfg.OnDescribed(g.id, g.manifest)
	return g.configure(ctx, client, l.cfg, data, cache)
}

// accept checks the manifest against the slot, the lock and the cache.
func (g *generation) accept(cache manifest.Cache, p *gantryv1.Manifest) error {
	if p == nil {
		return g.problem(PhaseDescribe, errors.New("it answered without a manifest"))
	}
	m := convert.ManifestFromProto(p)
	cached := cache.Contains(g.program, m.Canonical())
	if !cached {
		rest := *m
		if m.Kind == contract.KindTool {
			rest.Tools = nil // the catalogue checks each and leaves out the invalid ones; a provider may have none
		}
		if err := rest.Validate(); err != nil {
			return g.problem(PhaseDescribe, fmt.Errorf("its manifest is not valid: %w", err))
		}
	}
	if g.spec.Kind != contract.KindUnknown && m.Kind != g.spec.Kind {
		e := g.problem(PhaseDescribe, fmt.Errorf("it is a %s plugin, and a %s plugin is expected here", m.Kind, g.spec.Kind))
		e.Next = "use it in a block of its kind: tool plugins in `plugin`, providers in `provider`"
		return e
	}
	if !slices.Contains(m.ContractVersions, uint32(contract.Version)) {
		e := g.problem(PhaseDescribe, fmt.Errorf("it speaks the contract versions %v, the host %d", m.ContractVersions, contract.Version))
		e.Next = "use a version of the plugin that is built for this host"
		return e
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
				g.logger.Warn("a manifest can't be removed from the cache", "err", err)
			}
			e := g.problem(PhaseDescribe, fmt.Errorf("its manifest is another one than the same binary gave before: %s", diff))
			e.Next = "a manifest must not depend on time, place or configuration; try again if the plugin's environment was changed on purpose"
			return e
		}
	} else if err := cache.Put(g.program, m); err != nil {
		g.logger.Warn("a manifest can't be cached, listing tools will start the plugin", "err", err)
	}
	return nil
}

// unlocked names how a manifest differs from the one that was consented to, as far as that one is known.
func (g *generation) unlocked(known, m *contract.Manifest, want string) *Error {
	what := fmt.Sprintf("its manifest has the digest %s, the lock file says %s", m.Digest(), want)
	if known != nil && known.Digest() == want {
		what = "its manifest is not the one in the lock file: " + manifest.Difference(known, m)
		if more := manifest.AddedCapabilities(known, m); len(more) > 0 {
			what += "; it asks for more: " + strings.Join(more, ", ")
		}
	}
	e := g.problem(PhaseDescribe, errors.New(what))
	e.Next = fmt.Sprintf("look at it with `gantry plugin inspect %s`, then accept it with `gantry plugin lock %s`", g.id.Label, g.id.Label)
	return e
}

// configure renders the user's block for the manifest and hands it over.
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
	// The plugin's own time for starting counts from here; the block may have asked a keyring or a person before.
	if ms := g.manifest.Limits.StartMS; ms > 0 {
		limit := min(time.Duration(ms)*time.Millisecond, maxConfigureTime)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(context.WithoutCancel(ctx), limit, fmt.Errorf("no answer within %v", limit))
		defer cancel()
	}
	if g.manifest.Kind == contract.KindProvider && g.open() {
		g.logger.Warn("other processes of this user can read the provider's memory, and with it the key that it gets",
			"next", "name the provider's own program in `source`, none that starts it; let gantry's home lie where programs may be executed")
	}
	r, err := client.Configure(ctx, &gantryv1.ConfigureRequest{
		ConfigJson: config, DataDir: data, CacheDir: cache, Generation: g.id.Generation, Label: g.id.Label,
		Host: &gantryv1.HostFacts{
			Version:           cfg.HostVersion,
			ServicesSocket:    g.sockets.ServicesPath,
			ServicesToken:     g.sockets.Token,
			DescriptorsSocket: g.sockets.DescriptorsPath,
			Limits:            &gantryv1.Limits{MaxMessageBytes: wire.DefaultMaxMessageBytes, MaxInlineBytes: 1 << 20, MaxOutputBytes: 8 << 20},
			Capabilities:      hostCapabilities(),
			ContractVersion:   contract.Version,
		},
	})
	if err != nil {
		return g.introductionProblem(ctx, PhaseConfigure, err)
	}
	said := convert.DiagnosticsFromProto(r.GetDiagnostics())
	if g.spec.Place != nil && len(said) > 0 {
		said = g.spec.Place(said)
	}
	diags = append(diags, said...)
	if hasErrors(diags) {
		return g.misconfigured(diags)
	}
	g.warnings = diags
	g.took.Configure = time.Since(began)
	return nil
}

// maxConfigureTime bounds what a plugin may ask for as its own time for starting.
const maxConfigureTime = time.Minute

func hasErrors(diags []contract.Diagnostic) bool {
	return slices.ContainsFunc(diags, func(d contract.Diagnostic) bool { return d.Severity != contract.SeverityWarning })
}

// misconfigured is the error for a block that the host or the plugin refuses.
func (g *generation) misconfigured(diags []contract.Diagnostic) *Error {
	var said []string
	next := ""
	for _, d := range diags {
		if d.Severity != contract.SeverityWarning {
			said = append(said, d.Error())
			if next == "" {
				next = d.Next
			}
		}
	}
	e := g.problem(PhaseConfigure, errors.New(strings.Join(said, "; ")))
	e.Diagnostics = diags
	e.Next = next
	if next == "" {
		e.Next = "correct the block and try again"
	}
	return e
}

// overdue tells whether ctx has ended. The plugin knows the deadline too, and its answer to that may be a moment early.
func overdue(ctx context.Context) bool {
	const early = 100 * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < early {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// introductionProblem explains a failed Describe or Configure.
func (g *generation) introductionProblem(ctx context.Context, phase Phase, err error) *Error {
	switch code := status.Code(err); code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		if overdue(ctx) {
			e := g.problem(phase, context.Cause(ctx))
			e.Next = "raise start_timeout if the plugin needs longer"
			return e
		}
		if refused := g.peerErr.Load(); refused != nil {
			e := g.problem(PhaseConnect, fmt.Errorf("another process than the plugin listens on its socket: %w", refused.err))
			e.Next = "use the mtls transport if the plugin serves from another process on purpose"
			return e
		}
		select {
		case <-g.Exited():
			return g.problem(phase, errors.New("the process ended"))
		case <-time.After(exitPatience):
		}
		if g.took.Connect == 0 {
			return g.problem(PhaseConnect, fmt.Errorf("no connection to the socket that the handshake names: %s", status.Convert(err).Message()))
		}
		return g.problem(phase, errors.New(status.Convert(err).Message()))
	case codes.Unimplemented:
		e := g.problem(phase, errors.New("it serves no gantry.v1.PluginService"))
		e.Next = "the binary is a plugin for something else, or built for another contract"
		return e
	default:
		return g.problem(phase, fmt.Errorf("%s: %s", code, status.Convert(err).Message()))
	}
}
