package service

import (
	"fmt"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/once"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Quota limits what the host stores for a plugin, in bytes; 0: no limit. State limits stored data. The other limits apply to the
// life of a host, because artifacts and events belong to threads and are removed with them. Stored secrets count separately, with
// the limit of State.
type Quota struct {
	State, Artifacts, Events int64
}

// The names of the limits in the `limits` of a block.
const (
	limitState     = "state"
	limitArtifacts = "artifacts"
	limitEvents    = "events"
)

// Overhead of storage in bytes: of an event beyond its text, and of a file beyond its content.
const (
	eventOverhead = 256
	fileOverhead  = 4 << 10
)

// spent counts the bytes that plugins have stored.
type spent struct {
	mu    sync.Mutex
	bytes map[string]int64 // by plugin and limit
	told  once.Set         // limits that were reported to the user, by the same keys
}

func newSpent() *spent { return &spent{bytes: map[string]int64{}} }

// exceededError is the status that a plugin gets when it has reached a limit.
type exceededError struct{ text string }

func (e *exceededError) Error() string { return e.text }
func (e *exceededError) GRPCStatus() *status.Status {
	return status.New(codes.ResourceExhausted, e.text)
}

func (s *server) quota() Quota {
	if s.Quota == nil {
		return Quota{}
	}
	return s.Quota(s.id.Label)
}

// spend counts n bytes, or returns an error if they exceed a limit.
func (s *server) spend(setting string, n int) error {
	q := s.quota()
	limit := q.Events
	switch setting {
	case limitArtifacts:
		limit = q.Artifacts
	case limitState:
		limit = q.State
	}
	if limit <= 0 {
		return nil
	}
	key := s.id.Label + "\x00" + setting
	s.spent.mu.Lock()
	full := s.spent.bytes[key]+int64(n) > limit
	if !full {
		s.spent.bytes[key] += int64(n)
	}
	s.spent.mu.Unlock()
	if full {
		return s.exceeded(setting, limit)
	}
	return nil
}

// exceeded returns the error for the plugin. The user is notified once.
func (s *server) exceeded(setting string, limit int64) error {
	key := s.id.Label + "\x00" + setting
	if s.spent.told.First(key) && s.Exceeded != nil {
		s.Exceeded(s.id.Label, setting, limit)
	}
	return &exceededError{fmt.Sprintf("the limit of %d bytes is reached that `limits { %s }` sets in the block of plugin %q", limit, setting, s.id.Label)}
}
