package network

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// FromEnvironment returns the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY of this process name for a request; nil: none. HTTP_PROXY is
// for port 80. Addresses of this machine have none.
func FromEnvironment(q Request) (*url.URL, error) {
	scheme := "https"
	if q.Port == 80 {
		scheme = "http"
	}
	u, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: q.Target()}})
	switch {
	case err != nil: // whose text has the value, which may have a password
		return nil, errors.New("the proxy in HTTPS_PROXY or HTTP_PROXY can't be read: write it as http://HOST:PORT")
	case u != nil && u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the proxy in HTTPS_PROXY or HTTP_PROXY is of the kind %q: only http:// and https:// can be used here", u.Scheme)
	}
	return u, nil
}

// through connects to a target through another proxy. The errors don't contain the proxy's password.
func through(ctx context.Context, via *url.URL, target string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	address := net.JoinHostPort(via.Hostname(), cmp.Or(via.Port(), map[string]string{"http": "80", "https": "443"}[via.Scheme]))
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("no connection to the proxy of HTTPS_PROXY or HTTP_PROXY: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	c, err := tunnelOf(conn, via, target)
	if !stop() {
		err = cmp.Or(err, ctx.Err())
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the proxy %s of HTTPS_PROXY or HTTP_PROXY does not connect to %s: %w", address, target, err)
	}
	return c, nil
}

func tunnelOf(conn net.Conn, via *url.URL, target string) (net.Conn, error) {
	if via.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: via.Hostname()})
	}
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{"User-Agent": {""}}}
	if u := via.User; u != nil {
		password, _ := u.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, req)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return nil, errors.New("it wants a login (HTTP 407): write it as http://USER:PASSWORD@HOST:PORT")
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered with HTTP %d", resp.StatusCode)
	}
	return &early{conn, in}, nil
}

// early is a connection whose first bytes may have been read already.
type early struct {
	net.Conn
	in *bufio.Reader
}

// Read implements net.Conn.
func (e *early) Read(b []byte) (int, error) { return e.in.Read(b) }

// CloseWrite closes the writing side.
func (e *early) CloseWrite() error {
	if half, ok := e.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
