package cassette

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/providers/redact"
)

// mark replaces a secret that was recognized by its name. A secret that was recognized by its value is replaced by [redact.Mark].
const mark = "[REDACTED]"

// cover removes known secrets from one exchange: the values of headers and parameters with certain names, and all other
// occurrences of these values.
type cover struct{ known redact.Redactor }

// request returns a request without secrets, and remembers them for the response.
func (c *cover) request(method string, u *url.URL, h http.Header, body []byte) Request {
	c.known.AddURL(u)
	for name, values := range h {
		if redact.SecretName(name) {
			for _, v := range values {
				c.known.Add(v)
			}
		}
	}
	return Request{Method: method, URL: c.url(u), Headers: c.headers(h), Body: []byte(c.known.Known(string(body)))}
}

func (c *cover) response(res *http.Response, body []byte, cut bool) Response {
	h := res.Header.Clone()
	for _, name := range []string{"Connection", "Content-Length", "Date", "Keep-Alive", "Transfer-Encoding"} {
		h.Del(name) // specific to the connection or time rather than to the response
	}
	return Response{Status: res.StatusCode, Headers: c.headers(h), Body: []byte(c.known.Known(string(body))), Cut: cut}
}

func (c *cover) headers(h http.Header) map[string]string {
	out := flat(h)
	for name, value := range out {
		if redact.SecretName(name) {
			out[name] = mark
			continue
		}
		out[name] = c.known.Known(value)
	}
	return out
}

// url returns an address without user and password, and without the values of parameters whose names suggest a secret.
func (c *cover) url(u *url.URL) string {
	out := *u
	out.User, out.Fragment, out.RawFragment = nil, "", ""
	q := out.Query()
	for name := range q {
		if secretParameter(name) {
			q.Set(name, mark)
		}
	}
	out.RawQuery = q.Encode()
	return c.known.Known(out.String())
}

func secretParameter(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "key", "code", "sig":
		return true
	}
	return strings.HasPrefix(name, "x-amz-") || redact.SecretName(name)
}

// shapes are forms of secrets that many services use. The preceding character avoids false positives in base64 data.
var shapes = []struct {
	what string
	is   *regexp.Regexp
}{
	{"a bearer token", regexp.MustCompile(`(?i)\bbearer\s+[A-Za-z0-9._~+/=\-]{16,}`)},
	{"an API key that begins with sk-ant-", regexp.MustCompile(begins + `sk-ant-[\w\-]{4,}`)},
	{"an API key that begins with sk-", regexp.MustCompile(begins + `sk-[\w\-]{20,}`)},
	{"a Google API key", regexp.MustCompile(apart + `AIza[\w\-]{30,}`)},
	{"an AWS access key", regexp.MustCompile(apart + `(?:AKIA|ASIA)[A-Z0-9]{16}`)},
	{"a GitHub token", regexp.MustCompile(begins + `gh[pousr]_[A-Za-z0-9]{16,}`)},
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY`)},
}

const (
	begins = `(?:^|[^\w\-])`
	apart  = `(?:^|[^\w\-+/])`
)

// minVariable is the minimum length of values of variables that are searched for: shorter ones occur in ordinary words.
const minVariable = 12

// secretVariable matches names of variables that contain secrets.
var secretVariable = regexp.MustCompile(`(?i)API|AUTH|BEARER|CREDENTIAL|KEY|PASSWORD|SECRET|TOKEN`)

// detector finds text that looks like a secret.
type detector struct {
	variables map[string]*redact.Redactor // by name
}

// newDetector returns a detector that knows the values of variables whose names suggest a secret.
func newDetector(environ []string) *detector {
	d := &detector{variables: map[string]*redact.Redactor{}}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if len(value) >= minVariable && secretVariable.MatchString(name) {
			r := &redact.Redactor{}
			r.Add(value)
			d.variables[name] = r
		}
	}
	return d
}

// what returns the kind of secret in a text, or "".
func (d *detector) what(s string) string {
	for _, shape := range shapes {
		if shape.is.MatchString(s) {
			return shape.what
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.variables)) {
		if d.variables[name].Known(s) != s {
			return "the value of the variable " + name
		}
	}
	return ""
}

// suspicion describes something that looks like a secret, without containing it.
type suspicion struct{ what, where string }

// request checks what would be recorded of a request. It returns nil if nothing looks like a secret.
func (d *detector) request(r *Request) *suspicion {
	if what := d.what(r.URL); what != "" {
		return &suspicion{what, "the request's address"}
	}
	if s := d.headers("request", r.Headers); s != nil {
		return s
	}
	what := d.what(string(r.Body))
	if v, ok := parse(r.Body); ok {
		// Also check decoded strings, because JSON may contain a secret with escapes.
		if inside, where := d.inside("", v); inside != "" {
			return &suspicion{inside, "the request's body, at " + where}
		}
	}
	if what != "" {
		return &suspicion{what, "the request's body"}
	}
	return nil
}

func (d *detector) response(r *Response) *suspicion {
	if s := d.headers("answer", r.Headers); s != nil {
		return s
	}
	n := 0
	for line := range strings.Lines(string(r.Body)) {
		n++
		if what := d.what(line); what != "" {
			return &suspicion{what, fmt.Sprintf("line %d of the answer's body", n)}
		}
	}
	if what := d.what(string(r.Body)); what != "" { // across lines
		return &suspicion{what, "the answer's body"}
	}
	for _, text := range streamed(r.Body) {
		if what := d.what(text.whole.String()); what != "" {
			return &suspicion{what, "the pieces " + text.where + " of the answer's body, put together,"}
		}
	}
	return nil
}

// piecemeal is a text that arrives in parts, each at the same path of another event.
type piecemeal struct {
	where string
	whole strings.Builder
}

// streamed joins the parts of texts in a stream of JSON events: the response may split a secret.
func streamed(body []byte) []*piecemeal {
	var out []*piecemeal
	at := map[string]*piecemeal{}
	var add func(where string, v any)
	add = func(where string, v any) {
		switch v := v.(type) {
		case string:
			p := at[where]
			if p == nil {
				p = &piecemeal{where: where}
				at[where], out = p, append(out, p)
			}
			p.whole.WriteString(v)
		case []any:
			for i, e := range v {
				add(fmt.Sprintf("%s[%d]", where, i), e)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				add(strings.TrimPrefix(where+"."+name, "."), v[name])
			}
		}
	}
	for line := range bytes.Lines(body) {
		if v, ok := parse(bytes.TrimPrefix(line, []byte("data:"))); ok {
			add("", v)
		}
	}
	return out
}

func (d *detector) headers(of string, h map[string]string) *suspicion {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if what := d.what(h[name]); what != "" {
			return &suspicion{what, fmt.Sprintf("the header %s of the %s", name, of)}
		}
	}
	return nil
}

// inside finds the first string in a JSON value that contains a secret.
func (d *detector) inside(where string, v any) (what, place string) {
	switch v := v.(type) {
	case string:
		return d.what(v), where
	case json.Number:
		return d.what(v.String()), where
	case []any:
		for i, e := range v {
			if what, place = d.inside(fmt.Sprintf("%s[%d]", where, i), e); what != "" {
				return what, place
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if what = d.what(name); what != "" {
				return what, "a name inside of " + top(where)
			}
			if what, place = d.inside(strings.TrimPrefix(where+"."+name, "."), v[name]); what != "" {
				return what, place
			}
		}
	}
	return "", ""
}

func top(where string) string {
	if where == "" {
		return "the body"
	}
	return where
}
