package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/host/internal/codemode"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	code "github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/contract"
)

var sandboxModes = []string{"read-only", "workspace-write", "full-access"}

// Check implements [thread.Engine]. It rejects an invalid change of settings, except for the reasoning effort, which only the provider
// can check.
func (h *Host) Check(_ context.Context, _ *thread.Thread, c thread.Change) error {
	if c.Model != "" {
		if _, err := h.models.Find(c.Model); err != nil {
			return err
		}
	}
	if c.Cwd != "" {
		st, err := os.Stat(c.Cwd)
		switch {
		case !filepath.IsAbs(c.Cwd):
			return hint.With(fmt.Errorf("the folder %q is not an absolute path", c.Cwd), "use an absolute path")
		case err != nil:
			return hint.With(fmt.Errorf("the folder %s can't be used: %w", c.Cwd, err), "name one that exists")
		case !st.IsDir():
			return hint.With(fmt.Errorf("%s is not a folder", c.Cwd), "name a folder")
		}
	}
	if c.Approval != "" && !slices.Contains(policy.Approvals, c.Approval) {
		return hint.With(fmt.Errorf("there is no approval policy %q", c.Approval), diag.DidYouMean(c.Approval, policy.Approvals, ""))
	}
	if c.Approval == string(policy.Granular) && h.opts.Config.Approval.Granular == nil {
		return hint.New("the approval policy granular is not configured", "add a block `granular` to `approval`")
	}
	if c.Sandbox != "" && !slices.Contains(sandboxModes, c.Sandbox) {
		return hint.With(fmt.Errorf("there is no sandbox mode %q", c.Sandbox), diag.DidYouMean(c.Sandbox, sandboxModes, ""))
	}
	return nil
}

// catalogue returns a function that returns the current tools for a turn.
func (r *running) catalogue(t event.TurnStarted) func() *registry.Snapshot {
	if r.role.NoTools {
		return func() *registry.Snapshot { return &registry.Snapshot{} }
	}
	h := r.host
	a := h.opts.Config.Approval
	c := hosttool.Conditions{
		Unattended: r.role.Unattended, Approval: policy.Approval(t.Approval), Sandbox: t.Sandbox, AdditionalPermissions: a.AdditionalPermissions,
		GranularPermissions: a.Granular != nil && a.Granular.RequestPermissions, Plan: h.opts.Config.Interaction.Plan, Goals: r.goal != nil,
	}
	mode := schema.CodemodeOff
	if r.code != nil && !r.role.Unattended {
		mode = codeMode(h.opts.Config, t.Model)
	}
	return func() *registry.Snapshot {
		tools := r.tools.Extend(h.plugins.Registry().Snapshot())
		_, b := r.bounds()
		bounded := len(b.Tools)+len(b.Without) > 0
		if bounded {
			tools = tools.Only(func(e *registry.Entry) bool { return r.allows(b, e) })
		}
		if mode != schema.CodemodeOff {
			tools = r.code.Extend(tools, c, mode == schema.CodemodeOnly)
		}
		tools = h.tools.Extend(tools, c)
		if bounded {
			tools = tools.Only(func(e *registry.Entry) bool { return r.allows(b, e) })
		}
		return tools
	}
}

// codeMode returns whether a model calls tools in scripts; see the values of [schema.CodemodeOn] and its neighbours.
func codeMode(c *config.Config, model string) string {
	if m, ok := c.Model(model); ok && m.ToolMode != "" {
		return map[string]string{"direct": schema.CodemodeOff, "code": schema.CodemodeOn, "code-only": schema.CodemodeOnly}[m.ToolMode]
	}
	return c.Codemode.Mode
}

// offersScripts reports whether any model may be offered scripts.
func offersScripts(c *config.Config) bool {
	return c.Codemode.Mode != schema.CodemodeOff || slices.ContainsFunc(c.Models, func(m *config.Model) bool { return m.ToolMode != "" && m.ToolMode != "direct" })
}

// scripts returns the scripts of a thread; nil: no model is offered them.
func scripts(o Options, t *thread.Thread, ended func(plugin, session string) bool) *codemode.Thread {
	if !offersScripts(o.Config) {
		return nil
	}
	c := o.Config.Codemode
	return codemode.New(codemode.Config{
		Command: []string{filepath.Join(o.BinDir, "gantry-codemode")}, Yield: c.Yield, Ended: ended,
		Limits: code.Limits{Memory: c.MemoryBytes, CPU: c.CPUTime, Wall: c.WallTime},
	}, func() json.RawMessage { return t.Feature(codemode.FeatureID) })
}

// hostTool finds the implementation of a host tool that the thread has.
func (r *running) hostTool(label string) (orchestrate.HostTool, bool) {
	if t, ok := r.host.tools.Tool(label); ok {
		return t, true
	}
	if t, ok := r.tools.Tool(label); ok || r.code == nil {
		return t, ok
	}
	return r.code.Tool(label)
}

// keepImages stores the images that tools of clients return.
func keepImages(s *store.Store) hosttool.Keep {
	return func(ctx context.Context, mediaType string, data []byte) (contract.ArtifactRef, error) {
		return s.PutArtifact(ctx, mediaType, "", bytes.NewReader(data))
	}
}

// hiddenTools returns the notices about tools of clients that can't be used, which were not published before.
func (r *running) hiddenTools() (out []event.Notice) {
	for _, n := range r.tools.Hidden(r.host.plugins.Registry().Snapshot()) {
		if r.told.First(n.Text) {
			out = append(out, n)
		}
	}
	return out
}
