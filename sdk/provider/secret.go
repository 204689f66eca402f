package provider

import (
	"context"

	"github.com/gantry-agent/gantry/sdk/internal/hostservice"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// StoreSecret stores a secret of the provider, such as a token, where no other plugin can read it. name consists of 1 to 40
// lower-case letters, digits and dashes. An empty value deletes the secret.
func (h *Host) StoreSecret(ctx context.Context, name, value string) error {
	return hostservice.StoreSecret(ctx, h.services(), name, value)
}

// StoredSecret returns a secret stored by StoreSecret. found is false if there is none.
func (h *Host) StoredSecret(ctx context.Context, name string) (value string, found bool, err error) {
	return hostservice.StoredSecret(ctx, h.services(), name)
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
