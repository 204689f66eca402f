package route

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

func prepare(t *testing.T, cfg Config) (*provider.Prepared, http.Header) {
	t.Helper()
	p, err := open(t, cfg).Prepare(t.Context(), request("m"))
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for _, f := range p.Headers {
		h.Add(f.Name, f.Value)
	}
	return p, h
}

func TestAddress(t *testing.T) {
	tests := []struct {
		name, base, path string
		query, overlay   map[string]string
		want             string
	}{
		{"slash between", "http://h/v1/", "/responses", map[string]string{"a": "1"}, map[string]string{"a": "2"}, "http://h/v1/responses?a=2"},
		{"no path", "http://h", "/x", nil, nil, "http://h/x"},
		{"several slashes", "http://h/v1//", "/x", nil, nil, "http://h/v1/x"},
		{"query of the base", "http://h/v1?api-version=1&b=1", "/x", map[string]string{"b": "2"}, nil, "http://h/v1/x?api-version=1&b=2"},
		{"query of the path", "http://h", "/models/m:stream?alt=sse", map[string]string{"alt": "json"}, nil, "http://h/models/m:stream?alt=sse"},
		{"escaped path", "http://h/a%2Fb", "/m%2Fn", nil, nil, "http://h/a%2Fb/m%2Fn"},
		{"secret in the query", "http://h", "/x?key=abcd", nil, nil, "http://h/x?key=%3Credacted%3E"},
		{"user", "http://u:secret@h", "/x", nil, nil, "http://h/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := prepare(t, Config{
				Protocol: toy{framing: sse.framing, path: tt.path}, BaseURL: tt.base, Query: tt.query, Overlay: Overlay{Query: tt.overlay},
			})
			if p.URL != tt.want || p.Method != "POST" {
				t.Errorf("%s %s, want %s", p.Method, p.URL, tt.want)
			}
		})
	}
}

func TestOverlayOfTheBody(t *testing.T) {
	tests := []struct{ name, base, over, want string }{
		{"null is nothing", `{"a":1}`, `null`, `{"a":1}`},
		{"objects merge", `{"x":{"z":2}}`, `{"x":{"y":1}}`, `{"x":{"z":2,"y":1}}`},
		{"deeply", `{"a":{"b":{"c":1,"d":2}},"e":3}`, `{"a":{"b":{"c":9}}}`, `{"a":{"b":{"c":9,"d":2}},"e":3}`},
		{"lists are replaced", `{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
		{"an object replaces a value", `{"a":1}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{"a value replaces an object", `{"a":{"b":1}}`, `{"a":null}`, `{"a":null}`},
		{"what is not named stays as written", `{"n":12345678901234567890,"f":1.0,"s":"<é\u00e9>"}`, `{"b":1}`, `{"n":12345678901234567890,"f":1.0,"s":"<é\u00e9>","b":1}`},
		{"nothing", `{"a": 1}`, ``, `{"a": 1}`},
		{"empty", `{}`, `{}`, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := prepare(t, Config{Protocol: toy{framing: sse.framing, body: tt.base}, BaseURL: "http://h", Overlay: Overlay{Body: []byte(tt.over)}})
			if string(p.Body) != tt.want {
				t.Errorf("got  %s\nwant %s", p.Body, tt.want)
			}
		})
	}
}

func TestLaterHeadersWin(t *testing.T) {
	_, h := prepare(t, Config{
		BaseURL: "http://user:password@h", Version: "1.2.3",
		Headers: map[string]string{"X-Api-Version": "1", "authorization": "stale", "x-mine": "vendor", "content-type": "text/plain"},
		Overlay: Overlay{Headers: map[string]string{"x-mine": "user", "Content-Type": "text/html", "X-Token": "seen?"}},
		Auth:    Bearer(fixed("sk-12345")),
	})
	want := http.Header{
		"X-Api-Version": {"1"}, "Authorization": {"<redacted>"}, "X-Mine": {"user"}, "Content-Type": {"application/json"},
		"X-Token": {"<redacted>"}, "User-Agent": {"gantry/1.2.3"}, "Accept": {"text/event-stream"},
	}
	for name := range want {
		if strings.Join(h[name], "|") != want[name][0] {
			t.Errorf("%s: %v, want %v", name, h[name], want[name])
		}
	}
	if len(h) != len(want) {
		t.Errorf("headers: %v", h)
	}
}

func TestWhatIsPreparedIsSent(t *testing.T) {
	h, requests := inTurn(answerWith("x"))
	r := loopback(t, Config{
		BaseURL: "", Query: map[string]string{"v": "1"}, Headers: map[string]string{"X-A": "b"},
		Overlay: Overlay{Body: []byte(`{"store":false}`)}, Auth: Bearer(fixed("sk-12345")), Version: "1",
	}, h)
	p, err := r.Prepare(t.Context(), request("m sk-12345"))
	if err != nil || len(requests.all()) != 0 {
		t.Fatal(err, "or something was sent")
	}
	if err := r.Stream(t.Context(), request("m sk-12345"), 1, (&told{}).emit); err != nil {
		t.Fatal(err)
	}
	sent := requests.all()[0]
	if !strings.HasSuffix(p.URL, sent.url) || strings.ReplaceAll(sent.body, "sk-12345", "<redacted>") != string(p.Body) {
		t.Errorf("sent %s %s, prepared %s %s", sent.url, sent.body, p.URL, p.Body)
	}
	if sent.body != `{"model":"m sk-12345","namespace":"toy","store":false}` || sent.header.Get("Authorization") != "Bearer sk-12345" {
		t.Errorf("sent %s with %v", sent.body, sent.header)
	}
	sent.header.Del("Content-Length") // the connection's
	if len(sent.header) != len(p.Headers) {
		t.Errorf("sent %v, prepared %v", sent.header, p.Headers)
	}
	for _, f := range p.Headers {
		if v := sent.header.Values(f.Name); len(v) != 1 || f.Value != "<redacted>" && f.Value != v[0] {
			t.Errorf("%s: sent %v, prepared %v", f.Name, v, f.Value)
		}
	}
}

func TestUserOfTheBaseIsSentAsBasic(t *testing.T) {
	h, requests := inTurn(failWith(401, `{"error":"no user u with pass word"}`))
	r := loopback(t, Config{}, h)
	base := *r.base
	r = open(t, Config{BaseURL: "http://u:pass%20word@" + base.Host})
	f := fault(t, r.Stream(t.Context(), request("m"), 1, (&told{}).emit))
	if got := requests.all()[0].header.Get("Authorization"); got != "Basic dTpwYXNzIHdvcmQ=" {
		t.Error(got)
	}
	if f.Err.Message != "no user u with <redacted>" {
		t.Error(f.Err.Message)
	}
}

func TestWithLaysOneMoreOverlayOver(t *testing.T) {
	r := open(t, Config{BaseURL: "http://h", Overlay: Overlay{
		Headers: map[string]string{"X-A": "1", "X-B": "1"}, Query: map[string]string{"a": "1", "b": "1"}, Body: []byte(`{"o":{"a":1,"b":1}}`),
	}})
	over, err := r.With(Overlay{Headers: map[string]string{"x-b": "2"}, Query: map[string]string{"b": "2"}, Body: []byte(`{"o":{"b":2}}`)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := over.Prepare(t.Context(), request("m"))
	if err != nil {
		t.Fatal(err)
	}
	if p.URL != "http://h/answer?a=1&b=2" || string(p.Body) != `{"model":"m","namespace":"toy","o":{"a":1,"b":2}}` {
		t.Errorf("%s %s", p.URL, p.Body)
	}
	for _, h := range p.Headers {
		if h.Name == "X-A" && h.Value != "1" || h.Name == "X-B" && h.Value != "2" {
			t.Errorf("%+v", h)
		}
	}
	if p, err := r.Prepare(t.Context(), request("m")); err != nil || p.URL != "http://h/answer?a=1&b=1" {
		t.Errorf("the first one changed: %v, %v", p, err)
	}
	if _, err := r.With(Overlay{Body: []byte(`1`)}); err == nil {
		t.Error("took an overlay that is no object")
	}
}

func TestARequestThatCantBeMade(t *testing.T) {
	tests := []struct {
		name, model string
		cfg         Config
		code        llm.ErrorCode
		want        string
	}{
		{"the protocol refuses", "impossible", Config{}, llm.ErrInvalidRequest, "no such thing"},
		{"a key of two lines", "m", Config{Auth: Header("X-Key", fixed("a\nb"))}, llm.ErrInvalidRequest, "X-Key"},
		{"a path that is none", "m", Config{Protocol: toy{framing: sse.framing, path: "/%zz"}}, llm.ErrInvalidRequest, "model"},
		{"no key", "m", Config{Auth: Bearer(fixed(" "))}, llm.ErrAuthentication, "no key for the header Authorization (it is empty)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.BaseURL = "http://127.0.0.1:1"
			r := open(t, tt.cfg)
			_, perr := r.Prepare(t.Context(), request(tt.model))
			serr := r.Stream(t.Context(), request(tt.model), 3, (&told{}).emit)
			if tt.code == llm.ErrAuthentication { // prompts can be looked at without a key
				if perr != nil {
					t.Error(perr)
				}
				perr = serr
			}
			for _, err := range []error{perr, serr} {
				e, ok := errors.AsType[*llm.Error](err)
				if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.want) || e.Retryable {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// Without a key a request shows where it would stand.
func TestPrepareWithoutAKey(t *testing.T) {
	none, blank := missing("nobody logged in"), fixed(" ")
	for _, tt := range []struct {
		name string
		auth Auth
		want map[string]string
	}{
		{"bearer", Bearer(none), map[string]string{"Authorization": Missing}},
		{"header", Header("x-api-key", blank), map[string]string{"X-Api-Key": Missing}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, h := prepare(t, Config{BaseURL: "http://h", Auth: tt.auth, Overlay: Overlay{Body: []byte(`{"note":"<missing>"}`)}})
			for name, want := range tt.want {
				if got := h.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if !strings.Contains(string(p.Body), "<missing>") {
				t.Errorf("body %s", p.Body)
			}
		})
	}
}
