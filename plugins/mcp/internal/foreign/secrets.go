package foreign

import (
	"regexp"
	"strings"
	"sync"
)

// reference matches what other programs replace in values, and whole one that is all of a value.
var (
	reference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{[^}]*\}|\{(env|file):[^}]*\}`) })
	whole     = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\})$`)
	})
	home  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:\$\{(?:env:)?HOME\}|\{env:HOME\})/`) })
	input = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$\{input:([^}]*)\}$`) })
)

// ofHome writes a path in the user's home folder as blocks do.
func ofHome(path string) string {
	if at := home().FindString(path); at != "" {
		return "~/" + path[len(at):]
	}
	return path
}

// variable is a reference to a variable of gantry's environment. With a default, even an empty one, the configuration is valid without it.
func variable(name, text string) map[string]any {
	return map[string]any{"$env": name, "$default": text}
}

// Secret reports whether the value of a server's variable or header may be a secret, and proposes the name to store it under.
func Secret(server, name, value string) (label string, ok bool) {
	return secretName(server, name), looksSecret(name, value)
}

// secretName proposes the name of a secret.
func secretName(server, name string) string {
	return clip(strings.ToLower(server), 40) + "-" + strings.ToLower(strings.Trim(strings.ReplaceAll(fit(name), "_", "-"), "-"))
}

var (
	secretWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(token|secret|pass(?:w|phrase|code|[-_]|$)|api[-_]?key|access[-_]?key|private[-_]?key|^key$|[-_]key$|credential|authorization|^auth$|[-_]auth$|[-_]pat$|^pat$|cookie|session|dsn$|connection[-_]?string|database[-_]?url)`)
	})
	secretForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(^|[^A-Za-z0-9])(sk-[A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{15,}|xox[abposr]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{15,}\.|ya29\.|lin_api_|ntn_|npm_[A-Za-z0-9]{20,}|-----BEGIN )|://[^/\s:@]*:[^/\s@]+@`)
	})
	// secretHeader matches a header, or a member of an object, within a longer text. Paths and images before a colon are none.
	secretHeader = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:^|[\s"'{,=])[\w-]*(?:authorization|cookie|token|secret|passw(?:or)?d|passphrase|api[-_]?key|access[-_]?key|private[-_]?key|[-_]key|[-_]auth)["']?\s*:\s*["']?[^\s"']{6,}|\bbearer\s+\S+`)
	})
	// bareReference matches a reference without a default, and the scheme of a header before it.
	bareReference = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:\b(?:bearer|basic|token)\s+)?(?:\$\{(?:(?:env|input):)?[^}:]*\}|\{(?:env|file):[^}:]*\})`)
	})
)

// looksSecret reports whether a value may be a secret, by its name or by its form.
func looksSecret(name, value string) bool {
	if value == "" {
		return false
	}
	return secretForm().MatchString(value) || secretHeader().MatchString(value) || secretPair(name, value)
}

// secretPair reports whether a value may be a secret by its name.
func secretPair(name, value string) bool {
	return len(value) >= 6 && value != "true" && value != "false" && secretWord().MatchString(name)
}

// secretArgument reports whether an argument may contain a secret, such as --header=X-Api-Key:TEXT, --env=API_KEY=TEXT or a script with one.
func secretArgument(a string) bool {
	if looksSecret("", bareReference().ReplaceAllString(a, "")) {
		return true
	}
	for name, rest, ok := strings.Cut(a, "="); ok; name, rest, ok = strings.Cut(rest, "=") {
		if secretPair(name, rest) {
			return true
		}
	}
	return false
}
