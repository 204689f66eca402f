// Package spec is the vocabulary of the Chrome DevTools Protocol: its commands, events and types, with their parameters.
//
// It owns: the embedded list, which generate writes, and the search in it. It must not know: connections, or what any command does.
//
// Start with [Spec].
package spec

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"slices"
	"strings"
	"sync"
)

//go:embed protocol.txt.gz
var packed []byte

// Kind is what a name stands for.
type Kind string

// The kinds.
const (
	Command Kind = "command"
	Event   Kind = "event"
	Type    Kind = "type"
)

// Item is a name with what belongs to it, such as {"Page.reload", "{ignoreCache?: boolean}"}.
type Item struct {
	Kind      Kind   `json:"kind"`
	Name      string `json:"name"`
	Signature string `json:"signature"`
}

// Spec is the vocabulary, which is unpacked when it is used first. It is safe for concurrent use.
type Spec struct {
	once  sync.Once
	items []Item
	kinds map[string]Kind
}

func (s *Spec) load() {
	s.once.Do(func() {
		s.kinds = map[string]Kind{}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil { // impossible: a test reads it
			panic("spec: " + err.Error())
		}
		text, err := io.ReadAll(z)
		if err != nil {
			panic("spec: " + err.Error())
		}
		for line := range strings.Lines(string(text)) {
			kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			name, signature, _ := strings.Cut(rest, "\t")
			s.items = append(s.items, Item{Kind(kind), name, signature})
			s.kinds[name] = Kind(kind)
		}
	})
}

// Kind returns what a name stands for; empty: nothing.
func (s *Spec) Kind(name string) Kind {
	s.load()
	return s.kinds[name]
}

// Find returns the items with all words of a query in their names, short names first, and after them those with words in their signatures. A query that is a
// name, or a domain, finds just that. At most limit items are returned; more says that there are others.
func (s *Spec) Find(query string, limit int) (items []Item, more bool) {
	s.load()
	words := strings.Fields(strings.ToLower(query))
	var exact, named, others []Item
	for _, i := range s.items {
		name := strings.ToLower(i.Name)
		domain, _, _ := strings.Cut(name, ".")
		all := name + " " + strings.ToLower(i.Signature)
		switch {
		case len(words) == 1 && (name == words[0] || domain == words[0]):
			exact = append(exact, i)
		case containsAll(name, words):
			named = append(named, i)
		case containsAll(all, words):
			others = append(others, i)
		}
	}
	slices.SortStableFunc(named, func(a, b Item) int { return len(a.Name) - len(b.Name) })
	if items = exact; len(items) == 0 {
		items = append(named, others...)
	}
	return items[:min(len(items), limit)], len(items) > limit
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
