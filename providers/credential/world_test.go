package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gantry-agent/gantry/providers/credential/credentialtest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a vendor, a vault and the way between them and us, in a bubble of time.
type world struct {
	t      *testing.T
	vendor *credentialtest.Server
	vault  *vault
	client *http.Client
	lag    time.Duration // of each answer
	hosts  map[string]int
}

// inWorld runs a story. Its clock stands still while something works and jumps when all wait.
func inWorld(t *testing.T, cfg credentialtest.Config, story func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ln := bufconn.Listen(64 << 10)
		w := &world{t: t, vendor: credentialtest.New(cfg), vault: newVault(), hosts: map[string]int{}}
		server := &http.Server{Handler: w.vendor}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(ln) }) // says that it was closed
		transport := &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.DialContext(ctx) },
			DisableKeepAlives: true,
		}
		w.client = &http.Client{Transport: lagging{w, transport}}
		defer serving.Wait()
		defer server.Close()
		story(t, w)
	})
}

// lagging is a slow way.
type lagging struct {
	w    *world
	next http.RoundTripper
}

func (l lagging) RoundTrip(r *http.Request) (*http.Response, error) {
	l.w.vault.mu.Lock()
	l.w.hosts[r.URL.Host]++
	lag := l.w.lag
	l.w.vault.mu.Unlock()
	res, err := l.next.RoundTrip(r)
	select {
	case <-time.After(lag):
	case <-r.Context().Done():
		if err == nil {
			res.Body.Close()
		}
		return nil, r.Context().Err()
	}
	return res, err
}

// slow makes the answers late.
func (w *world) slow(by time.Duration) {
	w.vault.mu.Lock()
	defer w.vault.mu.Unlock()
	w.lag = by
}

// passes lets time go by.
func (w *world) passes(d time.Duration) { time.Sleep(d) } // in the bubble

// requests is how often the vendor was asked.
func (w *world) requests() int {
	w.vault.mu.Lock()
	defer w.vault.mu.Unlock()
	return w.hosts["localhost"]
}

func (w *world) registration() Registration {
	return Registration{
		Label: "p", ClientID: "client", AuthURL: "http://localhost/authorize", TokenURL: "http://localhost/token",
		DeviceURL: "http://localhost/device", Scopes: []string{"models", "openid"}, Parameters: map[string]string{"audience": "api"},
	}
}

// instance is a process of its own with the same vault.
func (w *world) instance() *OAuth { return w.as(w.registration()) }

func (w *world) as(reg Registration) *OAuth {
	w.t.Helper()
	o, err := New(reg, w.vault, w.client)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

const redirect = "http://127.0.0.1:4711/callback"

// browse is a person with a browser, by way of the host.
func (w *world) browse(_ context.Context, address string) (string, map[string]string, error) {
	if !strings.Contains(address, "redirect_uri={redirect_uri}&") {
		w.t.Errorf("the place of the redirect is not in %s", address)
	}
	query, err := w.vendor.Browse(w.client, strings.ReplaceAll(address, redirectPlace, "http%3A%2F%2F127.0.0.1%3A4711%2Fcallback"))
	return redirect, query, err
}

// loggedIn is an instance after a login.
func (w *world) loggedIn() *OAuth {
	w.t.Helper()
	o := w.instance()
	if err := o.Browser(w.t.Context(), w.browse); err != nil {
		w.t.Fatal(err)
	}
	return o
}

// token asks for one that must be there and be good.
func (w *world) token(o *OAuth) string {
	w.t.Helper()
	got, err := o.Token(w.t.Context())
	if err != nil {
		w.t.Fatalf("token: %v", err)
	}
	if !w.vendor.Good(got) {
		w.t.Error("the vendor does not take the token")
	}
	return got
}

// refuses checks an error: its code, what it says, its next step, and that it holds no secret.
func (w *world) refuses(err error, code llm.ErrorCode, want, next string) {
	w.t.Helper()
	if err == nil {
		w.t.Errorf("no error, want %q", want)
		return
	}
	w.silent(err)
	if !strings.Contains(err.Error(), want) {
		w.t.Errorf("error = %q, want %q", err, want)
	}
	e, ok := errors.AsType[*llm.Error](err)
	switch {
	case code == llm.ErrUnknown:
	case !ok || e.Code != code:
		w.t.Errorf("%q has the code %v, want %v", err, e, code)
	case !strings.Contains(e.Next, next):
		w.t.Errorf("next = %q, want %q", e.Next, next)
	}
}

// silent checks that something shows no secret however it is printed.
func (w *world) silent(v any) {
	w.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		b = nil
	}
	text := fmt.Sprintf("%v\n%+v\n%s", v, v, b)
	for _, s := range w.vendor.Secrets() {
		if strings.Contains(text, s) {
			w.t.Errorf("%q shows the secret %q", text, s)
		}
	}
}

// stored is the token in the vault.
func (w *world) stored() *token {
	w.t.Helper()
	text, found, err := w.vault.StoredSecret(w.t.Context(), stored)
	if err != nil || !found {
		w.t.Fatalf("stored: %v, %v", found, err)
	}
	t, ok := parse(text)
	if !ok {
		w.t.Fatal("what is stored is no token")
	}
	return t
}

// vault is the host's, for several processes.
type vault struct {
	turn   chan struct{} // held by who is in Exclusive
	mu     sync.Mutex
	values map[string]string
	broken error // of StoreSecret
	stores int
	gate   chan struct{} // StoreSecret waits for it; nil: it doesn't
}

func newVault() *vault { return &vault{turn: make(chan struct{}, 1), values: map[string]string{}} }

func (v *vault) StoredSecret(_ context.Context, name string) (string, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, found := v.values[name]
	return value, found, nil
}

func (v *vault) StoreSecret(ctx context.Context, name, value string) error {
	v.mu.Lock()
	gate := v.gate
	v.mu.Unlock()
	if gate != nil {
		<-gate
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stores++
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case v.broken != nil:
		return v.broken
	case value == "":
		delete(v.values, name)
	default:
		v.values[name] = value
	}
	return nil
}

func (v *vault) Exclusive(ctx context.Context, name string, wait time.Duration, f func(context.Context) error) error {
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
		return f(ctx)
	case <-late.C:
		return fmt.Errorf("lease %q is held by another", name)
	case <-ctx.Done():
		return ctx.Err()
	}
}
