package service

import (
	"fmt"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/once"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Quota is what a plugin may have kept, in bytes. 0: without a limit. State is for good, the others for the life of one host: what was
// handed over belongs to threads, and goes with them. Secrets that a plugin stores are counted like these, with State as their limit.
type Quota struct {
	State, Artifacts, Events int64
}

// The settings of the limits, in a block's `limits`.
const (
	limitState     = "state"
	limitArtifacts = "artifacts"
	limitEvents    = "events"
)

// eventOverhead is what an event costs beyond its words, fileOverhead what a file of its own costs beyond its content.
const (
	eventOverhead = 256
	fileOverhead  = 4 << 10
)

// spent is what plugins have handed over.
type spent struct {
	mu    sync.Mutex
	bytes map[string]int64 // by plugin and limit
	told  once.Set         // limits whose excess the user was told, by the same
}

func newSpent() *spent { return &spent{bytes: map[string]int64{}} }

// exceededError is a status with which a plugin learns that a limit is reached.
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

// spend counts n bytes, or says that there is no room for them.
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

// exceeded is the plugin's error. The user reads of it once.
func (s *server) exceeded(setting string, limit int64) error {
	key := s.id.Label + "\x00" + setting
	if s.spent.told.First(key) && s.Exceeded != nil {
		s.Exceeded(s.id.Label, setting, limit)
	}
	return &exceededError{fmt.Sprintf("the limit of %d bytes is reached that `limits { %s }` sets in the block of plugin %q", limit, setting, s.id.Label)}
}
