// Package foreign reads the MCP servers in configuration files of other programs.
//
// It owns: the forms of these files, what of a server can be carried over, and which values are secrets. It must not know: which servers
// are configured already, and how a configuration is changed.
//
// Start with [Parse].
package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
)

// Server is a server of a file.
type Server struct {
	Name  string         // as it can be a label: letters, digits, - and _, at most 64
	Place string         // where it is in the file, such as mcpServers.github
	Block map[string]any // the arguments of its block. References are objects {"$env": NAME, "$default": TEXT}
	Tools map[string]string
	Notes []Note // about what can't be carried over
}

// Note is something to be told about a place in the file.
type Note struct {
	Place, Text string
	Server      string // the name of a server that can't be carried over
}

// Result is what a file contains.
type Result struct {
	Servers []Server
	Notes   []Note // about servers, and settings of tools, that can't be carried over
}

const (
	maxServers = 500   // of a file
	maxEntries = 2_000 // including servers that are there more than once. Making the names of more different takes quadratic time

	// The parsers use stack for each bracket within others, and that of TOML quadratic time. Counting all brackets needs no parser.
	maxBrackets     = 200_000
	maxTOMLBrackets = 2_000
)

// brackets counts those that open something.
func brackets(text string) int { return strings.Count(text, "[") + strings.Count(text, "{") }

// Parse reads a file, whose form it finds out: that of Claude Code, and others with mcpServers, of VS Code, opencode or codex.
func Parse(text string) (Result, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	if brackets(text) > maxBrackets {
		return Result{}, fmt.Errorf("the file has more than %d brackets; next: make a file of its MCP servers alone", maxBrackets)
	}
	doc := map[string]any{}
	standard, jsonErr := hujson.Standardize([]byte(text))
	if jsonErr == nil {
		jsonErr = json.Unmarshal(standard, &doc)
	}
	if jsonErr != nil {
		switch {
		case strings.HasPrefix(strings.TrimSpace(text), "{"):
			return Result{}, fmt.Errorf("the file is not JSON: %w", jsonErr)
		case brackets(text) > maxTOMLBrackets:
			return Result{}, fmt.Errorf("the file is not JSON (%w), and has more than %d brackets, which is too much for TOML; next: make a file of its MCP servers alone", jsonErr, maxTOMLBrackets)
		}
		doc = map[string]any{}
		if _, err := toml.Decode(text, &doc); err != nil {
			return Result{}, fmt.Errorf("the file is neither JSON (%w) nor TOML (%w)", jsonErr, err)
		}
	}
	r := reader{names: map[string]string{}}
	found, total := false, 0
	each := func(convert func(*Server, fields), v any, at ...string) {
		servers, ok := v.(map[string]any)
		if !ok {
			return
		}
		found = true
		if total += len(servers); total > maxEntries {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			r.add(name, servers[name], convert, "", append(slices.Clip(at), name)...)
		}
	}
	each(claude, doc["mcpServers"], "mcpServers")
	each(claude, doc["servers"], "servers") // VS Code
	each(codex, doc["mcp_servers"], "mcp_servers")
	if m, ok := doc["mcp"].(map[string]any); ok {
		if inner, ok := m["servers"].(map[string]any); ok && inner["command"] == nil && inner["type"] == nil { // VS Code's settings.json
			each(claude, inner, "mcp", "servers")
		} else {
			each(opencode, m, "mcp")
			r.tools(doc["tools"], m)
		}
	}
	projects, _ := doc["projects"].(map[string]any)
	for _, dir := range slices.Sorted(maps.Keys(projects)) {
		p, _ := projects[dir].(map[string]any)
		servers, ok := p["mcpServers"].(map[string]any)
		if !ok {
			continue
		}
		found = true
		if total += len(servers); total > maxEntries {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			r.add(name, servers[name], claude, path.Base(dir), "projects", dir, "mcpServers", name)
		}
	}
	switch {
	case !found:
		return Result{}, errors.New("the file has no MCP servers: none of mcpServers, servers, mcp and mcp_servers is in it")
	case total > maxEntries || len(r.out.Servers)+len(r.out.Notes) > maxServers:
		return Result{}, fmt.Errorf("the file has more than %d servers", maxServers)
	}
	return r.out, nil
}

// reader collects servers.
type reader struct {
	out   Result
	names map[string]string // the form of the server that has a name
}

// errLeft says why a server can't be carried over.
type errLeft struct{ Note }

func (e errLeft) Error() string { return e.Text }

func (r *reader) add(name string, v any, convert func(*Server, fields), project string, at ...string) {
	place := placeOf(at)
	m, ok := v.(map[string]any)
	if !ok {
		r.out.Notes = append(r.out.Notes, Note{Place: place, Text: "it is not an object", Server: fit(name)})
		return
	}
	s := Server{Place: place, Block: map[string]any{}, Tools: map[string]string{}, Name: fit(name)}
	f := fields{place: at, left: maps.Clone(m)}
	if err := s.convert(convert, f); err != nil {
		err.Server = s.Name
		r.out.Notes = append(r.out.Notes, err.Note)
		return
	}
	for _, rest := range slices.Sorted(maps.Keys(f.left)) {
		s.note(f.at(rest), "gantry has no such setting")
	}
	form, _ := json.Marshal([]any{s.Block, s.Tools}) // of texts, numbers and lists
	candidates := []string{s.Name}
	if project != "" {
		candidates = append(candidates, clip(s.Name, 40)+"-"+clip(fit(project), 20))
	}
	for i := 0; ; i++ {
		if i == len(candidates) {
			candidates = append(candidates, fmt.Sprintf("%s-%d", clip(s.Name, 60), i+1))
		}
		taken, ok := r.names[candidates[i]]
		if ok && taken == string(form) {
			return // the same one once more
		}
		if !ok {
			s.Name = candidates[i]
			r.names[s.Name] = string(form)
			break
		}
	}
	r.out.Servers = append(r.out.Servers, s)
}

// tools notes which tools of servers opencode switches on or off; others are opencode's own.
func (r *reader) tools(v any, servers map[string]any) {
	m, _ := v.(map[string]any)
	for _, tool := range slices.Sorted(maps.Keys(m)) {
		of := strings.ContainsAny(tool, "*?")
		for name := range servers {
			of = of || strings.HasPrefix(tool, name+"_")
		}
		if of {
			r.out.Notes = append(r.out.Notes, Note{Place: placeOf([]string{"tools", tool}), Text: "gantry chooses the tools of a server with allow and deny in its block"})
		}
	}
}

// convert runs a conversion.
func (s *Server) convert(f func(*Server, fields), in fields) (left *errLeft) {
	defer func() {
		if v := recover(); v != nil {
			e, ok := v.(errLeft)
			if !ok {
				panic(v)
			}
			left = &e
		}
	}()
	f(s, in)
	if (s.Block["command"] == nil) == (s.Block["url"] == nil) {
		in.leave("it has neither a command nor a url, or both")
	}
	return nil
}

// leave ends the conversion of a server.
func (f fields) leave(text string, at ...string) {
	panic(errLeft{Note{Place: f.at(at...), Text: text}})
}

func (f fields) at(more ...string) string { return placeOf(append(slices.Clip(f.place), more...)) }

// placeOf writes a place as in TOML.
func placeOf(at []string) string {
	var b strings.Builder
	for i, name := range at {
		switch {
		case strings.HasPrefix(name, "["):
		case !plainName().MatchString(name):
			name = strconv.Quote(name)
			fallthrough
		default:
			if i > 0 {
				b.WriteByte('.')
			}
		}
		b.WriteString(name)
	}
	return b.String()
}

func (s *Server) note(place, text string) { s.Notes = append(s.Notes, Note{Place: place, Text: text}) }

var (
	plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]+$`) })
	envName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
)

// fit makes a name a label.
func fit(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && plainName().MatchString(string(r)) {
			return r
		}
		return '-'
	}, name)
	return cmp.Or(clip(strings.Trim(name, "-"), 64), "server")
}

func clip(s string, n int) string { return s[:min(len(s), n)] }

// overHTTP returns the types of servers that are reached by streamable HTTP. Without a type, a url says it.
func overHTTP() []string {
	return []string{"", "http", "streamable-http", "streamableHttp", "streamable_http", "remote"}
}

// claude converts a server of Claude Code, VS Code, and others with the same form.
func claude(s *Server, f fields) {
	kind := f.text(s, "type")
	command, args := f.text(s, "command"), f.texts("args")
	if command != "" {
		f.program(s, append([]string{command}, args...), true)
		f.variables(s, "env")
		s.set("cwd", f.folder(s, "cwd"))
	}
	f.address(s, f.text(s, "url"), "url")
	if s.Block["url"] != nil {
		f.headers(s, "headers")
		switch {
		case kind == "sse":
			s.Block["transport"] = "sse"
		case !slices.Contains(overHTTP(), kind):
			f.leave(fmt.Sprintf("gantry does not speak %q to servers, only http and sse", clip(kind, 40)), "type")
		}
		f.oauth(s, map[string]string{"clientId": "client_id", "callbackPort": "callback_port"})
	}
	if off, _ := f.flag("disabled"); off {
		s.note(f.at("disabled"), "it was disabled")
	}
}

// opencode converts a server of opencode.
func opencode(s *Server, f fields) {
	_ = f.text(s, "type")
	if argv := f.texts("command"); len(argv) > 0 {
		f.program(s, argv, false)
		f.variables(s, "environment")
		s.set("cwd", f.folder(s, "cwd"))
	}
	f.address(s, f.text(s, "url"), "url")
	if s.Block["url"] != nil {
		f.headers(s, "headers")
		f.oauth(s, map[string]string{"clientId": "client_id", "clientSecret": "client_secret", "scope": "scopes"})
	}
	f.duration(s, "timeout", "startup_timeout", true)
	if on, ok := f.flag("enabled"); ok && !on {
		s.note(f.at("enabled"), "it was disabled")
	}
}

// codex converts a server of codex.
func codex(s *Server, f fields) {
	command, args := f.text(s, "command"), f.texts("args")
	if command != "" {
		f.program(s, append([]string{command}, args...), true)
		f.variables(s, "env")
		env, _ := s.Block["env"].(map[string]any)
		if list, ok := f.left["env_vars"].([]any); ok {
			delete(f.left, "env_vars")
			for i, v := range list {
				if m, ok := v.(map[string]any); ok {
					v = m["name"]
				}
				name, ok := v.(string)
				if !ok || !envName().MatchString(name) {
					s.note(f.at("env_vars", fmt.Sprintf("[%d]", i)), "it is not the name of a variable")
					continue
				}
				if env == nil {
					env = map[string]any{}
				}
				env[name] = variable(name, "")
			}
			s.set("env", env)
		}
		s.set("cwd", f.folder(s, "cwd"))
	}
	f.address(s, f.text(s, "url"), "url")
	if s.Block["url"] != nil {
		f.headers(s, "http_headers")
		headers, _ := s.Block["headers"].(map[string]any)
		for name, from := range f.table("env_http_headers") {
			if headers == nil {
				headers = map[string]any{}
			}
			headers[name] = variable(from, "")
		}
		s.set("headers", headers)
		if v := f.text(s, "bearer_token_env_var"); v != "" {
			s.Block["bearer_token"] = variable(v, "")
		}
		oauth := map[string]any{}
		if scopes := f.texts("scopes"); len(scopes) > 0 {
			oauth["scopes"] = scopes
		}
		f.oauthInto(s, oauth, map[string]string{"client_id": "client_id"})
	}
	f.duration(s, "startup_timeout_ms", "startup_timeout", true)
	f.duration(s, "startup_timeout_sec", "startup_timeout", false)
	f.duration(s, "tool_timeout_sec", "call_timeout", false)
	if on, ok := f.flag("enabled"); ok && !on {
		s.note(f.at("enabled"), "it was disabled")
	}
	for theirs, ours := range map[string]string{"required": "required", "supports_parallel_tool_calls": "parallel"} {
		if on, _ := f.flag(theirs); on {
			s.Block[ours] = true
		}
	}
	s.set("allow", f.texts("enabled_tools"))
	s.set("deny", f.texts("disabled_tools"))
	s.set("approval", f.mode(s, f.text(s, "default_tools_approval_mode"), "default_tools_approval_mode"))
	tools, _ := f.left["tools"].(map[string]any)
	delete(f.left, "tools")
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		settings, _ := tools[name].(map[string]any)
		mode, _ := settings["approval_mode"].(string)
		if m := f.mode(s, mode, "tools", name, "approval_mode"); m != "" {
			s.Tools[name] = m
		}
	}
}
