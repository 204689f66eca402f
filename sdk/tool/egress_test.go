//go:build unix

package tool_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// proxied serves CONNECT on a unix socket: refuse returns the status line and body of a refusal, or "" to connect.
func proxied(t *testing.T, refuse func(target string) string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				r, err := http.ReadRequest(in)
				if err != nil || r.Method != http.MethodConnect || r.Host != r.RequestURI {
					return
				}
				if text := refuse(r.Host); text != "" {
					fmt.Fprintf(conn, "HTTP/1.1 %s", text)
					return
				}
				to, err := net.Dial("tcp", r.Host)
				if err != nil {
					return
				}
				defer to.Close()
				// The greeting comes in the same packet as the answer.
				fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n")
				open.Go(func() {
					_, _ = io.Copy(to, in)
					_ = to.(*net.TCPConn).CloseWrite()
				})
				_, _ = io.Copy(conn, to)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); open.Wait() })
	return socket
}

// dialing makes a call that may connect through a socket.
func dialing(t *testing.T, socket string, do func(context.Context, *tool.Env) error) string {
	t.Helper()
	h := startHost(t)
	facts := h.Facts()
	facts.EgressSocket = socket
	p := configured(t, tool.Plugin{Tools: one("try", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
		return nil, do(ctx, c.Env())
	})}, facts, "{}")
	r, _ := p.run(t, &gantryv1.CallStart{Tool: "try", CallToken: "call-token"})
	return resultShape(r)
}

func TestHTTPClient(t *testing.T) {
	t.Parallel()
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s %s", r.Host, r.Proto) })
	plain, secure := httptest.NewServer(hello), httptest.NewUnstartedServer(hello)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(func() { plain.Close(); secure.Close() })
	var asked []string
	var mu sync.Mutex
	socket := proxied(t, func(target string) string {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, target)
		switch {
		case strings.HasPrefix(target, "denied.test:"):
			return "403 Forbidden\r\nContent-Length: 27\r\n\r\n{\"message\":\"not that host\"}"
		case strings.HasPrefix(target, "missing.test:"):
			return "403 Forbidden\r\nContent-Length: 52\r\n\r\n{\"message\":\"there is none\",\"unresolved\":\"not_found\"}"
		case strings.HasPrefix(target, "down.test:"):
			return "502 Bad Gateway\r\nContent-Length: 13\r\n\r\nno connection"
		}
		return ""
	})
	got := dialing(t, socket, func(ctx context.Context, e *tool.Env) error {
		client := e.HTTPClient()
		defer client.CloseIdleConnections()
		client.Transport.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
		var errs []error
		for _, tc := range []struct{ url, want string }{
			{plain.URL, "hello " + strings.TrimPrefix(plain.URL, "http://") + " HTTP/1.1"},
			{secure.URL, "hello " + strings.TrimPrefix(secure.URL, "https://") + " HTTP/2.0"},
		} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, tc.url, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(r)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(b) != tc.want || err != nil {
				errs = append(errs, fmt.Errorf("%s, %w", b, err))
			}
		}
		_, err := client.Get("https://denied.test/")
		if d, ok := errors.AsType[*tool.DeniedError](err); !ok || d.Denial != "not that host" {
			errs = append(errs, fmt.Errorf("refused: %w", err))
		}
		_, err = client.Get("http://missing.test/")
		if d, ok := errors.AsType[*net.DNSError](err); !ok || !d.IsNotFound || d.Name != "missing.test" {
			errs = append(errs, fmt.Errorf("no such name: %w", err))
		}
		_, err = client.Get("http://down.test/")
		if o, ok := errors.AsType[*net.OpError](err); !ok || o.Op != "dial" || !strings.HasSuffix(err.Error(), "connect to down.test:80: dial tcp: no connection") {
			errs = append(errs, fmt.Errorf("no connection: %w", err))
		}
		return errors.Join(errs...)
	})
	if strings.Contains(got, "(error)") {
		t.Errorf("got %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 5 {
		t.Errorf("asked for %q", asked)
	}
}

// A peer that speaks first is heard, and closing one direction leaves the other one open.
func TestDialContext(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "welcome ")
		b, _ := io.ReadAll(conn)
		fmt.Fprintf(conn, "%s to you", b)
	})
	t.Cleanup(func() { ln.Close(); served.Wait() })
	socket := proxied(t, func(string) string { return "" })
	got := dialing(t, socket, func(ctx context.Context, e *tool.Env) error {
		conn, err := e.DialContext(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		fmt.Fprint(conn, "hello")
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			return err
		}
		if b, err := io.ReadAll(conn); string(b) != "welcome hello to you" || err != nil {
			return fmt.Errorf("%q, %w", b, err)
		}
		for network, address := range map[string]string{"udp": "a.test:1", "tcp": "a.test:80\r\nX: y", "tcp4": "a.test", "tcp6": "a.test/b:80"} {
			if _, err := e.DialContext(ctx, network, address); err == nil {
				return fmt.Errorf("%s %q is dialled", network, address)
			}
		}
		over, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := e.DialContext(over, "tcp", ln.Addr().String()); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("after the end of the context: %w", err)
		}
		return nil
	})
	if strings.Contains(got, "(error)") {
		t.Errorf("got %s", got)
	}
}

func TestOffline(t *testing.T) {
	t.Parallel()
	got := dialing(t, "", func(ctx context.Context, e *tool.Env) error {
		if _, err := e.HTTPClient().Get("http://a.test/"); !errors.Is(err, tool.ErrOffline) {
			return fmt.Errorf("without a socket: %w", err)
		}
		return nil
	})
	if strings.Contains(got, "(error)") {
		t.Errorf("got %s", got)
	}
}

// The host of tests connects to every host.
func TestEgressOfTheTestHost(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(origin.Close)
	h := startHost(t)
	got := h.within(t, func(ctx context.Context, c *tool.Call) error {
		resp, err := c.Env().HTTPClient().Get(origin.URL) // its connection stays open until the host ends
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
			return fmt.Errorf("%q, %w", b, err)
		}
		_, err = c.Env().DialContext(ctx, "tcp", "127.0.0.1:1")
		if err == nil || !strings.Contains(err.Error(), "refused") {
			return fmt.Errorf("a port without a listener: %w", err)
		}
		return nil
	})
	if strings.Contains(got, "(error)") {
		t.Errorf("got %s", got)
	}
}
