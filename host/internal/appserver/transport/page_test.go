package transport

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
)

// testPage is a page whose clients have to offer a subprotocol.
type testPage struct{}

func (testPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte(r.Method + " " + r.URL.Path))
}

func (testPage) Authorize(r *http.Request) (string, error) {
	if p := websocket.Subprotocols(r); len(p) == 1 && p[0] == "good" {
		return "good", nil
	}
	return "", errors.New("no token")
}

// pageServer serves testPage.
func pageServer(t *testing.T) *running {
	t.Helper()
	return start(t, Config{Address: loopback, Page: testPage{}}, echo)
}

// A page is served to requests that name this server, and only the page itself can do something.
func TestPage(t *testing.T) {
	r := pageServer(t)
	host := r.host()
	_, port, _ := strings.Cut(host, ":")
	const handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	own := "Origin: http://" + host + "\r\n"
	for name, test := range map[string]struct {
		line, host, header string
		status             int
		body               string
	}{
		"page":                        {"GET /", host, "", 200, "GET /"},
		"page, by name":               {"GET /x", "localhost:" + port, "", 200, "GET /x"},
		"a name that was rebound":     {"GET /", "evil.test:" + port, "", 403, "unknown host"},
		"rebound, with its origin":    {"POST /", "evil.test:" + port, "Origin: http://evil.test:" + port + "\r\n", 403, "unknown host"},
		"rebound websocket":           {"GET /", "evil.test:" + port, handshake + "Origin: http://evil.test:" + port + "\r\nSec-WebSocket-Protocol: good\r\n", 403, "unknown host"},
		"other port in the host":      {"GET /", "127.0.0.1:1", "", 403, "unknown host"},
		"no port":                     {"GET /", "127.0.0.1", "", 403, "unknown host"},
		"post of the page":            {"POST /", host, own, 200, "POST /"},
		"post without an origin":      {"POST /", host, "", 403, "other web pages"},
		"post of another page":        {"POST /", host, "Origin: https://evil.test\r\n", 403, "other web pages"},
		"post of another port":        {"POST /", host, "Origin: http://127.0.0.1:1\r\n", 403, "other web pages"},
		"post of another scheme":      {"POST /", host, "Origin: https://" + host + "\r\n", 403, "other web pages"},
		"post of another name":        {"POST /", host, "Origin: http://localhost:" + port + "\r\n", 403, "other web pages"},
		"post of a file":              {"POST /", host, "Origin: null\r\n", 403, "other web pages"},
		"two origins":                 {"POST /", host, own + own, 403, "other web pages"},
		"get of another page":         {"GET /", host, "Origin: https://evil.test\r\n", 403, "other web pages"},
		"websocket":                   {"GET /", host, handshake + own + "Sec-WebSocket-Protocol: good\r\n", 101, ""},
		"websocket of another page":   {"GET /", host, handshake + "Origin: https://evil.test\r\nSec-WebSocket-Protocol: good\r\n", 403, "other web pages"},
		"websocket of another port":   {"GET /", host, handshake + "Origin: http://127.0.0.1:1\r\nSec-WebSocket-Protocol: good\r\n", 403, "other web pages"},
		"websocket of a program":      {"GET /", host, handshake + "Sec-WebSocket-Protocol: good\r\n", 403, "other web pages"},
		"websocket without a token":   {"GET /", host, handshake + own, 401, "no token"},
		"websocket, wrong token":      {"GET /", host, handshake + own + "Sec-WebSocket-Protocol: bad\r\n", 401, "no token"},
		"websocket, bearer is no use": {"GET /", host, handshake + own + "Authorization: Bearer good\r\n", 401, "no token"},
	} {
		status, body := r.ask(test.line + " HTTP/1.1\r\nHost: " + test.host + "\r\n" + test.header + "Content-Length: 0\r\n\r\n")
		if status != test.status || !strings.Contains(body, test.body) {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, test.status, test.body)
		}
	}
}

// A client of the page is served, with the subprotocol that was agreed on.
func TestPageClient(t *testing.T) {
	r := pageServer(t)
	c, resp, err := r.dial(http.Header{"Origin": {"http://" + r.host()}, "Sec-WebSocket-Protocol": {"good"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Subprotocol() != "good" || resp.Header.Get("Sec-Websocket-Protocol") != "good" {
		t.Errorf("subprotocol %q", c.Subprotocol())
	}
	echoes(t, c, `{"id":1}`)
}

// A page is for this machine.
func TestPageOnLoopback(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		s, err := Listen(t.Context(), Config{Address: Address{Kind: TCP, TCP: netip.MustParseAddrPort(address)}, Page: testPage{}})
		if err == nil {
			_ = s.Close()
			t.Errorf("a page is served on %s", address)
		} else if !strings.Contains(err.Error(), "other machines") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A process that this one has started has no access, even if it knows everything: it could answer the questions of its own agent.
func TestPageRefusesLaunchedClients(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not known on " + runtime.GOOS)
	}
	r := pageServer(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestLaunchedClientOfPage$", "-test.v")
	cmd.Env = append(os.Environ(), "GANTRY_TEST_PAGE="+r.host())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "GET 200, POST 403, websocket 403") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLaunchedClientOfPage is the program of the test above.
func TestLaunchedClientOfPage(t *testing.T) {
	host := os.Getenv("GANTRY_TEST_PAGE")
	if host == "" {
		t.Skip("not a test")
	}
	ask := func(method string) int {
		req, err := http.NewRequest(method, "http://"+host+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "http://"+host)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	get, post := ask(http.MethodGet), ask(http.MethodPost)
	_, resp, err := websocket.DefaultDialer.Dial("ws://"+host+"/", http.Header{"Origin": {"http://" + host}, "Sec-WebSocket-Protocol": {"good"}})
	if err == nil {
		t.Fatal("the websocket is open")
	}
	fmt.Printf("GET %d, POST %d, websocket %d\n", get, post, resp.StatusCode)
}
