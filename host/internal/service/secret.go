package service

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Vault stores secrets by name. If there is none under a name, the error wraps [fs.ErrNotExist].
type Vault interface {
	Get(name string) (string, error)
	Put(name, value string) error
	Delete(name string) error
}

const (
	storedPrefix  = "stored:"
	maxStoredName = 40
)

// Secret implements the rpc. It resolves handles in the plugin's own block and names of secrets that the plugin has stored.
func (s *server) Secret(ctx context.Context, r *gantryv1.SecretRequest) (*gantryv1.SecretResponse, error) {
	if err := s.may(capSecrets); err != nil {
		return nil, err
	}
	name, stored := strings.CutPrefix(r.GetHandle(), storedPrefix)
	if !stored {
		secret, ok := s.Secrets(s.id.Label, r.GetHandle())
		if !ok {
			return nil, status.Error(codes.PermissionDenied, "this handle does not belong to the plugin's own block")
		}
		v, err := s.valueOf(ctx, secret, r.GetRenew())
		if err != nil {
			return nil, statusOf(err)
		}
		return &gantryv1.SecretResponse{Value: v, Fixed: secret.Program == nil}, nil
	}
	own, err := s.storedName(name)
	if err != nil {
		return nil, err
	}
	v, err := s.Stored.Get(own)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, status.Errorf(codes.NotFound, "the plugin has stored no secret %q", name)
	case err != nil:
		return nil, statusOf(err)
	}
	s.Known(v)
	return &gantryv1.SecretResponse{Value: v}, nil
}

// valueOf returns the value of a secret, which the redactor learns. renew: the last value was refused.
func (s *server) valueOf(ctx context.Context, secret Secret, renew bool) (value string, err error) {
	if secret.Err != nil {
		return "", secret.Err
	}
	value = secret.Value
	if secret.Program != nil {
		if value, err = s.programs.value(ctx, *secret.Program, renew); err != nil {
			return "", err
		}
	}
	s.Known(value)
	return value, nil
}

// StoreSecret implements the rpc.
func (s *server) StoreSecret(_ context.Context, r *gantryv1.StoreSecretRequest) (*gantryv1.StoreSecretResponse, error) {
	if err := s.may(capSecrets); err != nil {
		return nil, err
	}
	own, err := s.storedName(r.GetName())
	if err != nil {
		return nil, err
	}
	if r.GetValue() != "" {
		if err := s.spend(limitState, len(r.GetValue())+fileOverhead); err != nil {
			return nil, err
		}
		s.Known(r.GetValue())
		err = s.Stored.Put(own, r.GetValue())
	} else if err = s.Stored.Delete(own); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, statusOf(err)
	}
	return &gantryv1.StoreSecretResponse{}, nil
}

// storedName returns the name of a plugin's secret in the vault. Labels contain no slash, so a plugin can't name a secret of
// another one.
func (s *server) storedName(name string) (string, error) {
	if name == "" || len(name) > maxStoredName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return "", status.Errorf(codes.InvalidArgument, "%q is not a valid name for a secret: use 1 to %d lower-case letters, digits and dashes", name, maxStoredName)
	}
	return PluginSecret(s.id.Label, name), nil
}

// PluginSecret returns the name of a plugin's secret in the vault.
func PluginSecret(label, name string) string { return "plugin/" + label + "/" + name }
