package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen at once.
const patience = 30 * time.Second

// world is an MCP server and its authorization server, which is strict: what it does not like, it refuses and writes down.
type world struct {
	t         *testing.T
	api, auth *httptest.Server
	client    *http.Client
	secrets   *vault
	tools     http.Handler // the MCP server behind the tokens

	mu       sync.Mutex
	meta     map[string]any // of the authorization server
	place    string         // of the metadata of the resource
	resource string
	header   bool     // whether the challenge names the place
	iss      string   // what the browser's answer says
	lifetime int      // of tokens, in seconds
	rotate   bool     // whether refresh tokens are used once
	refuse   bool     // the MCP server refuses all tokens
	wrong    []string // complaints
	clients  map[string]map[string]any
	codes    map[string]url.Values // the request that each code was issued for
	access   map[string]string     // token to scopes
	refresh  map[string]string     // likewise
	spent    map[string]bool       // refresh tokens
	grants   map[string]int        // by grant type
	seen     []string              // scopes of logins
	intrude  func(w http.ResponseWriter, r *http.Request) bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, secrets: &vault{values: map[string]string{}, held: map[string]chan struct{}{}}, header: true, lifetime: 3600, rotate: true,
		clients: map[string]map[string]any{}, codes: map[string]url.Values{}, access: map[string]string{}, refresh: map[string]string{},
		spent: map[string]bool{}, grants: map[string]int{},
	}
	w.api, w.auth = httptest.NewServer(http.HandlerFunc(w.serveAPI)), httptest.NewServer(http.HandlerFunc(w.serveAuth))
	own := &http.Transport{}
	w.client = &http.Client{Transport: own}
	w.place, w.resource, w.iss = "/.well-known/oauth-protected-resource/mcp", w.api.URL+"/mcp", w.auth.URL
	w.meta = map[string]any{
		"issuer": w.auth.URL, "authorization_endpoint": w.auth.URL + "/authorize", "token_endpoint": w.auth.URL + "/token",
		"registration_endpoint": w.auth.URL + "/register", "response_types_supported": []string{"code"},
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		"scopes_supported": []string{"read", "write", "offline_access"},
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	for _, name := range []string{"read", "write"} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil
		})
	}
	w.tools = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	t.Cleanup(func() {
		own.CloseIdleConnections()
		for _, s := range []*httptest.Server{w.api, w.auth} {
			s.CloseClientConnections()
			s.Close()
		}
		for session := range s.Sessions() { // those whose end the server has refused
			_ = session.Close()
		}
	})
	return w
}

// handler returns a handler as it is in one process.
func (w *world) handler(change func(*Config)) *Handler {
	w.t.Helper()
	cfg := Config{Name: "linear", URL: w.api.URL + "/mcp", Client: w.client, Secrets: w.secrets, Lease: w.secrets.lease, Version: "1"}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(h.Close)
	return h
}

// set changes the world.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// reserve is a browser whose user agrees.
func (w *world) reserve(context.Context) (Redirect, error) {
	const uri = "http://127.0.0.1:49152/callback/1"
	return Redirect{URI: uri, Open: func(ctx context.Context, address string) (map[string]string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		resp, err := w.client.Transport.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		u, err := resp.Location()
		if err != nil {
			return nil, fmt.Errorf("the page says %s", resp.Status)
		}
		query := map[string]string{}
		for name := range u.Query() {
			query[name] = u.Query().Get(name)
		}
		return query, nil
	}}, nil
}

func (w *world) login(h *Handler) {
	w.t.Helper()
	if _, err := h.Login(within30(w.t), w.reserve, nil); err != nil {
		w.t.Fatal(err)
	}
}

// complaints returns what the servers have refused.
func (w *world) complaints() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.wrong, "; ")
}

func (w *world) count(grant string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.grants[grant]
}

// connect opens a session with the tokens of h.
func (w *world) connect(h *Handler) (*mcp.ClientSession, error) {
	w.t.Helper()
	tr, err := transport.HTTP{URL: h.cfg.URL, Transport: w.client.Transport, OAuth: h}.New()
	if err != nil {
		w.t.Fatal(err)
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := c.Connect(within30(w.t), tr, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err == nil {
		w.t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func call(t *testing.T, s *mcp.ClientSession, tool string) error {
	t.Helper()
	_, err := s.CallTool(within30(t), &mcp.CallToolParams{Name: tool})
	return err
}

func within30(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (w *world) serveAPI(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.intrude != nil && w.intrude(rw, r) {
		return
	}
	if r.URL.Path == w.place {
		answerJSON(rw, 200, map[string]any{"resource": w.resource, "authorization_servers": []string{w.auth.URL}, "scopes_supported": []string{"read"}})
		return
	}
	if strings.TrimSuffix(r.URL.Path, "/") != "/mcp" {
		http.NotFound(rw, r)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	scopes, known := w.access[token]
	challenge := `Bearer error="invalid_token"`
	if w.header {
		challenge += `, resource_metadata="` + w.api.URL + w.place + `"`
	}
	var message struct {
		Params struct{ Name string }
	}
	body := &strings.Builder{}
	if r.Body != nil {
		_ = json.NewDecoder(teeReader{r.Body, body}).Decode(&message)
	}
	switch need := message.Params.Name; {
	case !known || w.refuse:
		rw.Header().Set("WWW-Authenticate", challenge)
		rw.WriteHeader(401)
	case need != "" && !slices.Contains(strings.Fields(scopes), need):
		rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+need+`"`)
		rw.WriteHeader(403)
	default:
		r.Body = readCloser{strings.NewReader(body.String())}
		w.mu.Unlock()
		defer w.mu.Lock()
		w.tools.ServeHTTP(rw, r)
	}
}

func (w *world) serveAuth(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.intrude != nil && w.intrude(rw, r) {
		return
	}
	_ = r.ParseForm()
	refuse := func(code, why string) {
		w.wrong = append(w.wrong, why)
		answerJSON(rw, 400, map[string]any{"error": code, "error_description": why})
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /.well-known/oauth-authorization-server":
		answerJSON(rw, 200, w.meta)
	case "POST /register":
		var m map[string]any
		if json.NewDecoder(r.Body).Decode(&m) != nil || m["token_endpoint_auth_method"] != "none" || m["application_type"] != "native" {
			refuse("invalid_client_metadata", "not a public native client")
			return
		}
		id := "client-" + rand.Text()
		w.clients[id] = m
		answerJSON(rw, 201, map[string]any{"client_id": id, "client_id_issued_at": 1, "redirect_uris": m["redirect_uris"]})
	case "GET /authorize":
		q := r.URL.Query()
		redirects, _ := w.clients[q.Get("client_id")]["redirect_uris"].([]any)
		switch {
		case w.clients[q.Get("client_id")] == nil, !slices.Contains(redirects, any(q.Get("redirect_uri"))):
			refuse("invalid_request", "unknown client or redirect address")
		case q.Get("code_challenge_method") != "S256", q.Get("code_challenge") == "", q.Get("resource") != w.resource, q.Get("state") == "", q.Get("response_type") != "code":
			refuse("invalid_request", "PKCE, resource or state is missing")
		default:
			code := rand.Text()
			w.codes[code] = q
			w.seen = append(w.seen, q.Get("scope"))
			back := url.Values{"code": {code}, "state": {q.Get("state")}}
			if w.iss != "" {
				back.Set("iss", w.iss)
			}
			http.Redirect(rw, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
		}
	case "POST /token":
		w.serveToken(rw, r, refuse)
	default:
		http.NotFound(rw, r)
	}
}

// serveToken issues tokens. w.mu is held.
func (w *world) serveToken(rw http.ResponseWriter, r *http.Request, refuse func(code, why string)) {
	q, grant := r.PostForm, r.PostForm.Get("grant_type")
	w.grants[grant]++
	id, password, _ := r.BasicAuth()
	scopes := ""
	switch code := q.Get("code"); grant {
	case "authorization_code":
		asked := w.codes[code]
		delete(w.codes, code) // whatever happens
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
		granted, ok := w.refresh[token]
		switch {
		case w.spent[token]:
			clear(w.access)
			clear(w.refresh)
			refuse("invalid_grant", "a refresh token was used twice")
			return
		case !ok:
			answerJSON(rw, 400, map[string]any{"error": "invalid_grant"})
			return
		case q.Get("resource") != w.resource, !w.isClient(r):
			refuse("invalid_request", "a renewal without resource or client")
			return
		}
		if w.rotate {
			delete(w.refresh, token)
			w.spent[token] = true
		}
		scopes = granted
	case "client_credentials":
		if id != "machine" || password != "s3cret" || q.Get("resource") != w.resource {
			refuse("invalid_client", "wrong client or resource")
			return
		}
		scopes = q.Get("scope")
	default:
		refuse("unsupported_grant_type", grant)
		return
	}
	access := "access-" + rand.Text()
	w.access[access] = scopes
	out := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": w.lifetime, "scope": scopes}
	if grant != "client_credentials" && (grant != "refresh_token" || w.rotate) {
		refresh := "refresh-" + rand.Text()
		w.refresh[refresh] = scopes
		out["refresh_token"] = refresh
	}
	answerJSON(rw, 200, out)
}

// isClient reports whether a request is by a known client, which has authenticated if and only if it has a secret. w.mu is held.
func (w *world) isClient(r *http.Request) bool {
	id, password, basic := r.BasicAuth()
	client := w.clients[cmp.Or(id, r.PostForm.Get("client_id"))]
	secret, has := client["secret"]
	return client != nil && basic == has && (!has || secret == password)
}

func answerJSON(w http.ResponseWriter, code int, v any) {
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

// vault is a store and leases that several handlers share, as processes do.
type vault struct {
	mu     sync.Mutex
	values map[string]string
	held   map[string]chan struct{}
	fail   error  // of StoreSecret
	onSave func() // called by StoreSecret
}

func (v *vault) StoredSecret(_ context.Context, name string) (string, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.values[name]
	return s, ok, nil
}

func (v *vault) StoreSecret(ctx context.Context, name, value string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.onSave != nil {
		v.onSave()
	}
	if err := errors.Join(v.fail, ctx.Err()); err != nil {
		return err
	}
	if len(name) > 40 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return errors.New("invalid name " + name)
	}
	if value == "" {
		return errors.New("the value is empty")
	}
	v.values[name] = value
	return nil
}

func (v *vault) DeleteSecret(_ context.Context, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.values, name)
	return nil
}

func (v *vault) lease(ctx context.Context, name string, wait time.Duration) (func(), error) {
	v.mu.Lock()
	slot := v.held[name]
	if slot == nil {
		slot = make(chan struct{}, 1)
		v.held[name] = slot
	}
	v.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-timer.C:
		return nil, errors.New("busy")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// age makes the stored login of h look as if it ended at the given time.
func (w *world) age(h *Handler, left time.Duration) {
	w.t.Helper()
	w.secrets.mu.Lock()
	defer w.secrets.mu.Unlock()
	var l login
	if err := json.Unmarshal([]byte(w.secrets.values[h.key()]), &l); err != nil {
		w.t.Fatal(err)
	}
	l.Refreshed, l.Expiry = time.Now().Add(-time.Hour), time.Now().Add(left)
	b, err := json.Marshal(l)
	if err != nil {
		w.t.Fatal(err)
	}
	w.secrets.values[h.key()] = string(b)
}

// token returns the token that h would send; "": none.
func token(ctx context.Context, h *Handler) (string, error) {
	ts, err := h.TokenSource(ctx)
	if err != nil || ts == nil {
		return "", err
	}
	tok, err := ts.Token()
	if err != nil {
		return "", err
	}
	return tok.AccessToken, nil
}

// elsewhere is an http.RoundTripper that reaches hosts which do not exist: names to servers of the test.
type elsewhere map[string]string

func (e elsewhere) RoundTrip(req *http.Request) (*http.Response, error) {
	to, ok := e[req.URL.Host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: req.URL.Hostname(), IsNotFound: true}
	}
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host = u.Scheme, u.Host
	return http.DefaultTransport.RoundTrip(out)
}
