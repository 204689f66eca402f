package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// parsed parses tools as a server lists them.
func parsed(t *testing.T, list ...string) (out []catalog.Tool) {
	t.Helper()
	for _, raw := range list {
		tool, err := catalog.ParseTool(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tool)
	}
	return out
}

// offered returns what the plugin offers of servers whose tools are known, by server.
func offered(t *testing.T, blocks []Server, tools map[string][]catalog.Tool, instructions string) (list []contract.Descriptor, sources []contract.Source) {
	t.Helper()
	p, env := &mcpPlugin{}, &tool.Env{Logger: hclog.NewNullLogger()}
	entries := map[string]*entry{}
	for _, b := range blocks {
		s := server.New(server.Config{Name: b.Name, Client: &mcp.Implementation{Name: "gantry", Version: "1"}, Tools: tools[b.Name], Instructions: instructions})
		t.Cleanup(s.Close)
		entries[b.Name] = &entry{block: b, server: s, kept: memory{Tools: tools[b.Name], Instructions: instructions}, accepted: newAccepted(env, b)}
	}
	ts, sources := p.offer(t.Context(), env, entries)
	for _, tool := range ts {
		list = append(list, tool.Descriptor())
	}
	return list, sources
}

// What the block and the server say of a tool decides how it is offered.
func TestOffer(t *testing.T) {
	t.Parallel()
	tools := parsed(t,
		`{"name":"z.last"}`, `{"name":"a-b","title":"The A","description":"does a","inputSchema":{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"number"}}},"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`,
		`{"name":"a_a","inputSchema":{"properties":{"x":{"const":1}}},"annotations":{"readOnlyHint":false}}`)
	list, sources := offered(t, []Server{
		{Name: "my-srv", Approval: "auto", Tool: []Override{{Name: "a_a", Approval: "prompt"}}, Defer: true},
		{Name: "other", Approval: "writes", Parallel: true, Required: true},
	}, map[string][]catalog.Tool{"my-srv": tools, "other": tools[:1]}, "How to use it.")
	var got []string
	for _, d := range list {
		e := d.Effects[0].(contract.ServiceEffect)
		hint := func(b *bool) string {
			if b == nil {
				return "?"
			}
			return strconv.FormatBool(*b)[:1]
		}
		got = append(got, fmt.Sprintf("%s.%s %s of %s, %q: %s; asks %s %s by %s, hints %s%s%s%s; deferred %v, parallel %v, unchecked %v", d.Namespace, d.Name, d.HookName, d.Source, d.Description, d.InputSchema,
			e.Service, e.Action, e.Approval, hint(e.ReadOnly), hint(e.Destructive), hint(e.Idempotent), hint(e.OpenWorld), d.Exposure == contract.ExposureDeferred, d.ParallelSafe, d.UncheckedArguments))
	}
	want := []string{ // sorted by the name that the model sees
		`mcp__my_srv.a_a mcp__my_srv__a_a of my-srv, "": {"properties":{"x":{"enum":[1],"type":"string"}},"type":"object"}; asks my-srv a_a by prompt, hints f???; deferred true, parallel false, unchecked true`,
		`mcp__my_srv.a_b mcp__my_srv__a_b of my-srv, "does a": {"properties":{"a":{"type":"number"},"b":{"type":"string"}},"type":"object"}; asks my-srv a-b by auto, hints tftf; deferred true, parallel true, unchecked false`,
		`mcp__my_srv.z_last mcp__my_srv__z_last of my-srv, "": {"properties":{},"type":"object"}; asks my-srv z.last by auto, hints ????; deferred true, parallel false, unchecked false`,
		`mcp__other.z_last mcp__other__z_last of other, "": {"properties":{},"type":"object"}; asks other z.last by writes, hints ????; deferred false, parallel true, unchecked false`,
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("offered\n%s\nwant\n%s", g, w)
	}
	if !strings.Contains(list[1].SearchText, "a-b") || !strings.Contains(list[1].SearchText, "The A") || !strings.Contains(list[1].SearchText, "my-srv") {
		t.Errorf("searched by %q", list[1].SearchText)
	}
	for i, want := range []contract.Source{
		{Name: "my-srv", State: contract.SourceReady, Description: "How to use it."}, {Name: "other", State: contract.SourceReady, Required: true, Description: "How to use it."},
	} {
		if !reflect.DeepEqual(sources[i], want) {
			t.Errorf("source %+v, want %+v", sources[i], want)
		}
	}
}

// All servers together say no more than a message to the host holds, and each says what it had no room for.
func TestOfferIsBounded(t *testing.T) {
	t.Parallel()
	var blocks []Server
	tools := map[string][]catalog.Tool{}
	for i := range 5 {
		name := fmt.Sprint("s", i)
		blocks = append(blocks, Server{Name: name})
		var raw []string
		for n := range 250 {
			raw = append(raw, fmt.Sprintf(`{"name":"t%d","description":%q}`, n, strings.Repeat("x", 15<<10)))
		}
		tools[name] = parsed(t, raw...)
	}
	list, sources := offered(t, blocks, tools, strings.Repeat("i", 512<<10))
	size := 0
	for _, d := range list {
		size += len(d.Description)
	}
	for _, s := range sources {
		size += len(s.Description)
	}
	if size > maxAll || size < maxAll*3/4 {
		t.Errorf("%d bytes", size)
	}
	if s := sources[0]; s.Message != "" || s.Description == "" {
		t.Errorf("the first one: %q", s.Message)
	}
	last := sources[4]
	if !strings.Contains(last.Message, "250 of its tools are left out") || !strings.Contains(last.Message, "12 MiB; next: choose some with allow or deny") {
		t.Errorf("the last one: %q", last.Message)
	}
}

// A setting that does not fit the server is an error at its place.
func TestBlocks(t *testing.T) {
	t.Parallel()
	secret := configblock.NewSecret("x")
	times := func(s Server) Server {
		s.StartupTimeout, s.CallTimeout, s.Idle = time.Second, time.Second, time.Second
		return s
	}
	program, address := times(Server{Name: "s"}), times(Server{Name: "s", URL: "https://a.test/mcp"})
	program.Command = "x"
	with := func(s Server, change func(*Server)) Server {
		change(&s)
		return s
	}
	for _, tc := range []struct {
		where string // the path of the error; empty: there is none
		what  string
		block Server
	}{
		{"", "", program},
		{"", "", address},
		{"server.0.args", "args is not for a server that is an address", with(address, func(s *Server) { s.Args = []string{"a"} })},
		{"server.0.env", "env is not for a server that is an address", with(address, func(s *Server) { s.Env = []string{"A"} })},
		{"server.0.cwd", "cwd is not for a server that is an address", with(address, func(s *Server) { s.Cwd = "/" })},
		{"server.0.headers", "headers is not for a server that is a program", with(program, func(s *Server) { s.Headers = map[string]configblock.Secret{"A": secret} })},
		{"server.0.bearer_token", "bearer_token is not for a server that is a program", with(program, func(s *Server) { s.BearerToken = secret })},
		{"server.0.transport", "transport is not for a server that is a program", with(program, func(s *Server) { s.Transport = "sse" })},
		{"server.0.oauth", "oauth is not for a server that is a program", with(program, func(s *Server) { s.OAuth = &OAuth{Registration: true} })},
		{"server.0.url", "both a command and a url", with(program, func(s *Server) { s.URL = "https://a.test" })},
		{"server.0", "neither a command nor a url", times(Server{Name: "s"})},
		{"server.0", "has other characters than", with(program, func(s *Server) { s.Name = "a.b" })},
		{"server.0.headers", "is not the name of a header", with(address, func(s *Server) { s.Headers = map[string]configblock.Secret{"a b": secret} })},
		{"server.0.startup_timeout", "startup_timeout must be positive", with(program, func(s *Server) { s.StartupTimeout = 0 })},
		{"server.0.call_timeout", "call_timeout must be positive", with(program, func(s *Server) { s.CallTimeout = -1 })},
		{"server.0.idle", "idle must be positive", with(program, func(s *Server) { s.Idle = -1 })},
	} {
		err := (&Config{Server: []Server{tc.block}}).check()
		ds := configblock.Diagnostics(err)
		if tc.where == "" {
			if err != nil {
				t.Errorf("%+v: %v", tc.block, err)
			}
			continue
		}
		if len(ds) != 1 || !strings.Contains(ds[0].Summary, tc.what) || place(ds[0].Path) != tc.where {
			t.Errorf("%v, want %q at %s", err, tc.what, tc.where)
			continue
		}
	}
	twice := Config{Server: []Server{program, address}}
	if ds := configblock.Diagnostics(twice.check()); len(ds) != 1 || !strings.Contains(ds[0].Summary, "appears twice") || place(ds[0].Path) != "server.1" {
		t.Errorf("%+v", ds)
	}
}

func place(steps []contract.Step) string {
	var out []string
	for _, s := range steps {
		if s.Kind == contract.StepIndex {
			out = append(out, fmt.Sprint(s.Index))
		} else {
			out = append(out, s.Name)
		}
	}
	return strings.Join(out, ".")
}

// What is remembered belongs to a block: any change but of what only a login sets is another server.
func TestMemory(t *testing.T) {
	t.Parallel()
	id := func(b Server) string {
		t.Helper()
		s, err := identity(b)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := Server{Name: "s", URL: "https://a.test", OAuth: &OAuth{Registration: true, Grant: authorizationCode}}
	same := base
	same.OAuth = nil
	if id(base) != id(same) {
		t.Error("an empty oauth block makes another server")
	}
	same.OAuth = &OAuth{Registration: true, Grant: authorizationCode, TokenURL: "https://b.test"}
	if id(base) != id(same) {
		t.Error("what a login has set makes another server")
	}
	seen := map[string]string{id(base): "the block"}
	for name, change := range map[string]func(*Server){
		"name": func(s *Server) { s.Name = "t" }, "url": func(s *Server) { s.URL = "https://b.test" }, "allow": func(s *Server) { s.Allow = []string{"a"} },
		"args": func(s *Server) { s.Args = []string{"a"} }, "token": func(s *Server) { s.BearerToken = configblock.NewSecret("x") }, "protocol": func(s *Server) { s.Protocol = "x" },
	} {
		b := base
		change(&b)
		if other, ok := seen[id(b)]; ok {
			t.Errorf("%s: the same as %s", name, other)
		}
		seen[id(b)] = name
	}
	dir, want := t.TempDir(), memory{Tools: parsed(t, `{"name":"a","annotations":{"readOnlyHint":true}}`), Instructions: "use it"}
	if got := recall(dir, "x"); got.Tools != nil {
		t.Errorf("nothing is remembered as %+v", got)
	}
	if err := remember(dir, "x", want); err != nil {
		t.Fatal(err)
	}
	got := recall(dir, "x")
	a, err1 := json.Marshal(got)
	b, err2 := json.Marshal(want)
	if err := errors.Join(err1, err2); err != nil || string(a) != string(b) {
		t.Errorf("%s, want %s, %v", a, b, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tools-x.json"), []byte(`{"tools":[{"Name":"a"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := recall(dir, "x"); got.Tools != nil {
		t.Errorf("half a file is %+v", got)
	}
	if err := remember(filepath.Join(dir, "missing"), "x", want); err == nil {
		t.Error("a folder that is missing is no error")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
}

func TestHeaders(t *testing.T) { // M12
	t.Parallel()
	seen := make(chan http.Header, 10)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.WriteHeader(http.StatusForbidden)
	}))
	defer web.Close()
	broken := configblock.Secret{}
	for _, tc := range []struct {
		name  string
		block Server
		want  string // X-Fixed, X-Env, X-Blank, Authorization and the agent; or the error
	}{
		{"all", Server{Headers: map[string]configblock.Secret{"x-fixed": configblock.NewSecret("a"), "X-Env": configblock.NewSecret("b"), "X-Blank": configblock.NewSecret(" ")}, BearerToken: configblock.NewSecret("t")},
			`["a"] ["b"] [] ["Bearer t"] ["gantry/7"]`},
		{"none", Server{}, `[] [] [] [] ["gantry/7"]`},
		{"no header", Server{Headers: map[string]configblock.Secret{"X-Env": broken}}, "the header X-Env: secret is not configured"},
		{"no token", Server{BearerToken: configblock.NewSecret("")}, "bearer_token is empty"},
	} {
		tc.block.URL = web.URL
		p := &mcpPlugin{version: "7"}
		client := &http.Client{Transport: &http.Transport{}}
		link, err := p.opener(client, &entry{block: tc.block})(t.Context())
		if err != nil {
			if !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if _, err := mcp.NewClient(&mcp.Implementation{Name: "x", Version: "1"}, nil).Connect(t.Context(), link.Transport, &mcp.ClientSessionOptions{ProtocolVersion: server.DefaultProtocol}); err == nil || !link.Retry {
			t.Errorf("%s: error %v, retry %v", tc.name, err, link.Retry)
		}
		h := <-seen
		if got := fmt.Sprintf("%q %q %q %q %q", h["X-Fixed"], h["X-Env"], h["X-Blank"], h["Authorization"], h["User-Agent"]); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		link.Close()
	}
}
