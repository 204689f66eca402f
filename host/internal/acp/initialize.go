package acp

import (
	"context"
	"slices"
	"strings"

	acp "github.com/coder/acp-go-sdk"
)

// loginPrefix begins the ID of a login; the label of the provider follows.
const loginPrefix = "login-"

// initialize negotiates the version. An editor that only speaks another one gets ours, and leaves.
func (a *agent) initialize(ctx context.Context, p acp.InitializeRequest) (any, func(), error) {
	a.mu.Lock()
	a.client = p.ClientCapabilities
	if p.ClientInfo != nil {
		a.editor = cut(p.ClientInfo.Name, maxTitle)
	}
	a.mu.Unlock()
	return acp.InitializeResponse{
		ProtocolVersion: acp.ProtocolVersionNumber,
		AgentInfo:       &acp.Implementation{Name: "gantry", Title: acp.Ptr("Gantry"), Version: a.cfg.Version},
		AgentCapabilities: acp.AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{
				AdditionalDirectories: &acp.SessionAdditionalDirectoriesCapabilities{}, Close: &acp.SessionCloseCapabilities{},
				Fork: &acp.SessionForkCapabilities{}, List: &acp.SessionListCapabilities{}, Resume: &acp.SessionResumeCapabilities{},
			},
		},
		AuthMethods: a.logins(ctx, p.ClientCapabilities),
	}, nil, nil
}

// flag reports whether an editor has declared an extension.
func flag(meta map[string]any, name string) bool {
	on, _ := meta[name].(bool)
	return on
}

// logins returns a login for each provider of the configured models. They run in a terminal of the editor, so that keys and codes never
// pass through the protocol. Editors that predate the terminal's form of a login read its command from "terminal-auth".
func (a *agent) logins(ctx context.Context, c acp.ClientCapabilities) []acp.AuthMethod {
	out := []acp.AuthMethod{}
	early := flag(c.Meta, "terminal-auth")
	if len(a.cfg.Login) == 0 || !c.Auth.Terminal && !early {
		return out
	}
	cfg, err := a.cfg.Hub.Configuration(ctx, a.cfg.Workspace)
	if err != nil {
		a.log.Debug("no logins: the configuration can't be read", "err", err) // a session reports it
		return out
	}
	var providers []string
	for _, m := range cfg.Models {
		if !slices.Contains(providers, m.Provider) {
			providers = append(providers, m.Provider)
		}
	}
	for _, label := range providers {
		name := "Log in to " + label
		m := acp.AuthMethodTerminalInline{
			Type: "terminal", Id: loginPrefix + label, Name: name, Description: acp.Ptr("Runs `gantry login " + label + "` in a terminal"),
			Args: []string{"--login", label},
		}
		if early {
			m.Meta = map[string]any{"terminal-auth": map[string]any{
				"command": a.cfg.Login[0], "args": append(slices.Clone(a.cfg.Login[1:]), label), "label": name,
			}}
		}
		out = append(out, acp.AuthMethod{Terminal: &m})
	}
	return out
}

// authenticate is called after a login has run. Whether it was successful shows when its provider is used.
func (a *agent) authenticate(ctx context.Context, p acp.AuthenticateRequest) (any, func(), error) {
	if !strings.HasPrefix(p.MethodId, loginPrefix) {
		return nil, nil, invalid("methodId", "%q is not a method that initialize has offered", p.MethodId)
	}
	return acp.AuthenticateResponse{}, nil, nil
}
