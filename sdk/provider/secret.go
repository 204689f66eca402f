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

// StoreSecret stores a secret of the provider, such as a token, where no other plugin can read it. name consists of 1 to 40
// lower-case letters, digits and dashes. An empty value deletes the secret.
func (h *Host) StoreSecret(ctx context.Context, name, value string) error {
	if _, err := h.services().StoreSecret(ctx, &gantryv1.StoreSecretRequest{Name: name, Value: value}); err != nil {
		return fmt.Errorf("store the secret %q: %w", name, err)
	}
	return nil
}

// StoredSecret returns a secret stored by StoreSecret. found is false if there is none.
func (h *Host) StoredSecret(ctx context.Context, name string) (value string, found bool, err error) {
	res, err := h.services().Secret(ctx, &gantryv1.SecretRequest{Handle: storedPrefix + name})
	if status.Code(err) == codes.NotFound {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read the stored secret %q: %w", name, err)
	}
	return res.GetValue(), true, nil
}

// Secret resolves a handle from the plugin's own configuration; renew requests a new value because the previous one was
// rejected where it was used. The host is asked each time, unless it declared the value constant. A configblock.Secret does
// this by itself.
func (h *Host) Secret(ctx context.Context, handle string, renew bool) (string, error) {
	if v, ok := h.constants.Load(handle); ok && !renew {
		return v.(string), nil
	}
	res, err := h.services().Secret(ctx, &gantryv1.SecretRequest{Handle: handle, Renew: renew})
	if err != nil {
		return "", err // the host's message is sufficient
	}
	if res.GetFixed() {
		h.constants.Store(handle, res.GetValue())
	}
	return res.GetValue(), nil
}
