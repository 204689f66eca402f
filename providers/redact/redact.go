// Package redact takes secrets out of what people, logs and recordings get to see of a request and its answer.
//
// It owns: the names that promise a secret, the forms in which a sent secret comes back, and the bounds of a body that is
// shown. It must not know: who sends requests, where secrets come from, any vendor.
//
// Two kinds of rules work together. Names work without knowing anything: the value of a header, a query parameter, a
// JSON field or a name=value whose name promises a secret is covered. Literals cover every secret that was really sent,
// wherever it shows up, in each form that servers echo.
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

// Mark stands where a secret was.
const Mark = "<redacted>"

const (
	// MaxBody is how many characters of a body are kept.
	MaxBody = 16384
	// MaxInMessage is how long a text may be to be shown inside a message. A longer one is a page, not a message.
	MaxInMessage = 500
	// minSecret is the shortest secret that is looked for: shorter ones would cover ordinary words.
	minSecret = 4
)

// Redactor knows the secrets of one request. The zero value knows none and works by names alone. It is for one goroutine.
type Redactor struct {
	forms []string // every form of every secret
}

// Add makes a secret known in the forms in which it may come back: as it is, escaped for URLs and for JSON, and without
// the scheme of an Authorization header. What is shorter than four characters is not looked for.
func (r *Redactor) Add(secret string) {
	secret = strings.TrimSpace(secret)
	if utf8.RuneCountInString(secret) < minSecret {
		return
	}
	r.add(secret)
	// "Bearer KEY": a server that complains names the key alone.
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
	secret = strings.ToValidUTF8(secret, "\uFFFD") // as bodies are shown
	quoted, err := json.Marshal(secret)            // also with < > & escaped
	if err != nil {                                // can't be: it is a string
		panic("redact: " + err.Error())
	}
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(secret) // a builder takes everything
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

// lowerHex writes the escapes of a URL the other way: %2F as %2f.
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

// AddURL makes the secrets in a URL known: its password, and parameters whose names promise one.
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

// Text covers what names and known secrets point at. Everything else stays as it is.
func (r *Redactor) Text(s string) string {
	return cover(s, append(named(s), r.literals(s)...))
}

// Partial is [Redactor.Text] for a text that was cut off: at its end it may hold the beginning of a secret.
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

// Known covers known secrets only, for texts in which names prove nothing: a tool's schema may well have a field "token".
func (r *Redactor) Known(s string) string { return cover(s, r.literals(s)) }

// Header covers the value of a header.
func (r *Redactor) Header(name, value string) string {
	if SecretName(name) {
		return Mark
	}
	return r.Text(value)
}

// URL covers user and password, parameters whose names promise a secret, and known secrets. What can't be parsed is
// covered as a whole. A fragment is dropped: it is no part of a request.
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

// Clip shortens a text to a number of characters. What is no UTF-8 becomes U+FFFD.
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

// span is a part of a text that is covered by a mark.
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
			from += i + len(form) // past the match: what is left can't hold it a second time
		}
	}
	return out
}

// cover replaces spans. Those that overlap become one, so that no part of a covered text is left over.
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
