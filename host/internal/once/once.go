// Package once remembers what was published, so that a person reads it once.
//
// It owns: which keys were seen. It must not know: what a key stands for, who reads it.
//
// Start with [Set].
package once

import "sync"

// Set holds the keys that were seen. The zero value is empty and ready to use; its methods may be called concurrently.
type Set struct {
	mu   sync.Mutex
	seen map[string]bool
}

// First adds a key and reports whether it was missing.
func (s *Set) First(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[key] {
		return false
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[key] = true
	return true
}

// Has reports whether a key was seen.
func (s *Set) Has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[key]
}
