package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/providers/credential"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// OAuth is the user's own client registration, for services that issue tokens instead of keys.
type OAuth struct {
	ClientID     string             `json:"client_id" required:"true" doc:"Id of your own registration at the vendor."`
	ClientSecret configblock.Secret `json:"client_secret" sensitive:"true" doc:"Its secret, where it has one."`
	ClientAuth   string             `json:"client_auth" default:"basic" enum:"basic,post" doc:"How the secret is sent: in the Authorization header, or in the body."`
	AuthURL      string             `json:"auth_url" doc:"Where one logs in with a browser."`
	TokenURL     string             `json:"token_url" required:"true" doc:"Where tokens are given out and renewed."`
	DeviceURL    string             `json:"device_url" doc:"Where codes are given out that are typed on another machine."`
	Scopes       []string           `json:"scopes" doc:"What the token is for."`
	Parameters   map[string]string  `json:"parameters" doc:"Further parameters of the login's address."`
	RedirectPort int                `json:"redirect_port" default:"0" doc:"Port on this machine that the browser comes back to. Default: any."`
}

// oauth returns a source of tokens. close releases its connections.
func (c *Config) oauth(ctx context.Context, env provider.Env) (_ *credential.OAuth, close func(), _ error) {
	o := c.OAuth
	reg := credential.Registration{
		Label: env.Label, ClientID: o.ClientID, SecretInBody: o.ClientAuth == "post", AuthURL: o.AuthURL, TokenURL: o.TokenURL,
		DeviceURL: o.DeviceURL, Scopes: o.Scopes, Parameters: o.Parameters,
	}
	if !o.ClientSecret.IsZero() {
		var err error
		if reg.ClientSecret, err = o.ClientSecret.Value(ctx); err != nil {
			return nil, nil, err
		}
	}
	client, err := c.transport().Client()
	if err != nil {
		return nil, nil, err
	}
	out, err := credential.New(reg, env.Host, client)
	if wrong, ok := errors.AsType[*credential.ConfigError](err); ok {
		return nil, nil, configblock.Invalid(wrong.Message, contract.Name("oauth"), contract.Name(wrong.Attribute))
	}
	return out, func() { out.Close(); client.CloseIdleConnections() }, err
}

// tokens returns the authentication for a provider with an oauth block.
func tokens(o *credential.OAuth) route.Auth {
	return route.WithRecovery(route.Bearer(o.Token), o.Recover)
}

type pickFunc = func(config any, env provider.Env) (Vendor, *Config, error)

// withOAuth runs a command that needs an oauth block.
func withOAuth(ctx context.Context, pick pickFunc, env provider.Env, run func(v Vendor, c *Config, o *credential.OAuth) (string, error)) (json.RawMessage, error) {
	v, cfg, err := pick(env.Config, env)
	if err != nil {
		return nil, err
	}
	if cfg.OAuth == nil {
		return nil, fmt.Errorf("the provider has no oauth block to log in with; %s uses a key: api_key = env(%q)", v.Name, v.KeyVariable)
	}
	o, done, err := cfg.oauth(ctx, env)
	if err != nil {
		return nil, err
	}
	defer done()
	message, err := run(v, cfg, o)
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Next != "" {
		return nil, fmt.Errorf("%w; next: %s", err, e.Next)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"message": message})
}

func loginCommand(pick pickFunc) provider.Command {
	return provider.Command{
		Name: "login", Description: "Log in with the client registration in the oauth block.", SideEffects: true,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"device":{"type":"boolean"}},"additionalProperties":false}`),
		Run: func(ctx context.Context, env provider.Env, input json.RawMessage) (json.RawMessage, error) {
			var in struct {
				Device bool `json:"device"`
			}
			if len(input) > 0 {
				if err := json.Unmarshal(input, &in); err != nil {
					return nil, err
				}
			}
			return withOAuth(ctx, pick, env, func(v Vendor, c *Config, o *credential.OAuth) (string, error) {
				var err error
				if in.Device {
					err = o.Device(ctx, func(ctx context.Context, address, code string) error {
						_, err := env.Host.Ask(ctx, provider.Question{
							Title: "Log in to " + v.Name + " with the code " + code, Message: "Open this address on any device and enter the code.", URL: address,
						})
						return err
					})
				} else {
					err = o.Browser(ctx, func(ctx context.Context, address string) (string, map[string]string, error) {
						a, err := env.Host.Ask(ctx, provider.Question{
							Title: "Log in to " + v.Name, Message: "Open this address in a browser on this machine.", URL: address, Redirect: true, RedirectPort: c.OAuth.RedirectPort,
						})
						if err == nil && a.Declined {
							err = errors.New("there is no user to log in")
						}
						return a.RedirectURI, a.Query, err
					})
				}
				if err != nil {
					return "", err
				}
				return "Logged in to " + v.Name + ".", nil
			})
		},
	}
}

func logoutCommand(pick pickFunc) provider.Command {
	return provider.Command{
		Name: "logout", Description: "Forget the login.", SideEffects: true,
		Run: func(ctx context.Context, env provider.Env, _ json.RawMessage) (json.RawMessage, error) {
			return withOAuth(ctx, pick, env, func(v Vendor, _ *Config, o *credential.OAuth) (string, error) {
				was, err := o.Logout(ctx)
				if err != nil {
					return "", err
				}
				if !was {
					return "You were not logged in to " + v.Name + ".", nil
				}
				return "Logged out of " + v.Name + ". The token itself remains valid until the vendor revokes it.", nil
			})
		},
	}
}
