package network

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
)

// http serves the HTTP requests of one connection. Each is judged separately.
func (p *Proxy) http(ctx context.Context, conn net.Conn, in *bufio.Reader) {
	p.requests(conn, in, func(r *http.Request, named []string) (more bool) {
		if r.Method == http.MethodConnect {
			p.connect(ctx, conn, in, r, named)
			return false
		}
		return p.forward(ctx, conn, in, r, named)
	})
}

// requests reads requests and the values of their Host lines, until serve returns false. It does not use the server of net/http, which
// does not distinguish the Host line from the host of the URL: a request in which they differ is refused.
func (p *Proxy) requests(conn net.Conn, in *bufio.Reader, serve func(r *http.Request, named []string) (more bool)) {
	for {
		named, err := peekHosts(in)
		if err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				_ = respond(conn, http.StatusRequestHeaderFieldsTooLarge, "the head of the request is too long", nil)
			}
			return
		}
		r, err := http.ReadRequest(in)
		if err != nil {
			_ = respond(conn, http.StatusBadRequest, "the request can't be read: "+err.Error(), nil)
			return
		}
		_ = conn.SetReadDeadline(time.Time{})
		if !serve(r, named) {
			return
		}
		_ = conn.SetReadDeadline(time.Now().Add(idleTimeout))
	}
}

// peekHosts returns the values of the Host lines of the next request without consuming it.
func peekHosts(in *bufio.Reader) ([]string, error) {
	for n := 1; ; n++ {
		if _, err := in.Peek(n); err != nil {
			return nil, err
		}
		head, _ := in.Peek(in.Buffered())
		end, size := bytes.Index(head, []byte("\r\n\r\n")), 4
		if bare := bytes.Index(head, []byte("\n\n")); bare >= 0 && (end < 0 || bare < end) {
			end, size = bare, 2
		}
		if end < 0 {
			n = len(head) // the loop adds one
			continue
		}
		lines := textproto.NewReader(bufio.NewReader(bytes.NewReader(head[:end+size])))
		if _, err := lines.ReadLine(); err != nil {
			return nil, err
		}
		fields, err := lines.ReadMIMEHeader()
		if err != nil {
			return nil, nil // reading the request will report the error
		}
		return fields["Host"], nil
	}
}

// sameHost reports whether the Host lines agree with the target.
func sameHost(named []string, target, otherwise string) bool {
	full := func(s string) string {
		if _, _, ok := hosts.CutPort(s); !ok {
			s += ":" + otherwise
		}
		_, port, _ := hosts.CutPort(s)
		return hosts.Normalize(s) + ":" + port
	}
	for _, h := range named {
		if full(h) != full(target) {
			return false
		}
	}
	return len(named) < 2
}

// portOf returns the port of a target; 0: it is invalid.
func portOf(target, otherwise string) uint16 {
	_, port, ok := hosts.CutPort(target)
	if !ok || port == "" {
		port = otherwise
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// connect serves a CONNECT request.
func (p *Proxy) connect(ctx context.Context, conn net.Conn, in *bufio.Reader, r *http.Request, named []string) {
	target := r.Host
	if !sameHost(named, target, "443") {
		_ = respond(conn, http.StatusBadRequest, "the Host line names another host than the request", nil)
		return
	}
	q := Request{Protocol: HTTPS, Host: hosts.Normalize(target), Port: portOf(target, "443"), Method: http.MethodConnect}
	d := p.judge(ctx, q)
	if !d.Allow {
		_ = blocked(conn, q, d, p.cfg.Message(q, d))
		return
	}
	server, err := p.dial(ctx, d)
	if err != nil {
		_ = respond(conn, http.StatusBadGateway, err.Error(), nil)
		return
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		server.Close()
		return
	}
	p.tunnel(ctx, conn, in, server, q, d)
}

// hopByHop are header fields that are for the proxy and not for the server.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// forward judges one request and sends it to the server. It reports whether another one may follow on the connection.
func (p *Proxy) forward(ctx context.Context, conn net.Conn, in *bufio.Reader, r *http.Request, named []string) (more bool) {
	switch {
	case r.URL.Host == "" || r.URL.Scheme != "http":
		_ = respond(conn, http.StatusBadRequest, "this is a proxy: it accepts requests with an absolute http:// URL, and CONNECT", nil)
		return false
	case !sameHost(named, r.URL.Host, "80"):
		_ = respond(conn, http.StatusBadRequest, "the Host line names another host than the request", nil)
		return false
	}
	q := Request{Protocol: HTTP, Host: hosts.Normalize(r.URL.Host), Port: portOf(r.URL.Host, "80"), Method: r.Method}
	d := p.judge(ctx, q)
	if reason := p.limit(r); d.Allow && reason != "" {
		d = Decision{Reason: reason, Source: ModeGuard}
		p.audit(q, d)
	}
	if !d.Allow {
		_ = blocked(conn, q, d, p.cfg.Message(q, d))
		return false
	}
	return p.relay(ctx, conn, in, r, r.URL.Host, d)
}

// limit returns the reason to refuse a request whose method is allowed by limited methods: a body and an upgraded connection can carry
// anything.
func (p *Proxy) limit(r *http.Request) string {
	switch {
	case !p.cfg.Rules().Limited:
		return ""
	case r.ContentLength != 0:
		return BodyNotAllowed
	case upgradeOf(r.Header) != "":
		return UpgradeNotAllowed
	}
	return ""
}

// relay sends a request that was judged to the server, and the response to the client. It reports whether another request may follow on
// the connection.
func (p *Proxy) relay(ctx context.Context, conn net.Conn, in *bufio.Reader, r *http.Request, host string, d Decision) (more bool) {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, decisionKey{}, d))
	defer cancel()
	out := r.WithContext(ctx)
	upgrade := upgradeOf(r.Header)
	for _, name := range append(connectionFields(r.Header), hopByHop...) {
		out.Header.Del(name)
	}
	if upgrade != "" {
		out.Header.Set("Connection", "Upgrade")
		out.Header.Set("Upgrade", upgrade)
	}
	if strings.EqualFold(out.Header.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return false
		}
	}
	out.Header.Del("Expect")
	out.RequestURI, out.Close, out.Host = "", false, host
	if _, named := out.Header["User-Agent"]; !named {
		out.Header.Set("User-Agent", "") // none is sent
	}
	resp, err := p.roundTrip(out, d)
	if err != nil {
		_ = respond(conn, http.StatusBadGateway, err.Error(), nil)
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if upgrade == "" {
			_ = respond(conn, http.StatusBadGateway, "the server switched protocols without being asked", nil)
			return false
		}
		p.switched(ctx, conn, in, resp)
		return false
	}
	for _, name := range append(connectionFields(resp.Header), hopByHop...) {
		resp.Header.Del(name)
	}
	if resp.Close = r.Close || !r.ProtoAtLeast(1, 1); resp.Close {
		resp.TransferEncoding = nil
	}
	if !resp.Close && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && r.Method != http.MethodHead {
		resp.TransferEncoding = []string{"chunked"} // the server marked the end by closing the connection
	}
	resp.Proto, resp.ProtoMajor, resp.ProtoMinor = "HTTP/1.1", 1, 1
	if err := resp.Write(conn); err != nil || resp.Close {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body) // the part that the server has not read
	return err == nil || errors.Is(err, http.ErrBodyReadAfterClose)
}

// switched carries a connection that has switched protocols, for example to WebSocket.
func (p *Proxy) switched(ctx context.Context, conn net.Conn, in *bufio.Reader, resp *http.Response) {
	server, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		return
	}
	resp.Body = nil
	if resp.Write(conn) != nil {
		return
	}
	carry(ctx, conn, in, &stream{server}, nil, nil, nil)
}

// stream makes the transport's connection after a switch of protocols a net.Conn, as far as a tunnel needs it.
type stream struct{ io.ReadWriteCloser }

// CloseWrite can't close one direction, so it gives the server some time to finish.
func (s *stream) CloseWrite() error {
	time.AfterFunc(headTimeout, func() { s.Close() })
	return nil
}

func (*stream) LocalAddr() net.Addr              { return nil }
func (*stream) RemoteAddr() net.Addr             { return nil }
func (*stream) SetDeadline(time.Time) error      { return nil }
func (*stream) SetReadDeadline(time.Time) error  { return nil }
func (*stream) SetWriteDeadline(time.Time) error { return nil }

func connectionFields(h http.Header) []string {
	var out []string
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			out = append(out, strings.TrimSpace(name))
		}
	}
	return out
}

// upgradeOf returns the protocol that a request asks to upgrade to. It ignores HTTP/2 and TLS, whose requests name a host of their own;
// a server that is not asked to upgrade answers in HTTP/1.1.
func upgradeOf(h http.Header) string {
	for _, name := range connectionFields(h) {
		if !strings.EqualFold(name, "Upgrade") {
			continue
		}
		for protocol := range strings.SplitSeq(strings.Join(h["Upgrade"], ","), ",") {
			protocol = strings.TrimSpace(protocol)
			switch base, _, _ := strings.Cut(strings.ToLower(protocol), "/"); base {
			case "", "h2", "h2c", "http", "tls":
			default:
				return protocol
			}
		}
	}
	return ""
}

// marks are the values of the header field x-proxy-error, by reason. Matches codex 0.169.
var marks = map[string]string{
	NotAllowed: "blocked-by-allowlist", NotAllowedLocal: "blocked-by-allowlist", Denied: "blocked-by-denylist",
	MethodNotAllowed: "blocked-by-method-policy", BodyNotAllowed: "blocked-by-method-policy",
	UpgradeNotAllowed: "blocked-by-method-policy", MITMRequired: "blocked-by-mitm-required",
}

// blocked responds to a refused request. The format of the body matches codex 0.169, which has no unresolved.
func blocked(w io.Writer, q Request, d Decision, message string) error {
	unresolved := ""
	switch {
	case d.NoSuchHost():
		unresolved = "not_found"
	case d.Unresolved != nil:
		unresolved = "temporary"
	}
	mark := cmp.Or(marks[d.Reason], "blocked-by-policy")
	body, err := json.Marshal(struct {
		Status   string `json:"status"`
		Host     string `json:"host"`
		Reason   string `json:"reason"`
		Decision string `json:"decision"`
		Source   string `json:"source"`
		Protocol string `json:"protocol"`
		Port     uint16 `json:"port"`
		Message  string `json:"message"`
		// Unresolved is "not_found" for a name that does not exist, and "temporary" for one that can't be resolved now.
		Unresolved string `json:"unresolved,omitempty"`
	}{"blocked", q.Host, d.Reason, "deny", d.Source, q.Protocol, q.Port, message, unresolved})
	if err != nil { // strings and a number can be marshalled
		panic("network: marshal a response: " + err.Error())
	}
	return respond(w, http.StatusForbidden, string(body)+"\n", http.Header{"Content-Type": {"application/json"}, "X-Proxy-Error": {mark}})
}

// respond writes a response of the proxy's own. The connection is closed after it.
func respond(w io.Writer, status int, text string, fields http.Header) error {
	if fields == nil {
		fields = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
		text = fmt.Sprintf("gantry's network proxy: %s\n", text)
	}
	r := http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: fields, Close: true,
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
	}
	return r.Write(w)
}
