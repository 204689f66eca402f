// Package tools declares the MCP plugin: its configuration, and the tools of the configured servers.
//
// It owns: the plugin's block, which servers there are, their tools as the host sees them, and what is remembered of them. It must not
// know: policy, approval, truncation (the host's), or how a server is spoken to.
//
// Start with [New].
package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/auth"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// Config is the plugin's block.
type Config struct {
	Server []Server `json:"server" doc:"An MCP server: a program that the host starts, or an address."`
}

// Server is the block of one server.
type Server struct {
	Name string `label:"name"`
	configblock.Process
	URL            string                        `json:"url" endpoint:"true" doc:"The address of a server that is reached over HTTP."`
	Transport      string                        `json:"transport" enum:"http,sse" doc:"How an address is spoken to: by streamable HTTP, which is the default, or as version 2024-11-05 of the protocol did."`
	Headers        map[string]configblock.Secret `json:"headers" doc:"Headers of each request to the address."`
	BearerToken    configblock.Secret            `json:"bearer_token" doc:"The token of each request to the address."`
	CAFile         string                        `json:"ca_file" path:"true" doc:"PEM file with certificates of authorities to trust beside the system's, for the address and its logins."`
	OAuth          *OAuth                        `json:"oauth" doc:"How gantry mcp login logs in to the address. Without it: as the server says."`
	Protocol       string                        `json:"protocol" default:"2025-06-18" enum:"2024-11-05,2025-03-26,2025-06-18,2025-11-25,2026-07-28" doc:"The version of the protocol that is offered to the server."`
	Enabled        bool                          `json:"enabled" default:"true" doc:"Whether the server is used."`
	Required       bool                          `json:"required" doc:"Whether a turn fails if the server is not ready. Otherwise its tools are missing."`
	Allow          []string                      `json:"allow" doc:"The tools that are used, by the server's names; * stands for any characters. Default: all."`
	Deny           []string                      `json:"deny" doc:"Tools that are not used, even if they are allowed."`
	Approval       string                        `json:"approval" default:"auto" enum:"auto,prompt,writes,approve" doc:"When a call is asked about: by what the server says of the tool, always, unless the tool only reads, or never."`
	Pin            bool                          `json:"pin" doc:"Whether only tools and instructions are used that are as they were when the server was used first, or as gantry mcp accept has accepted them."`
	Tool           []Override                    `json:"tool" doc:"Settings of one tool, by the server's name."`
	Parallel       bool                          `json:"parallel" doc:"Whether calls may run concurrently even if they do more than read."`
	Defer          bool                          `json:"defer" default:"true" doc:"Whether the tools are found by search instead of being part of each request."`
	Sampling       string                        `json:"sampling" default:"off" enum:"off,ask,allow" doc:"Whether the server may ask the model while one of its tools is called, on the budget of the thread: not at all, after a question to you, or freely."`
	Roots          *bool                         `json:"roots" doc:"Whether the server is told the folders of the threads that call it. Default: true for a program, false for an address."`
	TextBeside     bool                          `json:"text_beside_structured" doc:"Whether the model also sees the text of results that have structured content."`
	StartupTimeout time.Duration                 `json:"startup_timeout" default:"30s" doc:"How long the server may take until it is ready."`
	CallTimeout    time.Duration                 `json:"call_timeout" default:"5m" doc:"How long a call may take, not counting questions to a person."`
	Idle           time.Duration                 `json:"idle" default:"10m" doc:"How long a server without calls keeps running."`
}

// OAuth says how to log in to a server.
type OAuth struct {
	Scopes       []string           `json:"scopes" doc:"The scopes that are requested. Default: those that the server asks for."`
	ClientID     string             `json:"client_id" doc:"The client that is registered with the authorization server, or the https URL of a client ID metadata document. Default: gantry registers itself."`
	ClientSecret configblock.Secret `json:"client_secret" doc:"The secret of the client."`
	Registration bool               `json:"registration" default:"true" doc:"Whether gantry may register itself."`
	CallbackPort int                `json:"callback_port" doc:"The port of this machine to which the browser is redirected. Default: any that is free."`
	Grant        string             `json:"grant" default:"authorization_code" enum:"authorization_code,client_credentials" doc:"Whether a person logs in, or the client itself with its client_secret."`
	TokenURL     string             `json:"token_url" endpoint:"true" doc:"Where tokens are renewed, if it is another host than the server. gantry mcp login proposes to set it."`
}

// Override has the settings of one tool.
type Override struct {
	Name     string `label:"name"`
	Approval string `json:"approval" enum:"auto,prompt,writes,approve" doc:"When a call is asked about. Default: as the server's."`
	Pin      *bool  `json:"pin" doc:"Whether the tool is used only as it was accepted. Default: as the server's."`
}

// maxAll bounds what the host is sent of all servers, in bytes: it takes messages of 16 MiB.
const maxAll = 12 << 20

// mcpPlugin is the state of the plugin.
type mcpPlugin struct {
	config  *Config
	version string
	// resources returns the resourceTools, whose schemas take longer than all else that is published.
	resources func() []tool.Tool

	publishing sync.Mutex // held while tools are published, so that the last ones win

	mu struct {
		sync.Mutex
		env     *tool.Env
		entries map[string]*entry // by the server's name
	}
}

// entry is a configured server.
type entry struct {
	block    Server
	identity string
	server   *server.Server
	auth     *auth.Handler // nil: the server is a program, or the block has a token
	folders  folders
	kept     memory // what is remembered of it; under publishing
	accepted *accepted
	publish  func() error

	life   context.Context // ends with the entry, as tasks do
	end    context.CancelFunc
	awaits atomic.Bool // await runs
	mu     sync.Mutex  // tasks start under it, so that none starts when their end is awaited
	tasks  sync.WaitGroup
}

// spawn runs a task that ends with life.
func (e *entry) spawn(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() == nil {
		e.tasks.Go(f)
	}
}

// New returns the plugin.
func New(version string) tool.Plugin {
	p := &mcpPlugin{config: &Config{}, version: version}
	p.mu.entries = map[string]*entry{}
	p.resources = sync.OnceValue(p.resourceTools)
	return tool.Plugin{
		Name: "mcp", Version: version,
		Description:  "Offers the tools of MCP servers.",
		Config:       p.config,
		Capabilities: []string{"spawn", "network", "ask", "sample", "secrets", "state"},
		Commands:     p.commands(),
		Configured:   p.configured,
		EndThread:    p.endThread,
		Close:        p.close,
	}
}

var serverName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

var headerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") })

// check returns the errors in the block.
func (c *Config) check() error {
	var errs []error
	seen := map[string]bool{}
	for i, s := range c.Server {
		at := func(names ...string) []contract.Step {
			steps := []contract.Step{contract.Name("server"), contract.Index(int64(i))}
			for _, n := range names {
				steps = append(steps, contract.Name(n))
			}
			return steps
		}
		switch {
		case !serverName().MatchString(s.Name):
			errs = append(errs, configblock.Invalid(fmt.Sprintf("the name of server %q has other characters than letters, digits, - and _, or more than 64", s.Name), at()...))
		case seen[s.Name]:
			errs = append(errs, configblock.Invalid(fmt.Sprintf("the server %q appears twice", s.Name), at()...))
		case s.Command == "" && s.URL == "":
			errs = append(errs, configblock.Invalid(fmt.Sprintf("the server %q has neither a command nor a url", s.Name), at()...))
		case s.Command != "" && s.URL != "":
			errs = append(errs, configblock.Invalid(fmt.Sprintf("the server %q has both a command and a url", s.Name), at("url")...))
		}
		seen[s.Name] = true
		for _, o := range []struct {
			name  string
			set   bool
			other bool
		}{
			{"args", len(s.Args) > 0, s.URL != ""}, {"env", len(s.Env) > 0, s.URL != ""}, {"cwd", s.Cwd != "", s.URL != ""},
			{"oauth", s.OAuth != nil, s.URL == ""}, {"transport", s.Transport != "", s.URL == ""}, {"ca_file", s.CAFile != "", s.URL == ""}, {"headers", len(s.Headers) > 0, s.URL == ""}, {"bearer_token", !s.BearerToken.IsZero(), s.URL == ""},
		} {
			if o.set && o.other {
				kind := map[bool]string{true: "an address", false: "a program"}[s.URL != ""]
				errs = append(errs, configblock.Invalid(fmt.Sprintf("%s is not for a server that is %s", o.name, kind), at(o.name)...))
			}
		}
		if s.OAuth != nil && s.URL != "" {
			if s.hasToken() {
				errs = append(errs, configblock.Invalid("a server has either oauth, or bearer_token or a header Authorization", at("oauth")...))
			} else if _, err := auth.New(s.login(nil, nil, "")); err != nil {
				errs = append(errs, configblock.Invalid(err.Error(), at("oauth")...))
			}
			if s.OAuth.CallbackPort < 0 || s.OAuth.CallbackPort > 65535 {
				errs = append(errs, configblock.Invalid("callback_port must be a port, or 0 for any", at("oauth", "callback_port")...))
			}
		}
		for name := range s.Headers {
			if !headerName().MatchString(name) {
				errs = append(errs, configblock.Invalid(fmt.Sprintf("%q is not the name of a header", name), at("headers")...))
			}
		}
		for name, d := range map[string]time.Duration{"startup_timeout": s.StartupTimeout, "call_timeout": s.CallTimeout, "idle": s.Idle} {
			if d <= 0 {
				errs = append(errs, configblock.Invalid(name+" must be positive", at(name)...))
			}
		}
	}
	return errors.Join(errs...)
}

// configured replaces the servers by those of the block. One whose block has not changed keeps its connection.
func (p *mcpPlugin) configured(_ context.Context, env *tool.Env) error {
	if err := p.config.check(); err != nil {
		return err
	}
	next := map[string]*entry{}
	p.mu.Lock()
	old := p.mu.entries
	for _, b := range p.config.Server {
		if !b.Enabled {
			continue
		}
		id, err := identity(b)
		if err != nil {
			p.mu.Unlock()
			return err
		}
		// The values of secrets are no part of the identity, and may have changed.
		if e := old[b.Name]; e != nil && e.identity == id && len(b.Headers) == 0 && b.BearerToken.IsZero() && (b.OAuth == nil || b.OAuth.ClientSecret.IsZero()) {
			next[b.Name] = e
			continue
		}
		next[b.Name] = p.entry(env, b, id)
	}
	p.mu.env, p.mu.entries = env, next
	p.mu.Unlock()
	var gone sync.WaitGroup
	for name, e := range old {
		if next[name] != e {
			gone.Go(e.close)
		}
	}
	for _, e := range next {
		if e.server.Status().State == server.Unknown {
			e.server.Begin()
		}
	}
	gone.Wait()
	return p.publish()
}

// entry makes a server. p.mu is held.
func (p *mcpPlugin) entry(env *tool.Env, b Server, id string) *entry {
	e := &entry{block: b, identity: id, accepted: newAccepted(env, b), publish: p.publish}
	e.life, e.end = context.WithCancel(env.Context())
	known := recall(env.CacheDir, id)
	e.kept = known
	open, await := started(env.Declared, env.Logger, b.Name, nil), (func(context.Context) error)(nil)
	if b.URL != "" {
		client, err := b.client(env)
		if err != nil {
			open = func(context.Context) (server.Link, error) { return server.Link{}, err }
		} else {
			open = p.opener(client, e)
		}
		if h, err := auth.New(b.login(env, client, p.version)); err == nil && !b.hasToken() { // otherwise check has found nothing wrong
			e.auth, await = h, h.AwaitLogin
		}
	}
	e.server = server.New(server.Config{
		Name: b.Name, URL: b.URL, Open: open, AwaitLogin: await, Client: &mcp.Implementation{Name: "gantry", Title: "gantry", Version: p.version},
		Protocol: b.Protocol, StartupTimeout: b.StartupTimeout, Idle: b.Idle, Choice: catalog.Choice{Allow: b.Allow, Deny: b.Deny},
		Sampling: b.Sampling != samplingOff, Roots: b.roots(),
		Tools: known.Tools, Instructions: known.Instructions, Prompts: known.Prompts, Resources: known.Resources, Problems: known.Problems, Logger: env.Logger,
		Changed: func() { _ = p.publish() }, // the host reports what it can't use
	})
	return e
}

// close ends the server. A renewal of its token is waited for, since the new one may be the only valid one.
func (e *entry) close() {
	e.mu.Lock()
	e.end()
	e.mu.Unlock()
	e.server.Close()
	e.tasks.Wait()
	if e.auth != nil {
		e.auth.Close()
	}
}

var states = map[server.State]contract.SourceState{
	server.Unknown: contract.SourceStarting, server.Starting: contract.SourceStarting, server.Ready: contract.SourceReady,
	server.NeedsLogin: contract.SourceNeedsLogin, server.Failed: contract.SourceFailed,
}

// publish offers the tools of all servers.
func (p *mcpPlugin) publish() error {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	p.mu.Lock()
	env, entries := p.mu.env, maps.Clone(p.mu.entries)
	p.mu.Unlock()
	if env == nil {
		return nil // it is being configured, which ends with publish
	}
	list, sources := p.offer(env.Context(), env, entries)
	if len(entries) > 0 {
		list = append(list, p.resources()...)
	}
	return env.SetTools(list, sources...)
}

// offer returns the tools of all servers, sorted by server and name, and their sources. What has no room is left out, and named.
func (p *mcpPlugin) offer(ctx context.Context, env *tool.Env, entries map[string]*entry) (list []tool.Tool, sources []contract.Source) {
	var ids []catalog.Identity
	status := map[string]server.Status{}
	offers := map[string]offer{}
	for name, e := range entries {
		st := e.server.Status()
		if now := (memory{st.Tools, st.Instructions, st.Prompts, st.Resources, st.Problems, e.kept.Login}); len(st.Tools) > 0 && !now.same(e.kept) { // before the host can end the plugin
			if e.auth != nil && st.State == server.Ready {
				now.Login, _ = e.auth.HasLogin(ctx) // without a login, it needed none
			}
			if err := remember(env.CacheDir, e.identity, now); err != nil {
				env.Logger.Warn("a server's tools can't be remembered", "server", name, "err", err)
			}
			e.kept = now
		}
		o := e.offered(ctx, st)
		if problem := o.problem(name); problem != "" {
			st.Problems = append(slices.Clip(st.Problems), problem)
			e.await()
		}
		st.Tools, st.Instructions = o.tools, o.instructions
		status[name], offers[name] = st, o
		for _, t := range o.tools {
			ids = append(ids, catalog.Identity{Server: name, Tool: t.Name})
		}
	}
	names := catalog.Name(ids)
	room := maxAll
	fits := func(bytes int) bool {
		if bytes > room {
			return false
		}
		room -= bytes
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e, st := entries[name], status[name]
		called := func(t catalog.Tool) catalog.Called { return names[catalog.Identity{Server: name, Tool: t.Name}] }
		tools := slices.Clone(st.Tools)
		slices.SortFunc(tools, func(a, b catalog.Tool) int { return strings.Compare(called(a).Name, called(b).Name) })
		source := contract.Source{Name: name, State: states[st.State], Required: e.block.Required, Prompts: st.Prompts, Resources: st.Resources}
		problems, left := slices.Clone(st.Problems), 0
		if fits(len(st.Instructions)) {
			source.Description = st.Instructions
		} else {
			problems = append(problems, "its instructions are left out, because all servers say too much")
		}
		for _, t := range tools {
			if !fits(t.Size()) {
				left++
				continue
			}
			list = append(list, p.tool(e, called(t), t, offers[name].changes[t.Name]))
		}
		if left > 0 {
			problems = append(problems, fmt.Sprintf("%d of its tools are left out, because those of all servers have more than %d MiB; next: choose some with allow or deny in the servers' blocks", left, maxAll>>20))
		}
		if st.State == server.Ready {
			st.Message = strings.Join(problems, "; ")
		}
		source.Message = catalog.Line(st.Message, 1000)
		sources = append(sources, source)
	}
	return list, sources
}

// approval returns when a call of a tool is asked about.
func (s *Server) approval(name string) string {
	for _, t := range s.Tool {
		if t.Name == name {
			return cmp.Or(t.Approval, s.Approval)
		}
	}
	return s.Approval
}

// close ends all servers.
func (p *mcpPlugin) close(context.Context) error {
	p.mu.Lock()
	entries := maps.Clone(p.mu.entries)
	p.mu.Unlock()
	var ends sync.WaitGroup
	for _, e := range entries {
		ends.Go(e.close)
	}
	ends.Wait()
	return nil
}

// cacheFile is where the tools of a server are remembered.
func cacheFile(dir, identity string) string { return path.Join(dir, "tools-"+identity+".json") }
