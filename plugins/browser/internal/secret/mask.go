package secret

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// maxMasked is the number of values that are masked; the oldest are given up for new ones. Codes change every 30 seconds.
const maxMasked = 256

// piece is the length from which on a part of a value is masked too: what cuts texts would otherwise leave most of it. A value that is not much
// longer is masked as a whole only.
const piece = 12

// maxPieces is the length of a value whose pieces are masked.
const maxPieces = 4096

// Masks replaces values by the placeholders of their secrets. It is safe for concurrent use, and the zero value masks nothing.
type Masks struct {
	mu     sync.Mutex
	values []masked          // longest first
	order  []string          // of the values, the oldest first
	pieces map[string]string // → placeholders; nil: to be made
}

type masked struct{ text, placeholder string }

// Add masks a value from now on, in all forms that pages and protocols give it.
func (m *Masks) Add(name, value string) {
	if len(value) < minValue {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.order, value); i >= 0 {
		return
	}
	m.order = append(m.order, value)
	if len(m.order) > maxMasked {
		old := forms(m.order[0])
		m.order = m.order[1:]
		m.values = slices.DeleteFunc(m.values, func(x masked) bool { return slices.Contains(old, x.text) })
	}
	for _, f := range forms(value) {
		if !slices.ContainsFunc(m.values, func(x masked) bool { return x.text == f }) {
			m.values = append(m.values, masked{f, Placeholder(name)})
		}
	}
	slices.SortStableFunc(m.values, func(a, b masked) int { return len(b.text) - len(a.text) })
	m.pieces = nil
}

// forms are the texts that stand for a value.
func forms(value string) []string {
	quoted, err := json.Marshal(value)
	if err != nil { // impossible: it is a string
		panic("secret: " + err.Error())
	}
	out := []string{value}
	for _, f := range []string{
		url.QueryEscape(value), url.PathEscape(value), strings.Trim(string(quoted), `"`), html.EscapeString(value), strings.Join(strings.Fields(value), " "),
		strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "="), strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(value)), "="),
	} {
		if len(f) >= minValue && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// Text returns a text in which all values are masked, longer ones first, and then pieces of them.
func (m *Masks) Text(s string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.values) == 0 || s == "" {
		return s
	}
	for _, v := range m.values {
		s = strings.ReplaceAll(s, v.text, v.placeholder)
	}
	return m.withoutPieces(s)
}

// Bytes is Text for bytes.
func (m *Masks) Bytes(b []byte) []byte { return []byte(m.Text(string(b))) }

// Has reports whether a text contains a value, or a piece of one.
func (m *Masks) Has(s string) bool { return m.Text(s) != s }

// withoutPieces masks what is left of values that were cut: everything that pieces of them cover. The caller has locked m.mu.
func (m *Masks) withoutPieces(s string) string {
	if m.pieces == nil {
		m.pieces = map[string]string{}
		for _, v := range m.values {
			if len(v.text) < piece+4 {
				continue
			}
			for j := 0; j+piece <= min(len(v.text), maxPieces); j++ {
				m.pieces[v.text[j:j+piece]] = v.placeholder
			}
		}
	}
	if len(m.pieces) == 0 {
		return s
	}
	var out strings.Builder
	from, covered := 0, 0 // what is written, and where the last piece ends
	for i := 0; i+piece <= len(s); i++ {
		name, ok := m.pieces[s[i:i+piece]]
		if !ok {
			continue
		}
		if i >= covered {
			out.WriteString(s[from:i])
			out.WriteString(name)
		}
		covered = i + piece
		from = covered
	}
	if covered == 0 {
		return s
	}
	out.WriteString(s[from:])
	return strings.ToValidUTF8(out.String(), "")
}
