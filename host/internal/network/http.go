package network

import (
	"bufio"
	"bytes"
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

// http serves the requests of one connection, each judged by itself.
func (p *Proxy) http(ctx context.Context, conn net.Conn, in *bufio.Reader) {
	p.requests(conn, in, func(r *http.Request, named []string) (more bool) {
		if r.Method == http.MethodConnect {
			p.connect(ctx, conn, in, r, named)
			return false
		}
		return p.forward(ctx, conn, in, r, named)
	})
}

// requests reads one request after the other and what its Host lines say, until serve returns false. The server of net/http is not
// used: it does not tell the Host line from the host of the URL, and a request in which they differ is refused.
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

// peekHosts looks at the Host lines of the next request without taking anything.
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
			n = len(head) // one more than there is
			continue
		}
		lines := textproto.NewReader(bufio.NewReader(bytes.NewReader(head[:end+size])))
		if _, err := lines.ReadLine(); err != nil {
			return nil, err
		}
		fields, err := lines.ReadMIMEHeader()
		if err != nil {
			return nil, nil // whoever reads the request says what is wrong
		}
		return fields["Host"], nil
	}
}

// sameHost reports whether the Host lines say what the target says.
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

// portOf reads the port of a target; 0: it is none.
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

// connect makes a tunnel.
func (p *Proxy) connect(ctx context.Context, conn net.Conn, in *bufio.Reader, r *http.Request, named []string) {
	target := r.Host
	if !sameHost(named, target, "443") {
		_ = respond(conn, http.StatusBadRequest, "the Host line names another host than the request", nil)
		return
	}
	q := Request{Protocol: HTTPS, Host: hosts.Normalize(target), Port: portOf(target, "443"), Method: http.MethodConnect}
	d := p.judge(ctx, q)
	if !d.Allow {
		_ = blocked(conn, q, d)
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

// hopByHop are fields that are for the proxy and not for who is behind it.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// forward judges one request and passes it on. It reports whether another one may follow on the connection.
func (p *Proxy) forward(ctx context.Context, conn net.Conn, in *bufio.Reader, r *http.Request, named []string) (more bool) {
	switch {
	case r.URL.Host == "" || r.URL.Scheme != "http":
		_ = respond(conn, http.StatusBadRequest, "this is a proxy: it takes requests with a whole http:// address, and CONNECT", nil)
		return false
	case !sameHost(named, r.URL.Host, "80"):
		_ = respond(conn, http.StatusBadRequest, "the Host line names another host than the request", nil)
		return false
	}
	q := Request{Protocol: HTTP, Host: hosts.Normalize(r.URL.Host), Port: portOf(r.URL.Host, "80"), Method: r.Method}
	d := p.judge(ctx, q)
	if reason := p.limit(r); d.Allow && reason != "" {
		d = Decision{Reason: reason, Source: ModeGuard}
		p.tell(q, d)
	}
	if !d.Allow {
		_ = blocked(conn, q, d)
		return false
	}
	return p.relay(ctx, conn, in, r, r.URL.Host, d)
}

// limit is the reason for which limited methods refuse a request whose method they allow: what an upgraded connection or a body
// carries can't be judged.
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

// relay passes on a request that was judged. It reports whether another one may follow on the connection.
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
	resp, err := p.transport.RoundTrip(out)
	if err != nil {
		_ = respond(conn, http.StatusBadGateway, err.Error(), nil)
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if upgrade == "" {
			_ = respond(conn, http.StatusBadGateway, "the server changes the protocol without having been asked", nil)
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
		resp.TransferEncoding = []string{"chunked"} // its end was the end of the server's connection
	}
	resp.Proto, resp.ProtoMajor, resp.ProtoMinor = "HTTP/1.1", 1, 1
	if err := resp.Write(conn); err != nil || resp.Close {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body) // what the server did not want of it
	return err == nil || errors.Is(err, http.ErrBodyReadAfterClose)
}

// switched carries what follows a change of protocols, to a WebSocket for example.
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

// stream is what the transport gives after a change of protocols; only what a tunnel needs is there.
type stream struct{ io.ReadWriteCloser }

// CloseWrite can't close one direction: who is behind gets some time for a last word.
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

// upgradeOf is the protocol that a request asks to change to. HTTP/2 and TLS are left out: their requests name a host of their own,
// and a server that is not asked for them answers in HTTP/1.1.
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

// marks are what the field x-proxy-error says of a reason. Matches codex 0.169.
var marks = map[string]string{
	NotAllowed: "blocked-by-allowlist", NotAllowedLocal: "blocked-by-allowlist", Denied: "blocked-by-denylist",
	MethodNotAllowed: "blocked-by-method-policy", BodyNotAllowed: "blocked-by-method-policy", UpgradeNotAllowed: "blocked-by-method-policy", MITMRequired: "blocked-by-mitm-required",
}

// blocked answers a request that was refused. The form of the body matches codex 0.169.
func blocked(w io.Writer, q Request, d Decision) error {
	mark := marks[d.Reason]
	if mark == "" {
		mark = "blocked-by-policy"
	}
	body, err := json.Marshal(struct {
		Status   string `json:"status"`
		Host     string `json:"host"`
		Reason   string `json:"reason"`
		Decision string `json:"decision"`
		Source   string `json:"source"`
		Protocol string `json:"protocol"`
		Port     uint16 `json:"port"`
		Message  string `json:"message"`
	}{"blocked", q.Host, d.Reason, "deny", d.Source, q.Protocol, q.Port, d.Message(q)})
	if err != nil { // strings and a number
		panic("network: marshal an answer: " + err.Error())
	}
	return respond(w, http.StatusForbidden, string(body)+"\n", http.Header{"Content-Type": {"application/json"}, "X-Proxy-Error": {mark}})
}

// respond writes an answer of the proxy's own, after which the connection is closed.
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
