package service

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/approval"
)

// Asker asks the person who ran a command. The error is [approval.ErrNoApprover] if there is nobody to ask.
type Asker interface {
	Ask(ctx context.Context, q approval.Question) (approval.Answer, error)
}

// Commands are the running commands of plugins. Each has a token with which its plugin may ask the person who ran it. The zero
// value is ready to use; methods may be called concurrently.
type Commands struct {
	mu      sync.Mutex
	running map[string]command // by token
}

type command struct {
	plugin string
	ctx    context.Context // of the command; its questions end with it
	asker  Asker
}

// Begin returns a token for a command of a plugin, which is valid until end is called.
func (c *Commands) Begin(ctx context.Context, plugin string, asker Asker) (token string, end func()) {
	b := make([]byte, 32)
	rand.Read(b)
	token = hex.EncodeToString(b)
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = map[string]command{}
	}
	c.running[token] = command{plugin, ctx, asker}
	return token, func() {
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, token)
	}
}

// lookup finds the command for a plugin's token.
func (c *Commands) lookup(plugin, token string) (command, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd, ok := c.running[token]
	return cmd, ok && cmd.plugin == plugin
}

// ask asks a question. It ends with the rpc or with the command.
func (c command) ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	if c.asker == nil {
		return approval.Answer{}, approval.ErrNoApprover
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	return c.asker.Ask(ctx, q)
}
