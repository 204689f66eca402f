// Package credentialtest implements an OAuth 2.0 server that is as strict as a good vendor's, and a user with a browser.
//
// It owns which requests such a server rejects, the validity of its codes and tokens, and the record of what it issued. It does
// not know gantry, or where a client stores its tokens.
//
// Start with [New], or with [Start] for a listening server.
package credentialtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Config configures a server. The zero value has a public client called "client".
type Config struct {
	ClientID     string // default: "client"
	ClientSecret string
	SecretInBody bool          // the secret must be in the body rather than the Authorization header
	Lifetime     time.Duration // of an access token; 0: not stated, unlimited
	KeepRefresh  bool          // a refresh token stays valid; otherwise it works once, and using it again revokes the login
	Account      string        // the subject of an OpenID token; empty: no such token
	// Pending is how often a device must retry before the user is done, and SlowDown whether it must poll more slowly.
	Pending  int
	SlowDown bool
	Deny     bool // the user denies access
}

// Failure replaces a response of the token endpoint.
type Failure struct {
	Status int // 0: the connection breaks
	Body   string
	Header http.Header
	// After handles the request first: the response is lost.
	After bool
	// Hang never responds.
	Hang bool
}

// Server is the vendor's server.
type Server struct {
	URL string // set by Start
	cfg Config

	mu struct {
		sync.Mutex
		codes    map[string]*code
		devices  map[string]*device
		access   map[string]*grant
		refresh  map[string]*grant // including used ones
		failures []Failure
		granted  map[string]int // by grant type
		refused  []string
		secrets  []string
		account  string
	}
}

// grant is a login. Abuse revokes all its tokens.
type grant struct {
	over    bool
	refresh string // the valid one
	expires map[string]time.Time
	account string
}

type code struct {
	challenge, redirect string
	grant               *grant // the login of a used code
}

type device struct {
	code, user string
	pending    int
	interval   time.Duration
	next       time.Time // time of the next permitted poll
	slowed     bool
}

// New returns a server that does not listen.
func New(cfg Config) *Server {
	if cfg.ClientID == "" {
		cfg.ClientID = "client"
	}
	s := &Server{cfg: cfg}
	s.mu.codes, s.mu.devices = map[string]*code{}, map[string]*device{}
	s.mu.access, s.mu.refresh = map[string]*grant{}, map[string]*grant{}
	s.mu.granted, s.mu.account = map[string]int{}, cfg.Account
	return s
}

// Start returns a server that listens on loopback until the test ends.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	s := New(cfg)
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return s
}

// Fail makes the next responses of the token endpoint fail.
func (s *Server) Fail(f ...Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.failures = append(s.mu.failures, f...)
}

// As sets the account of the next login.
func (s *Server) As(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.account = account
}

// Live sets the lifetime of the next access tokens.
func (s *Server) Live(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Lifetime = d
}

// Revoke invalidates all access tokens; refresh tokens stay valid.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.mu.access)
}

// Good reports whether an access token is valid now.
func (s *Server) Good(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.mu.access[token]
	if g == nil || g.over {
		return false
	}
	end := g.expires[token]
	return end.IsZero() || time.Now().Before(end)
}

// Granted returns how often tokens were issued for a grant type: "authorization_code", "refresh_token" or "device_code".
func (s *Server) Granted(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.granted[kind]
}

// Refused returns the reasons for rejected requests, in order.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.refused)
}

// Secrets returns all issued codes and tokens, the received verifiers and states, and the client's secret.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.mu.secrets)
	if s.cfg.ClientSecret != "" {
		out = append(out, s.cfg.ClientSecret)
	}
	return out
}

// secret generates a secret.
func (s *Server) secret(kind string) string {
	v := kind + "-" + rand.Text()
	s.mu.secrets = append(s.mu.secrets, v)
	return v
}

// refusal is an error response.
type refusal struct {
	status     int
	name, text string
}

func (r *refusal) Error() string { return r.name + ": " + r.text }

func bad(name, format string, args ...any) error {
	return &refusal{http.StatusBadRequest, name, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler: /authorize, /token and /device.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/authorize" && r.Method == http.MethodGet:
		s.authorize(w, r)
	case r.URL.Path == "/token" && r.Method == http.MethodPost:
		s.answer(w, r, s.token)
	case r.URL.Path == "/device" && r.Method == http.MethodPost:
		s.answer(w, r, s.device)
	default:
		http.NotFound(w, r)
	}
}

// authorize is the login page, together with a user who always gives the same answer.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	redirect, err := s.asked(q)
	if err != nil {
		s.note(err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	s.mu.Lock()
	s.mu.secrets = append(s.mu.secrets, q.Get("state"))
	if s.cfg.Deny {
		back.Set("error", "access_denied")
		back.Set("error_description", "The person said no to "+q.Get("state"))
	} else {
		c := s.secret("code")
		s.mu.codes[c] = &code{challenge: q.Get("code_challenge"), redirect: redirect}
		back.Set("code", c)
	}
	s.mu.Unlock()
	http.Redirect(w, r, redirect+"?"+back.Encode(), http.StatusFound)
}

// asked validates an authorization request.
func (s *Server) asked(q url.Values) (redirect string, err error) {
	for name, values := range q {
		if len(values) != 1 {
			return "", bad("invalid_request", "%d times %s", len(values), name)
		}
	}
	redirect = q.Get("redirect_uri")
	u, err := url.Parse(redirect)
	switch {
	case q.Get("client_id") != s.cfg.ClientID:
		return "", bad("invalid_client", "client_id %q", q.Get("client_id"))
	case err != nil || u.Scheme != "http" || u.Hostname() != "127.0.0.1" || u.Path != "/callback" || u.RawQuery != "":
		return "", bad("invalid_request", "redirect_uri %q", redirect)
	case q.Get("response_type") != "code":
		return "", bad("unsupported_response_type", "%q", q.Get("response_type"))
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		return "", bad("invalid_request", "no challenge of S256")
	case len(q.Get("state")) < 22:
		return "", bad("invalid_request", "the state can be guessed")
	}
	return redirect, nil
}

func (s *Server) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.refused = append(s.mu.refused, err.Error())
}

// answer checks what all forms have in common.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, how func(url.Values) (map[string]any, error)) {
	failure := Failure{Status: http.StatusOK}
	s.mu.Lock()
	if r.URL.Path == "/token" && len(s.mu.failures) > 0 {
		failure, s.mu.failures = s.mu.failures[0], s.mu.failures[1:]
	}
	s.mu.Unlock()
	fails := failure.Status != http.StatusOK || failure.Body != "" || failure.Hang
	var body map[string]any
	err := r.ParseForm()
	if err == nil {
		err = s.client(r)
	}
	if err == nil && (!fails || failure.After) {
		body, err = how(r.PostForm)
	}
	if failure.Hang {
		<-r.Context().Done()
		return
	}
	if fails && failure.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	for name, values := range failure.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Cache-Control", "no-store")
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	if fails {
		w.WriteHeader(failure.Status)
		_, _ = w.Write([]byte(failure.Body)) // the client may be gone
		return
	}
	if err != nil {
		s.note(err)
		no, ok := err.(*refusal)
		if !ok {
			no = &refusal{http.StatusBadRequest, "invalid_request", err.Error()}
		}
		w.WriteHeader(no.status)
		body = map[string]any{"error": no.name, "error_description": no.text}
	}
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// client authenticates the client with the registered method.
func (s *Server) client(r *http.Request) error {
	if t := r.Header.Get("Content-Type"); t != "application/x-www-form-urlencoded" {
		return bad("invalid_request", "content type %q", t)
	}
	if r.URL.RawQuery != "" {
		return bad("invalid_request", "a query")
	}
	for name, values := range r.PostForm {
		if len(values) != 1 {
			return bad("invalid_request", "%d times %s", len(values), name)
		}
	}
	id, secret, inHeader := r.BasicAuth()
	no := &refusal{http.StatusUnauthorized, "invalid_client", "the client is not known"}
	switch {
	case s.cfg.ClientSecret == "" || s.cfg.SecretInBody:
		if inHeader || r.PostForm.Get("client_id") != s.cfg.ClientID || r.PostForm.Get("client_secret") != s.cfg.ClientSecret {
			return no
		}
	case !inHeader || id != url.QueryEscape(s.cfg.ClientID) || secret != url.QueryEscape(s.cfg.ClientSecret) || r.PostForm.Has("client_secret"):
		return no
	}
	return nil
}

// token issues tokens.
func (s *Server) token(form url.Values) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind := form.Get("grant_type"); kind {
	case "authorization_code":
		return s.forCode(form)
	case "refresh_token":
		return s.forRefresh(form.Get("refresh_token"))
	case "urn:ietf:params:oauth:grant-type:device_code":
		return s.forDevice(form.Get("device_code"))
	default:
		return nil, bad("unsupported_grant_type", "%q", kind)
	}
}

func (s *Server) forCode(form url.Values) (map[string]any, error) {
	verifier := form.Get("code_verifier")
	s.mu.secrets = append(s.mu.secrets, verifier)
	c := s.mu.codes[form.Get("code")]
	if c == nil {
		return nil, bad("invalid_grant", "no such code")
	}
	if c.grant != nil {
		c.grant.over = true
		return nil, bad("invalid_grant", "the code %s was used twice", form.Get("code"))
	}
	c.grant = &grant{over: true}
	sum := sha256.Sum256([]byte(verifier))
	switch {
	case len(verifier) < 43 || len(verifier) > 128 || strings.Trim(verifier, verifierLetters) != "":
		return nil, bad("invalid_request", "the verifier has %d letters", len(verifier))
	case base64.RawURLEncoding.EncodeToString(sum[:]) != c.challenge:
		return nil, bad("invalid_grant", "the verifier %s is not that of the challenge", verifier)
	case form.Get("redirect_uri") != c.redirect:
		return nil, bad("invalid_grant", "redirect_uri %q is not that of the login", form.Get("redirect_uri"))
	}
	c.grant = s.login()
	s.mu.granted["authorization_code"]++
	return s.issue(c.grant), nil
}

const verifierLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

func (s *Server) forRefresh(token string) (map[string]any, error) {
	g := s.mu.refresh[token]
	switch {
	case g == nil:
		return nil, bad("invalid_grant", "no such token")
	case token != g.refresh:
		g.over = true
		return nil, &refusal{http.StatusUnauthorized, "refresh_token_reused", "the token " + token + " was used before"}
	case g.over:
		return nil, &refusal{http.StatusUnauthorized, "refresh_token_invalidated", "the login was ended"}
	}
	s.mu.granted["refresh_token"]++
	return s.issue(g), nil
}

// slack is how early a device may poll: requests may take different times.
const slack = 200 * time.Millisecond

func (s *Server) forDevice(c string) (map[string]any, error) {
	d := s.mu.devices[c]
	now := time.Now()
	switch {
	case d == nil:
		return nil, bad("invalid_grant", "no such device")
	case now.Add(slack).Before(d.next):
		return nil, bad("invalid_request", "asked again %v too early", d.next.Sub(now))
	case s.cfg.Deny:
		return nil, bad("access_denied", "the person said no to %s", d.user)
	case s.cfg.SlowDown && !d.slowed:
		d.slowed = true
		d.interval += 5 * time.Second
		d.next = now.Add(d.interval)
		return nil, bad("slow_down", "too fast")
	case d.pending > 0:
		d.pending--
		d.next = now.Add(d.interval)
		return nil, bad("authorization_pending", "not yet")
	}
	delete(s.mu.devices, c)
	s.mu.granted["device_code"]++
	return s.issue(s.login()), nil
}

func (s *Server) login() *grant {
	return &grant{expires: map[string]time.Time{}, account: s.mu.account}
}

// issue generates a pair of tokens.
func (s *Server) issue(g *grant) map[string]any {
	access := s.secret("access")
	s.mu.access[access] = g
	out := map[string]any{"access_token": access, "token_type": "Bearer"}
	if s.cfg.Lifetime > 0 {
		g.expires[access] = time.Now().Add(s.cfg.Lifetime)
		out["expires_in"] = int(s.cfg.Lifetime.Seconds())
	}
	if g.refresh == "" || !s.cfg.KeepRefresh {
		g.refresh = s.secret("refresh")
		s.mu.refresh[g.refresh] = g
		out["refresh_token"] = g.refresh
	}
	if g.account != "" {
		claims, err := json.Marshal(map[string]string{"iss": "https://vendor.test", "sub": g.account})
		if err != nil {
			panic(err) // cannot fail: the value consists of strings
		}
		out["id_token"] = "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
	}
	return out
}

// device starts a login on another device.
func (s *Server) device(url.Values) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &device{code: s.secret("device"), user: "WDJB-MJHT", pending: s.cfg.Pending, interval: time.Second}
	d.next = time.Now().Add(d.interval)
	s.mu.devices[d.code] = d
	return map[string]any{
		"device_code": d.code, "user_code": d.user, "verification_uri": "https://vendor.test/device", "expires_in": 600, "interval": 1,
	}, nil
}

// Browse acts as a user who opens a login address in a browser and is redirected to the client. It returns the query of the
// redirect.
func (s *Server) Browse(client *http.Client, address string) (map[string]string, error) {
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := own.Get(address)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		return nil, fmt.Errorf("the page does not lead back: status %d", res.StatusCode)
	}
	out := map[string]string{}
	for name := range back.Query() {
		out[name] = back.Query().Get(name)
	}
	return out, nil
}
