package tool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrOffline is the error of connections of a plugin that the host gives no way to the network.
var ErrOffline = errors.New(`the host gives this plugin no way to the network: its manifest does not declare the capability "network", or the host does not support it`)

// HTTPClient returns a new HTTP client whose connections are made by the host; see [Env.DialContext]. Its Transport is an
// *[http.Transport] with connections of its own, so keep the client; before the first request, its TLSClientConfig may be set. It uses
// no proxy of the environment.
func (e *Env) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: e.DialContext, ForceAttemptHTTP2: true,
		MaxIdleConns: 16, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}}
}

// DialContext connects to a TCP address, "host:port", through the host, which resolves names. The hosts that can be reached are those
// of the block's endpoints and of permissions { network }, and those that Authorize has permitted in a call or command that has not
// ended. The error for others is, or wraps, a *[DeniedError]; for names that can't be resolved it wraps a *[net.DNSError], and for hosts that
// can't be reached a *[net.OpError]. TLS is up to the caller: the host carries bytes, but refuses a handshake
// for another host name. Needs the capability "network"; without it, the error is [ErrOffline].
func (e *Env) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	switch {
	case e.egress == "":
		return nil, ErrOffline
	case network != "tcp" && network != "tcp4" && network != "tcp6":
		return nil, net.UnknownNetworkError(network)
	}
	if _, _, err := net.SplitHostPort(address); err != nil || strings.ContainsAny(address, " \r\n/") {
		return nil, &net.AddrError{Err: "invalid address", Addr: address}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", e.egress)
	if err != nil {
		return nil, fmt.Errorf("connect to the host's proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	in, err := tunnel(conn, address)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &tunnelled{Conn: conn, in: in}, nil
}

// maxRefusal limits the text of a refusal.
const maxRefusal = 16 << 10

// tunnel requests a connection to an address, and returns the reader of what the address sends.
func tunnel(conn net.Conn, address string) (*bufio.Reader, error) {
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{"User-Agent": {""}}}
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, r)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusOK:
		return in, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil, err
	}
	var refused struct{ Message, Unresolved string }
	if json.Unmarshal(text, &refused) == nil && refused.Message != "" {
		if refused.Unresolved != "" {
			host, _, _ := net.SplitHostPort(address)
			return nil, &net.DNSError{Err: refused.Message, Name: host, IsNotFound: refused.Unresolved == "not_found", IsTemporary: refused.Unresolved != "not_found"}
		}
		return nil, &DeniedError{Denial: refused.Message}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New(strings.TrimSpace(string(text)))}
}

// tunnelled is a connection whose first bytes may have been read ahead.
type tunnelled struct {
	net.Conn
	in *bufio.Reader
}

// Read implements [net.Conn].
func (t *tunnelled) Read(b []byte) (int, error) { return t.in.Read(b) }

// CloseWrite closes the writing side.
func (t *tunnelled) CloseWrite() error { return t.Conn.(*net.UnixConn).CloseWrite() }
