package redact

import (
	"regexp"
	"strings"
)

// secretNames matches names that suggest a secret. The plural "tokens" is usually a count (max_tokens), unless it says which
// tokens.
var secretNames = regexp.MustCompile(`(?i)authorization|api[-_]?key|(?:access|refresh|id)[-_]?token|token(?:$|[^s]|s[a-z])|` +
	`secret|credential|signature|password|passwd|cookie`)

// SecretName reports whether the value of a header, field or variable with this name must be redacted.
func SecretName(name string) bool { return secretNames.MatchString(name) }

// secretParameter is like SecretName for the query of a URL, where a few short names are secrets by convention.
func secretParameter(name string) bool {
	switch strings.ToLower(name) {
	case "key", "sig", "code":
		return true
	}
	return SecretName(name)
}

var (
	// assignment is a name with the separator before its value: name=, name:, "name":, \"name\":
	assignment = regexp.MustCompile(`([A-Za-z0-9_.\-]+)((?:\\*["'])?)\s*([:=])\s*`)
	// parameter is a short name that suggests a secret only in a query.
	parameter = regexp.MustCompile(`(?i)[?&](?:key|sig|code)=([^&\s"'<>\\]+)`)
	userinfo  = regexp.MustCompile(`://([^/\s@"'<>?#]+)@`)
	bearer    = regexp.MustCompile(`(?i)\bbearer[\s:]+([A-Za-z0-9._~+/=\-]{8,})`)
)

// named finds the values of names that suggest a secret, and values in positions of secrets.
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
		// "Bearer authentication is required" is prose; keys contain digits.
		if strings.ContainsAny(s[m[2]:m[3]], "0123456789") {
			out = append(out, span{from: m[2], to: m[3], mark: Mark})
		}
	}
	return out
}

// value returns the part to redact of the value at from.
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
		if len(quote) == 1 { // an escaped object inside a string, which a quote would end
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
		// Numbers and JSON keywords are counts and flags; "Invalid token: expected a string" is prose.
		prose := quote == "" && !authorization && !strings.ContainsAny(name, "-_")
		if prose || isLiteral(s[from:to]) {
			return span{}, false
		}
	}
	return span{from: from, to: to, mark: Mark}, true
}

// opening returns the length of a quote at the beginning of s, including preceding backslashes, or 0.
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

// closing returns the end of a quoted text whose opening quote, n bytes long, ends at from. Quotes inside it have additional
// backslashes: the text ends at a quote with a run of length n, modulo 2n. Without a closing quote, it ends with s.
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

// balanced returns the end of the object or list at from.
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

// isLiteral reports whether s is a number or a JSON keyword.
func isLiteral(s string) bool {
	switch s {
	case "true", "false", "null":
		return true
	}
	return strings.Trim(s, "+-.0123456789eE") == ""
}
