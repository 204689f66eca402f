package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/host"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// BlockHost opens a host with only the block that find selects. needs is as in [HostOptions].
func (a *Env) BlockHost(ctx context.Context, find func(*config.Config) (*config.PluginBlock, error), needs func(config.Process) bool) (*host.Host, *config.PluginBlock, error) {
	home, err := a.Home()
	if err != nil {
		return nil, nil, err
	}
	cfg, err := a.LoadConfig(ctx, home, a.Dir)
	if err != nil {
		return nil, nil, err
	}
	b, err := find(cfg)
	if err != nil {
		return nil, nil, err
	}
	only := *cfg
	only.Providers, only.Plugins = nil, nil
	if b.Kind == contract.KindProvider {
		only.Providers = []*config.PluginBlock{b}
	} else {
		only.Plugins = []*config.PluginBlock{b}
	}
	h, err := a.HostOf(ctx, home, &only, HostOptions{Dir: a.Dir, Ephemeral: true, Needs: needs})
	return h, b, err
}

// ProviderCommand runs a command of a provider that the user has asked for, such as its login, and returns its message, which may be empty.
// The request is the user's consent to the command's side effects.
func (a *Env) ProviderCommand(ctx context.Context, label, command string, input map[string]any, asker service.Asker) (message string, err error) {
	h, b, err := a.BlockHost(ctx, ProviderNamed(label), nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	raw, err := json.Marshal(input)
	if err != nil {
		return "", err
	}
	out, err := h.Plugins().Command(ctx, b.Label, pluginset.CommandRun{Name: command, Input: raw, Asker: asker, Confirmed: true})
	if errors.Is(err, pluginset.ErrNoCommand) {
		return "", hint.With(fmt.Errorf("%s: provider %q has no %s", b.Where(), b.Label, command),
			"store its key with `gantry secret set NAME`, and set api_key = secret(\"NAME\") in its block")
	}
	if err != nil {
		return "", err
	}
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(out, &said) != nil { // a command may return something else
		return "", nil
	}
	return said.Message, nil
}

// ProviderNamed returns a function that finds a provider block.
func ProviderNamed(label string) func(*config.Config) (*config.PluginBlock, error) {
	return func(cfg *config.Config) (*config.PluginBlock, error) {
		if b, ok := cfg.Provider(label); ok {
			return b, nil
		}
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{UnknownProvider(cfg, label)}}
	}
}

// BlockNamed returns a function that finds an enabled plugin or provider block.
func BlockNamed(label string) func(*config.Config) (*config.PluginBlock, error) {
	return func(cfg *config.Config) (*config.PluginBlock, error) {
		for _, b := range cfg.Blocks() {
			if b.Label != label {
				continue
			}
			if !b.Enabled {
				return nil, hint.With(fmt.Errorf("%s: plugin %q is switched off", b.Where(), label), "set enabled = true in its block")
			}
			return b, nil
		}
		return nil, diag.Failure{Diagnostics: diag.Diagnostics{cfg.UnknownPlugin(label)}}
	}
}

// UnknownProvider returns the error for a provider that does not exist.
func UnknownProvider(cfg *config.Config, name string) diag.Diagnostic {
	var there []string
	for _, b := range cfg.Providers {
		there = append(there, b.Label)
	}
	return diag.Diagnostic{Severity: diag.Error, Summary: fmt.Sprintf("unknown provider %q", name), Next: diag.DidYouMean(name, there, "see `gantry plugin list`")}
}
