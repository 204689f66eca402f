package provider

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWithoutAHost(t *testing.T) {
	h := &Host{}
	if err := h.Exclusive(t.Context(), "x", time.Second, func(context.Context) error { return nil }); !errors.Is(err, ErrNoHost) {
		t.Errorf("Exclusive: %v", err)
	}
	if err := h.StoreSecret(t.Context(), "x", "v"); !errors.Is(err, ErrNoHost) {
		t.Errorf("StoreSecret: %v", err)
	}
	if _, _, err := h.StoredSecret(t.Context(), "x"); !errors.Is(err, ErrNoHost) {
		t.Errorf("StoredSecret: %v", err)
	}
	if _, err := h.Ask(t.Context(), Question{Options: []string{"a"}}); !errors.Is(err, ErrNoHost) {
		t.Errorf("Ask: %v", err)
	}
}
