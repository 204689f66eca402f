package appserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// fullAccess is the sandbox mode without a sandbox, in gantry's configuration.
const fullAccess = "full-access"

// sandboxMode returns the name of a sandbox mode in gantry's configuration.
func sandboxMode(m protocol.SandboxMode) string {
	if m == protocol.SandboxFullAccess {
		return fullAccess
	}
	return string(m)
}

// profiles returns the identifiers of permission profiles, and the sandbox modes that they stand for.
func profiles() map[string]protocol.SandboxMode {
	return map[string]protocol.SandboxMode{
		":read-only": protocol.SandboxReadOnly, ":workspace": protocol.SandboxWorkspaceWrite, ":danger-full-access": protocol.SandboxFullAccess,
	}
}

// profileMode returns the sandbox mode of a permission profile.
func profileMode(id string) (string, error) {
	m, ok := profiles()[id]
	if !ok {
		return "", rpc.Errorf(rpc.InvalidParams, "unknown permission profile `%s`, expected one of `%s`", id, strings.Join(slices.Sorted(maps.Keys(profiles())), "`, `"))
	}
	return sandboxMode(m), nil
}

// access is what a request says about approvals and the sandbox.
type access struct {
	approval *protocol.AskForApproval
	mode     *protocol.SandboxMode
	policy   *protocol.SandboxPolicy
	profile  *string
}

// settings returns the approval policy and the sandbox mode; empty ones are not changed.
func (a access) settings() (approval, sandbox string, err error) {
	if a.approval != nil {
		approval = string(a.approval.Kind)
		if a.approval.Granular != nil {
			return "", "", rpc.Errorf(rpc.InvalidParams, "approvalPolicy.granular can't be changed while the thread is loaded: start or resume the thread with it")
		}
	}
	if a.profile != nil && (a.mode != nil || a.policy != nil) {
		return "", "", rpc.Errorf(rpc.InvalidParams, "`permissions` can't be combined with `sandbox` or `sandboxPolicy`")
	}
	switch {
	case a.profile != nil:
		sandbox, err = profileMode(*a.profile)
	case a.mode != nil:
		sandbox = sandboxMode(*a.mode)
	case a.policy != nil:
		switch a.policy.Body.(type) {
		case protocol.FullAccessPolicy, protocol.ExternalSandboxPolicy:
			sandbox = fullAccess
		case protocol.ReadOnlyPolicy:
			sandbox = string(protocol.SandboxReadOnly)
		case protocol.WorkspaceWritePolicy:
			sandbox = string(protocol.SandboxWorkspaceWrite)
		}
	}
	return approval, sandbox, err
}

// check refuses a sandbox policy that asks for something else than the thread's configuration gives, apart from the mode: a thread can't
// change it, and a client must not believe that commands have less access than they have.
func (a access) check(e effective) error {
	if a.policy == nil {
		return nil
	}
	network, exclude := e.cfg.Sandbox.Network, false
	var roots []string
	switch p := a.policy.Body.(type) {
	case protocol.ReadOnlyPolicy:
		network = p.NetworkAccess
	case protocol.WorkspaceWritePolicy:
		network, roots, exclude = p.NetworkAccess, p.WritableRoots, p.ExcludeSlashTmp || p.ExcludeTmpdirEnvVar
	}
	cwd := e.settings.Cwd
	other := slices.ContainsFunc(roots, func(r string) bool { return r != cwd && !slices.Contains(e.cfg.Sandbox.WritableRoots, r) })
	what := ""
	switch {
	case network != e.cfg.Sandbox.Network:
		what = "networkAccess"
	case other:
		what = "writableRoots"
	case exclude:
		return rpc.Errorf(rpc.InvalidParams, "sandboxPolicy: /tmp and $TMPDIR can't be excluded: commands have private ones")
	default:
		return nil
	}
	err := rpc.Errorf(rpc.InvalidParams, "sandboxPolicy.%s can't be changed while the thread is loaded", what)
	err.Data = protocol.ErrorData{Kind: "not_supported", Next: orNull("start or resume the thread with the setting sandbox_workspace_write in `config`")}
	return err
}

// overrides are what thread/start, thread/resume and thread/fork give a thread.
type overrides struct {
	hub.Workspace
	event.Settings          // without the folder, unless the request names one
	unknown        []string // names in `config` that have no equivalent
}

// overrides converts the settings of a request. Those in `config` have codex's names, and the request's own fields have precedence.
func (s *Server) overrides(o protocol.ThreadOverrides) (out overrides, err error) {
	values := map[string]json.RawMessage{}
	flatten("", o.Config, values)
	var roots, sets []string
	var effort *string
	take := func(name string, into any) {
		raw, ok := values[name]
		delete(values, name)
		if !ok || err != nil || string(raw) == "null" {
			return
		}
		if jerr := protocol.Unmarshal(raw, into); jerr != nil {
			err = rpc.Errorf(rpc.InvalidParams, "config.%s: %v", name, jerr)
		}
	}
	takeUnlessSet(take, "model", &o.Model)
	takeUnlessSet(take, "model_provider", &o.ModelProvider)
	takeUnlessSet(take, "approval_policy", &o.ApprovalPolicy)
	takeUnlessSet(take, "approvals_reviewer", &o.ApprovalsReviewer)
	takeUnlessSet(take, "model_reasoning_effort", &effort)
	mode := o.Sandbox
	if takeUnlessSet(take, "sandbox_mode", &mode); o.Permissions == nil {
		o.Sandbox = mode
	}
	take("sandbox_workspace_write.writable_roots", &roots)
	var network *bool
	take("sandbox_workspace_write.network_access", &network)
	if err != nil {
		return out, err
	}
	roots = slices.DeleteFunc(append(roots, o.RuntimeWorkspaceRoots...), func(r string) bool { return r == deref(o.Cwd) })
	for _, r := range roots {
		if !filepath.IsAbs(r) {
			return out, rpc.Errorf(rpc.InvalidParams, "the writable folder %q is not an absolute path", r)
		}
	}
	if network != nil {
		sets = append(sets, fmt.Sprintf("sandbox.network=%t", *network))
	}
	if r := o.ApprovalsReviewer; r != nil {
		sets = append(sets, fmt.Sprintf("guardian.enabled=%t", *r != protocol.ReviewerUser))
	}
	if a := o.ApprovalPolicy; a != nil && a.Granular != nil {
		g := a.Granular
		sets = append(sets, "approval.policy=granular")
		for name, v := range map[string]bool{
			"sandbox_approval": g.SandboxApproval, "rules": g.Rules, "mcp_elicitations": g.MCPElicitations, "request_permissions": g.RequestPermissions,
		} {
			sets = append(sets, fmt.Sprintf("approval.granular.%s=%t", name, v))
		}
		o.ApprovalPolicy = nil
	}
	slices.Sort(sets) // the order distinguishes workspaces
	if out.Approval, out.Sandbox, err = (access{approval: o.ApprovalPolicy, mode: o.Sandbox, profile: o.Permissions}).settings(); err != nil {
		return out, err
	}
	if out.Workspace, err = s.workspace(o.Cwd, roots); err != nil {
		return out, err
	}
	out.Sets = slices.Concat(out.Sets, sets)
	out.Model, out.Reasoning = modelOf(o.Model, o.ModelProvider), deref(effort)
	if o.Cwd != nil {
		out.Cwd = out.Dir
	}
	out.unknown = slices.Sorted(maps.Keys(values))
	return out, nil
}

// takeUnlessSet reads a value of `config` into a field that the request has not set.
func takeUnlessSet[T any](take func(name string, into any), name string, field **T) {
	var v *T
	if take(name, &v); *field == nil {
		*field = v
	}
}

// flatten adds the values of an object under their paths, such as "a.b".
func flatten(prefix string, values, out map[string]json.RawMessage) {
	for name, raw := range values {
		var inner map[string]json.RawMessage
		if json.Unmarshal(raw, &inner) == nil && inner != nil {
			flatten(prefix+name+".", inner, out)
		} else {
			out[prefix+name] = raw
		}
	}
}

// warn tells the client which of its settings were ignored, all at once: codex's terminal sends dozens that only codex has.
func (c *call) warn(o overrides) {
	if len(o.unknown) == 0 {
		return
	}
	summary := fmt.Sprintf("%d settings were ignored", len(o.unknown))
	if len(o.unknown) == 1 {
		summary = "the setting " + o.unknown[0] + " was ignored"
	}
	details := strings.Join(o.unknown, ", ") + ": gantry has no settings with this meaning; its own are in gantry.hcl"
	c.afterwards(func() {
		c.send(protocol.NotifyConfigWarning.Name, protocol.ConfigWarningNotification{Summary: summary, Details: &details})
	})
}

// effective are the settings of a thread with the configuration's values.
type effective struct {
	settings event.Settings
	cfg      *config.Config
}

func (e effective) approval() protocol.AskForApproval {
	policy := protocol.ApprovalPolicy(cmp.Or(e.settings.Approval, e.cfg.Approval.Policy))
	switch policy {
	case "on-failure":
		policy = protocol.ApprovalOnRequest
	case protocol.ApprovalGranular:
		if g := e.cfg.Approval.Granular; g != nil {
			return protocol.AskForApproval{Kind: policy, Granular: &protocol.GranularApproval{
				SandboxApproval: g.SandboxApproval, Rules: g.Rules, RequestPermissions: g.RequestPermissions, MCPElicitations: g.MCPElicitations,
			}}
		}
		policy = protocol.ApprovalOnRequest
	}
	return protocol.AskForApproval{Kind: policy}
}

func (e effective) reviewer() protocol.ApprovalsReviewer {
	if e.cfg.Guardian.Enabled {
		return protocol.ReviewerAuto
	}
	return protocol.ReviewerUser
}

func (e effective) mode() string { return cmp.Or(e.settings.Sandbox, e.cfg.Sandbox.Mode) }

func (e effective) sandbox() protocol.SandboxPolicy {
	network := e.cfg.Sandbox.Network
	switch e.mode() {
	case fullAccess:
		return protocol.SandboxPolicy{Body: protocol.FullAccessPolicy{}}
	case string(protocol.SandboxReadOnly):
		return protocol.SandboxPolicy{Body: protocol.ReadOnlyPolicy{NetworkAccess: network}}
	}
	return protocol.SandboxPolicy{Body: protocol.WorkspaceWritePolicy{
		WritableRoots: append([]string{}, e.cfg.Sandbox.WritableRoots...), NetworkAccess: network,
	}}
}

func (e effective) profile() *protocol.ActivePermissionProfile {
	for id, m := range profiles() {
		if sandboxMode(m) == e.mode() {
			return &protocol.ActivePermissionProfile{ID: id}
		}
	}
	return nil
}

// workspace returns the workspace of a request. A folder that does not exist is refused.
func (s *Server) workspace(dir *string, roots []string) (hub.Workspace, error) {
	w := s.cfg.Workspace
	w.WritableRoots = append(slices.Clone(w.WritableRoots), roots...)
	if dir != nil {
		if !filepath.IsAbs(*dir) {
			return w, rpc.Errorf(rpc.InvalidParams, "cwd: %q is not an absolute path", *dir)
		}
		w.Dir = filepath.Clean(*dir)
	}
	if st, err := os.Stat(w.Dir); err != nil || !st.IsDir() {
		e := rpc.Errorf(rpc.InvalidParams, "cwd: the folder %s does not exist", w.Dir)
		e.Data = protocol.ErrorData{Kind: "not_found", Next: orNull("create it, or name another one")}
		return w, e
	}
	return w, nil
}

// modelOf returns the name of a model in gantry's configuration: the label of a model block, or PROVIDER/NAME.
func modelOf(model, provider *string) string {
	switch {
	case model == nil:
		return ""
	case provider == nil || *provider == "":
		return *model
	}
	return fmt.Sprintf("%s/%s", *provider, *model)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// effective returns the settings of a thread with the values of its workspace's configuration.
func (s *Server) effective(ctx context.Context, t *hub.Thread) (effective, error) {
	settings, err := t.Settings(ctx)
	if err != nil {
		return effective{}, err
	}
	if cfg := t.Configuration(); cfg != nil {
		return effective{settings, cfg}, nil
	}
	in := s.cfg.Workspace // of a thread of another process it is not known
	in.Dir = settings.Cwd
	cfg, err := s.cfg.Hub.Configuration(ctx, in)
	return effective{settings, cfg}, err
}

// accessOf returns the approval policy and the sandbox mode to which a request changes those of a loaded thread; empty ones are not changed.
func (s *Server) accessOf(ctx context.Context, t *hub.Thread, a access) (approval, sandbox string, err error) {
	granular := a.approval != nil && a.approval.Granular != nil
	if a.policy != nil || granular {
		e, err := s.effective(ctx, t)
		if err != nil {
			return "", "", err
		}
		if err := a.check(e); err != nil {
			return "", "", err
		}
		if is := e.approval().Granular; granular && is != nil && *is == *a.approval.Granular {
			a.approval = nil // clients repeat what they know
		}
	}
	return a.settings()
}

func (s threads) threadSettingsUpdate(ctx context.Context, c *call, p protocol.ThreadSettingsUpdateParams) (out protocol.ThreadSettingsUpdateResponse, err error) {
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	approval, sandbox, err := s.accessOf(ctx, t, access{approval: p.ApprovalPolicy, policy: p.SandboxPolicy, profile: p.Permissions})
	if err != nil {
		return out, err
	}
	if p.Cwd != nil && !filepath.IsAbs(*p.Cwd) {
		return out, rpc.Errorf(rpc.InvalidParams, "cwd: %q is not an absolute path", *p.Cwd)
	}
	release := c.hold(t.ID())
	c.afterwards(release)
	return out, t.Configure(ctx, event.Settings{Cwd: deref(p.Cwd), Model: deref(p.Model), Reasoning: deref(p.Effort.Value), Approval: approval, Sandbox: sandbox})
}
