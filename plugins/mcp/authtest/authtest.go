// Package authtest has an MCP server that wants a login, and a strict authorization server for it.
//
// It owns: what the two servers answer, and what they refuse. It must not know: how a client logs in.
//
// Start with [New].
package authtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// World is an MCP server and its authorization server, which is strict: what it does not like, it refuses and writes down. Its fields are
// changed in [World.Set].
type World struct {
	API, Auth *httptest.Server
	Client    *http.Client // reaches both
	Tools     http.Handler // the MCP server behind the tokens; it has the tools read and write, each of which needs the scope of its name

	sync.Mutex
	Meta     map[string]any // of the authorization server
	Place    string         // of the metadata of the resource
	Resource string
	Header   bool     // whether the challenge names the place
	Iss      string   // what the browser's answer says
	Lifetime int      // of tokens, in seconds
	Rotate   bool     // whether refresh tokens are used once
	Refuse   bool     // the MCP server refuses all tokens
	Wrong    []string // complaints
	Clients  map[string]map[string]any
	Codes    map[string]url.Values                             // the request that each code was issued for
	Access   map[string]string                                 // token to scopes
	Refresh  map[string]string                                 // likewise
	Spent    map[string]bool                                   // refresh tokens
	Grants   map[string]int                                    // by grant type
	Seen     []string                                          // scopes of logins
	Intrude  func(w http.ResponseWriter, r *http.Request) bool // answers a request instead; nil: it does not
}

// New starts both servers, which end with the test.
func New(t *testing.T) *World {
	t.Helper()
	w := &World{
		Header: true, Lifetime: 3600, Rotate: true,
		Clients: map[string]map[string]any{}, Codes: map[string]url.Values{}, Access: map[string]string{}, Refresh: map[string]string{},
		Spent: map[string]bool{}, Grants: map[string]int{},
	}
	w.API, w.Auth = httptest.NewServer(http.HandlerFunc(w.ServeAPI)), httptest.NewServer(http.HandlerFunc(w.ServeAuth))
	own := &http.Transport{}
	w.Client = &http.Client{Transport: own}
	w.Place, w.Resource, w.Iss = "/.well-known/oauth-protected-resource/mcp", w.API.URL+"/mcp", w.Auth.URL
	w.Meta = map[string]any{
		"issuer": w.Auth.URL, "authorization_endpoint": w.Auth.URL + "/authorize", "token_endpoint": w.Auth.URL + "/token",
		"registration_endpoint": w.Auth.URL + "/register", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		"scopes_supported": []string{"read", "write", "offline_access"},
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	for _, name := range []string{"read", "write"} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
		})
	}
	s.AddResource(&mcp.Resource{URI: "note://a", Name: "a"}, nil)
	w.Tools = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	t.Cleanup(func() {
		own.CloseIdleConnections()
		for _, s := range []*httptest.Server{w.API, w.Auth} {
			s.CloseClientConnections()
			s.Close()
		}
		for session := range s.Sessions() { // those whose end the server has refused
			_ = session.Close()
		}
	})
	return w
}

// Set changes the world.
func (w *World) Set(f func()) {
	w.Lock()
	defer w.Unlock()
	f()
}

// Complaints returns what the servers have refused.
func (w *World) Complaints() string {
	w.Lock()
	defer w.Unlock()
	return strings.Join(w.Wrong, "; ")
}

// Count returns how many requests for tokens there were, by grant type.
func (w *World) Count(grant string) int {
	w.Lock()
	defer w.Unlock()
	return w.Grants[grant]
}

// ServeAPI is the MCP server.
func (w *World) ServeAPI(rw http.ResponseWriter, r *http.Request) {
	w.Lock()
	defer w.Unlock()
	if w.Intrude != nil && w.Intrude(rw, r) {
		return
	}
	if r.URL.Path == w.Place {
		AnswerJSON(rw, 200, map[string]any{"resource": w.Resource, "authorization_servers": []string{w.Auth.URL}, "scopes_supported": []string{"read"}})
		return
	}
	if strings.TrimSuffix(r.URL.Path, "/") != "/mcp" {
		http.NotFound(rw, r)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	scopes, known := w.Access[token]
	challenge := `Bearer error="invalid_token"`
	if w.Header {
		challenge += `, resource_metadata="` + w.API.URL + w.Place + `"`
	}
	var message struct {
		Params struct{ Name string }
	}
	body := &strings.Builder{}
	if r.Body != nil {
		_ = json.NewDecoder(teeReader{r.Body, body}).Decode(&message)
	}
	switch need := message.Params.Name; {
	case !known || w.Refuse:
		rw.Header().Set("WWW-Authenticate", challenge)
		rw.WriteHeader(401)
	case need != "" && !slices.Contains(strings.Fields(scopes), need):
		rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+need+`"`)
		rw.WriteHeader(403)
	default:
		r.Body = readCloser{strings.NewReader(body.String())}
		w.Unlock()
		defer w.Lock()
		w.Tools.ServeHTTP(rw, r)
	}
}

// ServeAuth is the authorization server.
func (w *World) ServeAuth(rw http.ResponseWriter, r *http.Request) {
	w.Lock()
	defer w.Unlock()
	if w.Intrude != nil && w.Intrude(rw, r) {
		return
	}
	_ = r.ParseForm()
	refuse := func(code, why string) {
		w.Wrong = append(w.Wrong, why)
		AnswerJSON(rw, 400, map[string]any{"error": code, "error_description": why})
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /.well-known/oauth-authorization-server":
		AnswerJSON(rw, 200, w.Meta)
	case "POST /register":
		var m map[string]any
		if json.NewDecoder(r.Body).Decode(&m) != nil || m["token_endpoint_auth_method"] != "none" || m["application_type"] != "native" {
			refuse("invalid_client_metadata", "not a public native client")
			return
		}
		id := "client-" + rand.Text()
		w.Clients[id] = m
		AnswerJSON(rw, 201, map[string]any{"client_id": id, "client_id_issued_at": 1, "redirect_uris": m["redirect_uris"]})
	case "GET /authorize":
		q := r.URL.Query()
		redirects, _ := w.Clients[q.Get("client_id")]["redirect_uris"].([]any)
		switch {
		case w.Clients[q.Get("client_id")] == nil, !slices.Contains(redirects, any(q.Get("redirect_uri"))):
			refuse("invalid_request", "unknown client or redirect address")
		case q.Get("code_challenge_method") != "S256", q.Get("code_challenge") == "", q.Get("resource") != w.Resource, q.Get("state") == "", q.Get("response_type") != "code":
			refuse("invalid_request", "PKCE, resource or state is missing")
		default:
			code := rand.Text()
			w.Codes[code] = q
			w.Seen = append(w.Seen, q.Get("scope"))
			back := url.Values{"code": {code}, "state": {q.Get("state")}}
			if w.Iss != "" {
				back.Set("iss", w.Iss)
			}
			http.Redirect(rw, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
		}
	case "POST /revoke":
		token := r.PostForm.Get("token")
		if !w.isClient(r) {
			refuse("invalid_client", "a client does not authenticate as it should")
			return
		}
		w.Grants["revoke "+r.PostForm.Get("token_type_hint")]++
		delete(w.Access, token)
		delete(w.Refresh, token)
	case "POST /token":
		w.serveToken(rw, r, refuse)
	default:
		http.NotFound(rw, r)
	}
}

// serveToken issues tokens. w.mu is held.
func (w *World) serveToken(rw http.ResponseWriter, r *http.Request, refuse func(code, why string)) {
	q, grant := r.PostForm, r.PostForm.Get("grant_type")
	w.Grants[grant]++
	id, password, _ := r.BasicAuth()
	scopes := ""
	switch code := q.Get("code"); grant {
	case "authorization_code":
		asked := w.Codes[code]
		delete(w.Codes, code) // whatever happens
		sum := sha256.Sum256([]byte(q.Get("code_verifier")))
		switch {
		case asked == nil:
			refuse("invalid_grant", "a code was used twice")
			return
		case !w.isClient(r):
			refuse("invalid_client", "a client does not authenticate as it should")
			return
		case asked.Get("client_id") != cmp.Or(id, q.Get("client_id")), asked.Get("redirect_uri") != q.Get("redirect_uri"), asked.Get("resource") != q.Get("resource"),
			base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge"):
			refuse("invalid_grant", "the code was issued for another client, resource or verifier")
			return
		}
		scopes = asked.Get("scope")
	case "refresh_token":
		token := q.Get("refresh_token")
		granted, ok := w.Refresh[token]
		switch {
		case w.Spent[token]:
			clear(w.Access)
			clear(w.Refresh)
			refuse("invalid_grant", "a refresh token was used twice")
			return
		case !ok:
			AnswerJSON(rw, 400, map[string]any{"error": "invalid_grant"})
			return
		case q.Get("resource") != w.Resource, !w.isClient(r):
			refuse("invalid_request", "a renewal without resource or client")
			return
		}
		if w.Rotate {
			delete(w.Refresh, token)
			w.Spent[token] = true
		}
		scopes = granted
	case "client_credentials":
		if id != "machine" || password != "s3cret" || q.Get("resource") != w.Resource {
			refuse("invalid_client", "wrong client or resource")
			return
		}
		scopes = q.Get("scope")
	default:
		refuse("unsupported_grant_type", grant)
		return
	}
	access := "access-" + rand.Text()
	w.Access[access] = scopes
	out := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": w.Lifetime, "scope": scopes}
	if grant != "client_credentials" && (grant != "refresh_token" || w.Rotate) {
		refresh := "refresh-" + rand.Text()
		w.Refresh[refresh] = scopes
		out["refresh_token"] = refresh
	}
	AnswerJSON(rw, 200, out)
}

// isClient reports whether a request is by a known client, which has authenticated if and only if it has a secret. w.mu is held.
func (w *World) isClient(r *http.Request) bool {
	id, password, basic := r.BasicAuth()
	client := w.Clients[cmp.Or(id, r.PostForm.Get("client_id"))]
	secret, has := client["secret"]
	return client != nil && basic == has && (!has || secret == password)
}

// AnswerJSON answers a request with JSON.
func AnswerJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

type teeReader struct {
	r interface{ Read([]byte) (int, error) }
	w *strings.Builder
}

func (t teeReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.w.Write(p[:n])
	return n, err
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
