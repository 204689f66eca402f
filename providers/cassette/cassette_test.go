package cassette

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const small = `{
  "version": 1,
  "metadata": {
    "name": "hello",
    "recordedAt": "2026-01-02T03:04:05Z"
  },
  "interactions": [
    {
      "transport": "http",
      "request": {
        "method": "POST",
        "url": "https://api.example.com/v1/chat?alt=sse",
        "headers": {
          "authorization": "[REDACTED]",
          "content-type": "application/json"
        },
        "body": {
          "model": "m",
          "big": 12345678901234567890,
          "text": "a<b>&c"
        }
      },
      "response": {
        "status": 200,
        "headers": {
          "content-type": "text/event-stream"
        },
        "body": "data: {\"text\":\"hi\"}\n\ndata: [DONE]\n\n"
      }
    },
    {
      "transport": "http",
      "request": {
        "method": "GET",
        "url": "https://api.example.com/v1/models"
      },
      "response": {
        "status": 500,
        "body": "/wA=",
        "bodyEncoding": "base64",
        "cut": true
      }
    }
  ]
}
`

// A file is read and written without a change, so that what is committed only differs where an exchange does.
func TestFormat(t *testing.T) {
	c, err := Read([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	first, second := c.Interactions[0], c.Interactions[1]
	if got := string(first.Request.Body); got != `{"model":"m","big":12345678901234567890,"text":"a<b>&c"}` {
		t.Errorf("body of the request: %s", got)
	}
	if got := string(first.Response.Body); got != "data: {\"text\":\"hi\"}\n\ndata: [DONE]\n\n" || first.Response.Cut {
		t.Errorf("response: %q", got)
	}
	if got := second.Response; !bytes.Equal(got.Body, []byte{0xff, 0}) || !got.Cut || second.Request.Body != nil {
		t.Errorf("second: %+v", second)
	}
	text, err := c.Text()
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != small {
		t.Errorf("written again it is\n%s", text)
	}
}

func TestWhatIsNoCassette(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("there is no %s", old)
		}
		return strings.Replace(small, old, new, 1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "it is not a cassette: unexpected end of JSON input"},
		{"another file", `{"a": 1}`, "it has no version"},
		{"a list", `[]`, "it is not a cassette"},
		{"cut off", small[:len(small)/2], "it is not a cassette"},
		{"two of them", small + small, "it is not a cassette"},
		{"of a later version", with(`"version": 1`, `"version": 2`), "version 2 of the format, but only 1 is supported"},
		{"over a websocket", with(`"transport": "http"`, `"transport": "websocket"`), `interaction 1: transport "websocket"`},
		{"without a method", with(`"POST"`, `""`), "interaction 1: the request has no method"},
		{"without a host", with("https://api.example.com/v1/models", "/v1/models"), "interaction 2: the request's URL"},
		{"without a status", with(`"status": 500`, `"status": 0`), "interaction 2: the response has the status 0"},
		{"in another encoding", with(`"base64"`, `"gzip"`), `bodyEncoding "gzip" is neither`},
		{"bytes that are none", with(`/wA=`, `/wA`), "body: illegal base64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Read([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// What a later version adds is not understood and does no harm.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	text := strings.ReplaceAll(small, `"transport": "http",`, `"transport": "http", "took": 12,`)
	if _, err := Read([]byte(text)); err != nil {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.json")
	c, err := Read([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.save(path); err != nil {
		t.Fatal(err)
	}
	back, err := Load(path)
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("%+v, %v", back, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others may read it", info.Mode(), err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "no file") {
		t.Errorf("a folder: %v", err)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not name the file: %v", err)
	}
	// A file that can't be replaced leaves nothing behind.
	if err := c.save(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.save(filepath.Join(dir, "taken")); err == nil {
		t.Error("a folder was replaced")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func drawInteraction(t *rapid.T) Interaction {
	headers := rapid.MapOfN(rapid.StringMatching(`[a-z-]{1,8}`), rapid.String(), 0, 3)
	body := rapid.OneOf(
		rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
		rapid.Map(rapid.String(), func(s string) []byte { b, _ := json.Marshal(map[string]string{s: s}); return b }),
		rapid.SampledFrom([][]byte{[]byte("null"), []byte(`"text"`), []byte("1e400"), []byte("[]"), []byte(`{"a":1,"a":2}`)}),
	)
	in := Interaction{Transport: overHTTP}
	in.Request = Request{Method: "POST", URL: "http://h/p", Headers: headers.Draw(t, "asked with"), Body: body.Draw(t, "asked")}
	in.Response = Response{
		Status: rapid.IntRange(100, 999).Draw(t, "status"), Headers: headers.Draw(t, "answered with"), Body: body.Draw(t, "answer"),
		Cut: rapid.Bool().Draw(t, "cut"),
	}
	return in
}

// Whatever was said comes back as it was; only blanks between the parts of a request's JSON go.
func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInteraction(t)
		c := &Cassette{Version: version, Interactions: []Interaction{in}}
		text, err := c.Text()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Read(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got := back.Interactions[0]
		want := in.Request.Body
		if json.Valid(want) {
			var b bytes.Buffer
			if err := json.Compact(&b, want); err != nil {
				t.Fatal(err)
			}
			want = b.Bytes()
		}
		if !bytes.Equal(got.Request.Body, want) {
			t.Errorf("request %q, was %q", got.Request.Body, want)
		}
		if !bytes.Equal(got.Response.Body, in.Response.Body) || got.Response.Cut != in.Response.Cut || got.Response.Status != in.Response.Status {
			t.Errorf("response %+v, was %+v", got.Response, in.Response)
		}
		for name, v := range in.Request.Headers {
			if got.Request.Headers[name] != v {
				t.Errorf("header %q: %q, was %q", name, got.Request.Headers[name], v)
			}
		}
		again, err := back.Text()
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("written again it is another text: %v\n%s\nwas\n%s", err, again, text)
		}
	})
}

// Whatever a file holds: it is refused, or it can be played and written again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1,"interactions":[{"transport":"http","request":{"method":"G","url":"http://h","body":"x","bodyEncoding":"text"},"response":{"status":200}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Read(text)
		if err != nil {
			return
		}
		written, err := c.Text()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Read(written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		for i := range c.Interactions {
			was, is := &c.Interactions[i], &back.Interactions[i]
			if d := differences(&was.Request, &is.Request, 3); d != nil || !bytes.Equal(was.Response.Body, is.Response.Body) {
				t.Fatalf("interaction %d is another one: %q", i, d)
			}
		}
	})
}
