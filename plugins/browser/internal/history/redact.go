package history

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Redact replaces the values of secrets in a text by the placeholders that stand for them. Longer values come first, as one may contain another.
func Redact(text string, secrets map[string]string) string {
	names := slices.SortedFunc(maps.Keys(secrets), func(a, b string) int {
		if d := len(secrets[b]) - len(secrets[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, n := range names {
		if secrets[n] != "" {
			pairs = append(pairs, secrets[n], "<secret>"+n+"</secret>")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Redact replaces the values of secrets in everything that the history contains.
func (h *History) Redact(secrets map[string]string) error {
	if len(secrets) == 0 {
		return nil
	}
	b, err := h.Save()
	if err != nil {
		return err
	}
	if b, err = rewrite(b, func(s string) string { return Redact(s, secrets) }); err != nil {
		return err
	}
	out := &History{}
	if err := json.Unmarshal(b, out); err != nil {
		return err
	}
	*h = *out
	return nil
}
