package appserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Accounts stores the keys of providers, and logs in to providers that use OAuth.
type Accounts interface {
	// PutKey stores a secret that configuration files read as secret(name).
	PutKey(name, key string) error
	// DeleteKey removes a stored secret. The error wraps [fs.ErrNotExist] if there is none.
	DeleteKey(name string) error
	// Login runs a provider's login, and returns when it has ended. show is called with the address that the user opens in a browser.
	Login(ctx context.Context, provider string, show func(url string)) error
	// Logout makes a provider forget its login.
	Logout(ctx context.Context, provider string) error
}

// loginTimeout is how long a login waits for the user.
const loginTimeout = 10 * time.Minute

// accounts has the methods about keys and logins of providers. gantry has no account of its own: codex's clients are shown that of the
// default provider.
type accounts struct{ catalog }

// provider returns a provider's block; nil: the default one's.
func (s accounts) provider(ctx context.Context, label *string) (*config.PluginBlock, error) {
	cfg, err := s.configuration(ctx, nil)
	if err != nil {
		return nil, err
	}
	if label == nil {
		m := defaultModel(cfg)
		if m == nil {
			return nil, hint.New("there is no default model, so there is no default provider", "name the provider, or set default_model in gantry.hcl")
		}
		label = &m.Provider
	}
	b, ok := cfg.Provider(*label)
	if !ok {
		return nil, hint.With(rpc.Errorf(rpc.InvalidRequest, "unknown provider %q", *label), "modelProvider/list has their names")
	}
	return b, nil
}

// read returns whether the default provider has a key. No client has to log in.
func (s accounts) read(ctx context.Context, _ *call, _ protocol.GetAccountParams) (out protocol.GetAccountResponse, err error) {
	if s.keyed(ctx) {
		out.Account = &protocol.Account{Body: protocol.APIKeyAccount{}}
	}
	return out, nil
}

// keyed reports whether the default provider has a key. If it is unknown, it has none: codex's terminal ends if account/read fails.
func (s accounts) keyed(ctx context.Context) bool {
	b, err := s.provider(ctx, nil)
	return err == nil && b.HasKey()
}

// updated notifies all clients that a key was stored or removed.
func (s accounts) updated() {
	var p protocol.AccountUpdatedNotification
	if s.keyed(s.life) {
		mode := protocol.AuthAPIKey
		p.AuthMode = &mode
	}
	s.broadcast("", "account", protocol.NotifyAccountUpdated.Name, p, true)
}

// login stores a key, or begins a login.
func (s accounts) login(ctx context.Context, c *call, p protocol.LoginAccountParams) (out protocol.LoginAccountResponse, err error) {
	switch l := p.Body.(type) {
	case protocol.APIKeyLogin:
		b, err := s.provider(ctx, l.Provider)
		if err != nil {
			return out, err
		}
		if err := s.putKey(b, l.APIKey); err != nil {
			return out, err
		}
		c.afterwards(func() { s.completed(c.client, nil, nil) })
		out.Body = protocol.APIKeyLoginResult{}
	case protocol.OAuthLogin:
		b, err := s.provider(ctx, l.Provider)
		if err != nil {
			return out, err
		}
		if out.Body, err = s.oauth(c, b.Label); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (s accounts) putKey(b *config.PluginBlock, key string) error {
	if key = strings.TrimSpace(key); key == "" {
		return rpc.Errorf(rpc.InvalidParams, "apiKey must not be empty")
	}
	name, ok := b.KeySecret()
	if !ok {
		return hint.With(rpc.Errorf(rpc.InvalidRequest, "%s: provider %q does not read its key from gantry's vault", b.Where(), b.Label),
			fmt.Sprintf("set api_key = secret(%q) in its block, and try again", b.Label))
	}
	return s.cfg.Accounts.PutKey(name, key)
}

// completed reports how a login ended, and what that changed.
func (s accounts) completed(c *client, id *string, err error) {
	p := protocol.AccountLoginCompletedNotification{LoginID: id, Success: err == nil}
	if err != nil {
		p.Error = orNull(hint.Line(hint.Split(err)))
	}
	c.send(protocol.NotifyAccountLoginCompleted.Name, p)
	if err == nil {
		s.updated()
	}
}

// oauth begins a login, which ends with the connection. It returns once there is an address for the user.
func (s accounts) oauth(c *call, provider string) (protocol.LoginResult, error) {
	ctx, cancel := context.WithTimeout(c.life, loginTimeout)
	shown, done := make(chan string, 1), make(chan error, 1)
	started := s.begin(func() {
		defer cancel()
		done <- s.cfg.Accounts.Login(ctx, provider, func(url string) {
			select {
			case shown <- url:
			default: // the user has one already
			}
		})
	})
	if !started {
		cancel()
		return nil, errors.New("the server is closing")
	}
	select {
	case err := <-done:
		if err == nil {
			err = fmt.Errorf("provider %q has logged in without an address for the user", provider)
		}
		return nil, err
	case url := <-shown:
		id := rand.Text()
		s.mu.Lock()
		s.mu.logins[id] = cancel
		s.mu.Unlock()
		c.afterwards(func() {
			s.begin(func() { // ends with the login
				err := <-done
				s.mu.Lock()
				delete(s.mu.logins, id)
				s.mu.Unlock()
				s.completed(c.client, &id, err)
			})
		})
		return protocol.OAuthLoginResult{LoginID: id, AuthURL: url}, nil
	}
}

func (s accounts) cancel(_ context.Context, _ *call, p protocol.CancelLoginAccountParams) (out protocol.CancelLoginAccountResponse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Status = protocol.LoginNotFound
	if cancel := s.mu.logins[p.LoginID]; cancel != nil {
		cancel()
		out.Status = protocol.LoginCanceled
	}
	return out, nil
}

// logout removes the stored key of the default provider, or makes it forget its login.
func (s accounts) logout(ctx context.Context, c *call, _ protocol.NoParams) (out protocol.LogoutAccountResponse, err error) {
	b, err := s.provider(ctx, nil)
	if err != nil {
		return out, err
	}
	if name, ok := b.KeySecret(); ok {
		if err = s.cfg.Accounts.DeleteKey(name); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		err = s.cfg.Accounts.Logout(ctx, b.Label)
	}
	if err == nil {
		c.afterwards(s.updated)
	}
	return out, err
}
