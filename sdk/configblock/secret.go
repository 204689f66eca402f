package configblock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Resolve returns the value for the handle of a secret, usually by asking the host. renew says that the value was rejected
// where it was used, so a source that can create a new one should do so.
type Resolve func(ctx context.Context, handle string, renew bool) (string, error)

// Secret is a sensitive string in a config block. The plugin only has a handle; [Secret.Value] asks the host each time, so
// the value exists only where it is used. Printing or marshalling a secret produces a placeholder. The zero value means
// "not configured". Secrets may be copied.
type Secret struct{ s *secret }

// secret is referenced by a pointer, so that fmt, which can't call methods of unexported fields, prints only an address.
type secret struct {
	handle  string
	value   string
	resolve Resolve
}

// ErrNotConfigured is returned by Value if the block does not set the secret. Report which attribute is missing.
var ErrNotConfigured = errors.New("secret is not configured")

// NewSecret returns a secret with a known value, for tests and for values created by the plugin.
func NewSecret(value string) Secret { return Secret{s: &secret{value: value}} }

// IsZero reports whether the secret is not configured.
func (s Secret) IsZero() bool { return s.s == nil }

// Value returns the value, asking the host for it.
func (s Secret) Value(ctx context.Context) (string, error) { return s.ask(ctx, false) }

// Renew returns a new value after the previous one was rejected where it was used, or the same value if its source has no
// other; retrying is then pointless.
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

// Bind connects every secret in the struct that ptr points to with resolve. Call it after [Decode] and before any other
// code sees the struct.
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
		// Only fields that Decode fills: others may contain cycles.
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
