package service

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
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
)

const (
	redirectPlace   = "{redirect_uri}"
	redirectPath    = "/callback"
	redirectTimeout = 10 * time.Minute // includes the time that a person needs to log in
)

// redirected asks a person to open a URL, and waits for the query that their browser sends to a listener on loopback, or until the
// person declines. The listener accepts one query.
func redirected(ctx context.Context, ask func(context.Context, approval.Question) (approval.Answer, error), q approval.Question, port int) (approval.Answer, error) {
	if !strings.Contains(q.URL, redirectPlace) {
		return approval.Answer{}, fmt.Errorf("the URL has no %s where the host's address belongs", redirectPlace)
	}
	if port < 0 || port > 65535 {
		return approval.Answer{}, fmt.Errorf("%d is not a port", port)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return approval.Answer{}, fmt.Errorf("listen for the browser's redirect: %w", err)
	}
	own := "http://" + ln.Addr().String() + redirectPath
	q.URL = strings.ReplaceAll(q.URL, redirectPlace, url.QueryEscape(own))

	ctx, cancel := context.WithTimeout(ctx, redirectTimeout)
	defer cancel()
	back := make(chan url.Values, 1)
	server := &http.Server{Handler: callback(back), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	served := make(chan struct{})
	// Owner: redirected, which closes the server and waits.
	go func() { _ = server.Serve(ln); close(served) }()
	defer func() {
		// Wait until the browser has received the final page.
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		if server.Shutdown(ending) != nil {
			server.Close()
		}
		<-served
	}()

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
		case query := <-back:
			values := map[string]string{}
			for name := range query {
				values[name] = query.Get(name)
			}
			data, err := json.Marshal(map[string]any{"redirect_uri": own, "query": values})
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

// callback accepts the first query and answers with a page that says that the login is complete.
func callback(back chan<- url.Values) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+redirectPath, func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if len(query) == 0 {
			http.Error(w, "There is nothing in this address that gantry could use.", http.StatusBadRequest)
			return
		}
		select {
		case back <- query:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprintln(w, "gantry has what it needs. You can close this page and go back to the terminal.")
		default:
			http.Error(w, "gantry has heard of this already.", http.StatusGone)
		}
	})
	return mux
}
