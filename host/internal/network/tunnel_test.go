package network_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/network"
)

// enter opens a tunnel to port 80 of open.test.
func (w *world) enter(t *testing.T, way string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	answer := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	if way == "SOCKS5" {
		fmt.Fprint(conn, "\x05\x01\x00\x05\x01\x00\x03\x09open.test\x00\x50")
		answer = answer[:12]
	} else {
		fmt.Fprint(conn, "CONNECT open.test:80 HTTP/1.1\r\nHost: open.test:80\r\n\r\n")
	}
	if _, err := io.ReadFull(conn, answer); err != nil {
		t.Fatal(err)
	}
	if way == "slowly" {
		return slowly{conn}
	}
	return conn
}

// silent serves one connection: it reads to its end and answers nothing. The function waits for that end and returns what was read.
func silent(t *testing.T) (addr string, read func() string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	all := make(chan string, 1)
	go func() { // ends with its connection, which the proxy closes, or with the listener
		conn, err := ln.Accept()
		if err != nil {
			all <- err.Error()
			return
		}
		defer conn.Close()
		b, _ := io.ReadAll(conn)
		all <- string(b)
	}()
	return ln.Addr().String(), func() string { return <-all }
}

// HTTP in a tunnel is for the host of the tunnel, in each of its requests. What the origin answers says which host it was asked for.
func TestHTTPInTunnels(t *testing.T) {
	t.Parallel()
	const end = "Connection: close\r\n\r\n"
	for name, tc := range map[string]struct{ say, want, told string }{
		"the host":                 {"GET /a HTTP/1.1\r\nHost: open.test\r\n" + end, "GET /a host=open.test body=", ""},
		"with its port":            {"GET /a HTTP/1.1\r\nHost: OPEN.test:80\r\n" + end, "GET /a host=open.test:80 body=", ""},
		"no Host line":             {"GET /a HTTP/1.0\r\n\r\n", "GET /a host=open.test body=", ""},
		"the whole address":        {"GET http://open.test/a?b=%2F HTTP/1.1\r\nHost: open.test\r\n" + end, "GET /a host=open.test", ""},
		"of the whole server":      {"OPTIONS * HTTP/1.1\r\nHost: open.test\r\n" + end, "HTTP/1.1 200", ""},
		"a body":                   {"POST /a HTTP/1.1\r\nHost: open.test\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nHost: open.test\r\n" + end, "body=abc\x00GET /b host=open.test", ""},
		"a WebSocket":              {"GET /switch HTTP/1.1\r\nHost: open.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello\n", "101 \x00echo hello", ""},
		"another Host":             {"GET /a HTTP/1.1\r\nHost: evil.test\r\n" + end, "400 Bad Request", "evil.test"},
		"another port":             {"GET /a HTTP/1.1\r\nHost: open.test:81\r\n" + end, "400 Bad Request", "open.test"},
		"two Hosts":                {"GET /a HTTP/1.1\r\nHost: open.test\r\nHost: evil.test\r\n" + end, "400 Bad Request", ""},
		"another whole address":    {"GET http://evil.test/a HTTP/1.1\r\nHost: open.test\r\n" + end, "400 Bad Request", "name_mismatch"},
		"another second request":   {"GET /a HTTP/1.1\r\nHost: open.test\r\n\r\nGET /b HTTP/1.1\r\nHost: evil.test\r\n" + end, "GET /a host=open.test\x00400 Bad Request", "evil.test"},
		"a method of its own":      {"BREW /a HTTP/1.1\r\nHost: evil.test\r\n" + end, "400 Bad Request", "evil.test"},
		"HTTP/0.9":                 {"GET http://evil.test/a\r\n\r\n", "400 Bad Request", ""},
		"HTTP/2":                   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "400 Bad Request", ""},
		"an upgrade to HTTP/2":     {"GET /switch HTTP/1.1\r\nHost: open.test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nhello\n", "502 Bad Gateway", ""},
		"an upgrade to TLS":        {"GET /switch HTTP/1.1\r\nHost: open.test\r\nConnection: Upgrade\r\nUpgrade: TLS/1.2, HTTP/1.1\r\n\r\nhello\n", "502 Bad Gateway", ""},
		"a tunnel in it":           {"CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test:80\r\n\r\n", "400 Bad Request", ""},
		"small letters":            {"get /a HTTP/1.1\r\nHost: evil.test\r\n" + end, "", "name_mismatch"},
		"an empty line first":      {"\r\n\r\nGET /a HTTP/1.1\r\nHost: evil.test\r\n" + end, "", "name_mismatch"},
		"a blank first":            {" GET /a HTTP/1.1\r\nHost: evil.test\r\n" + end, "", "name_mismatch"},
		"an empty line, HTTP/0.9":  {"\nGET http://evil.test/\r\n\r\n", "", "name_mismatch"},
		"a tab in the place of it": {"x\t/a\thttp/1.1\r\nHost: evil.test\r\n" + end, "", "name_mismatch"},
		"a long line":              {"GET /" + strings.Repeat("x", 40<<10) + " HTTP/1.1\r\nHost: evil.test\r\n" + end, "431 ", ""},
		"another long line":        {"get /" + strings.Repeat("x", 40<<10) + " HTTP/1.1\r\nHost: evil.test\r\n" + end, "", "name_mismatch"},
	} {
		for _, way := range []string{"CONNECT", "SOCKS5", "slowly"} {
			if way == "slowly" && len(tc.say) > 1<<10 {
				continue
			}
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				w, forwarded := begin(t, open(t), nil), func() string { return "" }
				if tc.want == "" { // the proxy has to notice it by itself: many a server answers the first bytes with an error
					var at string
					at, forwarded = silent(t)
					w = beginAt(t, open(t), nil, at)
				}
				conn := w.enter(t, way)
				_, _ = io.WriteString(conn, tc.say) // may be cut
				got, _ := io.ReadAll(conn)
				rest, n := string(got), 0
				for part := range strings.SplitSeq(tc.want, "\x00") {
					i := strings.Index(rest, part)
					if i < 0 {
						t.Errorf("%q lacks %q", got, part)
						break
					}
					rest, n = rest[i+len(part):], n+1
				}
				if said := forwarded(); strings.Contains(string(got), "host=evil") || strings.Contains(said, "evil.test") {
					t.Errorf("the origin was reached: %q, %.100q", got, said)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if said := strings.Join(w.said, "\n"); strings.Contains(said, network.NameMismatch) != (tc.told != "") && name != "two Hosts" || !strings.Contains(said, tc.told) {
					t.Errorf("told %s", said)
				}
			})
		}
	}
}

// What is not HTTP is carried as it is, also where it begins like it, and without waiting for more than the client says.
func TestOtherProtocolsInTunnels(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]string{
		"SSH": "SSH-2.0-x\r\n", "a database": "\x00\x00\x00\x08\x04\xd2\x16\x2f", "Redis": "*1\r\n$4\r\nPING\r\n", "a line": "EHLO me\r\n", "half a line": "AMQP\x00\x00\x09\x01",
		"a word": "JDWP-Handshake", "git": "003agit-upload-pack /x\x00host=open.test\x00", "an empty line": "\r\n", "text after a line": "NICK x\r\nsome HTTP/1.1\r\n", "a query": "\x20\x00\x00\x00\x03select 'HTTP/1.1'",
	} {
		for _, way := range []string{"CONNECT", "slowly"} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				heard := make(chan string, 1)
				go func() { // ends with its connection, which the test closes
					conn, err := ln.Accept()
					if err != nil {
						heard <- err.Error()
						return
					}
					defer conn.Close()
					b := make([]byte, len(say))
					_, _ = io.ReadFull(conn, b)
					heard <- string(b)
					_, _ = conn.Write([]byte("answer"))
				}()
				w := beginAt(t, open(t), nil, ln.Addr().String())
				conn := w.enter(t, way)
				if _, err := io.WriteString(conn, say); err != nil {
					t.Fatal(err)
				}
				if got := <-heard; got != say {
					t.Errorf("the server was told %q", got)
				}
				if got, err := io.ReadAll(conn); err != nil || string(got) != "answer" {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
}
