package service

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/approval"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	redirectPlace   = "{redirect_uri}"
	redirectPath    = "/callback"
	redirectTimeout = 10 * time.Minute // includes the time that a person needs to log in
	// maxRedirects limits the addresses that a plugin may reserve at a time.
	maxRedirects    = 16
	maxRedirectPath = 200
	localhost       = "localhost"
)

// redirect is a reserved address on loopback, which accepts one query of a browser.
type redirect struct {
	id, uri string
	plugin  string
	token   string // of the call or command that has reserved it
	end     func() // releases it; may be called more than once

	server *http.Server
	served sync.WaitGroup
	back   chan url.Values

	mu struct {
		sync.Mutex
		asked bool     // the URL that leads here is known
		state []string // of that URL
	}
}

// redirects are the reserved addresses, by ID. The zero value is ready to use.
type redirects struct {
	mu   sync.Mutex
	byID map[string]*redirect
}

// add adds an address; false: the plugin has too many.
func (s *redirects) add(r *redirect) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, o := range s.byID {
		if o.plugin == r.plugin {
			n++
		}
	}
	if n >= maxRedirects {
		return false
	}
	if s.byID == nil {
		s.byID = map[string]*redirect{}
	}
	s.byID[r.id] = r
	return true
}

func (s *redirects) remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// find finds the address that was reserved in the call or command of a token.
func (s *redirects) find(id, token string) (*redirect, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.byID[id]
	return r, ok && r.token == token
}

// Redirect implements the rpc.
func (s *server) Redirect(ctx context.Context, q *gantryv1.RedirectRequest) (*gantryv1.RedirectResponse, error) {
	if err := s.may(capAsk); err != nil {
		return nil, err
	}
	id := rand.Text()
	at := place{host: q.GetHost(), port: int(q.GetPort()), path: q.GetPath()}
	if at.path == "" {
		at.path = redirectPath + "/" + id
	}
	if err := at.check(); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	life, release, err := s.hold(ctx, q.GetCallToken())
	if err != nil {
		return nil, err
	}
	r, err := reserve(ctx, at)
	if err != nil {
		release()
		return nil, statusOf(err)
	}
	r.id, r.plugin, r.token = id, s.id.Label, q.GetCallToken()
	end := sync.OnceFunc(func() {
		s.redirects.remove(id)
		r.close()
		release()
	})
	r.end = end
	if !s.redirects.add(r) {
		end()
		return nil, status.Errorf(codes.ResourceExhausted, "the plugin has reserved %d addresses already; each is released by its question, or with its call or command", maxRedirects)
	}
	context.AfterFunc(life, end)
	return &gantryv1.RedirectResponse{Id: id, RedirectUri: r.uri}, nil
}

// hold begins something that lasts until the call or command of a token ends. That waits for release.
func (s *server) hold(ctx context.Context, token string) (life context.Context, release func(), err error) {
	if cmd, ok := s.Commands.lookup(s.id.Label, token); ok {
		release, ok := cmd.hold()
		if !ok {
			return nil, nil, status.Error(codes.PermissionDenied, "the command has ended")
		}
		return cmd.ctx, release, nil
	}
	_, life, release, err = s.join(context.WithoutCancel(ctx), token)
	return life, release, err
}

// place is where to listen for a redirect.
type place struct {
	host string // "localhost"; otherwise an address is used
	port int    // 0: any
	path string
}

func (p place) check() error {
	const segment = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/"
	switch {
	case p.port < 0 || p.port > 65535:
		return fmt.Errorf("%d is not a port", p.port)
	case p.host != "" && p.host != "127.0.0.1" && p.host != localhost:
		return fmt.Errorf("%q is not a host for a redirect: use 127.0.0.1 or localhost", p.host)
	case !strings.HasPrefix(p.path, "/") || p.path == "/" || path.Clean(p.path) != p.path || len(p.path) > maxRedirectPath || strings.Trim(p.path, segment) != "":
		return fmt.Errorf("%q is not a path for a redirect: use segments of letters, digits and \"-._~\", like /callback/name", p.path)
	}
	return nil
}

// reserve listens for the redirect of a browser. Queries are refused until [redirect.await] is called. The caller calls [redirect.close].
func reserve(ctx context.Context, at place) (*redirect, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	listeners, err := listen(ctx, at)
	if err != nil {
		return nil, hint.With(fmt.Errorf("listen for the browser's redirect: %w", err), "if another program uses the port, end it, or choose another port")
	}
	host := "127.0.0.1"
	if at.host == localhost {
		host = localhost
	}
	port := listeners[0].Addr().(*net.TCPAddr).Port
	r := &redirect{uri: "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + at.path, back: make(chan url.Values, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+host+at.path, r.callback)
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	for _, ln := range listeners {
		r.served.Go(func() { _ = r.server.Serve(ln) }) // ends with close
	}
	return r, nil
}

// listen listens on loopback: for localhost, whose meaning the browser chooses, on both addresses, so that no other program gets the
// query.
func listen(ctx context.Context, at place) ([]net.Listener, error) {
	for try := 0; ; try++ {
		four, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(at.port)))
		if err != nil {
			return nil, err
		}
		if at.host != localhost {
			return []net.Listener{four}, nil
		}
		six, err := (&net.ListenConfig{}).Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(four.Addr().(*net.TCPAddr).Port)))
		switch taken := errors.Is(err, syscall.EADDRINUSE); {
		case err == nil:
			return []net.Listener{four, six}, nil
		case !taken: // the machine has no IPv6
			return []net.Listener{four}, nil
		case at.port != 0 || try == 3:
			return nil, errors.Join(err, four.Close())
		}
		if err := four.Close(); err != nil {
			return nil, err
		}
	}
}

// close ends the listener, after the browser has received the last page.
func (r *redirect) close() {
	ending, done := context.WithTimeout(context.Background(), time.Second)
	defer done()
	if r.server.Shutdown(ending) != nil {
		r.server.Close()
	}
	r.served.Wait()
}

// expect accepts queries from now on, with the state of a URL; false: it does so already.
func (r *redirect) expect(state []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.asked {
		return false
	}
	r.mu.asked, r.mu.state = true, state
	return true
}

// callback accepts the first query and answers with a page that says that the login is complete.
func (r *redirect) callback(w http.ResponseWriter, q *http.Request) {
	query := q.URL.Query()
	r.mu.Lock()
	asked, state := r.mu.asked, r.mu.state
	r.mu.Unlock()
	switch {
	case !asked:
		http.Error(w, "gantry does not expect anything here yet.", http.StatusConflict)
		return
	case len(query) == 0:
		http.Error(w, "There is nothing in this address that gantry could use.", http.StatusBadRequest)
		return
	case state != nil && !slices.Equal(query["state"], state):
		http.Error(w, "This does not belong to the page that gantry has opened.", http.StatusBadRequest)
		return
	}
	select {
	case r.back <- query:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "gantry has what it needs. You can close this page and go back to the terminal.")
	default:
		http.Error(w, "gantry has heard of this already.", http.StatusGone)
	}
}

type askFunc func(context.Context, approval.Question) (approval.Answer, error)

// redirected asks a person to open a URL, and waits for the query that their browser sends to a listener on loopback, or until the
// person declines.
func redirected(ctx context.Context, ask askFunc, q approval.Question, port int) (approval.Answer, error) {
	if !strings.Contains(q.URL, redirectPlace) {
		return approval.Answer{}, fmt.Errorf("the URL has no %s where the host's address belongs", redirectPlace)
	}
	r, err := reserve(ctx, place{port: port, path: redirectPath})
	if err != nil {
		return approval.Answer{}, err
	}
	r.end = sync.OnceFunc(r.close)
	defer r.end()
	q.URL = strings.ReplaceAll(q.URL, redirectPlace, url.QueryEscape(r.uri))
	return r.await(ctx, ask, q)
}

// await asks a person to open a URL that leads to the reserved address, and waits for the query, or until the person declines. Then it
// releases the address.
func (r *redirect) await(ctx context.Context, ask askFunc, q approval.Question) (approval.Answer, error) {
	u, err := url.Parse(q.URL)
	if err != nil {
		return approval.Answer{}, status.Error(codes.InvalidArgument, "the URL of the question can't be parsed")
	}
	if !r.expect(u.Query()["state"]) {
		return approval.Answer{}, status.Error(codes.FailedPrecondition, "a question waits for this address already")
	}
	defer r.end()
	ctx, cancel := context.WithTimeout(ctx, redirectTimeout)
	defer cancel()
	type said struct {
		answer approval.Answer
		err    error
	}
	asking, stop := context.WithCancel(ctx)
	asked := make(chan said, 1)
	var asker sync.WaitGroup
	asker.Go(func() {
		a, err := ask(asking, q)
		asked <- said{a, err}
	})
	defer asker.Wait()
	defer stop()
	for {
		select {
		case query := <-r.back:
			values := map[string]string{}
			for name := range query {
				values[name] = query.Get(name)
			}
			data, err := json.Marshal(map[string]any{"redirect_uri": r.uri, "query": values})
			return approval.Answer{Data: data, By: "user"}, err
		case s := <-asked:
			if s.err != nil || s.answer.Choice == approval.Deny {
				return s.answer, s.err
			}
			asked = nil // the person has opened the URL; wait for the browser
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return approval.Answer{}, fmt.Errorf("the browser did not return within %v", redirectTimeout)
			}
			return approval.Answer{}, context.Cause(ctx)
		}
	}
}
