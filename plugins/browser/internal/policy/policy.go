// Package policy says which addresses documents may have.
//
// It owns: the comparison of addresses with patterns. It is pure: it must not know who asks or what follows.
//
// Start with [New].
package policy

import (
	"fmt"
	"net/url"
	"path"
	"strings"
)

// Policy is a set of rules. The zero value allows http and https.
type Policy struct{ allow, deny []pattern }

// pattern is a host, with wildcards, and what else of an address it determines.
type pattern struct {
	scheme, host, port string // scheme and port: empty means any
	text               string
}

// New parses patterns. A pattern is a host ("example.com", which is also www.example.com), a host with wildcards ("*.example.com", which is also
// example.com; "google.*"), or one of these after a scheme ("https://example.com:8443"). If allow is not empty, everything else is denied. deny
// comes first, and covers the subdomains of a host.
func New(allow, deny []string) (Policy, error) {
	var p Policy
	var err error
	if p.allow, err = parse(allow); err != nil {
		return p, err
	}
	p.deny, err = parse(deny)
	return p, err
}

func parse(list []string) ([]pattern, error) {
	var out []pattern
	for _, s := range list {
		p := pattern{text: s, host: strings.ToLower(s)}
		if scheme, rest, ok := strings.Cut(p.host, "://"); ok {
			p.scheme, p.host = scheme, strings.TrimSuffix(strings.TrimSuffix(rest, "*"), "/")
		}
		if i := strings.LastIndex(p.host, ":"); i >= 0 && !strings.HasSuffix(p.host, "]") {
			p.host, p.port = p.host[:i], p.host[i+1:]
		}
		p.host = strings.Trim(p.host, "[]")
		if _, err := path.Match(p.host, ""); err != nil || p.host == "" || strings.ContainsAny(p.host, "/@ ") {
			return nil, fmt.Errorf("%q is not the pattern of an address; write a host such as \"example.com\" or \"*.example.com\", with \"https://\" before it if that matters", s)
		}
		out = append(out, p)
	}
	return out, nil
}

// Check returns an error if no document may have the address.
func (p Policy) Check(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("%q is not an address", address)
	}
	if address == "about:blank" || address == "about:srcdoc" {
		return nil
	}
	scheme, host := strings.ToLower(u.Scheme), strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if scheme != "http" && scheme != "https" {
		return fmt.Errorf("addresses of the scheme %q are not allowed; only http and https are", scheme)
	}
	if host == "" {
		return fmt.Errorf("%q has no host", address)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	for _, d := range p.deny {
		if d.matches(scheme, host, port) || strings.HasSuffix(host, "."+d.host) {
			return fmt.Errorf("%s is denied by %q in the plugin's block", host, d.text)
		}
	}
	if p.allow == nil {
		return nil
	}
	for _, a := range p.allow {
		if a.matches(scheme, host, port) {
			return nil
		}
	}
	return fmt.Errorf("%s://%s is not among the addresses that the plugin's block allows", scheme, u.Host)
}

func (p pattern) matches(scheme, host, port string) bool {
	if p.scheme != "" {
		if ok, _ := path.Match(p.scheme, scheme); !ok {
			return false
		}
	}
	if p.port != "" && p.port != port {
		return false
	}
	if p.scheme != "" && p.port == "" && !strings.Contains(p.scheme, "*") && port != map[string]string{"http": "80", "https": "443"}[p.scheme] {
		return false
	}
	if apex, ok := strings.CutPrefix(p.host, "*."); ok && !strings.Contains(apex, "*") {
		return host == apex || strings.HasSuffix(host, "."+apex)
	}
	if strings.Contains(p.host, "*") {
		ok, _ := path.Match(p.host, host)
		return ok
	}
	return host == p.host || strings.Count(p.host, ".") == 1 && host == "www."+p.host
}
