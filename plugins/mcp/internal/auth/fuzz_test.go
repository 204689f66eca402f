package auth

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
)

// What a server says about its login is read without harm: the place of the metadata is an http URL, and what gantry passes on to the
// SDK is understood there in the same way.
func FuzzChallenge(f *testing.F) {
	for _, s := range []string{
		`Bearer`, `Bearer resource_metadata="https://a.example/.well-known/oauth-protected-resource", scope="read write"`,
		`bearer scope="a"a", error="insufficient_scope"`, `Basic realm="x", Bearer error=invalid_token, resource_metadata=http://a/b`,
		`Negotiate abc==`, `Bearer resource_metadata="javascript:alert(1)"`, `Bearer resource_metadata="https://u:p@a/"`, `"`, `Bearer a="\"", b=","`,
		"Bearer scope=\"a\tb\u00a0c\\\\\"", `Bearer resource_metadata="https://a/?q=\",x=\""`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		c := readChallenge([]string{header})
		if c.metadata != "" {
			if u, err := url.Parse(c.metadata); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
				t.Fatalf("the metadata of %q is at %q", header, c.metadata)
			}
		}
		if len(c.scopes) > maxScopes {
			t.Fatalf("%d scopes", len(c.scopes))
		}
		_, resp := challenged(t.Context(), &url.URL{}, c.metadata, c.scopes)
		again := readChallenge(resp.Header.Values("WWW-Authenticate"))
		if again.metadata != c.metadata || strings.Join(again.scopes, " ") != strings.Join(c.scopes, " ") {
			t.Fatalf("%q is passed on as %q", header, resp.Header)
		}
	})
}

// documents answers each request with the same JSON.
type documents []byte

// RoundTrip implements http.RoundTripper.
func (d documents) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Request: req, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(d)),
	}, nil
}

// Metadata of any content is refused, or describes this server and leads to addresses to which secrets may be sent.
func FuzzMetadata(f *testing.F) {
	for _, s := range []string{
		`{"resource":"https://a.example/mcp","authorization_servers":["https://b.example"]}`, `{"resource":"https://a.example"}`,
		`{"resource":"https://a.example/mcp/"}`, `{"resource":"https://A.example:443/mcp"}`, `{"resource":"https://a.example@evil.example/mcp"}`,
		`{"resource":"https://a.example/other"}`, `{"resource":"https://a.example/mcp?x=1"}`, `{"resource":5}`, `[`, ``,
		`{"issuer":"https://a.example","token_endpoint":"http://b.example/t","code_challenge_methods_supported":["S256"]}`,
		`{"issuer":"https://a.example","token_endpoint":"https://b.example/t","code_challenge_methods_supported":["S256"]}`,
		`{"issuer":"https://a.example","authorization_endpoint":"javascript:1","code_challenge_methods_supported":["S256"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		h, err := New(Config{Name: "a", URL: "https://a.example/mcp", Client: &http.Client{Transport: documents(document)}})
		if err != nil {
			t.Fatal(err)
		}
		client, _ := h.client(nil)
		if where, resource, err := h.locate(t.Context(), client, ""); err == nil {
			path := strings.TrimRight(resource.Path, "/")
			if where == "" || resource.Scheme != "https" || !strings.EqualFold(resource.Hostname(), "a.example") || resource.User != nil || path != "" && path != "/mcp" {
				t.Fatalf("%s is taken for the metadata of the server: %v", document, resource)
			}
		}
		m, err := sdkauth.GetAuthServerMetadata(t.Context(), "https://a.example", client)
		if err != nil || m == nil {
			return
		}
		for _, s := range []string{m.TokenEndpoint, m.RegistrationEndpoint, m.AuthorizationEndpoint} {
			if u, err := url.Parse(s); s != "" && (err != nil || u.Scheme != "https" && !isLocal(u.Hostname())) {
				t.Fatalf("%s leads to %q", document, s)
			}
		}
	})
}
