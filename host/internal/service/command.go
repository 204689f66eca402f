package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/launch"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Asker asks the person who ran a command. The error is [approval.ErrNoApprover] if there is nobody to ask.
type Asker interface {
	Ask(ctx context.Context, q approval.Question) (approval.Answer, error)
}

// Commands are the running commands of plugins. Each has a token with which its plugin may ask the person who ran it, and start
// processes. The zero value is ready to use; methods may be called concurrently.
type Commands struct {
	mu      sync.Mutex
	running map[string]*command // by token
}

type command struct {
	plugin  string
	ctx     context.Context // of the command; its questions and processes end with it
	asker   Asker
	changes bool // it has side effects, which the user has confirmed

	work sync.WaitGroup
	mu   struct {
		sync.Mutex
		ended bool
		ends  func(context.Context) // ends its processes; nil: there are none
	}
}

// Begin returns a token for a command of a plugin, which is valid until end is called. changes: the command has side effects, which
// the user has confirmed.
func (c *Commands) Begin(ctx context.Context, plugin string, asker Asker, changes bool) (token string, end func()) {
	b := make([]byte, 32)
	rand.Read(b)
	token = hex.EncodeToString(b)
	ctx, cancel := context.WithCancel(ctx)
	cmd := &command{plugin: plugin, ctx: ctx, asker: asker, changes: changes}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = map[string]*command{}
	}
	c.running[token] = cmd
	return token, func() {
		cancel()
		c.mu.Lock()
		delete(c.running, token)
		c.mu.Unlock()
		cmd.end(context.WithoutCancel(ctx))
	}
}

// lookup finds the command for a plugin's token.
func (c *Commands) lookup(plugin, token string) (*command, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd, ok := c.running[token]
	return cmd, ok && cmd.plugin == plugin
}

// join begins the start of a process, which ends tells how to end. false: the command has ended.
func (c *command) join(ends func(context.Context)) (done func(), ok bool) {
	if done, ok = c.hold(); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.ends = ends
	}
	return done, ok
}

// hold begins work that the command's end waits for. false: the command has ended.
func (c *command) hold() (done func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ended {
		return nil, false
	}
	c.work.Add(1)
	return sync.OnceFunc(c.work.Done), true
}

// end ends the command's processes.
func (c *command) end(ctx context.Context) {
	c.mu.Lock()
	c.mu.ended = true
	c.mu.Unlock()
	c.work.Wait()
	c.mu.Lock()
	ends := c.mu.ends
	c.mu.Unlock()
	if ends != nil {
		ends(ctx)
	}
}

// ask asks a question. It ends with the rpc or with the command.
func (c *command) ask(ctx context.Context, q approval.Question) (approval.Answer, error) {
	if c.asker == nil {
		return approval.Answer{}, approval.ErrNoApprover
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	return c.asker.Ask(ctx, q)
}

// spawnForCommand starts a process of a command.
func (s *server) spawnForCommand(ctx context.Context, c *command, r *gantryv1.SpawnRequest, spec launch.Spec) (*gantryv1.SpawnResponse, error) {
	if spec.Session || r.GetOwner() == gantryv1.ProcessOwner_PROCESS_OWNER_ROOT {
		return nil, status.Error(codes.InvalidArgument, "a process of a command can't be a session: it ends with the command")
	}
	spec.Owner = launch.Owner{Plugin: s.id.Label, Call: "command-" + r.GetCallToken()[:8]}
	done, ok := c.join(func(ctx context.Context) { _ = s.Launcher.EndCall(ctx, spec.Owner) }) // the launcher reports what it can't end
	if !ok {
		return nil, status.Error(codes.PermissionDenied, "the command has ended")
	}
	defer done()
	if _, err := s.Starts(s.id.Label, spec.Argv); err != nil {
		return &gantryv1.SpawnResponse{Error: &gantryv1.SpawnError{Message: err.Error()}}, nil
	}
	g, dir, err := s.CommandGrant(s.id.Label, c.changes)
	if err != nil {
		return &gantryv1.SpawnResponse{Error: &gantryv1.SpawnError{Message: err.Error(), Denied: true}}, nil
	}
	spec.Grant, spec.Cwd, spec.Env = g, cmp.Or(r.GetCwd(), dir), environment(s.Environment(), r.GetEnv(), r.GetUnset())
	if err := narrow(r, &spec, s.Folders(s.id.Label), s.NetworkMode(s.id.Label)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	_, resp, err := s.start(ctx, spec)
	return resp, err
}
