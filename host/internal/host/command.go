package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/secret"
	"github.com/gantry-agent/gantry/host/internal/service"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// ErrNoCommand says that a plugin does not offer a command.
var ErrNoCommand = errors.New("the plugin has no such command")

// Command gives a plugin a command and returns its answer, JSON. What the plugin wants to know meanwhile is asked of asker;
// nil: there is nobody.
func (h *Host) Command(ctx context.Context, label, name string, input json.RawMessage, asker service.Asker) (json.RawMessage, error) {
	slot := h.plugins.Slot(label)
	if slot == nil {
		return nil, fmt.Errorf("there is no plugin %q", label)
	}
	lease, err := slot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	token, end := h.commands.Begin(ctx, label, asker)
	defer end()
	resp, err := gantryv1.NewPluginServiceClient(lease.Conn).Command(ctx, &gantryv1.CommandRequest{Name: name, InputJson: input, CallToken: token})
	switch {
	case status.Code(err) == codes.NotFound, status.Code(err) == codes.Unimplemented:
		return nil, fmt.Errorf("%s %q: %w %q", slot.Spec().Kind, label, ErrNoCommand, name)
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, plugin.Classify(err, lease)
	case resp.GetError() != "":
		return nil, fmt.Errorf("%s: %w", label, hint.Parse(strings.TrimSpace(resp.GetError())))
	}
	return resp.GetOutputJson(), nil
}

// vault is where plugins' secrets are kept.
func (h *Host) vault() service.Vault {
	if h.opts.Vault != nil {
		return h.opts.Vault
	}
	return secret.Open(filepath.Join(h.opts.Home, "secrets"), secret.System(h.opts.Home, os.Getenv))
}
