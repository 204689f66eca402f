package hostservice

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// storedPrefix begins the handles of stored secrets.
const storedPrefix = "stored:"

// StoreSecret stores a secret of the plugin. An empty value deletes it.
func StoreSecret(ctx context.Context, c gantryv1.HostServiceClient, name, value string) error {
	if _, err := c.StoreSecret(ctx, &gantryv1.StoreSecretRequest{Name: name, Value: value}); err != nil {
		return fmt.Errorf("store the secret %q: %w", name, err)
	}
	return nil
}

// StoredSecret returns a secret stored by StoreSecret. found is false if there is none.
func StoredSecret(ctx context.Context, c gantryv1.HostServiceClient, name string) (value string, found bool, err error) {
	res, err := c.Secret(ctx, &gantryv1.SecretRequest{Handle: storedPrefix + name})
	if status.Code(err) == codes.NotFound {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read the stored secret %q: %w", name, err)
	}
	return res.GetValue(), true, nil
}
