package history

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// Rewrite replaces each string in a JSON value, except the names of members. Numbers stay as they are written.
func Rewrite(b []byte, f func(string) string) ([]byte, error) { return rewrite(b, f) }

// Redact replaces texts in everything that the history contains.
func (h *History) Redact(f func(string) string) error {
	b, err := h.Save()
	if err != nil {
		return err
	}
	if b, err = Rewrite(b, f); err != nil {
		return err
	}
	out := &History{}
	if err := json.Unmarshal(b, out); err != nil {
		return err
	}
	*h = *out
	return nil
}

// hidden is what stands for a value that was left out.
var hidden = regexp.MustCompile(`<secret>([^<>]{1,64})</secret>`)

func placeholder(name string) string { return fmt.Sprintf("<secret>%s</secret>", name) }

// Hidden returns the names of the values that the actions only have placeholders for: secrets, and passwords that were left out.
func (h *History) Hidden() []string {
	var out []string
	for i := range h.Items {
		if h.Items[i].Output == nil {
			continue
		}
		for _, a := range h.Items[i].Output.Actions {
			if a.Name == "done" {
				continue
			}
			_, err := rewrite(a.Args, func(s string) string {
				for _, m := range hidden.FindAllStringSubmatch(s, -1) {
					if !slices.Contains(out, m[1]) {
						out = append(out, m[1])
					}
				}
				return s
			})
			if err != nil {
				continue // an action that can't be read has none
			}
		}
	}
	return out
}
