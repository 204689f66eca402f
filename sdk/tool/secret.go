package tool

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/sdk/internal/hostservice"
)

// StoreSecret stores a secret of the plugin, such as a token, where no other plugin can read it. name consists of 1 to 40 lower-case
// letters, digits and dashes; value is not empty. Needs the capability "secrets".
func (e *Env) StoreSecret(ctx context.Context, name, value string) error {
	if value == "" {
		return errors.New("store a secret: the value is empty; DeleteSecret deletes a secret")
	}
	return hostservice.StoreSecret(ctx, e.host(), name, value)
}

// StoredSecret returns a secret stored by StoreSecret. found is false if there is none. Needs the capability "secrets".
func (e *Env) StoredSecret(ctx context.Context, name string) (value string, found bool, err error) {
	return hostservice.StoredSecret(ctx, e.host(), name)
}

// DeleteSecret deletes a secret stored by StoreSecret. It is not an error if there is none. Needs the capability "secrets".
func (e *Env) DeleteSecret(ctx context.Context, name string) error {
	return hostservice.StoreSecret(ctx, e.host(), name, "")
}
