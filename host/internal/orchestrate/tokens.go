package orchestrate

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
)

// Live is a call that runs: what a plugin may do in its name.
type Live struct {
	Call   Call
	Plugin string
	Spine  *Spine
	Grant  launch.Grant
	// Context ends with the call.
	Context context.Context
	// Nested is the gate of the calls that this one makes.
	Nested *Gate
	// Wait tells the plugin that a person is being asked, until the returned function is called.
	Wait func() (done func())
	item event.ItemID
}

// Tokens binds call tokens to live calls. A token is unguessable and dead after the call's result.
type Tokens struct {
	mu   sync.Mutex
	live map[string]*Live
}

// NewTokens makes an empty set.
func NewTokens() *Tokens { return &Tokens{live: map[string]*Live{}} }

func (t *Tokens) issue(l *Live) (token string) {
	token = rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live[token] = l
	return token
}

func (t *Tokens) revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, token)
}

// Lookup finds the call behind a token of this plugin. A dead token and another plugin's token look the same.
func (t *Tokens) Lookup(plugin, token string) (*Live, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.live[token]
	if !ok || l.Plugin != plugin {
		return nil, false
	}
	return l, true
}
