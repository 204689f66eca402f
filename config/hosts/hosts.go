// Package hosts implements host patterns in rules.
//
// It owns the normal form of a host, the patterns, and what they match. It does not know what a rule allows or for whom.
//
// Start with [ParsePattern].
package hosts

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Normalize returns the form of a host that patterns are compared with: in lower case, without port, brackets, surrounding spaces
// or trailing dots. It keeps the zone of an address.
func Normalize(host string) string {
	host = strings.ToLower(strings.TrimSpace(host))
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		host = inner
	} else if before, port, ok := strings.Cut(host, ":"); ok && strings.Trim(port, "0123456789") == "" {
		host = before
	}
	if strings.Contains(host, ":") {
		host = strings.Replace(host, "%25", "%", 1)
		if a, err := netip.ParseAddr(host); err == nil {
			return a.String() // canonical spelling of an address
		}
		return host
	}
	return strings.TrimRight(host, ".")
}

// maxHost limits the length of a host. DNS names have at most 253 characters.
const maxHost = 255

// Valid reports whether a normalized host is a name or an address.
func Valid(host string) bool {
	if host == "" || len(host) > maxHost {
		return false
	}
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			if c := label[i]; c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
				return false
			}
		}
	}
	return true
}

// Pattern is a host pattern: "d" matches d alone, "*.d" matches subdomains of d, and "**.d" matches both. "*" and "?" inside a
// label match characters other than a dot. "*" alone matches every host. A suffix ":PORT" limits the pattern to that port.
type Pattern struct {
	text string
	host string
	port uint16 // 0: any
}

// ParsePattern parses a pattern.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{text: text}
	rest := strings.TrimSpace(text)
	if strings.Contains(rest, "://") || strings.ContainsAny(rest, "/@") {
		return p, fmt.Errorf("pattern %q: use only a host, without scheme and path", text)
	}
	if before, port, ok := CutPort(rest); ok {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return p, fmt.Errorf("pattern %q: invalid port %q", text, port)
		}
		p.port, rest = uint16(n), before
	}
	if strings.HasPrefix(rest, "[") && !strings.HasSuffix(rest, "]") {
		return p, fmt.Errorf("pattern %q: unclosed bracket", text)
	}
	p.host = Normalize(rest)
	plain := strings.TrimPrefix(strings.TrimPrefix(p.host, "**."), "*.")
	plain = strings.NewReplacer("*", "x", "?", "x").Replace(plain)
	switch {
	case p.host == "*":
	case strings.Contains(strings.TrimPrefix(p.host, "**."), "**"):
		return p, fmt.Errorf("pattern %q: ** is only allowed at the beginning, before a dot", text)
	case !Valid(plain):
		return p, fmt.Errorf("pattern %q is not a host; write names with other letters than a to z in their xn-- form", text)
	case strings.ContainsAny(p.host, "*?") && strings.Trim(p.host, "0123456789.*?") == "":
		return p, fmt.Errorf("pattern %q: addresses must be literal, without wildcards", text)
	}
	return p, nil
}

// CutPort cuts a port off s. It does not mistake the end of an IPv6 address for a port.
func CutPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.Contains(s[:i], ":") && !strings.HasSuffix(s[:i], "]") {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// String returns the pattern as written.
func (p Pattern) String() string { return p.text }

// Any reports whether the pattern matches every host.
func (p Pattern) Any() bool { return p.host == "*" || p.host == "" }

// Literal reports whether the pattern is a single host without wildcards.
func (p Pattern) Literal() bool { return p.host != "" && !strings.ContainsAny(p.host, "*?") }

// Match reports whether the pattern matches a normalized host.
func (p Pattern) Match(host string, port uint16) bool {
	if p.host == "" || host == "" || p.port != 0 && p.port != port {
		return false
	}
	if p.host == "*" {
		return true
	}
	if rest, ok := strings.CutPrefix(p.host, "**."); ok {
		return labels(rest, host) || below(rest, host)
	}
	if rest, ok := strings.CutPrefix(p.host, "*."); ok {
		return below(rest, host)
	}
	return labels(p.host, host)
}

// below reports whether host is a subdomain of a host that matches.
func below(pattern, host string) bool {
	for {
		_, rest, ok := strings.Cut(host, ".")
		if !ok {
			return false
		}
		if labels(pattern, rest) {
			return true
		}
		host = rest
	}
}

// labels compares two names label by label.
func labels(pattern, host string) bool {
	for {
		p, pRest, pMore := strings.Cut(pattern, ".")
		h, hRest, hMore := strings.Cut(host, ".")
		if !label(p, h) || pMore != hMore {
			return false
		}
		if !pMore {
			return true
		}
		pattern, host = pRest, hRest
	}
}

// label compares two labels: "*" matches one or more characters, "?" matches one.
func label(p, h string) bool {
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == '*':
			for n := 1; n <= len(h); n++ {
				if label(p[i+1:], h[n:]) {
					return true
				}
			}
			return false
		case h == "" || p[i] != '?' && p[i] != h[0]:
			return false
		}
		h = h[1:]
	}
	return h == ""
}
