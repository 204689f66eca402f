package pluginset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors of [Set.Command].
var (
	ErrNoCommand    = threadsocket.ErrNoCommand    // the plugin does not offer the command
	ErrNotConfirmed = threadsocket.ErrNotConfirmed // the command has side effects, and the user has not agreed to them
)

// CommandRun is one run of a plugin's command.
type CommandRun struct {
	Name  string
	Input json.RawMessage
	// Asker answers the plugin's questions, and the question whether a command with side effects may run; nil: nobody can be asked.
	Asker service.Asker
	// Edit makes the changes that the command proposes for the plugin's settings, all or none; nil: a command that proposes changes fails.
	Edit func(context.Context, []contract.ConfigEdit) error
	// Continue is called with the command, or the call of a tool, with which the plugin wants to go on; nil: it does not, and a call is an error.
	Continue func(contract.NextCommand)
	// Confirmed means that the user has already agreed to the command's side effects, with a flag or with a command line whose one
	// purpose is this command, like `gantry login`.
	Confirmed bool
}

// Command runs a command that a plugin's manifest declares and returns its output, JSON. A command with side effects runs
// only if the user agrees, otherwise the error is [ErrNotConfirmed].
func (s *Set) Command(ctx context.Context, label string, r CommandRun) (json.RawMessage, error) {
	slot := s.plugins.Slot(label)
	if slot == nil {
		return nil, hint.With(fmt.Errorf("%w: there is no plugin %q", ErrNoCommand, label), "`gantry plugin list` shows the configured ones")
	}
	lacks := func() error {
		return hint.With(fmt.Errorf("plugin %q has %w %q", label, ErrNoCommand, r.Name), fmt.Sprintf("see `gantry plugin inspect %s`", label))
	}
	lease, err := slot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	specs := s.CommandsOf(label)
	i := slices.IndexFunc(specs, func(c contract.CommandSpec) bool { return c.Name == r.Name })
	if i < 0 {
		return nil, lacks()
	}
	spec := specs[i]
	if spec.SideEffects && !r.Confirmed {
		if err := Confirm(ctx, label, spec, r.Asker); err != nil {
			return nil, err
		}
	}
	var tools *sender
	if backend, ok := s.backends[label]; ok {
		tools = newSender(ctx, func(ctx context.Context) error { _, err := watchOnce(ctx, backend); return err })
		defer tools.end()
	}
	token, end := s.Commands.Begin(ctx, label, r.Asker, spec.SideEffects)
	defer end()
	resp, err := gantryv1.NewPluginServiceClient(lease.Conn).Command(ctx, &gantryv1.CommandRequest{Name: r.Name, InputJson: r.Input, CallToken: token, Confirmed: r.Confirmed})
	switch {
	case status.Code(err) == codes.NotFound, status.Code(err) == codes.Unimplemented:
		return nil, lacks()
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, plugin.Classify(err, lease)
	case resp.GetError() != "":
		return nil, fmt.Errorf("%s: %w", label, hint.Parse(strings.TrimSpace(resp.GetError())))
	case !json.Valid(resp.GetOutputJson()):
		return nil, fmt.Errorf("the command %q of plugin %q returned no JSON: %.80q", r.Name, label, resp.GetOutputJson())
	}
	if tools != nil {
		if err := tools.keep(ctx); err != nil {
			s.cfg.Logger.Debug("the tools after a command are unknown", "plugin", label, "err", err)
		}
	}
	if edits := convert.ConfigEditsFromProto(resp.GetEdits()); len(edits) > 0 {
		if r.Edit == nil {
			return nil, hint.New(fmt.Sprintf("the command %q of plugin %q changes the configuration, which only the command line can do", r.Name, label),
				fmt.Sprintf("run `gantry %s %s` in a terminal", label, r.Name))
		}
		if err := r.Edit(ctx, edits); err != nil {
			return nil, err
		}
	}
	next := convert.NextCommandFromProto(resp.GetNext())
	switch {
	case next == nil:
	case next.Tool && !spec.CallsTool:
		return nil, fmt.Errorf("the command %q of plugin %q calls a tool, which it has not declared", r.Name, label)
	case r.Continue != nil:
		r.Continue(*next)
	case next.Tool:
		return nil, hint.New(fmt.Sprintf("the command %q of plugin %q calls a tool, which only the command line can do", r.Name, label), fmt.Sprintf("run `gantry %s %s` in a terminal", label, r.Name))
	}
	return resp.GetOutputJson(), nil
}

// sender finds out while a command runs whether its plugin sends tools, so that the end of the command waits for none that never come.
type sender struct {
	watch  func(context.Context) error // returns when the plugin has sent its tools
	sends  chan struct{}               // closed when it has
	silent <-chan time.Time            // when it is known not to
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func newSender(ctx context.Context, watch func(context.Context) error) *sender {
	s := &sender{watch: watch, sends: make(chan struct{}), silent: time.After(sendTime)}
	ctx, s.cancel = context.WithCancel(ctx)
	s.work.Go(func() { // ends with s
		if watch(ctx) == nil {
			close(s.sends)
		}
	})
	return s
}

// keep has the current tools of the plugin cached for the next host. The process may end with the command, before [Set.Follow] has seen
// what the command has changed.
func (s *sender) keep(ctx context.Context) error {
	select {
	case <-s.sends:
	case <-s.silent:
		select {
		case <-s.sends:
		default:
			return errors.New("the plugin sends none")
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	return s.watch(ctx)
}

func (s *sender) end() {
	s.cancel()
	s.work.Wait()
}

const (
	sendTime = time.Second / 2 // from the start of a command until its plugin has sent tools, if it sends any: they are at hand
	keepTime = 5 * time.Second // from its end until it has sent them again
)

// RunCommand implements [threadsocket.Plugins]. Nobody can be asked.
func (s *Set) RunCommand(ctx context.Context, p threadsocket.CommandParams) (json.RawMessage, error) {
	input := p.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return s.Command(ctx, p.Plugin, CommandRun{Name: p.Name, Input: input, Confirmed: p.Confirmed})
}

// CommandsOf returns the commands that a plugin's manifest declares; none if the manifest is not known yet.
func (s *Set) CommandsOf(label string) []contract.CommandSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.mu.manifests[label]; m != nil {
		return m.Commands
	}
	return nil
}

// The answers to whether a command may run.
const (
	runCommand    = "run"
	cancelCommand = "cancel"
)

// Confirm asks the user whether a command with side effects may run. If they don't agree, or nobody can be asked, the error is
// [ErrNotConfirmed].
func Confirm(ctx context.Context, label string, spec contract.CommandSpec, asker service.Asker) error {
	refused := fmt.Errorf("the command %q of plugin %q has side effects: %w", spec.Name, label, ErrNotConfirmed)
	if asker == nil {
		return refused
	}
	answer, err := asker.Ask(ctx, approval.Question{
		About: event.QuestionChoice, Title: fmt.Sprintf("Run the command %q of plugin %q? It has side effects.", spec.Name, label),
		Message: spec.Description, Options: []string{runCommand, cancelCommand},
	})
	switch {
	case errors.Is(err, approval.ErrNoApprover):
		return refused
	case err != nil:
		return err
	case answer.Choice != runCommand:
		return refused
	}
	return nil
}
