package configblock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Resolve turns the handle of a secret into its value, usually by asking the host. renew tells that the value was refused
// where it was used: a source that can make a new one does.
type Resolve func(ctx context.Context, handle string, renew bool) (string, error)

// Secret is a sensitive string of a config block. What a plugin holds is a handle; [Secret.Value] asks the host each
// time, so that the value lives only where it is used. Printing or marshalling a secret shows that it is one, never what
// it is. The zero value is "not configured". Secrets may be copied.
type Secret struct{ s *secret }

// secret is behind a pointer so that fmt, which can't call methods on values in unexported fields, prints an address.
type secret struct {
	handle  string
	value   string
	resolve Resolve
}

// ErrNotConfigured is returned by Value when the block did not set the secret. Say which attribute is missing.
var ErrNotConfigured = errors.New("secret is not configured")

// NewSecret returns a secret with a known value, for tests and for values that a plugin made itself.
func NewSecret(value string) Secret { return Secret{s: &secret{value: value}} }

// IsZero reports whether nothing was configured.
func (s Secret) IsZero() bool { return s.s == nil }

// Value returns the value, asking the host for it.
func (s Secret) Value(ctx context.Context) (string, error) { return s.ask(ctx, false) }

// Renew returns a new value after the one before was refused where it was used, or the same where its source has no other:
// then there is no point in trying again.
func (s Secret) Renew(ctx context.Context) (string, error) { return s.ask(ctx, true) }

func (s Secret) ask(ctx context.Context, renew bool) (string, error) {
	switch {
	case s.s == nil:
		return "", ErrNotConfigured
	case s.s.handle == "":
		return s.s.value, nil
	case s.s.resolve == nil:
		return "", errors.New("secret can't be resolved: the host offers no services")
	}
	v, err := s.s.resolve(ctx, s.s.handle, renew)
	if err != nil {
		return "", fmt.Errorf("resolve secret: %w", err)
	}
	return v, nil
}

const redacted = "(secret)"

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// GoString returns a placeholder.
func (s Secret) GoString() string { return redacted }

// Format writes a placeholder, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// MarshalJSON returns a placeholder.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText returns a placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// parseSecret reads {"$secret": HANDLE} or a plain string.
func parseSecret(raw []byte) (Secret, bool) {
	var value string
	if json.Unmarshal(raw, &value) == nil {
		return NewSecret(value), true
	}
	var h struct {
		Handle string `json:"$secret"`
	}
	if json.Unmarshal(raw, &h) != nil || h.Handle == "" {
		return Secret{}, false
	}
	return Secret{s: &secret{handle: h.Handle}}, true
}

// Bind gives every secret inside the struct that ptr points to a way to its value. Call it after [Decode] and before
// anybody else sees the struct.
func Bind(ptr any, resolve Resolve) {
	if ptr != nil {
		bind(reflect.ValueOf(ptr), resolve)
	}
}

func bind(v reflect.Value, resolve Resolve) {
	if v.Type() == secretType && v.CanInterface() {
		if s := v.Interface().(Secret); s.s != nil {
			s.s.resolve = resolve
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && v.CanInterface() {
			bind(v.Elem(), resolve)
		}
	case reflect.Struct:
		// Only what Decode fills: other fields may point anywhere, also back to here.
		if b, err := newBlock(v.Type(), nil); err == nil {
			for _, f := range b.fields {
				bind(v.FieldByIndex(f.index), resolve)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			bind(v.Index(i), resolve)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			bind(v.MapIndex(k), resolve)
		}
	}
}
