package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
)

// handshake is a complete request to connect. Further lines end with \r\n.
func handshake(path, host, lines string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + lines + "\r\n"
}

func plain(method, path, host, lines string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + lines + "\r\n"
}

func TestRequests(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: CapabilityToken, TokenFile: write(t, "secret\n")}}, echo)
	h := r.host()
	port := h[strings.LastIndex(h, ":")+1:]
	const token = "Authorization: Bearer secret\r\n"
	for name, test := range map[string]struct {
		request string
		status  int
		body    string
	}{
		"readyz":                 {plain("GET", "/readyz", h, ""), 200, ""},
		"healthz":                {plain("GET", "/healthz", h, ""), 200, ""},
		"healthz with a query":   {plain("GET", "/healthz?x=1", h, ""), 200, ""},
		"healthz, wrong token":   {plain("GET", "/healthz", h, "Authorization: Bearer x\r\n"), 200, ""},
		"healthz by POST":        {plain("POST", "/healthz", h, "Content-Length: 0\r\n"), 405, "method not allowed"},
		"healthz by HEAD":        {plain("HEAD", "/healthz", h, ""), 405, ""},
		"readyz by DELETE":       {plain("DELETE", "/readyz", h, ""), 405, "method not allowed"},
		"POST":                   {plain("POST", "/", h, "Content-Length: 2\r\n") + "{}", 405, "method not allowed"},
		"OPTIONS of the server":  {plain("OPTIONS", "*", h, ""), 405, "method not allowed"},
		"CONNECT":                {plain("CONNECT", h, h, ""), 405, "method not allowed"},
		"POST with an upgrade":   {strings.Replace(handshake("/", h, token), "GET", "POST", 1), 405, "method not allowed"},
		"other GET":              {plain("GET", "/", h, token), 400, "not a websocket handshake"},
		"other path":             {plain("GET", "/healthz/", h, token), 400, "not a websocket handshake"},
		"other upgrade":          {plain("GET", "/", h, token+"Connection: Upgrade\r\nUpgrade: h2c\r\n"), 400, "not a websocket handshake"},
		"other version":          {strings.Replace(handshake("/", h, token), "Version: 13", "Version: 12", 1), 400, "websocket: unsupported version: 13 not found in 'Sec-Websocket-Version' header"},
		"no key":                 {strings.Replace(handshake("/", h, token), "Sec-WebSocket-Key", "X-Key", 1), 400, "*"},
		"upgrade":                {handshake("/", h, token), 101, ""},
		"any path may upgrade":   {handshake("/v1/some/path?q", h, token), 101, ""},
		"healthz may upgrade":    {handshake("/healthz", h, token), 101, ""},
		"healthz, no token":      {handshake("/healthz", h, ""), 401, "missing websocket bearer token"},
		"no token":               {handshake("/", h, ""), 401, "missing websocket bearer token"},
		"empty token":            {handshake("/", h, "Authorization: Bearer \r\n"), 401, "invalid authorization header"},
		"basic":                  {handshake("/", h, "Authorization: Basic eDp5\r\n"), 401, "invalid authorization header"},
		"wrong token":            {handshake("/", h, "Authorization: Bearer Secret\r\n"), 401, "invalid websocket bearer token"},
		"token in the query":     {handshake("/?token=secret", h, ""), 401, "missing websocket bearer token"},
		"token in a subprotocol": {handshake("/", h, "Sec-WebSocket-Protocol: bearer, secret\r\n"), 401, "missing websocket bearer token"},

		"origin":              {handshake("/", h, token+"Origin: http://example.com\r\n"), 403, "requests of web pages are refused"},
		"own origin":          {handshake("/", h, token+"Origin: http://"+h+"\r\n"), 403, "requests of web pages are refused"},
		"null origin":         {handshake("/", h, token+"Origin: null\r\n"), 403, "requests of web pages are refused"},
		"empty origin":        {handshake("/", h, token+"Origin:\r\n"), 403, "requests of web pages are refused"},
		"lower-case origin":   {handshake("/", h, token+"origin: x\r\n"), 403, "requests of web pages are refused"},
		"origin at healthz":   {plain("GET", "/healthz", h, "Origin: http://example.com\r\n"), 403, "requests of web pages are refused"},
		"origin with POST":    {plain("POST", "/", h, "Origin: http://example.com\r\n"), 403, "requests of web pages are refused"},
		"origin with OPTIONS": {plain("OPTIONS", "/", h, "Origin: http://example.com\r\n"), 403, "requests of web pages are refused"},

		"localhost":              {handshake("/", "localhost:"+port, token), 101, ""},
		"Localhost":              {handshake("/", "LocalHost:"+port, token), 101, ""},
		"IPv6 loopback":          {handshake("/", "[::1]:"+port, token), 101, ""},
		"mapped loopback":        {handshake("/", "[::ffff:127.0.0.1]:"+port, token), 101, ""},
		"rebound name":           {handshake("/", "attacker.example:"+port, token), 403, "unknown host*"},
		"rebound name, healthz":  {plain("GET", "/healthz", "attacker.example:"+port, ""), 403, "unknown host*"},
		"prefix of localhost":    {handshake("/", "localhost.attacker.example:"+port, token), 403, "unknown host*"},
		"suffix of localhost":    {handshake("/", "x.localhost:"+port, token), 403, "unknown host*"},
		"rooted localhost":       {handshake("/", "localhost.:"+port, token), 403, "unknown host*"},
		"other address":          {handshake("/", "127.0.0.2:"+port, token), 403, "unknown host*"},
		"unspecified address":    {handshake("/", "0.0.0.0:"+port, token), 403, "unknown host*"},
		"short address":          {handshake("/", "127.1:"+port, token), 403, "unknown host*"},
		"other port":             {handshake("/", "127.0.0.1:1", token), 403, "unknown host*"},
		"no port":                {handshake("/", "127.0.0.1", token), 403, "unknown host*"},
		"empty host":             {handshake("/", "", token), 403, "unknown host*"},
		"no host":                {"GET /healthz HTTP/1.0\r\n\r\n", 403, "unknown host*"},
		"host in the target":     {"GET http://attacker.example/ HTTP/1.1\r\nHost: " + h + "\r\n\r\n", 403, "unknown host*"},
		"known host, bad target": {"GET http://" + h + "/healthz HTTP/1.1\r\nHost: attacker.example\r\n\r\n", 200, ""}, // the target takes precedence

		"oversized header":   {handshake("/", h, token+"X: "+strings.Repeat("x", 64<<10)+"\r\n"), 431, "*"},
		"oversized target":   {handshake("/"+strings.Repeat("x", 64<<10), h, token), 431, "*"},
		"many headers":       {handshake("/", h, token+strings.Repeat("X: x\r\n", 10<<10)), 431, "*"},
		"two hosts":          {handshake("/", h, token+"Host: "+h+"\r\n"), 400, "*"},
		"not HTTP":           {"{\"id\":1,\"method\":\"initialize\"}\n\n", 400, "*"},
		"HTTP/2 without TLS": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 403, "*"},
	} {
		status, body := r.ask(test.request)
		match := body == test.body
		if prefix, ok := strings.CutSuffix(test.body, "*"); ok {
			match = strings.HasPrefix(body, prefix)
		}
		if status != test.status || !match {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, test.status, test.body)
		}
	}
}

// A server without authentication does not listen.
func TestListenRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"no authentication":    {Address: loopback},
		"no token file":        {Address: loopback, Auth: Auth{Mode: CapabilityToken, TokenFile: "/does/not/exist"}},
		"all addresses":        {Address: Address{Kind: TCP, TCP: netip.MustParseAddrPort("0.0.0.0:0")}, Auth: Auth{Mode: AuthNone}},
		"an address elsewhere": {Address: Address{Kind: TCP, TCP: netip.MustParseAddrPort("192.0.2.1:0")}, Auth: Auth{Mode: SignedBearer, SecretFile: write(t, sharedSecret)}},
	} {
		if s, err := Listen(t.Context(), cfg); err == nil {
			_ = s.Close()
			t.Errorf("%s: listens on %s", name, s.URL())
		}
	}
}

func TestOneRequestPerConnection(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: AuthNone}, MaxHandshake: time.Hour}, echo)
	c := r.conn()
	request := plain("GET", "/healthz", r.host(), "")
	if _, err := io.WriteString(c, request+request); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); strings.Count(string(b), "HTTP/1.1") != 1 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%q, %v", b, err)
	}
}

func TestHostOnPort80(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:80": true, "localhost": true, "[::1]": true, "::1": true, "127.0.0.1:81": false, "example.com": false, "": false,
		"192.0.2.7": true, "192.0.2.8": false,
	} {
		addr := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.7:80"))
		r := (&http.Request{Host: host}).WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(addr)))
		if got := knownHost(r); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}

// A server for all addresses is known by the one that a client has used.
func TestUnspecifiedAddress(t *testing.T) {
	t.Parallel()
	auth := Auth{Mode: CapabilityToken, TokenFile: write(t, "secret")}
	r := start(t, Config{Address: Address{Kind: TCP, TCP: netip.MustParseAddrPort("0.0.0.0:0")}, Auth: auth}, echo)
	port := r.host()[strings.LastIndex(r.host(), ":")+1:]
	for host, want := range map[string]int{"127.0.0.1": 200, "localhost": 200, "192.0.2.1": 403, "0.0.0.0": 403} {
		if status, _ := r.ask(plain("GET", "/healthz", host+":"+port, "")); status != want {
			t.Errorf("%s: %d, want %d", host, status, want)
		}
	}
	if c, err := net.Dial("tcp", "[::1]:"+port); err == nil {
		c.Close()
		t.Error("0.0.0.0 stands for IPv6 addresses too")
	}
}

func TestWebsocketClients(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: AuthNone}}, echo)
	clients := make([]*websocket.Conn, 20)
	for i := range clients {
		clients[i] = r.client()
	}
	for i, c := range clients {
		echoes(t, c, fmt.Sprint("hello ", i))
	}
	_ = clients[3].Close()
	for _, i := range []int{0, 19} {
		echoes(t, clients[i], strings.Repeat("x", 1<<20))
	}
	pong := make(chan string, 1)
	clients[0].SetPongHandler(func(text string) error { pong <- text; return nil })
	if err := clients[0].WriteControl(websocket.PingMessage, []byte("p"), time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	echoes(t, clients[0], "after a ping")
	if got := await(t, pong, "a pong"); got != "p" {
		t.Errorf("pong %q", got)
	}
}

func TestPeerOverTCP(t *testing.T) {
	t.Parallel()
	peers := make(chan Peer, 1)
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: AuthNone}}, func(_ context.Context, _ rpc.Stream, p Peer) { peers <- p })
	c := r.client()
	if p := await(t, peers, "a client"); p.Kind != TCP || p.Addr != c.LocalAddr().String() || p.PID != 0 || p.Launched {
		t.Errorf("%+v, want %s", p, c.LocalAddr())
	}
	left(t, c) // the handler has returned
}

func TestSignedBearerOverTCP(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: SignedBearer, SecretFile: write(t, sharedSecret), ClockSkew: DefaultClockSkew}}, echo)
	for exp, want := range map[time.Duration]string{time.Hour: "", -time.Hour: "expired websocket jwt"} {
		token := signJWT(t, jwt.SigningMethodHS256, []byte(sharedSecret), jwt.MapClaims{"exp": time.Now().Add(exp).Unix()})
		c, resp, err := r.dial(http.Header{"Authorization": {"Bearer " + token}})
		if want == "" {
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			echoes(t, c, "hello")
			continue
		}
		if err == nil || resp == nil {
			t.Errorf("an expired token: %v", err)
			continue
		}
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 401 || strings.TrimSpace(string(b)) != want || resp.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%d %q %v", resp.StatusCode, b, resp.Header)
		}
	}
}

// Clients that do not complete their request are disconnected, and do not keep others out.
func TestSlowHandshakes(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: AuthNone}, MaxHandshake: 100 * time.Millisecond, MaxPending: 2}, echo)
	h := r.host()
	client := r.client() // one that is connected is not affected
	for name, begin := range map[string]string{
		"nothing": "", "half a line": "GET / HT", "half a header": "GET / HTTP/1.1\r\nHost: " + h + "\r\nX", "a body": plain("POST", "/", h, "Content-Length: 1000\r\n") + "x",
		"a body in chunks": plain("POST", "/", h, "Transfer-Encoding: chunked\r\n"),
	} {
		c := r.conn()
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v, want the end", name, err)
		}
	}
	for range 5 {
		r.conn()
	}
	echoes(t, client, "still here")
	echoes(t, r.client(), "another one")
}

func TestTooManyClients(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: AuthNone}, MaxClients: 2}, echo)
	a, b := r.client(), r.client()
	if _, resp, err := r.dial(nil); err == nil || resp == nil || resp.StatusCode != 503 {
		t.Errorf("a third client: %v, %v", resp, err)
	}
	if status, _ := r.ask(plain("GET", "/healthz", r.host(), "")); status != 200 {
		t.Errorf("healthz: %d", status)
	}
	_ = a.Close()
	deadline := time.Now().Add(patience)
	for { // the server notices it on its own goroutine
		c, _, err := r.dial(nil)
		if err == nil {
			echoes(t, c, "hello")
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	echoes(t, b, "hello")
}

// A client that pipelines messages behind its handshake is refused: they were not authenticated when they were sent.
func TestMessagesBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	served := make(chan struct{}, 1)
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: AuthNone}}, func(context.Context, rpc.Stream, Peer) { served <- struct{}{} })
	c := r.conn()
	if _, err := io.WriteString(c, handshake("/", r.host(), "")+"\x81\x80\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && resp.StatusCode == 101 {
		t.Errorf("%v", resp.Status)
	}
	select {
	case <-served:
		t.Error("served")
	default:
	}
}

// A panic costs one connection.
func TestPanic(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: AuthNone}}, func(ctx context.Context, s rpc.Stream, p Peer) {
		if m, err := s.Read(); err == nil && string(m) == "panic" {
			panic("as asked")
		} else if err == nil {
			_ = send(s, m)
		}
		echo(ctx, s, p)
	})
	other, c := r.client(), r.client()
	if err := c.WriteMessage(websocket.TextMessage, []byte("panic")); err != nil {
		t.Fatal(err)
	}
	left(t, c)
	echoes(t, other, "hello")
}
