// Package hosts is how hosts are named in rules: a pattern, and what is compared with it.
//
// It owns: the normal form of a host, patterns and what they match. It must not know: what a rule allows, who asks.
//
// Start with [ParsePattern].
package hosts

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Normalize is a host as patterns are compared with it: lower case, without port, brackets, spaces around it and dots at its
// end. The zone of an address stays.
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
			return a.String() // one spelling of many
		}
		return host
	}
	return strings.TrimRight(host, ".")
}

// maxHost is how long a host may be; the longest name of DNS has 253.
const maxHost = 255

// Valid reports whether a normalised host is a name or an address.
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

// Pattern is a pattern of hosts: "d" is d alone, "*.d" what is below d, "**.d" both; * and ? inside a label stand for
// characters other than a dot; "*" alone is every host. ":PORT" behind it leaves other ports out.
type Pattern struct {
	text string
	host string
	port uint16 // 0: any
}

// ParsePattern reads a pattern. The error says what is wrong with it.
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

// CutPort cuts a port off, which is not the end of an address of IPv6.
func CutPort(s string) (host, port string, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.Contains(s[:i], ":") && !strings.HasSuffix(s[:i], "]") {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// String is the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Any reports whether every host matches.
func (p Pattern) Any() bool { return p.host == "*" || p.host == "" }

// Literal reports whether the pattern is one host as it is.
func (p Pattern) Literal() bool { return p.host != "" && !strings.ContainsAny(p.host, "*?") }

// Match reports whether a normalised host matches.
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

// below reports whether a host is below one that matches.
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

// labels compares label by label.
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

// label compares two labels; * stands for one or more characters, ? for one.
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
