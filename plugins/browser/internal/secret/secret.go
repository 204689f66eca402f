// Package secret is what the user lets be typed without a model seeing it: where it may be typed, and how it is masked everywhere else.
//
// It owns: placeholders, the match of a secret's domains with an origin, one-time codes, and masks. It must not know: pages, or where values
// come from.
//
// Start with [Secret] and [Masks].
package secret

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pquerna/otp/totp"
)

// The kinds of secrets.
const (
	Password = "password"
	TOTP     = "totp" // the value is the key of one-time codes
)

// Secret is a value that may be typed on some sites.
type Secret struct {
	Name    string
	Kind    string // empty: [Password]
	domains []pattern
}

// pattern is a set of origins.
type pattern struct{ scheme, host, port string }

// validName is what a placeholder can contain.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// New returns a secret. A domain is a host, which means https ("example.com"; "*.example.com" is example.com and its subdomains), or one after a
// scheme, with a port if it is not the usual one ("http://localhost:8080"). "*" is every https site.
func New(name, kind string, domains []string) (Secret, error) {
	s := Secret{Name: name, Kind: kind}
	if !validName.MatchString(name) {
		return s, fmt.Errorf("%q is not the name of a secret: it consists of letters, digits, dots, dashes and underscores", name)
	}
	if kind != "" && kind != Password && kind != TOTP {
		return s, fmt.Errorf("the kind of the secret %q is %q; it is %q or %q", name, kind, Password, TOTP)
	}
	if len(domains) == 0 {
		return s, fmt.Errorf("the secret %q has no domains, so it could be typed nowhere", name)
	}
	for _, d := range domains {
		p, err := parse(d)
		if err != nil {
			return s, err
		}
		s.domains = append(s.domains, p)
	}
	return s, nil
}

func parse(text string) (pattern, error) {
	invalid := fmt.Errorf("%q is not a domain of a secret; write a host such as \"example.com\" or \"*.example.com\", or an origin such as \"http://localhost:8080\"", text)
	p := pattern{scheme: "https", host: strings.ToLower(text)}
	if scheme, rest, ok := strings.Cut(p.host, "://"); ok {
		p.scheme, p.host = scheme, strings.TrimSuffix(rest, "/")
	}
	if !slices.Contains([]string{"https", "http", "http*"}, p.scheme) {
		return p, invalid
	}
	if i := strings.LastIndex(p.host, ":"); i >= 0 && !strings.HasSuffix(p.host, "]") {
		p.host, p.port = p.host[:i], p.host[i+1:]
	}
	p.host = strings.Trim(p.host, "[]")
	name := p.host
	for _, wild := range []string{"**.", "*."} {
		if rest, ok := strings.CutPrefix(name, wild); ok {
			name, p.host = rest, "*."+rest
			break
		}
	}
	// A wildcard elsewhere would be a site that anybody can register.
	if name != "*" && strings.Contains(name, "*") || name == "" || strings.ContainsAny(name, "/@ ?#[]\\") || name == "*" && p.host != "*" {
		return p, invalid
	}
	return p, nil
}

// standard are the ports of schemes.
func standard(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// Allows reports whether the secret may be typed in a document with an origin.
func (s Secret) Allows(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if port == "" {
		port = standard(u.Scheme)
	}
	return slices.ContainsFunc(s.domains, func(p pattern) bool {
		if ok, _ := path.Match(p.scheme, u.Scheme); !ok {
			return false
		}
		want := p.port
		if want == "" {
			want = standard(u.Scheme)
		}
		if want != port {
			return false
		}
		if apex, ok := strings.CutPrefix(p.host, "*."); ok {
			return host == apex || strings.HasSuffix(host, "."+apex)
		}
		return p.host == "*" || p.host == host
	})
}

// minValue is the minimum length of a value in bytes: masking shorter ones would leave no text readable.
const minValue = 3

// Typed returns what is typed for a secret with a value: the value, or the code of that time.
func (s Secret) Typed(value string, now time.Time) (string, error) {
	if len(value) < minValue {
		return "", fmt.Errorf("the value of the secret %q is shorter than %d characters", s.Name, minValue)
	}
	if s.Kind != TOTP {
		return value, nil
	}
	key := value
	if strings.HasPrefix(value, "otpauth://") {
		u, err := url.Parse(value)
		if err != nil {
			return "", fmt.Errorf("the value of the secret %q is not a key of one-time codes", s.Name)
		}
		key = u.Query().Get("secret")
	}
	code, err := totp.GenerateCode(strings.ReplaceAll(key, " ", ""), now)
	if err != nil { // whose text may contain the key
		return "", fmt.Errorf("the value of the secret %q is not a key of one-time codes", s.Name)
	}
	return code, nil
}

// placeholder is how a model writes a secret.
var placeholder = regexp.MustCompile(`<secret>([^<>]{1,64})</secret>`)

// Placeholder returns how a model writes a secret.
func Placeholder(name string) string { return "<secret>" + name + "</secret>" }

// Names returns the names of the secrets in a text, in order, each once.
func Names(text string) []string {
	var out []string
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	return out
}

// ErrUnclosed is the error of a text that has part of a placeholder only.
var ErrUnclosed = errors.New("it has part of a placeholder; a secret is written as <secret>name</secret>")

// Fill replaces the placeholders in a text by what value returns for their names.
func Fill(text string, value func(name string) (string, error)) (string, error) {
	var errs []error
	out := placeholder.ReplaceAllStringFunc(text, func(s string) string {
		v, err := value(placeholder.FindStringSubmatch(s)[1])
		errs = append(errs, err)
		return v
	})
	return out, errors.Join(errs...)
}

// CheckText returns an error if a text has a part of a placeholder that [Fill] would leave.
func CheckText(text string) error {
	rest := placeholder.ReplaceAllString(text, "")
	if strings.Contains(rest, "<secret>") || strings.Contains(rest, "</secret>") {
		return ErrUnclosed
	}
	return nil
}
