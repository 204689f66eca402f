package configblock

import "context"

// Resolve turns a handle into the value behind it.
type Resolve func(ctx context.Context, handle string) (string, error)

// Secret is a sensitive string.
type Secret struct{ s *secret }

type secret struct {
	handle  string
	value   string
	resolve Resolve
}

// NewSecret returns a secret with a known value.
func NewSecret(value string) Secret { return Secret{s: &secret{value: value}} }

// Value returns the value.
func (s Secret) Value(ctx context.Context) (string, error) { return s.s.value, nil }

// IsZero reports whether nothing was configured.
func (s Secret) IsZero() bool { return s.s == nil }

// Bind gives every secret inside the struct that ptr points to a way to its value.
func Bind(ptr any, resolve Resolve) {}
