// Package tools declares the tools of the browser plugin.
//
// It owns: arguments, assessments, the results that the model reads, and which thread has which browser. It must not know: policy, approval,
// truncation (the host's), or how pages are read and acted on.
//
// Start with [New].
package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/attach"
	"github.com/gantry-agent/gantry/plugins/browser/internal/policy"
	"github.com/gantry-agent/gantry/plugins/browser/internal/profile"
	"github.com/gantry-agent/gantry/plugins/browser/internal/script"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// Config is the plugin's block.
type Config struct {
	Chromium string        `json:"chromium" doc:"Name or path of the browser. Default: chromium-headless-shell, Chromium or Chrome."`
	Sandbox  bool          `json:"sandbox" default:"true" doc:"Whether Chromium uses its own sandbox within gantry's. Only machines that can't start it need false."`
	CDPURL   string        `json:"cdp_url" doc:"Address of a browser that somebody else has started, such as \"http://127.0.0.1:9222\", which is used in place of one of gantry's. The network rules must allow it."`
	Allow    []string      `json:"allow" doc:"The only hosts that may be opened, such as \"example.com\" or \"*.example.com\". Default: all."`
	Deny     []string      `json:"deny" doc:"Hosts that may not be opened, with their subdomains."`
	Idle     time.Duration `json:"idle" default:"30m" doc:"How long an unused browser is kept."`
	Contexts string        `json:"contexts" default:"agent" doc:"What an agent shares with the browser of the thread that it works for: agent has cookies and storage of its own, with shared all agents have the same."`

	FallbackModel string `json:"fallback_model" doc:"Label of the model block that browser_task continues with when the thread's model fails. Default: none."`

	Session   SessionBlock   `json:"session" doc:"The browsers of scripts."`
	Secret    []SecretBlock  `json:"secret" doc:"What the model can have typed without seeing it."`
	Profile   []ProfileBlock `json:"profile" doc:"Sites whose cookies and local storage are kept, encrypted, for later browsers."`
	Downloads string         `json:"downloads" doc:"Folder for downloads; a relative path is one in the working folder of the thread. Default: none, and downloads are kept as artifacts."`
}

// SessionBlock is the block about the browsers of scripts.
type SessionBlock struct {
	Mode string `json:"mode" default:"reuse" doc:"Which browser a script has that does not say so: reuse is that of the thread, one-shot one of its own, and dynamic that of the thread if there is one, otherwise one of its own, which the script can make that of the thread."`
}

// browserPlugin is the state of the plugin.
type browserPlugin struct {
	config *Config
	binary string
	policy policy.Policy // set by configured
	// endpoint is the browser to attach to; nil: browsers are started. Set by configured.
	endpoint *attach.Endpoint
	runs     script.Runs
	// scripts are the browsers of runs that have not ended, by their IDs.
	scripts sync.Map

	secrets secrets // set by configured

	mu struct {
		sync.Mutex
		threads  map[string]*thread
		families map[string]*family // by the IDs of their roots
	}
}

// What agents share: nothing, or cookies and storage.
const (
	ownContexts    = "agent"
	sharedContexts = "shared"
)

// New returns the plugin. binary is the path of this program, which also becomes the browser.
func New(version, binary string) tool.Plugin {
	p := &browserPlugin{config: &Config{Sandbox: true, Idle: 30 * time.Minute, Contexts: ownContexts, Session: SessionBlock{Mode: reuse}}, binary: binary}
	p.mu.threads, p.mu.families = map[string]*thread{}, map[string]*family{}
	return tool.Plugin{
		Name: "browser", Version: version,
		Description:  "Opens web pages, reads them and acts on them.",
		Config:       p.config,
		Tools:        slices.Concat([]tool.Tool{p.actTool(), p.stateTool(), p.extractTool(), p.recordTool(), p.replayTool(), p.taskTool()}, p.scriptTools(), p.manageTools()),
		Commands:     p.commands(),
		Capabilities: []string{"secrets", "spawn", "state", "call-tools", "sample", "ask"},
		Configured:   p.configured,
		StopSession: func(ctx context.Context, threadID, sessionID string) error {
			return p.owner(threadID, sessionID).stop(ctx, sessionID, "it was stopped")
		},
		EndThread: func(ctx context.Context, threadID string) error {
			p.runs.End(ctx, threadID)
			p.mu.Lock()
			t, f := p.mu.threads[threadID], p.mu.families[threadID]
			delete(p.mu.threads, threadID)
			delete(p.mu.families, threadID)
			p.mu.Unlock()
			var err error
			if t != nil {
				err = t.stop(ctx, "", "")
			}
			if f != nil { // only its agents may have used the browser
				if h := f.running(); h != nil {
					err = errors.Join(err, h.stop(ctx, t, ""))
				}
			}
			return err
		},
		View:  p.view,
		Adopt: p.adopt,
		Close: p.close,
	}
}

func (p *browserPlugin) configured(_ context.Context, env *tool.Env) error {
	if p.config.Contexts != sharedContexts && p.config.Contexts != ownContexts {
		return configblock.Invalid(fmt.Sprintf("contexts is %q; it must be %q or %q", p.config.Contexts, ownContexts, sharedContexts), contract.Name("contexts"))
	}
	if p.config.Idle <= 0 {
		return configblock.Invalid("idle must be positive", contract.Name("idle"))
	}
	if m := p.config.Session.Mode; m != reuse && m != oneShot && m != dynamic {
		return configblock.Invalid(fmt.Sprintf("mode is %q; it must be %q, %q or %q", m, reuse, oneShot, dynamic), contract.Name("session"), contract.Name("mode"))
	}
	if _, err := policy.New(p.config.Allow, nil); err != nil {
		return configblock.Invalid(err.Error(), contract.Name("allow"))
	}
	deny, err := p.attaching()
	if err != nil {
		return configblock.Invalid(err.Error(), contract.Name("cdp_url"))
	}
	if p.policy, err = policy.New(p.config.Allow, deny); err != nil {
		return configblock.Invalid(err.Error(), contract.Name("deny"))
	}
	if err := p.secrets.configure(p.config.Secret); err != nil {
		return err
	}
	if err := checkProfiles(p.config.Profile); err != nil {
		return err
	}
	if err := profile.Sweep(profiles(env)); err != nil { // what was left when a host was killed; the next browser tries again
		env.Logger.Warn("folders of earlier browsers can't be removed", "err", err)
	}
	if !p.config.Sandbox {
		return &contract.Diagnostic{
			Severity: contract.SeverityWarning, Path: []contract.Step{contract.Name("sandbox")},
			Summary: "Chromium's own sandbox is off: a page that takes over its part of the browser has the whole browser, with all sites in it",
			Next:    "leave `sandbox` out, unless this machine can't start a browser with it",
		}
	}
	return nil
}

// attaching prepares for the browser that the block names, if it names one, and returns the hosts that may not be opened.
func (p *browserPlugin) attaching() (deny []string, err error) {
	p.endpoint, deny = nil, p.config.Deny
	if p.config.CDPURL == "" {
		return deny, nil
	}
	e, err := attach.Parse(p.config.CDPURL)
	if err != nil {
		return nil, fmt.Errorf("the address of the browser is invalid: %w", err)
	}
	if len(p.config.Profile) > 0 {
		return nil, errors.New("profiles are not possible with `cdp_url`: what that browser stores is its user's")
	}
	p.endpoint = &e
	return slices.Concat(deny, e.Origins()), nil
}

// thread returns the state of a thread.
func (p *browserPlugin) thread(id string) *thread {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.mu.threads[id]
	if t == nil {
		t = &thread{id: id, using: make(chan struct{}, 1)}
		p.mu.threads[id] = t
	}
	return t
}

// close leaves the browsers to the next process of the plugin; the host ends those that are no longer needed.
func (p *browserPlugin) close(ctx context.Context) error {
	p.runs.End(ctx, "")
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.mu.families {
		if h := f.running(); h != nil {
			h.idle.Stop()
			h.all.Close()
		}
	}
	return nil
}
