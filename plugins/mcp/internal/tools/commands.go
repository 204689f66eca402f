package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/auth"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/foreign"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// commands are the plugin's commands, for people.
func (p *mcpPlugin) commands() []tool.Command {
	return []tool.Command{
		tool.NewCommand("list", "Lists the MCP servers. Those whose tools are not known are started.", p.listServers),
		tool.NewCommand("get", "Shows the settings and the state of an MCP server.", p.getServer),
		tool.NewCommand("tools", "Lists the tools of an MCP server.", p.listTools),
		tool.NewCommand("accept", "Shows what has changed in the tools of an MCP server since they were accepted, and accepts it after a question.", p.acceptTools),
		tool.NewCommand("prompts", "Lists the prompts of an MCP server.", p.listPrompts),
		tool.NewCommand("prompt", "Fills in a prompt of an MCP server and shows its messages.", p.fillIn),
		tool.NewCommand("resources", "Lists the resources of an MCP server, or its templates of resources.", p.listResources),
		tool.NewCommand("resource", "Reads a resource of an MCP server.", p.readResource),
		tool.NewCommand("complete", "Proposes values for an argument of a prompt, or for a variable of a template of resources.", p.complete),
		tool.NewCommand("login", "Logs in to an MCP server with a browser.", p.logIn, tool.SideEffects()),
		tool.NewCommand("logout", "Deletes the login to an MCP server, and revokes it if the server can do that.", p.logOut, tool.SideEffects()),
		tool.NewCommand("add", "Adds an MCP server to the configuration: the one at --url, or a program, whose command and arguments follow the name after --.", p.addServer),
		tool.NewCommand("try", "Starts an MCP server, and asks about each host and folder that its sandbox denies it.", p.tryServer),
		tool.NewCommand("import", "Adds the MCP servers of another program's configuration, disabled: .mcp.json, ~/.claude.json, codex's config.toml, opencode.json, VS Code's mcp.json.", p.importServers),
		tool.NewCommand("remove", "Removes an MCP server from the configuration.", p.removeServer),
	}
}

type nameArgs struct {
	Name string `json:"name" jsonschema:"Name of the server."`
}

// serverStatus is a row of the command list.
type serverStatus struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`  // "program", "http", "sse"
	State   string `json:"state"` // see stateNames; "disabled"
	Tools   int    `json:"tools"`
	Login   string `json:"login"` // "yes", "no", "token": the block has one, "-": none is needed; empty: not known
	Message string `json:"message"`
}

var stateNames = map[server.State]string{
	server.Unknown: "not started", server.Starting: "starting", server.Ready: "ready", server.NeedsLogin: "needs login", server.Failed: "failed",
}

func (s *Server) kind() string {
	if s.URL == "" {
		return "program"
	}
	return cmp.Or(s.Transport, "http")
}

// status returns what is known of a server, which is started if its tools are not known.
func (p *mcpPlugin) status(ctx context.Context, b Server) (serverStatus, error) {
	out := serverStatus{Name: b.Name, Kind: b.kind(), State: "disabled"}
	if b.URL == "" {
		out.Login = "-"
	}
	p.mu.Lock()
	e := p.mu.entries[b.Name]
	p.mu.Unlock()
	if e == nil {
		return out, nil
	}
	if st := e.server.Status().State; st == server.Unknown || st == server.Starting {
		_ = e.server.Start(ctx) // its status has the error
	}
	st := e.server.Status()
	o := e.offered(ctx, st)
	if problem := o.problem(b.Name); problem != "" {
		st.Problems = append(slices.Clip(st.Problems), problem)
	}
	out.State, out.Tools, out.Message = stateNames[st.State], len(o.tools), catalog.Line(cmp.Or(st.Message, strings.Join(st.Problems, "; ")), 8<<10)
	switch {
	case e.auth != nil:
		ok, err := e.auth.HasLogin(ctx)
		if _, useless := errors.AsType[*auth.LoginError](err); err != nil && !useless {
			return out, err
		}
		switch out.Login = "-"; {
		case ok:
			out.Login = "yes"
		case st.State != server.Ready || b.OAuth != nil || p.neededLogin(e):
			out.Login = "no"
		}
	case b.hasToken():
		out.Login = "token"
	}
	return out, nil
}

// neededLogin reports whether there was a login when the tools of a server were remembered.
func (p *mcpPlugin) neededLogin(e *entry) bool {
	p.publishing.Lock()
	defer p.publishing.Unlock()
	return e.kept.Login
}

// listServers is the command list.
func (p *mcpPlugin) listServers(ctx context.Context, _ *tool.CommandCall, _ struct{}) (any, error) {
	blocks := p.config.Server
	out := make([]serverStatus, len(blocks))
	errs := make([]error, len(blocks))
	var all sync.WaitGroup
	for i, b := range blocks {
		all.Go(func() { out[i], errs[i] = p.status(ctx, b) })
	}
	all.Wait()
	for i := range out { // gantry mcp get shows all of it
		out[i].Message = catalog.Line(out[i].Message, 1000)
	}
	slices.SortFunc(out, func(a, b serverStatus) int { return strings.Compare(a.Name, b.Name) })
	return map[string]any{"servers": out}, errors.Join(errs...)
}

// block finds the block of a server.
func (p *mcpPlugin) block(name string) (Server, error) {
	var names []string
	for _, b := range p.config.Server {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	if len(names) == 0 {
		return Server{}, fmt.Errorf("there is no server %q, and no other; next: add one with `gantry mcp add %s`", name, name)
	}
	slices.Sort(names)
	return Server{}, fmt.Errorf("there is no server %q; next: use one of %s", name, strings.Join(names, ", "))
}

// serverDetails is the output of the command get.
type serverDetails struct {
	serverStatus
	URL      string `json:"url,omitempty"`
	Command  string `json:"command,omitempty"` // with its arguments, quoted where needed
	Cwd      string `json:"cwd,omitempty"`
	Env      string `json:"env,omitempty"`     // names of the variables that the block sets
	Sandbox  string `json:"sandbox,omitempty"` // of a program: the hosts and folders that it may reach and write
	Approval string `json:"approval"`
	Pin      bool   `json:"pin"`
	Settings string `json:"tool_settings,omitempty"` // those of tool blocks that differ from the server's
	Allow    string `json:"allow,omitempty"`
	Deny     string `json:"deny,omitempty"`
	Required bool   `json:"required"`
	Defer    bool   `json:"defer"`
	Parallel bool   `json:"parallel"`
	Protocol string `json:"protocol"`
	Startup  string `json:"startup_timeout"`
	Call     string `json:"call_timeout"`
	Idle     string `json:"idle"`
}

// getServer is the command get.
func (p *mcpPlugin) getServer(ctx context.Context, c *tool.CommandCall, in nameArgs) (any, error) {
	b, err := p.block(in.Name)
	if err != nil {
		return nil, err
	}
	out := serverDetails{
		URL: b.URL, Cwd: b.Cwd, Env: strings.Join(b.Env, ", "), Approval: b.Approval, Pin: b.Pin, Settings: b.overrides(), Allow: strings.Join(b.Allow, ", "), Deny: strings.Join(b.Deny, ", "), Required: b.Required, Defer: b.Defer,
		Parallel: b.Parallel, Protocol: b.Protocol, Startup: b.StartupTimeout.String(), Call: b.CallTimeout.String(), Idle: b.Idle.String(),
	}
	if b.Command != "" {
		words := []string{word(b.Command)}
		for _, a := range b.Args {
			words = append(words, word(a))
		}
		out.Command = strings.Join(words, " ")
		if d, err := c.Env().Denials(ctx, contract.ProcessName("server", b.Name)); err == nil {
			out.Sandbox = sandboxText(d)
		} else { // it has not been accepted, or its block has errors
			out.Sandbox = fmt.Sprintf("unknown: %v", cmp.Or(errors.Unwrap(err), err))
		}
	}
	out.serverStatus, err = p.status(ctx, b)
	return out, err
}

// sandboxText says what the sandbox of a program lets it do.
func sandboxText(d tool.Denials) string {
	network, write := "no network", "writes nothing"
	if slices.Contains(d.Network, "*") {
		network = "any host"
	} else if len(d.Network) > 0 {
		network = "network: " + strings.Join(d.Network, ", ")
	}
	if len(d.WritableRoots) > 0 {
		write = "writes in " + strings.Join(d.WritableRoots, ", ")
	}
	return network + "; " + write
}

// overrides lists what the tool blocks set.
func (s *Server) overrides() string {
	var out []string
	for _, t := range s.Tool {
		var set []string
		if t.Approval != "" {
			set = append(set, "approval "+t.Approval)
		}
		if t.Pin != nil {
			set = append(set, fmt.Sprintf("pin %v", *t.Pin))
		}
		out = append(out, fmt.Sprintf("%s: %s", t.Name, cmp.Or(strings.Join(set, ", "), "nothing")))
	}
	return strings.Join(out, "; ")
}

// word quotes a word that would not be read as one.
func word(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\n\"'") {
		return strconv.Quote(s)
	}
	return s
}

// toolRow is a row of the command tools.
type toolRow struct {
	Name        string `json:"name"` // the server's
	Tool        string `json:"tool"` // as the model sees it
	ReadOnly    bool   `json:"read_only"`
	Approval    string `json:"approval"`
	Pin         string `json:"pin,omitempty"` // of a pinned tool: "accepted", "changed", "new"; the latter two are left out
	Description string `json:"description"`
}

// listTools is the command tools.
func (p *mcpPlugin) listTools(ctx context.Context, _ *tool.CommandCall, in nameArgs) (any, error) {
	b, err := p.block(in.Name)
	if err != nil {
		return nil, err
	}
	st, err := p.status(ctx, b)
	switch {
	case err != nil:
		return nil, err
	case st.State == "disabled":
		return nil, fmt.Errorf("the server %q is disabled; next: set enabled = true in its block", b.Name)
	}
	p.mu.Lock()
	entries := maps.Clone(p.mu.entries)
	p.mu.Unlock()
	found := entries[b.Name].server.Status()
	if len(found.Tools) == 0 && found.State != server.Ready {
		return nil, errors.New(cmp.Or(found.Message, fmt.Sprintf("the server %q is not ready", b.Name)))
	}
	var ids []catalog.Identity
	for name, e := range entries {
		for _, t := range e.server.Status().Tools {
			ids = append(ids, catalog.Identity{Server: name, Tool: t.Name})
		}
	}
	names := catalog.Name(ids)
	rows := []toolRow{}
	known, err := entries[b.Name].accepted.read()
	if err != nil {
		return nil, err
	}
	for _, t := range found.Tools {
		pin := ""
		if b.pinned(t.Name) {
			pin = string(b.judge(known, t))
		}
		called := names[catalog.Identity{Server: b.Name, Tool: t.Name}]
		rows = append(rows, toolRow{
			Name: t.Name, Tool: called.Namespace + "." + called.Name, ReadOnly: t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly,
			Approval: b.approval(t.Name), Pin: pin, Description: catalog.Line(t.Description, 200),
		})
	}
	slices.SortFunc(rows, func(a, b toolRow) int { return strings.Compare(a.Name, b.Name) })
	return map[string]any{"tools": rows}, nil
}

type acceptArgs struct {
	Name string   `json:"name" jsonschema:"Name of the server."`
	Tool []string `json:"tool,omitempty" jsonschema:"The tools, by the server's names. Default: all that have changed or are new."`
}

// The answers to whether changed tools are accepted.
const (
	answerAccept = "accept"
	answerRefuse = "refuse"
)

// acceptTools is the command accept.
func (p *mcpPlugin) acceptTools(ctx context.Context, c *tool.CommandCall, in acceptArgs) (any, error) {
	b, err := p.block(in.Name)
	if err != nil {
		return nil, err
	}
	e, err := p.enabled(b)
	if err != nil {
		return nil, err
	}
	if err := e.server.Start(ctx); err != nil { // what it has now is accepted
		return nil, err
	}
	known, err := e.accepted.read()
	if err != nil {
		return nil, err
	}
	st := e.server.Status()
	tools := st.Tools
	for _, name := range in.Tool {
		if !slices.ContainsFunc(tools, func(t catalog.Tool) bool { return t.Name == name }) {
			return nil, fmt.Errorf("the server %q has no tool %q; next: see `gantry mcp tools %s`", b.Name, name, b.Name)
		}
	}
	var take []catalog.Tool
	for _, t := range tools {
		if len(in.Tool) > 0 && !slices.Contains(in.Tool, t.Name) {
			continue
		}
		v := b.judge(known, t)
		if v == isAccepted || v == isUnknown && len(in.Tool) == 0 {
			continue
		}
		text := fmt.Sprintf("The tool %q of the server %q is new.\n%s", t.Name, b.Name, catalog.Summary(t))
		if v == isChanged {
			text = fmt.Sprintf("The tool %q of the server %q has changed.\n%s", t.Name, b.Name, catalog.Changes(known.Tools[t.Name], t))
		}
		yes, err := accepts(ctx, c, b.Name, "Accept this tool?", text)
		if err != nil {
			return nil, err
		}
		if yes {
			take = append(take, t)
		}
	}
	instructions := false
	if b.Pin && len(in.Tool) == 0 && !known.told(st.Instructions) {
		text := fmt.Sprintf("The instructions of the server %q have changed.\n%s", b.Name, catalog.TextChanges("instructions", *known.Instructions, st.Instructions))
		if instructions, err = accepts(ctx, c, b.Name, "Accept these instructions?", text); err != nil {
			return nil, err
		}
	}
	if len(take) == 0 && !instructions {
		return message{fmt.Sprintf("nothing to accept: the tools of the server %q are as they were, or were refused", b.Name)}, nil
	}
	err = e.accepted.update(ctx, func(d *definitions) {
		for _, t := range take {
			d.Tools[t.Name] = t
		}
		if instructions {
			d.Instructions = &st.Instructions
		}
	})
	if err == nil {
		err = p.publish()
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range take {
		names = append(names, t.Name)
	}
	if instructions {
		names = append(names, "the instructions")
	}
	return message{fmt.Sprintf("accepted %s of the server %q; sessions that are running use them within seconds", strings.Join(names, ", "), b.Name)}, nil
}

// accepts asks whether something that has changed is accepted, which text describes, unless the user has agreed already.
func accepts(ctx context.Context, c *tool.CommandCall, server, title, text string) (bool, error) {
	if c.Confirmed() {
		return true, nil
	}
	a, err := c.Ask(ctx, tool.Question{Source: server, Title: title, Message: text, Options: []string{answerAccept, answerRefuse}})
	switch {
	case err != nil:
		return false, err
	case a.Declined:
		return false, fmt.Errorf("%s\nit was not accepted: %s; next: accept it on a terminal, or with --yes", text, cmp.Or(a.Note, "declined"))
	case a.Dismissed, a.Cancelled:
		return false, errors.New("nothing was accepted: the question was closed")
	}
	return string(a.JSON) == `"`+answerAccept+`"`, nil
}

// enabled returns the entry of a server that is not disabled.
func (p *mcpPlugin) enabled(b Server) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.mu.entries[b.Name]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("the server %q is disabled; next: set enabled = true in its block", b.Name)
}

// message is the output of a command that has only something to say.
type message struct {
	Message string `json:"message"`
}

// handler returns what logs in to a server.
func (p *mcpPlugin) handler(name string) (*entry, error) {
	b, err := p.block(name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	e := p.mu.entries[name]
	p.mu.Unlock()
	switch {
	case e == nil:
		return nil, fmt.Errorf("the server %q is disabled; next: set enabled = true in its block", name)
	case b.URL == "":
		return nil, fmt.Errorf("the server %q is a program, which gantry can't log in to; next: set what it needs with env in its block", name)
	case b.hasToken():
		return nil, fmt.Errorf("the server %q has a token in its block; next: remove bearer_token, or the header Authorization, to log in instead", name)
	case e.auth == nil:
		return nil, fmt.Errorf("the url of the server %q must begin with https://, because tokens are sent there", name)
	}
	return e, nil
}

// logIn is the command login.
func (p *mcpPlugin) logIn(ctx context.Context, c *tool.CommandCall, in nameArgs) (any, error) {
	e, err := p.handler(in.Name)
	if err != nil {
		return nil, err
	}
	o := e.block.OAuth
	if o == nil {
		o = &OAuth{}
	}
	renewals, err := e.auth.Login(ctx, func(ctx context.Context) (auth.Redirect, error) { return reserve(ctx, c, in.Name, o) },
		func(ctx context.Context, host, port string) error {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return fmt.Errorf("port %q: %w", port, err)
			}
			return c.Authorize(ctx, fmt.Sprintf("the server %q names it for its login", in.Name), contract.NetworkEffect{Host: host, Port: uint32(n)})
		})
	if err != nil {
		return nil, err
	}
	if renewals != "" && !sameHost(renewals, o.TokenURL) {
		// What has been authorized ends with the command, but tokens are renewed later, when nobody can be asked.
		if err := c.Set(renewals, "server", in.Name, "oauth", "token_url"); err != nil {
			return nil, err
		}
	}
	return message{fmt.Sprintf("logged in to the server %q", in.Name)}, nil
}

// reserve reserves the address to which the browser is redirected.
func reserve(ctx context.Context, c *tool.CommandCall, name string, o *OAuth) (auth.Redirect, error) {
	at := tool.RedirectAddress{Port: o.CallbackPort}
	if o.ClientID != "" {
		at.Path = "/callback" // it has been registered, so it is always the same
	}
	r, err := c.Redirect(ctx, at)
	if err != nil {
		return auth.Redirect{}, err
	}
	return auth.Redirect{URI: r.URI, Open: func(ctx context.Context, address string) (map[string]string, error) {
		a, err := c.Ask(ctx, tool.Question{Source: name, Title: "Open this page in a browser to log in", URL: address, RedirectID: r.ID})
		switch {
		case err != nil:
			return nil, err
		case a.Declined:
			return nil, errors.New(cmp.Or(a.Note, "the login was declined"))
		case a.Dismissed, a.Cancelled:
			return nil, errors.New("the login was cancelled")
		}
		return a.Query, nil
	}}, nil
}

// sameHost reports whether two URLs have the same scheme, host and port.
func sameHost(a, b string) bool {
	x, err1 := url.Parse(a)
	y, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Host, y.Host)
}

// logOut is the command logout.
func (p *mcpPlugin) logOut(ctx context.Context, _ *tool.CommandCall, in nameArgs) (any, error) {
	e, err := p.handler(in.Name)
	if err != nil {
		return nil, err
	}
	revoked := e.auth.Revoke(ctx) // before, so that no other process can renew it
	if err := e.auth.Logout(ctx); err != nil {
		return nil, err
	}
	if revoked != nil {
		return message{fmt.Sprintf("deleted the login to the server %q, but did not revoke it: %v; to revoke it, use the account's page of the service", in.Name, revoked)}, nil
	}
	return message{fmt.Sprintf("deleted and revoked the login to the server %q", in.Name)}, nil
}

type addArgs struct {
	Name      string            `json:"name" jsonschema:"Name of the server: letters, digits, - and _."`
	Command   []string          `json:"command,omitempty" jsonschema:"The program and its arguments."`
	URL       string            `json:"url,omitempty" jsonschema:"Address of a server that is reached over HTTP."`
	Transport string            `json:"transport,omitempty" jsonschema:"http or sse. Default: http."`
	Env       map[string]string `json:"env,omitempty" jsonschema:"Environment variable of the program, where secret:LABEL stands for a secret that gantry secret set has stored and env:VARIABLE for a variable of gantry."`
	Header    map[string]string `json:"header,omitempty" jsonschema:"Header of each request to the address, with values as for --env."`
	TokenEnv  string            `json:"token_env,omitempty" jsonschema:"Environment variable of gantry that has the bearer token of each request."`
	NoTry     bool              `json:"no_try,omitempty" jsonschema:"Do not start the server."`
}

// addServer is the command add.
func (p *mcpPlugin) addServer(_ context.Context, c *tool.CommandCall, in addArgs) (any, error) {
	switch _, err := p.block(in.Name); {
	case err == nil:
		return nil, fmt.Errorf("there is a server %q already; next: choose another name, or remove it with `gantry mcp remove %s`", in.Name, in.Name)
	case !serverName().MatchString(in.Name):
		return nil, fmt.Errorf("the name %q has other characters than letters, digits, - and _, or more than 64", in.Name)
	case (len(in.Command) == 0) == (in.URL == ""):
		return nil, fmt.Errorf("a server is either an address or a program; next: use `gantry mcp add %[1]s --url URL` or `gantry mcp add %[1]s -- COMMAND...`", in.Name)
	case in.URL == "" && (in.Transport != "" || len(in.Header) > 0 || in.TokenEnv != ""):
		return nil, errors.New("--transport, --header and --token-env are for servers with --url")
	case in.URL != "" && len(in.Env) > 0:
		return nil, errors.New("--env is for servers that are programs")
	}
	block := map[string]any{}
	if in.URL != "" {
		block["url"] = in.URL
	} else {
		block["command"] = in.Command[0]
	}
	if len(in.Command) > 1 {
		block["args"] = in.Command[1:]
	}
	for flag, set := range map[string]struct {
		argument string
		values   map[string]string
	}{"--env": {"env", in.Env}, "--header": {"headers", in.Header}} {
		if len(set.values) == 0 {
			continue
		}
		values, err := references(in.Name, flag, set.values)
		if err != nil {
			return nil, err
		}
		block[set.argument] = values
	}
	if in.Transport != "" {
		block["transport"] = in.Transport
	}
	if in.TokenEnv != "" {
		block["bearer_token"] = tool.FromEnv(in.TokenEnv)
	}
	if err := c.Set(block, "server", in.Name); err != nil {
		return nil, err
	}
	if !in.NoTry {
		if err := c.Continue("try", tryArgs{Name: in.Name}); err != nil {
			return nil, err
		}
		return message{fmt.Sprintf("added the server %q", in.Name)}, nil
	}
	next := fmt.Sprintf("`gantry mcp tools %s` shows what it offers", in.Name)
	if in.URL == "" {
		next = "accept the program with `gantry plugin lock mcp`"
	}
	return message{fmt.Sprintf("added the server %q; %s", in.Name, next)}, nil
}

// references returns the values of a flag's variables or headers with what they refer to. Secrets are refused.
func references(server, flag string, values map[string]string) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		kind, ref, _ := strings.Cut(value, ":")
		label, secret := foreign.Secret(server, name, value)
		switch {
		case (kind == "secret" || kind == "env") && strings.TrimSpace(ref) == "" && value != kind:
			return nil, fmt.Errorf("%s %s=%s: names nothing after %s:; next: write the label of a secret or the name of a variable there", flag, name, value, kind)
		case kind == "secret" && ref != "":
			out[name] = tool.FromSecret(ref)
		case kind == "env" && ref != "":
			out[name] = tool.FromEnv(ref)
		case secret:
			return nil, fmt.Errorf("the value of %[1]s %[2]s looks like a secret, which gantry does not write into its configuration; next: store it with `gantry secret set %[3]s` and use `%[1]s %[2]s=secret:%[3]s`, or `%[1]s %[2]s=env:VARIABLE` for a variable of gantry's environment", flag, name, label)
		default:
			out[name] = value
		}
	}
	return out, nil
}

// removeServer is the command remove.
func (p *mcpPlugin) removeServer(_ context.Context, c *tool.CommandCall, in nameArgs) (any, error) {
	if _, err := p.block(in.Name); err != nil {
		return nil, err
	}
	c.Remove("server", in.Name)
	return message{fmt.Sprintf("removed the server %q", in.Name)}, nil
}
