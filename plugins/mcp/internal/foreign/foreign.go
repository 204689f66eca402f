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

// fields are the settings of one server. Those that are not read are told.
type fields struct {
	place []string
	left  map[string]any
}

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

// text takes a setting that is a text; "" if it is missing.
func (f fields) text(s *Server, name string) string {
	v, ok := f.left[name]
	if !ok {
		return ""
	}
	delete(f.left, name)
	t, ok := v.(string)
	if !ok {
		f.leave("it is not a text", name)
	}
	return t
}

// texts takes a setting that is a list of texts.
func (f fields) texts(name string) []string {
	v, ok := f.left[name]
	if !ok {
		return nil
	}
	delete(f.left, name)
	list, ok := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		t, isText := e.(string)
		ok = ok && isText
		out = append(out, t)
	}
	if !ok {
		f.leave("it is not a list of texts", name)
	}
	return out
}

// table takes a setting that is an object of texts, numbers and booleans, as texts.
func (f fields) table(name string) map[string]string {
	v, ok := f.left[name]
	if !ok {
		return nil
	}
	delete(f.left, name)
	m, ok := v.(map[string]any)
	if !ok {
		f.leave("it is not an object", name)
	}
	out := map[string]string{}
	for key, v := range m {
		switch v.(type) {
		case string, bool, float64, int64:
			out[key] = fmt.Sprint(v)
		default:
			f.leave("it is not a text", name, key)
		}
	}
	return out
}

// flag takes a boolean.
func (f fields) flag(name string) (value, ok bool) {
	v, there := f.left[name]
	if !there {
		return false, false
	}
	delete(f.left, name)
	if value, ok = v.(bool); !ok {
		f.leave("it is not true or false", name)
	}
	return value, true
}

// duration takes a number of units as a duration.
func (f fields) duration(s *Server, name, argument string, millis bool) {
	v, ok := f.left[name]
	if !ok {
		return
	}
	delete(f.left, name)
	n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if millis {
		n /= 1000
	}
	if err != nil || n <= 0 || n > 1e6 {
		s.note(f.at(name), "it is not a time that gantry can use")
		return
	}
	s.Block[argument] = strconv.FormatFloat(n*1000, 'f', 0, 64) + "ms"
}

// set sets an argument unless it is empty.
func (s *Server) set(argument string, v any) {
	switch x := v.(type) {
	case string:
		if x == "" {
			return
		}
	case []string:
		if len(x) == 0 {
			return
		}
	case map[string]any:
		if len(x) == 0 {
			return
		}
	}
	s.Block[argument] = v
}

// program sets the program and its arguments. split: the arguments are a setting of their own, args.
func (f fields) program(s *Server, argv []string, split bool) {
	place := func(i int) []string {
		switch {
		case !split:
			return []string{"command", fmt.Sprintf("[%d]", i)}
		case i == 0:
			return []string{"command"}
		}
		return []string{"args", fmt.Sprintf("[%d]", i-1)}
	}
	argv[0] = ofHome(argv[0])
	for i, a := range argv {
		previous := ""
		if i > 0 {
			previous = argv[i-1]
		}
		if secretArgument(a) || strings.HasPrefix(previous, "-") && !strings.HasPrefix(a, "-") && !strings.Contains(previous, "=") && secretPair(previous, a) {
			f.leave("it looks like a secret, and gantry keeps none among arguments; if the program can read it from a variable, add it with `gantry mcp add`", place(i)...)
		}
		if reference().MatchString(a) {
			what := "arguments"
			if i == 0 {
				what = "the name of a program"
			}
			s.note(f.at(place(i)...), fmt.Sprintf("gantry does not replace references in %s; write the value", what))
		}
	}
	s.set("command", argv[0])
	s.set("args", argv[1:])
}

// variables sets the environment.
func (f fields) variables(s *Server, name string) {
	env := map[string]any{}
	table := f.table(name)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		if v := f.value(s, key, table[key], name, key); v != nil {
			env[key] = v
		}
	}
	s.set("env", env)
}

// address sets the URL.
func (f fields) address(s *Server, url, at string) {
	if url == "" {
		return
	}
	_, query, _ := strings.Cut(url, "?")
	for part := range strings.SplitSeq(query, "&") {
		if name, value, ok := strings.Cut(part, "="); ok && looksSecret(name, value) {
			f.leave("a part of the url looks like a secret, and gantry keeps none in urls", at)
		}
	}
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		rest = url
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if strings.Contains(rest, "@") || looksSecret("", url) {
		f.leave("a part of the url looks like a secret, and gantry keeps none in urls", at)
	}
	if reference().MatchString(url) {
		f.leave("gantry does not replace references in urls", at)
	}
	s.set("url", url)
}

// headers sets the headers, and the bearer token if one has it.
func (f fields) headers(s *Server, name string) {
	headers := map[string]any{}
	table := f.table(name)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		value := table[key]
		if rest, ok := strings.CutPrefix(value, "Bearer "); ok && strings.EqualFold(key, "Authorization") {
			if v := f.value(s, "token", rest, name, key); v != nil {
				s.Block["bearer_token"] = v
			}
			continue
		}
		if v := f.value(s, key, value, name, key); v != nil {
			headers[key] = v
		}
	}
	s.set("headers", headers)
}

// reference matches what other programs replace in values, and whole one that is all of a value.
var (
	reference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{[^}]*\}|\{(env|file):[^}]*\}`) })
	whole     = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\})$`)
	})
	home  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:\$\{(?:env:)?HOME\}|\{env:HOME\})/`) })
	input = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$\{input:([^}]*)\}$`) })
)

// ofHome writes a path in the user's home folder as blocks do.
func ofHome(path string) string {
	if at := home().FindString(path); at != "" {
		return "~/" + path[len(at):]
	}
	return path
}

// variable is a reference to a variable of gantry's environment. With a default, even an empty one, the configuration is valid without it.
func variable(name, text string) map[string]any {
	return map[string]any{"$env": name, "$default": text}
}

// value returns the value of a variable or header, or a reference; nil if it can't be carried over, which is noted.
func (f fields) value(s *Server, name, value string, at ...string) any {
	if m := whole().FindStringSubmatch(value); m != nil {
		from := cmp.Or(m[1], m[3])
		if looksSecret(name, m[2]) || looksSecret(from, m[2]) {
			s.note(f.at(at...), fmt.Sprintf("the default of %s looks like a secret, and was not written; set the variable", from))
			return variable(from, "")
		}
		return variable(from, m[2])
	}
	if input().MatchString(value) || !reference().MatchString(value) && looksSecret(name, value) {
		secret := secretName(s.Name, name)
		s.note(f.at(at...), fmt.Sprintf("a secret, which was not written; store it with `gantry secret set %[1]s`, and write secret(\"%[1]s\") in the block", secret))
		return nil
	}
	if reference().MatchString(value) {
		s.note(f.at(at...), "gantry does not replace references within a value; set it in the block")
		return nil
	}
	return value
}

// Secret reports whether the value of a server's variable or header may be a secret, and proposes the name to store it under.
func Secret(server, name, value string) (label string, ok bool) {
	return secretName(server, name), looksSecret(name, value)
}

// secretName proposes the name of a secret.
func secretName(server, name string) string {
	return clip(strings.ToLower(server), 40) + "-" + strings.ToLower(strings.Trim(strings.ReplaceAll(fit(name), "_", "-"), "-"))
}

var (
	secretWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(token|secret|pass(?:w|phrase|code|[-_]|$)|api[-_]?key|access[-_]?key|private[-_]?key|^key$|[-_]key$|credential|authorization|^auth$|[-_]auth$|[-_]pat$|^pat$|cookie|session|dsn$|connection[-_]?string|database[-_]?url)`)
	})
	secretForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[^A-Za-z0-9])(sk-[A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{15,}|xox[abposr]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{15,}\.|ya29\.|lin_api_|ntn_|npm_[A-Za-z0-9]{20,}|-----BEGIN )|://[^/\s:@]*:[^/\s@]+@`)
	})
	// secretHeader matches a header, or a member of an object, within a longer text. Paths and images before a colon are none.
	secretHeader = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:^|[\s"'{,=])[\w-]*(?:authorization|cookie|token|secret|passw(?:or)?d|passphrase|api[-_]?key|access[-_]?key|private[-_]?key|[-_]key|[-_]auth)["']?\s*:\s*["']?[^\s"']{6,}|\bbearer\s+\S+`)
	})
	// bareReference matches a reference without a default, and the scheme of a header before it.
	bareReference = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:\b(?:bearer|basic|token)\s+)?(?:\$\{(?:(?:env|input):)?[^}:]*\}|\{(?:env|file):[^}:]*\})`)
	})
)

// looksSecret reports whether a value may be a secret, by its name or by its form.
func looksSecret(name, value string) bool {
	if value == "" {
		return false
	}
	return secretForm().MatchString(value) || secretHeader().MatchString(value) || secretPair(name, value)
}

// secretPair reports whether a value may be a secret by its name.
func secretPair(name, value string) bool {
	return len(value) >= 6 && value != "true" && value != "false" && secretWord().MatchString(name)
}

// secretArgument reports whether an argument may contain a secret, such as --header=X-Api-Key:TEXT, --env=API_KEY=TEXT or a script with one.
func secretArgument(a string) bool {
	if looksSecret("", bareReference().ReplaceAllString(a, "")) {
		return true
	}
	for name, rest, ok := strings.Cut(a, "="); ok; name, rest, ok = strings.Cut(rest, "=") {
		if secretPair(name, rest) {
			return true
		}
	}
	return false
}

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

// mode returns an approval mode.
func (f fields) mode(s *Server, mode string, at ...string) string {
	if mode != "" && !slices.Contains([]string{"auto", "prompt", "writes", "approve"}, mode) {
		s.note(f.at(at...), fmt.Sprintf("gantry has no mode %q", clip(mode, 40)))
		return ""
	}
	if mode == "approve" {
		s.note(f.at(at...), "calls will not be asked about; for questions, set approval to auto or prompt in the block")
	}
	return mode
}

// folder returns a folder, which must be absolute: it is not known where the file belongs.
func (f fields) folder(s *Server, name string) string {
	dir := ofHome(f.text(s, name))
	if dir != "" && (!path.IsAbs(dir) && !strings.HasPrefix(dir, "~/") || reference().MatchString(dir)) {
		s.note(f.at(name), "it is not an absolute path; set cwd in the block")
		return ""
	}
	return dir
}

func (f fields) oauth(s *Server, names map[string]string) { f.oauthInto(s, map[string]any{}, names) }

// oauthInto sets how to log in, besides what is known of it.
func (f fields) oauthInto(s *Server, oauth map[string]any, names map[string]string) {
	v, ok := f.left["oauth"]
	delete(f.left, "oauth")
	m, _ := v.(map[string]any)
	for _, theirs := range slices.Sorted(maps.Keys(m)) {
		ours, known := names[theirs]
		switch v := m[theirs].(type) {
		case string:
			switch {
			case !known:
				s.note(f.at("oauth", theirs), "gantry has no such setting")
			case ours == "scopes":
				oauth[ours] = strings.Fields(v)
			case ours == "client_secret":
				if v := f.value(s, "client_secret", v, "oauth", theirs); v != nil {
					oauth[ours] = v
				}
			default:
				oauth[ours] = v
			}
		case float64:
			if ours == "callback_port" {
				oauth[ours] = v
				continue
			}
			s.note(f.at("oauth", theirs), "gantry has no such setting")
		default:
			s.note(f.at("oauth", theirs), "gantry has no such setting")
		}
	}
	if ok && m == nil && v != false {
		s.note(f.at("oauth"), "it is not an object")
	}
	headers, _ := s.Block["headers"].(map[string]any)
	token := s.Block["bearer_token"] != nil || slices.ContainsFunc(slices.Collect(maps.Keys(headers)), func(h string) bool { return strings.EqualFold(h, "Authorization") })
	switch {
	case len(oauth) == 0:
	case token:
		at := "oauth"
		if !ok {
			at = "scopes"
		}
		s.note(f.at(at), fmt.Sprintf("left out: %s, because a server has either a login or a token; to log in, replace the token in the block by oauth", strings.Join(slices.Sorted(maps.Keys(oauth)), ", ")))
	default:
		s.Block["oauth"] = oauth
	}
}
