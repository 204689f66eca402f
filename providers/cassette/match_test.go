package cassette

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestForm(t *testing.T) {
	for in, want := range map[string]string{
		"":            "",
		"hello world": "hello world",
		"thread 019a1b2c-3d4e-7f01-8234-56789abcdef0.": "thread <id>.",
		"today is 2026-01-02, at 12:30":                "today is <time>, at <time>",
		"at 2026-01-02T03:04:05.678Z!":                 "at <time>!",
		"Chunk ID: 3fa2b1\nWall time: 0.0123 seconds":  "Chunk ID: <hex>\nWall time: <duration> seconds",
		"Chunk ID: 123456, abcdef":                     "Chunk ID: <hex>, <hex>",
		"took 1m30s (250ms, 3.5 s)":                    "took <duration> (<duration>, <duration> s)",
		"ok   pkg/x 1.234s ... -- .":                   "ok   pkg/x <duration> ... -- .",
		"exited with code 1, 3 files":                  "exited with code 1, 3 files",
		"claude-opus-4-20250514 gpt-5.4":               "claude-opus-4-20250514 gpt-5.4",
		"a7 dead.beef x=12345":                         "a7 dead.beef x=12345",
		"é ü 12µs":                                     "é ü <duration>",
	} {
		if got := form(in); got != want {
			t.Errorf("form(%q) = %q, want %q", in, got, want)
		}
	}
}

// A form has no other form: else two texts could be alike in one order and not in the other.
func TestFormIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`([0-9a-f.: -]{1,12}(s|ms| seconds|\.)?){0,5}`)).Draw(t, "text")
		once := form(s)
		if twice := form(once); twice != once {
			t.Errorf("%q, then %q", once, twice)
		}
	})
}

func TestDifferences(t *testing.T) {
	base := func() *Request {
		return &Request{
			Method: "POST", URL: "https://h/v1/chat?b=2&a=1",
			Headers: map[string]string{"content-type": "application/json", "x-api-version": "1", "user-agent": "gantry/1"},
			Body:    []byte(`{"model":"m","n":1,"messages":[{"role":"user","content":"hello there"}],"key":"019a1b2c-3d4e-7f01-8234-56789abcdef0"}`),
		}
	}
	long := strings.Repeat("x", 50)
	for _, tt := range []struct {
		name   string
		change func(was, now *Request)
		want   string // lines joined by "; "
	}{
		{"nothing", func(_, _ *Request) {}, ""},
		{"order of keys and parameters, blanks", func(_, now *Request) {
			now.URL = "https://h/v1/chat?a=1&b=2#part"
			now.Body = []byte(`{"key":"019a1b2c-3d4e-7f01-8234-56789abcdef0", "messages":[{"content":"hello there","role":"user"}],"n":1,"model":"m"}`)
		}, ""},
		{"another id", func(_, now *Request) {
			now.Body = []byte(strings.ReplaceAll(string(now.Body), "019a1b2c", "fffffff0"))
		}, ""},
		{"headers that choose nothing", func(_, now *Request) { now.Headers["user-agent"] = "gantry/2"; now.Headers["x-new"] = "y" }, ""},
		{"headers that choose", func(_, now *Request) { delete(now.Headers, "x-api-version"); now.Headers["x-beta"] = "y" },
			`header x-api-version: recorded "1", now ""; header x-beta: recorded "", now "y"`},
		{"method and address", func(_, now *Request) { now.Method, now.URL = "GET", "https://h/v2/chat" },
			`method: recorded "POST", now "GET"; url: recorded "https://h/v1/chat?a=1&b=2", now "https://h/v2/chat"`},
		{"a word", func(_, now *Request) {
			now.Body = []byte(strings.ReplaceAll(string(now.Body), "hello there", "hello you"))
		},
			`messages[0].content: recorded "hello there", now "hello you"`},
		{"a number", func(_, now *Request) { now.Body = []byte(strings.ReplaceAll(string(now.Body), `"n":1`, `"n":1.0`)) },
			`n: recorded 1, now 1.0`},
		{"a number and a text", func(_, now *Request) { now.Body = []byte(strings.ReplaceAll(string(now.Body), `"n":1`, `"n":"1"`)) },
			`n: recorded 1, now "1"`},
		{"a field more, one less", func(_, now *Request) { now.Body = []byte(strings.ReplaceAll(string(now.Body), `"n"`, `"top"`)) },
			`n: recorded 1, now nothing; top: recorded nothing, now 1`},
		{"a message more", func(_, now *Request) {
			now.Body = []byte(strings.ReplaceAll(string(now.Body), `"hello there"}`, `"hello there"},{}`))
		}, `messages: recorded 1 entries, now 2 entries`},
		{"an object and a list", func(was, now *Request) { was.Body, now.Body = []byte(`{"a":{}}`), []byte(`{"a":[]}`) },
			`a: recorded {}, now []`},
		{"no JSON", func(was, now *Request) { was.Body, now.Body = []byte("a b c"), []byte("a x c") }, `body: recorded "a b c", now "a x c"`},
		{"bodies that are no object", func(was, now *Request) { was.Body, now.Body = []byte("1"), []byte("[]") }, `body: recorded 1, now []`},
		{"long texts", func(was, now *Request) {
			was.Body, now.Body = []byte(`"`+long+"é"+long+long+`"`), []byte(`"`+long+"è"+long+long+`"`)
		}, `body: recorded …"` + long[:19] + "é" + long + `xxxxxxxxx"…, now …"` + long[:19] + "è" + long + `xxxxxxxxx"…`},
		{"more than anybody reads", func(was, now *Request) {
			was.Body, now.Body = []byte(`{"a":1,"b":1,"c":1,"d":1}`), []byte(`{"a":2,"b":2,"c":2,"d":2}`)
		}, `a: recorded 1, now 2; b: recorded 1, now 2; c: recorded 1, now 2`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			was, now := base(), base()
			tt.change(was, now)
			if got := strings.Join(differences(was, now, 3), "; "); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestNoDifferenceToItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawInteraction(t).Request
		if d := differences(&r, &r, 3); d != nil {
			t.Errorf("%q", d)
		}
	})
}
