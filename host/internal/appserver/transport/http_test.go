package transport

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Requests of clients that use no websocket pass the same checks, and reach their handler at one path alone.
func TestHTTPRequests(t *testing.T) {
	t.Parallel()
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(append([]byte(r.Method+" "), b...)) // the client may have left
	})
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: CapabilityToken, TokenFile: write(t, "secret\n")}, HTTP: served}, nil)
	h := r.host()
	port := h[strings.LastIndex(h, ":")+1:]
	const token = "Authorization: Bearer secret\r\n"
	for name, test := range map[string]struct {
		request string
		status  int
		body    string
	}{
		"POST":                {plain("POST", "/mcp", h, token+"Content-Length: 2\r\n") + "{}", 200, "POST {}"},
		"GET":                 {plain("GET", "/mcp", h, token), 200, "GET"},
		"DELETE":              {plain("DELETE", "/mcp?x", h, token), 200, "DELETE"},
		"no token":            {plain("POST", "/mcp", h, "Content-Length: 2\r\n") + "{}", 401, "missing bearer token"},
		"wrong token":         {plain("GET", "/mcp", h, token+"Authorization: Bearer x\r\n"), 401, "invalid authorization header"},
		"another token":       {plain("GET", "/mcp", h, "Authorization: Bearer x\r\n"), 401, "invalid bearer token"},
		"token in the query":  {plain("GET", "/mcp?token=secret", h, ""), 401, "missing bearer token"},
		"origin":              {plain("POST", "/mcp", h, token+"Origin: http://example.com\r\nContent-Length: 2\r\n") + "{}", 403, "requests of web pages are refused"},
		"own origin":          {plain("POST", "/mcp", h, token+"Origin: http://"+h+"\r\nContent-Length: 0\r\n"), 403, "requests of web pages are refused"},
		"a page's preflight":  {plain("OPTIONS", "/mcp", h, "Origin: null\r\n"), 403, "requests of web pages are refused"},
		"rebound name":        {plain("POST", "/mcp", "attacker.example:"+port, token+"Content-Length: 0\r\n"), 403, "unknown host*"},
		"other port":          {plain("GET", "/mcp", "127.0.0.1:1", token), 403, "unknown host*"},
		"other path":          {plain("POST", "/", h, token+"Content-Length: 0\r\n"), 404, "not found: the server is at /mcp"},
		"below the path":      {plain("GET", "/mcp/", h, token), 404, "not found: the server is at /mcp"},
		"another way to it":   {plain("GET", "/x/../mcp", h, token), 404, "not found: the server is at /mcp"},
		"a view":              {plain("GET", "/view/x", h, token), 404, "not found: the server is at /mcp"},
		"a websocket":         {handshake("/", h, token), 404, "not found: the server is at /mcp"},
		"oversized header":    {plain("GET", "/mcp", h, token+"X: "+strings.Repeat("x", 64<<10)+"\r\n"), 431, "*"},
		"a body of two sizes": {plain("POST", "/mcp", h, token+"Content-Length: 2\r\nContent-Length: 3\r\n") + "{}", 400, "*"},
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

// Requests that are served count as clients, and end with the server.
func TestHTTPRequestsThatLast(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	waits := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	})
	r := start(t, Config{Address: loopback, Auth: Auth{Mode: AuthNone}, HTTP: waits, MaxClients: 1}, nil)
	// While the body has not arrived, net/http does not notice that the connection ends.
	if _, err := io.WriteString(r.conn(), plain("POST", "/mcp", r.host(), "Content-Length: 2\r\n")); err != nil {
		t.Fatal(err)
	}
	await(t, begun, "the first request")
	if status, body := r.ask(plain("GET", "/mcp", r.host(), "")); status != 503 || body != "too many clients" {
		t.Errorf("a second one: %d %q", status, body)
	}
	r.cancel(nil)
	if err := await(t, ended, "the end of the request"); err == nil {
		t.Error("it ended for no reason")
	}
}
