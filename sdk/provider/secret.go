package provider

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// storedPrefix begins the handles of stored secrets.
const storedPrefix = "stored:"

// StoreSecret keeps a secret of the provider's own, a token for example, where no other plugin can read it. name has 1 to
// 40 lower-case letters, digits and dashes. An empty value forgets it.
func (h *Host) StoreSecret(ctx context.Context, name, value string) error {
	if h.client == nil {
		return ErrNoHost
	}
	if _, err := h.client.StoreSecret(ctx, &gantryv1.StoreSecretRequest{Name: name, Value: value}); err != nil {
		return fmt.Errorf("store the secret %q: %w", name, err)
	}
	return nil
}

// StoredSecret returns what StoreSecret kept. found is false when that is nothing.
func (h *Host) StoredSecret(ctx context.Context, name string) (value string, found bool, err error) {
	if h.client == nil {
		return "", false, ErrNoHost
	}
	res, err := h.client.Secret(ctx, &gantryv1.SecretRequest{Handle: storedPrefix + name})
	if status.Code(err) == codes.NotFound {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read the stored secret %q: %w", name, err)
	}
	return res.GetValue(), true, nil
}

// Secret resolves a handle of the plugin's own configuration; anew when renew tells that its value was refused where it was
// used. The host is asked each time, unless it said that the value stays as it is. A configblock.Secret does it by itself.
func (h *Host) Secret(ctx context.Context, handle string, renew bool) (string, error) {
	if h.client == nil {
		return "", ErrNoHost
	}
	if v, ok := h.fixed.Load(handle); ok && !renew {
		return v.(string), nil
	}
	res, err := h.client.Secret(ctx, &gantryv1.SecretRequest{Handle: handle, Renew: renew})
	if err != nil {
		return "", err // in the host's own words
	}
	if res.GetFixed() {
		h.fixed.Store(handle, res.GetValue())
	}
	return res.GetValue(), nil
}
