package serve

import (
	"context"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// accounts gives the app server access to the keys and logins of providers.
type accounts struct {
	*app
	home string
}

// PutKey implements [appserver.Accounts].
func (a accounts) PutKey(name, key string) error {
	return a.Vault(a.home).Put(console.UserSecret+name, key)
}

// DeleteKey implements [appserver.Accounts].
func (a accounts) DeleteKey(name string) error {
	return a.Vault(a.home).Delete(console.UserSecret + name)
}

// Login implements [appserver.Accounts].
func (a accounts) Login(ctx context.Context, provider string, show func(url string)) error {
	_, err := a.ProviderCommand(ctx, provider, "login", nil, asker(show))
	return err
}

// Logout implements [appserver.Accounts].
func (a accounts) Logout(ctx context.Context, provider string) error {
	_, err := a.ProviderCommand(ctx, provider, "logout", nil, nil)
	return err
}

// asker shows the address of a login. It answers no other question of a provider.
type asker func(url string)

// Ask implements the host's Asker.
func (show asker) Ask(_ context.Context, q approval.Question) (approval.Answer, error) {
	if q.About != event.QuestionURL {
		return approval.Answer{}, approval.ErrNoApprover
	}
	show(q.URL)
	return approval.Answer{Choice: approval.Approve, By: "user"}, nil
}
