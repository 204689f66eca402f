package foreign

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shown formats what was read, one line for each server and note.
func shown(r Result) string {
	var b strings.Builder
	for _, s := range r.Servers {
		block, _ := json.Marshal(s.Block)
		fmt.Fprintf(&b, "%s %s %s", s.Name, s.Place, block)
		for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
			fmt.Fprintf(&b, " %s=%s", name, s.Tools[name])
		}
		b.WriteByte('\n')
		for _, n := range s.Notes {
			fmt.Fprintf(&b, "  %s: %s\n", n.Place, n.Text)
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "! %s %s: %s\n", n.Server, n.Place, n.Text)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ file, want string }{
		"claude": {
			`{"mcpServers": {
				"git hub!": {"type": "stdio", "command": "npx", "args": ["-y", "server"], "env": {"GITHUB_TOKEN": "ghp_0123456789012345678901", "HOST": "example.com", "KEY": "${KEY}", "LEVEL": "${LEVEL:-high}", "URL": "https://${HOST}/x"}},
				"web": {"type": "http", "url": "https://a.test/mcp", "headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "blue"}, "alwaysLoad": true},
				"old": {"type": "sse", "url": "https://a.test/sse", "headers": {"Authorization": "Bearer literal-token"}},
				"key": {"command": "x", "args": ["--api-key", "0123456789"]},
				"query": {"url": "https://a.test/?api_key=0123456789"},
				"none": {}, "odd": 3, "wrong": {"command": ["x"]}}}`,
			`git-hub mcpServers."git hub!" {"args":["-y","server"],"command":"npx","env":{"HOST":"example.com","KEY":{"$default":"","$env":"KEY"},"LEVEL":{"$default":"high","$env":"LEVEL"}}}
  mcpServers."git hub!".env.GITHUB_TOKEN: a secret, which was not written; store it with ` + "`gantry secret set git-hub-github-token`" + `, and write secret("git-hub-github-token") in the block
  mcpServers."git hub!".env.URL: gantry does not replace references within a value; set it in the block
old mcpServers.old {"transport":"sse","url":"https://a.test/sse"}
  mcpServers.old.headers.Authorization: a secret, which was not written; store it with ` + "`gantry secret set old-token`" + `, and write secret("old-token") in the block
web mcpServers.web {"bearer_token":{"$default":"","$env":"TOKEN"},"headers":{"X-Team":"blue"},"url":"https://a.test/mcp"}
  mcpServers.web.alwaysLoad: gantry has no such setting
! key mcpServers.key.args[1]: it looks like a secret, and gantry keeps none among arguments; if the program can read it from a variable, add it with ` + "`gantry mcp add`" + `
! none mcpServers.none: it has neither a command nor a url, or both
! odd mcpServers.odd: it is not an object
! query mcpServers.query.url: a part of the url looks like a secret, and gantry keeps none in urls
! wrong mcpServers.wrong.command: it is not a text
`,
		},
		"claude's own": {
			`{"numStartups": 3, "mcpServers": {"a": {"command": "x"}}, "projects": {"/home/me/app": {"mcpServers": {"a": {"command": "y"}, "b": {"command": "z"}}}, "/srv/web": {"mcpServers": {"b": {"command": "z"}}}, "/none": {}}}`,
			`a mcpServers.a {"command":"x"}
a-app projects."/home/me/app".mcpServers.a {"command":"y"}
b projects."/home/me/app".mcpServers.b {"command":"z"}
`,
		},
		"vscode": {
			`{
				// a comment
				"inputs": [{"id": "key", "type": "promptString"}],
				"servers": {"db": {"command": "db", "env": {"PASSWORD": "${input:key}", "HOME_DIR": "${env:HOME}"}, "envFile": ".env", "cwd": "${workspaceFolder}"},},
			}`,
			`db servers.db {"command":"db","env":{"HOME_DIR":{"$default":"","$env":"HOME"}}}
  servers.db.env.PASSWORD: a secret, which was not written; store it with ` + "`gantry secret set db-password`" + `, and write secret("db-password") in the block
  servers.db.cwd: it is not an absolute path; set cwd in the block
  servers.db.envFile: gantry has no such setting
`,
		},
		"opencode": {
			`{"$schema": "x", "mcp": {"l": {"type": "local", "command": ["bun", "x"], "environment": {"A": "{env:A}"}, "enabled": false, "timeout": 9000},
				"r": {"type": "remote", "url": "https://a.test", "oauth": {"clientId": "me", "clientSecret": "{env:S}", "scope": "a b"}}}}`,
			`l mcp.l {"args":["x"],"command":"bun","env":{"A":{"$default":"","$env":"A"}},"startup_timeout":"9000ms"}
  mcp.l.enabled: it was disabled
r mcp.r {"oauth":{"client_id":"me","client_secret":{"$default":"","$env":"S"},"scopes":["a","b"]},"url":"https://a.test"}
`,
		},
		"codex": {
			`model = "x"
[mcp_servers.a]
command = "a"
args = ["1"]
env_vars = ["HOME_X", { name = "OTHER" }]
startup_timeout_sec = 12.5
tool_timeout_sec = 60
enabled_tools = ["x"]
default_tools_approval_mode = "prompt"
required = true
environment_id = "local"
[mcp_servers.a.tools.x]
approval_mode = "approve"
[mcp_servers.a.tools.y]
approval_mode = "odd"
[mcp_servers.b]
url = "https://b.test"
bearer_token_env_var = "TOKEN"
env_http_headers = { X-A = "A" }
supports_parallel_tool_calls = true
`,
			`a mcp_servers.a {"allow":["x"],"approval":"prompt","args":["1"],"call_timeout":"60000ms","command":"a","env":{"HOME_X":{"$default":"","$env":"HOME_X"},"OTHER":{"$default":"","$env":"OTHER"}},"required":true,"startup_timeout":"12500ms"} x=approve
  mcp_servers.a.tools.x.approval_mode: calls will not be asked about; for questions, set approval to auto or prompt in the block
  mcp_servers.a.tools.y.approval_mode: gantry has no mode "odd"
  mcp_servers.a.environment_id: gantry has no such setting
b mcp_servers.b {"bearer_token":{"$default":"","$env":"TOKEN"},"headers":{"X-A":{"$default":"","$env":"A"}},"parallel":true,"url":"https://b.test"}
`,
		},
		"references in programs and folders": {
			`{"mcpServers": {"a": {"command": "${HOME}/x", "args": ["${HOME}/y"], "cwd": "${HOME}/z"}, "b": {"command": "${BIN}/x"}}, "mcp": {"c": {"type": "local", "command": ["{env:HOME}/x", "{env:Y}"]}}}`,
			`a mcpServers.a {"args":["${HOME}/y"],"command":"~/x","cwd":"~/z"}
  mcpServers.a.args[0]: gantry does not replace references in arguments; write the value
b mcpServers.b {"command":"${BIN}/x"}
  mcpServers.b.command: gantry does not replace references in the name of a program; write the value
c mcp.c {"args":["{env:Y}"],"command":"~/x"}
  mcp.c.command[1]: gantry does not replace references in arguments; write the value
`,
		},
		"a login beside a token": {
			`{"mcp": {"a": {"type": "remote", "url": "https://a.test", "headers": {"Authorization": "Bearer {env:T}"}, "oauth": {"clientId": "me", "scope": "x"}},
				"b": {"type": "remote", "url": "https://b.test", "headers": {"authorization": "{env:T}"}, "oauth": {"clientId": "me"}}}}`,
			`a mcp.a {"bearer_token":{"$default":"","$env":"T"},"url":"https://a.test"}
  mcp.a.oauth: left out: client_id, scopes, because a server has either a login or a token; to log in, replace the token in the block by oauth
b mcp.b {"headers":{"authorization":{"$default":"","$env":"T"}},"url":"https://b.test"}
  mcp.b.oauth: left out: client_id, because a server has either a login or a token; to log in, replace the token in the block by oauth
`,
		},
		"another transport": {
			`{"mcpServers": {"a": {"type": "ws", "url": "https://a.test"}, "b": {"type": "streamable-http", "url": "https://b.test"}}}`,
			"b mcpServers.b {\"url\":\"https://b.test\"}\n! a mcpServers.a.type: gantry does not speak \"ws\" to servers, only http and sse\n",
		},
		"tools of opencode": {
			`{"tools": {"jira_*": false, "jira_get": true, "bash": false}, "mcp": {"jira": {"type": "local", "command": ["jira"]}}}`,
			"jira mcp.jira {\"command\":\"jira\"}\n!  tools.\"jira_*\": gantry chooses the tools of a server with allow and deny in its block\n!  tools.jira_get: gantry chooses the tools of a server with allow and deny in its block\n",
		},
		"names that are equal once they fit": {
			`{"mcpServers": {"a b": {"command": "1"}, "a.b": {"command": "2"}, "a/b": {"command": "1"}, "!": {"command": "3"}}}`,
			"server mcpServers.\"!\" {\"command\":\"3\"}\na-b mcpServers.\"a b\" {\"command\":\"1\"}\na-b-2 mcpServers.\"a.b\" {\"command\":\"2\"}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(tc.file)
			if got := shown(r); err != nil || got != tc.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, tc.want)
			}
		})
	}
	for file, want := range map[string]string{
		"{": "not JSON", "a b": "neither JSON", `{"a": 1}`: "no MCP servers", "": "no MCP servers", "x = 1": "no MCP servers", `{"mcpServers": []}`: "no MCP servers",
	} {
		if _, err := Parse(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

// A file that would overflow the stack or take long is refused.
func TestBounds(t *testing.T) {
	var servers strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&servers, `%q: {"command": "%d"},`, "a"+string(rune(0x4e00+i)), i) // each name fits as "a"
	}
	for name, tc := range map[string]struct{ file, want string }{
		"arrays":        {strings.Repeat("[", 4<<20), "more than 200000 brackets"},
		"objects":       {strings.Repeat(`{"a":`, 4<<20), "more than 200000 brackets"},
		"deep JSON":     {strings.Repeat(`{"a":`, maxBrackets), "not JSON"},
		"TOML arrays":   {"a = " + strings.Repeat("[", 4<<20), "more than 200000 brackets"},
		"TOML tables":   {"a = " + strings.Repeat("{a=", maxTOMLBrackets+1), "more than 2000 brackets"},
		"servers":       {`{"mcpServers": {` + servers.String() + `}}`, "more than 500 servers"},
		"many projects": {`{"projects": {"/p": {"mcpServers": {` + servers.String() + `}}}}`, "more than 500 servers"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(tc.file); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// No secret is in a block, wherever it is in the file, and what is none is carried over.
func TestSecrets(t *testing.T) {
	const text = "hunter2hunter2"
	for _, server := range []string{
		`{"command": "x", "env": {"API_KEY": "${API_KEY:-hunter2hunter2}"}}`,
		`{"command": "x", "env": {"A": "${API_KEY:-hunter2hunter2}"}}`,
		`{"url": "https://a.test", "headers": {"Authorization": "Bearer ${T:-hunter2hunter2}"}}`,
		`{"url": "https://a.test", "headers": {"X-A": "Bearer hunter2hunter2"}}`,
		`{"command": "x", "args": ["--header", "Authorization: Bearer hunter2hunter2"]}`,
		`{"command": "x", "args": ["--header", "Authorization:hunter2hunter2"]}`,
		`{"command": "x", "args": ["--header=X-Api-Key: hunter2hunter2"]}`,
		`{"command": "x", "args": ["-HX-Api-Key: ${A:-hunter2hunter2}"]}`,
		`{"command": "docker", "args": ["run", "--env=API_KEY=hunter2hunter2", "x"]}`,
		`{"command": "sh", "args": ["-c", "A=1 API_KEY=hunter2hunter2 x"]}`,
		`{"command": "sh", "args": ["-c", "curl -H 'X-Api-Key: hunter2hunter2'"]}`,
		`{"command": "x", "args": ["--config", "{\"apiKey\": \"hunter2hunter2\"}"]}`,
		`{"command": "x", "env": {"DB_PASS": "hunter2hunter2"}}`,
		`{"command": "x", "env": {"SSH_PASSPHRASE": "hunter2hunter2"}}`,
		`{"url": "https://hunter2hunter2@a.test"}`,
		`{"url": "https://hunter2hunter2@a.test?x=1"}`,
	} {
		r, err := Parse(`{"mcpServers": {"a": ` + server + `}}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := shown(r); strings.Contains(got, text) || len(r.Notes) == 0 && len(r.Servers[0].Notes) == 0 {
			t.Errorf("%s\n%s", server, got)
		}
	}
	for _, args := range []string{
		`["--header", "Authorization: Bearer ${TOKEN}"]`, `["--header", "Authorization:${AUTH_HEADER}"]`, `["--header", "X-Team: everyone"]`,
		`["-v", "/run/api_key:/run/secrets/api_key"]`, `["mcp/secret:latest"]`, `["--a=b=c"]`, `["--url", "https://a.test/@scope/x"]`,
	} {
		r, err := Parse(`{"mcpServers": {"a": {"command": "x", "args": ` + args + `}}}`)
		if err != nil || len(r.Servers) != 1 {
			t.Errorf("%s: %v\n%s", args, err, shown(r))
		}
	}
}

// Whatever a file contains, its names can be labels, each is used once, a block is a program or an address, and no text that has the form of
// a secret is in a block.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"mcpServers": {"a": {"command": "x", "args": ["--token=0123456789"], "env": {"A_TOKEN": "ghp_0123456789012345678901"}}}}`,
		`{"projects": {"/p": {"mcpServers": {"a": {"type": "http", "url": "https://a.test?x=1", "headers": {"Authorization": "Bearer xyz"}}}}}}`,
		`{"mcp": {"l": {"type": "local", "command": ["x"], "timeout": 1e99}, "r": {"url": "https://u:p@a.test", "oauth": {"clientId": "c"}}}}`,
		"[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [1, \"A\"]\nstartup_timeout_sec = 1\n[mcp_servers.a.tools.t]\napproval_mode = \"auto\"\n",
		`{"servers": {"a": {"command": "x", "env": {"P": "${input:p}"}}, /* c */ },}`, "{", "a = [", `{"mcpServers": {"\u0000": {"command": "x", "oauth": {"clientId": 3}}}}`,
	} {
		f.Add(seed)
	}
	label := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range r.Servers {
			if !label.MatchString(s.Name) || seen[s.Name] {
				t.Errorf("the name %q, seen: %v", s.Name, seen[s.Name])
			}
			seen[s.Name] = true
			if (s.Block["command"] == nil) == (s.Block["url"] == nil) {
				t.Errorf("%v", s.Block)
			}
			for _, texts := range []any{s.Block["env"], s.Block["headers"]} {
				m, _ := texts.(map[string]any)
				for name, v := range m {
					if ref, ok := v.(map[string]any); ok {
						v = ref["$default"]
					}
					if v, ok := v.(string); ok && looksSecret(name, v) {
						t.Errorf("%s = %q is in the block", name, v)
					}
				}
			}
			if _, err := json.Marshal(s.Block); err != nil {
				t.Error(err)
			}
		}
		again, err := Parse(text)
		if err != nil || shown(again) != shown(r) {
			t.Errorf("another result the second time: %v\n%s\n%s", err, shown(r), shown(again))
		}
	})
}
