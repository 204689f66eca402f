package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// Settings of a request, by their own names and by codex's names in `config`, apply to the thread; what has no equivalent is reported.
func TestAppServerSettings(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"x\" }]\n")
	c := r.AppServer()
	greet(t, c)
	type started struct {
		Thread            struct{ ID string }
		ApprovalsReviewer string
		ReasoningEffort   string
		ApprovalPolicy    any
		Sandbox           struct {
			Type          string
			NetworkAccess bool
			WritableRoots []string
		}
	}
	var s started
	c.Call("thread/start", map[string]any{
		"cwd": r.Dir, "approvalPolicy": "never", "sandbox": "workspace-write",
		"config": map[string]any{
			"approval_policy": "untrusted", "model_reasoning_effort": "high", "approvals_reviewer": "auto_review", "model_verbosity": "low", "features.apps": true,
			"sandbox_workspace_write": map[string]any{"network_access": true}, "sandbox_workspace_write.writable_roots": []string{"/opt"},
		},
	}, &s)
	if s.ApprovalPolicy != "never" || s.ReasoningEffort != "high" || s.ApprovalsReviewer != "auto_review" || s.Sandbox.Type != "workspaceWrite" ||
		!s.Sandbox.NetworkAccess || len(s.Sandbox.WritableRoots) != 1 || s.Sandbox.WritableRoots[0] != "/opt" {
		t.Errorf("%+v", s)
	}
	var w struct{ Summary, Details string }
	if c.Notified("configWarning").Into(t, &w); w.Summary != "2 settings were ignored" || !strings.HasPrefix(w.Details, "features.apps, model_verbosity: ") {
		t.Errorf("%+v", w) // one warning: codex's terminal shows each to the user
	}

	turn := func(policy map[string]any) rig.Message {
		return c.Reply(c.Request("turn/start", map[string]any{
			"threadId": s.Thread.ID, "input": []any{map[string]any{"type": "text", "text": "hi"}}, "sandboxPolicy": policy,
		}))
	}
	for name, tc := range map[string]struct {
		policy map[string]any
		field  string // "": accepted
	}{
		"what it has":      {map[string]any{"type": "workspaceWrite", "networkAccess": true, "writableRoots": []string{"/opt"}}, ""},
		"without network":  {map[string]any{"type": "workspaceWrite", "networkAccess": false, "writableRoots": []string{"/opt"}}, "networkAccess"},
		"another folder":   {map[string]any{"type": "workspaceWrite", "networkAccess": true, "writableRoots": []string{"/srv"}}, "writableRoots"},
		"without its /tmp": {map[string]any{"type": "workspaceWrite", "networkAccess": true, "excludeSlashTmp": true}, "/tmp"},
	} {
		switch m := turn(tc.policy); {
		case tc.field == "" && m.Error != nil, tc.field != "" && (m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, tc.field)):
			t.Errorf("%s: %+v", name, m.Error)
		case tc.field == "":
			c.Notified("turn/completed")
		}
	}

	for name, config := range map[string]map[string]any{
		"a number":        {"approval_policy": 3},
		"no such policy":  {"sandbox_mode": "open"},
		"a relative path": {"sandbox_workspace_write.writable_roots": []string{"opt"}},
	} {
		if code, _ := c.Refused("thread/start", map[string]any{"cwd": r.Dir, "config": config}); code != -32602 {
			t.Errorf("%s: %d", name, code)
		}
	}

	// The granular policy is set with the thread, and clients repeat what they know.
	granular := map[string]any{"granular": map[string]any{"sandbox_approval": true, "rules": false, "mcp_elicitations": true, "request_permissions": false}}
	c = r.AppServer()
	c.Call("initialize", map[string]any{
		"clientInfo": map[string]any{"name": "test", "version": "1"}, "capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	c.Call("thread/start", map[string]any{"cwd": r.Dir, "approvalPolicy": granular}, &s)
	if g, ok := s.ApprovalPolicy.(map[string]any); !ok || g["granular"] == nil {
		t.Errorf("%+v", s)
	}
	start := map[string]any{"threadId": s.Thread.ID, "input": []any{map[string]any{"type": "text", "text": "hi"}}, "approvalPolicy": granular}
	c.Call("turn/start", start, nil)
	c.Notified("turn/completed")
	start["approvalPolicy"] = map[string]any{"granular": map[string]any{"sandbox_approval": false, "rules": false, "mcp_elicitations": true}}
	if code, message := c.Refused("turn/start", start); code != -32602 || !strings.Contains(message, "granular") {
		t.Errorf("%d %s", code, message)
	}
}
