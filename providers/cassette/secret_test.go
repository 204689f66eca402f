package cassette

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustURL(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestCover(t *testing.T) {
	var c cover
	u := mustURL(t, "https://user:pass-word@h/v1?api-key=k1-secret&API_KEY=k2-secret&key=k3-secret&sig=k4&X-Amz-Date=2026&model=m#part")
	h := http.Header{"Set-Cookie": {"a=1", "b=2"}}
	for _, name := range []string{
		"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "X-Goog-Api-Key", "X-Amz-Security-Token",
	} {
		h.Set(name, "Bearer top-secret-"+name)
	}
	h.Set("X-Note", "it is top-secret-Cookie")
	h.Set("X-Ratelimit-Remaining-Tokens", "12")
	r := c.request("POST", u, h, []byte(`{"text":"top-secret-X-Api-Key and k1-secret","token":"kept"}`))
	want := "https://h/v1?API_KEY=%5BREDACTED%5D&X-Amz-Date=%5BREDACTED%5D&api-key=%5BREDACTED%5D&key=%5BREDACTED%5D&model=m&sig=%5BREDACTED%5D"
	if r.URL != want {
		t.Errorf("url %s\nwant %s", r.URL, want)
	}
	for name := range h {
		want := mark
		switch name {
		case "X-Note":
			want = "it is <redacted>"
		case "X-Ratelimit-Remaining-Tokens":
			want = "12"
		}
		if got := r.Headers[strings.ToLower(name)]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := string(r.Body); got != `{"text":"<redacted> and <redacted>","token":"kept"}` {
		t.Errorf("body %s", got)
	}
	// The answer is covered by what the request was sent with.
	res := &http.Response{StatusCode: 401, Header: http.Header{
		"Date": {"today"}, "Content-Length": {"3"}, "Set-Cookie": {"session=1"}, "X-Request-Id": {"req_1"}, "X-Echo": {"top-secret-Cookie"},
	}}
	a := c.response(res, []byte("wrong key: top-secret-Authorization"), true)
	if got := string(a.Body); got != "wrong key: <redacted>" || !a.Cut {
		t.Errorf("answer %q", got)
	}
	wantHeaders := map[string]string{"set-cookie": mark, "x-request-id": "req_1", "x-echo": "<redacted>"}
	if fmt.Sprint(a.Headers) != fmt.Sprint(wantHeaders) {
		t.Errorf("headers %v, want %v", a.Headers, wantHeaders)
	}
}

var environment = []string{
	"MY_API=correct-horse", "MY_AUTH=\"quoted\\value\"x", "MY_TOKEN=short", "EDITOR=/usr/bin/vi-improved", "DB_PASSWORD=pass word/&=12", "EMPTY_KEY=",
}

func TestWhatLooksLikeASecret(t *testing.T) {
	d := newDetector(environment)
	some := strings.Repeat("aB3", 14)
	for text, want := range map[string]string{
		"Bearer 0123456789abcdef":              "a bearer token",
		"authorization: bearer  " + some:       "a bearer token",
		"Bearer 0123456789abcde":               "",
		"Bearer <redacted>, Bearer [REDACTED]": "",
		"sk-" + some:                           "an API key that begins with sk-",
		"(sk-proj_" + some + ")":               "an API key that begins with sk-",
		"sk-0123456789abcdef":                  "",
		"sk-ant-api03":                         "an API key that begins with sk-ant-",
		"task-" + some:                         "",
		"AIza" + some:                          "a Google API key",
		"AIza":                                 "",
		"x/AIza" + some:                        "", // inside of base64
		"KEY_ID=AKIAABCDEFGHIJKLMNOP":          "an AWS access key",
		"/+AKIAABCDEFGHIJKLMNOP":               "", // inside of base64
		"key: AKIAABCDEFGHIJKLMNOP.":           "an AWS access key",
		"\"ASIAABCDEFGHIJKLMNOP\"":             "an AWS access key",
		"AKIAabcdefghijklmnop":                 "",
		"ghp_0123456789abcdefABCD":             "a GitHub token",
		"ghs_0123456789abcdefABCD":             "a GitHub token",
		"ghx_0123456789abcdefABCD":             "",
		"-----BEGIN RSA PRIVATE KEY-----":      "a private key",
		"-----BEGIN PRIVATE KEY-----":          "a private key",
		"-----BEGIN PUBLIC KEY-----":           "",
		"it is correct-horse":                  "the value of the variable MY_API",
		`"quoted\value"x`:                      "the value of the variable MY_AUTH",
		`{"a":"\"quoted\\value\"x"}`:           "the value of the variable MY_AUTH",
		"p=pass+word%2F%26%3D12":               "the value of the variable DB_PASSWORD",
		"short /usr/bin/vi-improved":           "",
		"":                                     "",
	} {
		if got := d.what(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestWhereASecretIs(t *testing.T) {
	d := newDetector(environment)
	const key = "ghp_0123456789abcdefABCD"
	body := func(s string) Request { return Request{Method: "POST", URL: "http://h", Body: []byte(s)} }
	for _, tt := range []struct {
		name string
		r    Request
		want string
	}{
		{"nowhere", body(`{"a":[1,null,true,"x"]}`), ""},
		{"in the path", Request{URL: "http://h/" + key}, "a GitHub token in the request's address"},
		{"in a header", Request{URL: "http://h", Headers: map[string]string{"x-a": "1", "x-b": key}}, "a GitHub token in the header x-b of the request"},
		{"in a text", body(`{"messages":[{"content":"a"},{"content":[{"text":"` + key + `"}]}]}`), "a GitHub token in the request's body, at messages[1].content[0].text"},
		{"written with escapes", body(`{"a":{"b":"\u0067hp_0123456789abcdefABCD"}}`), "a GitHub token in the request's body, at a.b"},
		{"as a name", body(`{"a":{"` + key + `":1}}`), "a GitHub token in the request's body, at a name inside of a"},
		{"as a name outside", body(`{"` + key + `":1}`), "a GitHub token in the request's body, at a name inside of the body"},
		{"in no JSON", body("a=" + key + "&b"), "a GitHub token in the request's body"},
	} {
		t.Run(tt.name, func(t *testing.T) { checkSuspicion(t, d.request(&tt.r), tt.want) })
	}
	for _, tt := range []struct {
		name string
		r    Response
		want string
	}{
		{"nowhere", Response{Body: []byte("data: {}\n\n")}, ""},
		{"in a header", Response{Headers: map[string]string{"x": key}}, "a GitHub token in the header x of the answer"},
		{"in a line", Response{Body: []byte("event: a\ndata: {\"t\":\"" + key + "\"}\n\n")}, "a GitHub token in line 2 of the answer's body"},
		{"in pieces", Response{Body: []byte("event: a\ndata: {\"d\":[{\"t\":\"key ghp_0123\"}]}\n\ndata: {\"d\":[{\"t\":\"456789abcdefABCD\"}]}\n\n")},
			"a GitHub token in the pieces d[0].t of the answer's body, put together,"},
		{"in pieces, a line each", Response{Body: []byte("{\"t\":\"correct-\"}\n{\"t\":\"horse\"}\n")},
			"the value of the variable MY_API in the pieces t of the answer's body, put together,"},
		{"in pieces of different places", Response{Body: []byte("{\"t\":\"correct-\"}\n{\"u\":\"horse\"}\n")}, ""},
		{"over two lines", Response{Body: []byte("a\nBearer\n0123456789abcdef")}, "a bearer token in the answer's body"},
	} {
		t.Run("answer: "+tt.name, func(t *testing.T) { checkSuspicion(t, d.response(&tt.r), tt.want) })
	}
}

func checkSuspicion(t *testing.T, s *suspicion, want string) {
	t.Helper()
	got := ""
	if s != nil {
		got = s.what + " in " + s.where
	}
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Wherever in a request a secret stands, it is found, and what is said of it does not hold it.
func TestASecretIsFoundEverywhere(t *testing.T) {
	d := newDetector(environment)
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SampledFrom([]string{"ghp_0123456789abcdefABCD", "AKIAABCDEFGHIJKLMNOP", "correct-horse", "sk-ant-api03-xyz"}).Draw(t, "secret")
		var v any = rapid.StringMatching(`[a-z ]{0,5}`).Draw(t, "before") + " " + secret + " " + rapid.StringMatching(`[a-z ]{0,5}`).Draw(t, "after")
		for range rapid.IntRange(0, 5).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "list") {
				v = []any{"x", v, 1}
			} else {
				v = map[string]any{"a": 1, rapid.StringMatching(`[b-z]{1,3}`).Draw(t, "name"): v}
			}
		}
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		s := d.request(&Request{URL: "http://h", Body: body})
		if s == nil {
			t.Fatalf("not found in %s", body)
		}
		if strings.Contains(s.what+s.where, secret) {
			t.Errorf("it is shown: %v", s)
		}
	})
}
