package appserver

import (
	"cmp"
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

// settings returns the approval policy, the sandbox mode, and the additional writable folders; empty ones are not changed.
func (a access) settings() (approval, sandbox string, roots []string, err error) {
	if a.approval != nil {
		approval = string(a.approval.Kind)
		if a.approval.Granular != nil {
			return "", "", nil, rpc.Errorf(rpc.InvalidParams, "approvalPolicy.granular can't be set for a thread: configure it with a block `approval`")
		}
	}
	if a.profile != nil && (a.mode != nil || a.policy != nil) {
		return "", "", nil, rpc.Errorf(rpc.InvalidParams, "`permissions` can't be combined with `sandbox` or `sandboxPolicy`")
	}
	switch {
	case a.profile != nil:
		sandbox, err = profileMode(*a.profile)
	case a.mode != nil:
		sandbox = sandboxMode(*a.mode)
	case a.policy != nil:
		switch p := a.policy.Body.(type) {
		case protocol.FullAccessPolicy, protocol.ExternalSandboxPolicy:
			sandbox = fullAccess
		case protocol.ReadOnlyPolicy:
			sandbox = string(protocol.SandboxReadOnly)
		case protocol.WorkspaceWritePolicy:
			sandbox, roots = string(protocol.SandboxWorkspaceWrite), p.WritableRoots
		}
	}
	return approval, sandbox, roots, err
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
