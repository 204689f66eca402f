package redact

import (
	"regexp"
	"strings"
)

// secretNames are names that promise a secret. "tokens" in the plural is a count as a rule (max_tokens), unless it says
// which tokens.
var secretNames = regexp.MustCompile(`(?i)authorization|api[-_]?key|(?:access|refresh|id)[-_]?token|token(?:$|[^s]|s[a-z])|` +
	`secret|credential|signature|password|passwd|cookie`)

// SecretName reports whether the value under a name, of a header, a field or a variable, is to be covered.
func SecretName(name string) bool { return secretNames.MatchString(name) }

// secretParameter is SecretName for the query of a URL, where a few short names are secrets by custom.
func secretParameter(name string) bool {
	switch strings.ToLower(name) {
	case "key", "sig", "code":
		return true
	}
	return SecretName(name)
}

var (
	// assignment is a name with what separates it from its value: name=, name:, "name":, \"name\":
	assignment = regexp.MustCompile(`([A-Za-z0-9_.\-]+)((?:\\*["'])?)\s*([:=])\s*`)
	// parameter is a short name that promises a secret in a query only.
	parameter = regexp.MustCompile(`(?i)[?&](?:key|sig|code)=([^&\s"'<>\\]+)`)
	userinfo  = regexp.MustCompile(`://([^/\s@"'<>?#]+)@`)
	bearer    = regexp.MustCompile(`(?i)\bbearer[\s:]+([A-Za-z0-9._~+/=\-]{8,})`)
)

// named finds the values of names that promise a secret, and what stands where secrets stand.
func named(s string) []span {
	var out []span
	for _, m := range assignment.FindAllStringSubmatchIndex(s, -1) {
		if name := s[m[2]:m[3]]; SecretName(name) {
			if v, ok := value(s, m[1], name, s[m[4]:m[5]], s[m[6]]); ok {
				out = append(out, v)
			}
		}
	}
	for _, re := range []*regexp.Regexp{parameter, userinfo} {
		for _, m := range re.FindAllStringSubmatchIndex(s, -1) {
			out = append(out, span{from: m[2], to: m[3], mark: Mark})
		}
	}
	for _, m := range bearer.FindAllStringSubmatchIndex(s, -1) {
		// "Bearer authentication is required" is prose; keys have digits.
		if strings.ContainsAny(s[m[2]:m[3]], "0123456789") {
			out = append(out, span{from: m[2], to: m[3], mark: Mark})
		}
	}
	return out
}

// value finds what is to be covered of the value that begins at from.
func value(s string, from int, name, quote string, sep byte) (span, bool) {
	if from == len(s) {
		return span{}, false
	}
	if n := opening(s[from:]); n > 0 {
		end := closing(s, from+n, n)
		return span{from: from + n, to: end, mark: Mark}, end > from+n
	}
	if c := s[from]; quote != "" && (c == '{' || c == '[') {
		mark := Mark
		if len(quote) == 1 { // an escaped object is inside a string, where a quote would end it
			mark = `"` + Mark + `"`
		}
		return span{from: from, to: balanced(s, from), mark: mark}, true
	}
	ends := " \t\r\n&;,\"'<>()[]{}|\\"
	authorization := strings.Contains(strings.ToLower(name), "authorization")
	if authorization {
		ends = "\r\n,;\"'<>" // its value has two words
	}
	to := len(s)
	if i := strings.IndexAny(s[from:], ends); i >= 0 {
		to = from + i
	}
	if to == from {
		return span{}, false
	}
	if sep == ':' {
		// Numbers and words of JSON are counts and flags; "Invalid token: expected a string" is prose.
		prose := quote == "" && !authorization && !strings.ContainsAny(name, "-_")
		if prose || isLiteral(s[from:to]) {
			return span{}, false
		}
	}
	return span{from: from, to: to, mark: Mark}, true
}

// opening is the length of a quote at the beginning of s, with the backslashes before it; 0: there is none.
func opening(s string) int {
	n := 0
	for n < len(s) && s[n] == '\\' {
		n++
	}
	if n < len(s) && (s[n] == '"' || s[n] == '\'') {
		return n + 1
	}
	return 0
}

// closing is where the quote ends whose opening, n bytes long, ends at from. A quote inside has backslashes of its own:
// one behind 2(n-1)+1 of them more, modulo 2n, closes. Without a closing quote the text ends it.
func closing(s string, from, n int) int {
	quote, run := s[from-1], 0
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '\\':
			run++
			continue
		case quote:
			if run%(2*n) == n-1 {
				return i - (n - 1)
			}
		}
		run = 0
	}
	return len(s)
}

// balanced is where the object or list that begins at from ends.
func balanced(s string, from int) int {
	depth := 0
	for i := from; i < len(s); {
		switch s[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '\\', '"', '\'':
			if n := opening(s[i:]); n > 0 {
				i = closing(s, i+n, n)
				i += opening(s[i:])
				continue
			}
		}
		i++
	}
	return len(s)
}

// isLiteral reports whether s is a number or a word of JSON.
func isLiteral(s string) bool {
	switch s {
	case "true", "false", "null":
		return true
	}
	return strings.Trim(s, "+-.0123456789eE") == ""
}
