// Package redact removes secrets from what users, logs and recordings contain of a request and its response.
//
// It owns the names that suggest a secret, the forms in which a secret may be echoed, and the limits for a displayed body. It does
// not know who sends requests, where secrets come from, or any vendor.
//
// It combines two rules. By name: the value of a header, query parameter, JSON field or name=value pair whose name suggests a
// secret is redacted, without knowing the secret. By value: every secret that was sent is redacted wherever it occurs, in each
// form that servers echo.
//
// Start with [Redactor].
package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mark replaces a secret.
const Mark = "<redacted>"

const (
	// MaxBody limits a stored body, in characters.
	MaxBody = 16384
	// MaxInMessage is the maximum length of a text within a message. A longer text is a page rather than a message.
	MaxInMessage = 500
	// minSecret is the minimum length of a secret that is searched for: shorter ones occur in ordinary words.
	minSecret = 4
)

// Redactor knows the secrets of one request. The zero value knows none and only works by name. It is not safe for concurrent use.
type Redactor struct {
	forms []string // all forms of all secrets
}

// Add adds a secret in the forms in which it may be echoed: unchanged, escaped for URLs and JSON, and without the scheme of an
// Authorization header. Secrets shorter than four characters are ignored.
func (r *Redactor) Add(secret string) {
	secret = strings.TrimSpace(secret)
	if utf8.RuneCountInString(secret) < minSecret {
		return
	}
	r.add(secret)
	// For "Bearer KEY", an error message may contain only the key.
	scheme, rest, _ := strings.Cut(secret, " ")
	switch strings.ToLower(scheme) {
	case "bearer", "token", "key":
		r.Add(rest)
	case "basic":
		r.Add(rest)
		if pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			_, password, _ := strings.Cut(string(pair), ":")
			r.Add(string(pair))
			r.Add(password)
		}
	}
}

func (r *Redactor) add(secret string) {
	secret = strings.ToValidUTF8(secret, "\uFFFD") // as bodies are displayed
	quoted, err := json.Marshal(secret)            // also with < > & escaped
	if err != nil {                                // cannot fail for a string
		panic("redact: " + err.Error())
	}
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(secret) // cannot fail for a builder
	unquoted := strings.TrimSuffix(plain.String(), "\n")
	unquoted = unquoted[1 : len(unquoted)-1]
	query, path := url.QueryEscape(secret), url.PathEscape(secret)
	for _, form := range []string{
		secret, query, path, lowerHex(query), lowerHex(path), string(quoted[1 : len(quoted)-1]), unquoted,
		strings.ReplaceAll(unquoted, "/", `\/`),
	} {
		if !slices.Contains(r.forms, form) {
			r.forms = append(r.forms, form)
		}
	}
}

// lowerHex converts the escapes of a URL to lower case: %2F becomes %2f.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(s[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// AddURL adds the secrets in a URL: its password, and parameters whose names suggest a secret.
func (r *Redactor) AddURL(u *url.URL) {
	password, _ := u.User.Password()
	r.Add(password)
	for name, values := range u.Query() {
		for _, v := range values {
			if secretParameter(name) {
				r.Add(v)
			}
		}
	}
}

// Text redacts secrets by name and value.
func (r *Redactor) Text(s string) string {
	return cover(s, append(named(s), r.literals(s)...))
}

// Partial is like [Redactor.Text] for a truncated text, which may end with the beginning of a secret.
func (r *Redactor) Partial(s string) string {
	spans := append(named(s), r.literals(s)...)
	for _, form := range r.forms {
		for n := min(len(form)-1, len(s)); n >= minSecret; n-- {
			if strings.HasSuffix(s, form[:n]) {
				spans = append(spans, span{from: len(s) - n, to: len(s), mark: Mark})
				break
			}
		}
	}
	return cover(s, spans)
}

// Known only redacts known secrets, for texts in which names prove nothing: a tool's schema may have a field "token".
func (r *Redactor) Known(s string) string { return cover(s, r.literals(s)) }

// Header redacts the value of a header.
func (r *Redactor) Header(name, value string) string {
	if SecretName(name) {
		return Mark
	}
	return r.Text(value)
}

// URL redacts user and password, parameters whose names suggest a secret, and known secrets. A URL that cannot be parsed is
// redacted completely. The fragment is dropped because it is not sent.
func (r *Redactor) URL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return Mark
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	escaped := url.QueryEscape(Mark)
	pairs := strings.Split(u.RawQuery, "&")
	for i, p := range pairs {
		name, _, ok := strings.Cut(p, "=")
		if !ok {
			continue
		}
		if plain, err := url.QueryUnescape(name); err != nil || secretParameter(plain) {
			pairs[i] = name + "=" + escaped
		}
	}
	u.RawQuery = strings.Join(pairs, "&")
	s := u.String()
	spans := r.literals(s)
	for i := range spans {
		spans[i].mark = escaped
	}
	return cover(s, spans)
}

// Clip shortens a text to a number of characters. Invalid UTF-8 becomes U+FFFD.
func Clip(s string, most int) (clipped string, cut bool) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s, false
	}
	n := 0
	for i := range s {
		if n == most {
			return s[:i], true
		}
		n++
	}
	return s, false
}

// span is a part of a text that a mark replaces.
type span struct {
	from, to int
	mark     string
}

// literals finds the known secrets.
func (r *Redactor) literals(s string) []span {
	var out []span
	for _, form := range r.forms {
		for from := 0; ; {
			i := strings.Index(s[from:], form)
			if i < 0 {
				break
			}
			out = append(out, span{from: from + i, to: from + i + len(form), mark: Mark})
			from += i + len(form) // after the match: secrets do not overlap themselves
		}
	}
	return out
}

// cover replaces spans. Overlapping ones are merged, so that no part of a secret remains.
func cover(s string, spans []span) string {
	if len(spans) == 0 {
		return s
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	var out strings.Builder
	done := 0
	for i := 0; i < len(spans); {
		at := spans[i]
		for i++; i < len(spans) && spans[i].from < at.to; i++ {
			at.to = max(at.to, spans[i].to)
		}
		out.WriteString(s[done:at.from])
		out.WriteString(at.mark)
		done = at.to
	}
	out.WriteString(s[done:])
	return out.String()
}
