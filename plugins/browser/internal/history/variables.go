package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Variable is a value that was typed, and that another run may replace.
type Variable struct {
	Name, Value string
}

// byType are the names of values by the type of their field.
var byType = map[string]string{"email": "email", "tel": "phone", "date": "date", "number": "number", "url": "url"}

// byKeyword are the names of values by words of their field, the most specific ones first.
var byKeyword = []struct {
	name  string
	words []string
}{
	{"billing_address", []string{"billing"}},
	{"shipping_address", []string{"shipping"}},
	{"email", []string{"email", "e-mail"}},
	{"address", []string{"address", "street"}},
	{"comment", []string{"comment", "message", "note"}},
	{"phone", []string{"phone", "mobile", "tel"}},
	{"first_name", []string{"first name", "firstname", "given name", "fname"}},
	{"last_name", []string{"last name", "lastname", "surname", "family name", "lname"}},
	{"full_name", []string{"full name", "fullname"}},
	{"company", []string{"company", "organization", "organisation"}},
	{"zip_code", []string{"zip", "postal", "postcode"}},
	{"city", []string{"city", "town"}},
	{"country", []string{"country"}},
	{"state", []string{"state", "province"}},
	{"date", []string{"date", "birthday"}},
	{"name", []string{"name"}},
}

var (
	emailValue = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
	phoneValue = regexp.MustCompile(`^\+?[\d\s().-]+$`)
	dateValue  = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
	nameValue  = regexp.MustCompile(`^\p{Lu}[\p{L}'-]*( \p{Lu}[\p{L}'-]*)*$`)
	digitValue = regexp.MustCompile(`^\d{1,9}$`)
	digit      = regexp.MustCompile(`\d`)
	notLetters = regexp.MustCompile(`[_\W]+`)
)

const (
	minPhone = 10 // digits
	maxName  = 30 // bytes
)

// nameOf returns the name of a value; "": it is none that another run would replace.
func nameOf(e *Element, value string) string {
	if e != nil {
		if n := byType[strings.ToLower(e.Attributes["type"])]; n != "" {
			return n
		}
		var about strings.Builder
		for _, k := range []string{"id", "name", "placeholder", "aria-label"} {
			about.WriteString(" " + e.Attributes[k])
		}
		text := strings.ToLower(notLetters.ReplaceAllString(about.String(), " "))
		for _, k := range byKeyword {
			if slices.ContainsFunc(k.words, func(w string) bool { return strings.Contains(text, strings.ReplaceAll(w, "-", " ")) }) {
				return k.name
			}
		}
	}
	switch {
	case emailValue.MatchString(value):
		return "email"
	case dateValue.MatchString(value):
		return "date"
	case phoneValue.MatchString(value) && len(digit.FindAllString(value, -1)) >= minPhone:
		return "phone"
	case nameValue.MatchString(value) && len(value) <= maxName:
		if strings.Contains(value, " ") {
			return "full_name"
		}
		return "first_name"
	case digitValue.MatchString(value):
		return "number"
	}
	return ""
}

// Variables returns the values of a run that another one may replace: those that were typed or searched for. A value that was typed several times
// is one variable. Placeholders of secrets are none.
func (h *History) Variables() []Variable {
	var out []Variable
	count := map[string]int{}
	for i := range h.Items {
		item := &h.Items[i]
		if item.Output == nil {
			continue
		}
		for j, a := range item.Output.Actions {
			var in struct {
				Text, Query string
			}
			if json.Unmarshal(a.Args, &in) != nil {
				continue
			}
			for _, v := range []string{in.Text, in.Query} {
				if v == "" || strings.Contains(v, "<secret>") || a.Name == "done" || slices.ContainsFunc(out, func(x Variable) bool { return x.Value == v }) {
					continue
				}
				n := nameOf(item.Interacted(j), v)
				if n == "" {
					continue
				}
				if count[n]++; count[n] > 1 {
					n = fmt.Sprintf("%s_%d", n, count[n])
				}
				out = append(out, Variable{n, v})
			}
		}
	}
	return out
}

// Substitute replaces variables, and placeholders of what was left out, in all actions.
func (h *History) Substitute(values map[string]string) error {
	known, left := h.Variables(), h.Hidden()
	replace := map[string]string{}
	var placeholders []string
	for name, v := range values {
		if slices.Contains(left, name) {
			placeholders = append(placeholders, placeholder(name), v)
			continue
		}
		i := slices.IndexFunc(known, func(x Variable) bool { return x.Name == name })
		if i < 0 {
			var names []string
			for _, x := range known {
				names = append(names, fmt.Sprintf("%s (%q)", x.Name, clip(x.Value, 40)))
			}
			for _, n := range left {
				names = append(names, n+" (left out)")
			}
			if len(names) == 0 {
				return fmt.Errorf("the history has no variable %q, and no other", name)
			}
			return fmt.Errorf("the history has no variable %q; its variables are %s", name, strings.Join(names, ", "))
		}
		replace[known[i].Value] = v
	}
	hidden := strings.NewReplacer(placeholders...)
	return h.each(func(s string) string {
		if v, ok := replace[s]; ok {
			return v
		}
		return hidden.Replace(s)
	})
}

// each replaces each string in the arguments of the actions.
func (h *History) each(f func(string) string) error {
	for i := range h.Items {
		if h.Items[i].Output == nil {
			continue
		}
		actions := h.Items[i].Output.Actions
		for j := range actions {
			args, err := rewrite(actions[j].Args, f)
			if err != nil {
				return err
			}
			actions[j].Args = args
		}
	}
	return nil
}

// rewrite replaces each string in a JSON value. Numbers stay as they are written.
func rewrite(b json.RawMessage, f func(string) string) (json.RawMessage, error) {
	if len(b) == 0 {
		return b, nil
	}
	switch b[0] {
	case '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, err
		}
		return json.Marshal(f(s))
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(b, &list); err != nil {
			return nil, err
		}
		for i := range list {
			var err error
			if list[i], err = rewrite(list[i], f); err != nil {
				return nil, err
			}
		}
		return json.Marshal(list)
	case '{':
		var object map[string]json.RawMessage
		if err := json.Unmarshal(b, &object); err != nil {
			return nil, err
		}
		for k := range maps.Keys(object) {
			v, err := rewrite(object[k], f)
			if err != nil {
				return nil, err
			}
			object[k] = v
		}
		return json.Marshal(object)
	}
	return b, nil
}
