package keys

import "strings"

// Name returns a key as people write it: Ctrl-G for ctrl+g.
func Name(key string) string {
	parts := strings.Split(key, "+")
	for i, p := range parts {
		switch {
		case p == "pgup":
			parts[i] = "PageUp"
		case p == "pgdown":
			parts[i] = "PageDown"
		case len(p) > 1, len(parts) > 1:
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "-")
}
