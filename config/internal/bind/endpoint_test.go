package bind

import (
	"reflect"
	"testing"

	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// endpoints is a schema with endpoints of all kinds.
func endpoints() contract.ConfigBlock {
	url := func(name, ty string, sensitive bool) contract.ConfigAttribute {
		a := attribute(name, ty)
		a.Endpoint, a.Sensitive = true, sensitive
		return a
	}
	return contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{
			attribute("other", `"string"`), url("url", `"string"`, false), url("mirrors", `["list","string"]`, false),
			url("named", `["map","string"]`, false), url("hook", `"string"`, true),
		},
		Blocks: []contract.ConfigNestedBlock{
			{Name: "server", Labels: []string{"name"}, Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{
				attribute("other", `"string"`), url("url", `"string"`, false),
			}}},
			{Name: "plain", MinItems: 1, Block: contract.ConfigBlock{Attributes: []contract.ConfigAttribute{attribute("other", `"string"`)}}},
		},
	}
}

func TestEndpoints(t *testing.T) {
	for _, tt := range []struct {
		name   string
		layers []string // the second one is a project's
		want   []Endpoint
	}{
		{"none", []string{"other = \"https://other.test\"\nplain {}"}, nil},
		{"text", []string{`url = "https://A.test./mcp?x=1"`}, []Endpoint{{Host: "a.test", Port: 443}}},
		{"port, user and scheme", []string{`url = "ws://me:pass@a.test:8080"`}, []Endpoint{{Host: "a.test", Port: 8080}}},
		{"IPv6", []string{`url = "http://[::1]:3000/mcp"`}, []Endpoint{{Host: "::1", Port: 3000}}},
		{"list and map", []string{"mirrors = [\"http://a.test\", \"\"]\nnamed = { x = \"wss://b.test\" }"}, []Endpoint{{Host: "a.test", Port: 80}, {Host: "b.test", Port: 443}}},
		{"secret", []string{`hook = "https://hook.test/${secret("s")}"`}, []Endpoint{{Host: "hook.test", Port: 443}}},
		{"blocks", []string{"server \"a\" { url = \"https://a.test\" }\nserver \"b\" { url = \"https://b.test\" }"}, []Endpoint{{Host: "a.test", Port: 443}, {Host: "b.test", Port: 443}}},
		{"another setting is wrong", []string{"url = \"https://a.test\"\nother = env(\"NOPE\")\nnope = 1"}, []Endpoint{{Host: "a.test", Port: 443}}},
		{"invalid ones are left out", []string{`mirrors = ["ftp://a.test", "a.test", "https://b.test"]`}, []Endpoint{{Host: "b.test", Port: 443}}},
		{"of the project", []string{`url = "https://a.test"`, `url = "https://b.test"`}, []Endpoint{{Host: "b.test", Port: 443, Project: true}}},
		{"of a project's block", []string{`server "a" { url = "https://a.test" }`, `server "a" { other = "x" }`}, []Endpoint{{Host: "a.test", Port: 443}}},
		{"overridden in a project's block", []string{`server "a" { other = "x" }`, `server "a" { url = "http://127.0.0.1" }`}, []Endpoint{{Host: "127.0.0.1", Port: 80, Project: true}}},
	} {
		b := block(t, tt.layers...)
		if len(b.Fragments) > 1 {
			b.Fragments[1].Scope = function.NewScope(function.Sources{Project: true}, "/")
		}
		if got := b.Endpoints(endpoints()); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestInvalidEndpoints(t *testing.T) {
	for text, want := range map[string]string{
		`url = "a.test"`:                        `"a.test" is not the URL of a service: its scheme is none of http, https, ws and wss.`,
		`url = "https://"`:                      `"https://" is not the URL of a service: it has no valid host.`,
		`url = "https://a.test:0"`:              `"https://a.test:0" is not the URL of a service: it has no valid port.`,
		`mirrors = ["https://a.test", "ftp:x"]`: `"ftp:x" is not the URL of a service: its scheme is none of http, https, ws and wss.`,
		`hook = "hush"`:                         "It is not the URL of a service.",
	} {
		_, _, ds := block(t, text+"\nplain {}").Decode(endpoints(), Use)
		if len(ds) != 1 || ds[0].Detail != want || ds[0].Range.Start.Line != 1 || ds[0].Next == "" {
			t.Errorf("%s: %+v, want %q", text, ds, want)
		}
	}
}
