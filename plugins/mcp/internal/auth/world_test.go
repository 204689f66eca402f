package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/gantry-agent/gantry/plugins/mcp/authtest"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen at once.
const patience = 30 * time.Second

// world is the servers, and what the processes of a user share.
type world struct {
	*authtest.World
	t       *testing.T
	secrets *vault
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{authtest.New(t), t, &vault{values: map[string]string{}, held: map[string]chan struct{}{}}}
}

// handler returns a handler as it is in one process.
func (w *world) handler(change func(*Config)) *Handler {
	w.t.Helper()
	cfg := Config{Name: "linear", URL: w.API.URL + "/mcp", Client: w.Client, Secrets: w.secrets, Lease: w.secrets.lease, Version: "1"}
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

// reserve is a browser whose user agrees.
func (w *world) reserve(context.Context) (Redirect, error) {
	const uri = "http://127.0.0.1:49152/callback/1"
	return Redirect{URI: uri, Open: func(ctx context.Context, address string) (map[string]string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		resp, err := w.Client.Transport.RoundTrip(req)
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

// loggedIn returns a handler that has logged in.
func loggedIn(t *testing.T) (*world, *Handler) {
	t.Helper()
	w := newWorld(t)
	h := w.handler(nil)
	w.login(h)
	return w, h
}

// connect opens a session with the tokens of h.
func (w *world) connect(h *Handler) (*mcp.ClientSession, error) {
	w.t.Helper()
	tr, err := transport.HTTP{URL: h.cfg.URL, Transport: w.Client.Transport, OAuth: h}.New()
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
