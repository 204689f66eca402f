// Package policy says which addresses documents and sockets may have.
//
// It owns: how addresses are understood, and their comparison with patterns. It is pure: it must not know who asks or what follows. Which IP
// addresses a name stands for, and whether they are private, is judged where the connection is made: by the host's proxy.
//
// Start with [New].
package policy

import (
	"fmt"
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

// maxPattern is the maximum length of a pattern: the longest name of a host, with a scheme and a port.
const maxPattern = 300

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

// Listed reports whether only some hosts are allowed.
func (p Policy) Listed() bool { return p.allow != nil }

func parse(list []string) ([]pattern, error) {
	var out []pattern
	for _, s := range list {
		p := pattern{text: s, host: strings.ToLower(s)}
		if scheme, rest, ok := strings.Cut(p.host, "://"); ok {
			p.scheme, p.host = scheme, strings.TrimSuffix(strings.TrimSuffix(rest, "/*"), "/")
			if !p.opens("http") && !p.opens("https") {
				return nil, fmt.Errorf("%q is the pattern of a scheme that can't be opened; only http and https are", s)
			}
		}
		if host, port, ok := cutPort(p.host); ok {
			p.host, p.port = host, port
		}
		p.host = strings.TrimSuffix(strings.TrimPrefix(p.host, "["), "]")
		invalid := fmt.Errorf("%q is not the pattern of an address; write a host such as \"example.com\" or \"*.example.com\", with \"https://\" before it if that matters", s)
		if _, err := path.Match(p.host, ""); err != nil || p.host == "" || len(s) > maxPattern || strings.ContainsAny(p.host, "/@ ?[\\") || strings.Trim(p.port, "0123456789") != "" {
			return nil, invalid
		}
		if !strings.Contains(p.host, "*") {
			var err error
			if p.host, err = canonical(p.host); err != nil {
				return nil, invalid
			}
		} else if p.host = strings.TrimSuffix(p.host, "."); strings.Trim(p.host, "*.") != "" {
			// A label with a wildcard is compared as it is written; the others may be written in any alphabet.
			labels := strings.Split(p.host, ".")
			for i, l := range labels {
				if strings.Contains(l, "*") {
					continue
				}
				name, err := names.ToASCII(l)
				if err != nil {
					return nil, invalid
				}
				labels[i] = name
			}
			p.host = strings.Join(labels, ".")
		}
		out = append(out, p)
	}
	return out, nil
}

// cutPort separates the port of a host. An IPv6 address has brackets, unless it is alone.
func cutPort(host string) (before, port string, ok bool) {
	i := strings.LastIndex(host, ":")
	if i < 0 || strings.HasSuffix(host, "]") || !strings.HasPrefix(host, "[") && strings.Count(host, ":") > 1 {
		return host, "", false
	}
	return host[:i], host[i+1:], true
}

// Check returns an error if no document may have an address, or no socket (ws, wss).
func (p Policy) Check(text string) error {
	if text == "about:blank" || text == "about:srcdoc" {
		return nil
	}
	for socket, scheme := range map[string]string{"ws:": "http:", "wss:": "https:"} {
		if rest, ok := strings.CutPrefix(text, socket); ok {
			text = scheme + rest
			break
		}
	}
	a, err := parseAddress(text)
	if err != nil {
		return err
	}
	for _, d := range p.deny {
		if d.matches(a) || strings.HasSuffix(a.host, "."+d.host) {
			return fmt.Errorf("%s is denied by %q in the plugin's block", a.host, d.text)
		}
	}
	if p.allow == nil {
		return nil
	}
	for _, x := range p.allow {
		if x.matches(a) {
			return nil
		}
	}
	return fmt.Errorf("%s://%s is not among the addresses that the plugin's block allows", a.scheme, a.origin())
}

// CheckOpened is Check for a document that a page has opened. A page may show what it has made itself: a data address is judged by its
// opener, and a blob address by the origin that made it.
func (p Policy) CheckOpened(text, opener string) error {
	scheme, rest, _ := strings.Cut(text, ":")
	switch strings.ToLower(scheme) {
	case "data":
	case "blob":
		if !strings.HasPrefix(rest, "null/") { // an origin that has no name, such as that of a data address
			return p.Check(rest)
		}
	default:
		return p.Check(text)
	}
	if s, _, _ := strings.Cut(strings.ToLower(opener), ":"); s == "data" || s == "blob" {
		_, inner, _ := strings.Cut(opener, ":")
		if s == "blob" && !strings.HasPrefix(inner, "null/") {
			return p.Check(inner)
		}
		return fmt.Errorf("%s addresses are only allowed in pages with an address of their own", scheme)
	}
	return p.Check(opener)
}

// origin is the host, with its port if it is not that of the scheme.
func (a address) origin() string {
	host := a.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if a.port != ports[a.scheme] {
		host += ":" + a.port
	}
	return host
}

func (p pattern) opens(scheme string) bool {
	ok, _ := path.Match(p.scheme, scheme)
	return ok || p.scheme == ""
}

func (p pattern) matches(a address) bool {
	if !p.opens(a.scheme) {
		return false
	}
	if p.port != "" && p.port != a.port {
		return false
	}
	if p.scheme != "" && p.port == "" && !strings.Contains(p.scheme, "*") && a.port != ports[p.scheme] {
		return false
	}
	if apex, ok := strings.CutPrefix(p.host, "*."); ok && !strings.Contains(apex, "*") {
		return a.host == apex || strings.HasSuffix(a.host, "."+apex)
	}
	if strings.Contains(p.host, "*") {
		ok, _ := path.Match(p.host, a.host)
		return ok
	}
	return a.host == p.host || strings.Count(p.host, ".") == 1 && a.host == "www."+p.host
}
