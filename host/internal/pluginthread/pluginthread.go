// Package pluginthread connects one thread to the plugins that it uses.
//
// It owns: the stream of each plugin for the thread, the texts that plugins have for the model, and the sessions that plugins have open.
// It must not know: turns, and how the model gets the texts.
//
// Start with [New] and [Thread.Begin].
package pluginthread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/hashicorp/go-hclog"
)

// Config is what a [Thread] needs of its host.
type Config struct {
	Tokens       *orchestrate.Tokens
	Launcher     *launch.Launcher
	Backend      func(label string) (*tool.Client, bool)
	Redactor     *redact.Redactor // removes secrets from the output of sessions and from texts for the model; nil: nothing is removed
	Parent, Root event.ThreadID   // of the thread; Parent is empty and Root the thread itself if it works for none
	Agent        string           // path of the agent whose thread it is; may be empty
	// Denial finds out from the end of a session's output what its sandbox did not permit.
	Denial func(output string) *event.Denial
	Logger hclog.Logger
}

// Thread is a thread as its plugins see it, with a stream for each plugin that it has used.
type Thread struct {
	cfg    Config
	thread *thread.Thread
	ctx    context.Context // of the thread; set by Begin
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu struct {
		sync.Mutex
		ended    bool
		streams  map[string]bool
		revoke   map[string]func()             // revokes the plugin's token for the thread
		contexts map[string]map[string]string  // plugin → key → text
		open     map[string][]openSession      // plugin → sessions that have not exited
		over     map[string][]string           // plugin → sessions that have exited, the last maxSessions
		output   map[string]map[string]*output // plugin → session → the published part of its output
	}
}

// openSession is a session that has not exited.
type openSession struct{ id, call, title string }

// New connects a thread to no plugin yet.
func New(cfg Config, t *thread.Thread) *Thread {
	s := &Thread{cfg: cfg, thread: t}
	s.mu.streams = map[string]bool{}
	s.mu.revoke = map[string]func(){}
	s.mu.contexts = map[string]map[string]string{}
	s.mu.open = map[string][]openSession{}
	s.mu.over = map[string][]string{}
	s.mu.output = map[string]map[string]*output{}
	return s
}

// Begin sets the context of the thread. It is called before Use.
func (s *Thread) Begin(ctx context.Context) {
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
}

// Use opens the stream of a plugin if there is none. It is called before each call, so a restarted plugin gets a stream again.
func (s *Thread) Use(label string, backend *tool.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.streams[label] || s.mu.ended {
		return
	}
	s.mu.streams[label] = true
	token, revoke := s.cfg.Tokens.IssueThread(label, s.thread.ID())
	s.mu.revoke[label] = revoke
	s.work.Go(func() { // ends with the plugin's process or the thread
		defer revoke()
		err := backend.Thread(s.ctx, tool.Thread{
			ID: string(s.thread.ID()), Parent: string(s.cfg.Parent), Root: string(s.cfg.Root), Agent: s.cfg.Agent, Cwd: s.thread.Settings().Cwd,
		}, token, func(ev contract.ThreadEvent) { s.event(label, ev) })
		if err != nil && s.ctx.Err() == nil {
			s.cfg.Logger.Debug("thread stream ended", "plugin", label, "thread", s.thread.ID(), "err", err)
		}
		if s.gone(label) && !errors.Is(err, tool.ErrUnreached) && s.ctx.Err() == nil {
			s.Use(label, backend) // starts the next process, which adopts the kept processes
		}
	})
}

// gone is called when the plugin's process has ended or released the thread. Its texts are dropped, and its sessions are lost except for
// those whose processes the launcher keeps. It reports whether there are such processes.
func (s *Thread) gone(label string) (kept bool) {
	calls := map[string]bool{}
	for _, id := range slices.Compact([]event.ThreadID{s.thread.ID(), s.cfg.Root}) { // sessions of its calls may belong to its root
		for _, p := range s.cfg.Launcher.Kept(label, string(id)) {
			calls[p.Owner().Call] = true
		}
	}
	s.mu.Lock()
	delete(s.mu.contexts, label)
	s.mu.Unlock()
	s.lose(label, func(o openSession) bool { return !calls[o.call] })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.streams[label] = false
	return len(calls) > 0
}

// lose ends sessions whose result is unknown, and returns them.
func (s *Thread) lose(label string, which func(openSession) bool) []openSession {
	s.mu.Lock()
	var lost, stay []openSession
	for _, o := range s.mu.open[label] {
		if which(o) {
			lost = append(lost, o)
			s.overLocked(label, o.id)
		} else {
			stay = append(stay, o)
		}
	}
	s.mu.open[label] = stay
	s.mu.Unlock()
	for _, o := range lost {
		head, _ := s.outputEnds(label, o.id)
		s.publish(label, event.SessionExited{Session: o.id, How: "lost", Output: head})
	}
	return lost
}

// overLocked remembers that a session has exited, because a new process of the plugin may adopt it without knowing that.
func (s *Thread) overLocked(label, id string) {
	over := append(s.mu.over[label], id)
	s.mu.over[label] = over[max(0, len(over)-maxSessions):]
}

// maxContext is the maximum size of a plugin's text for the model, in bytes, as the contract says.
const maxContext = 16 << 10

// Limits for each plugin: texts for the model, and open sessions. Beyond them, texts and sessions are dropped with a log message.
const (
	maxContexts = 32
	maxSessions = 256
)

func (s *Thread) event(label string, ev contract.ThreadEvent) {
	switch ev := ev.(type) {
	case contract.ContextText:
		s.SetContext(label, ev)
	case contract.SessionOpened:
		s.mu.Lock()
		open := s.mu.open[label]
		known := ev.Resumed && (slices.ContainsFunc(open, func(o openSession) bool { return o.id == ev.SessionID }) ||
			slices.Contains(s.mu.over[label], ev.SessionID))
		full := len(open) >= maxSessions
		if !full && !known {
			s.mu.open[label] = append(open, openSession{ev.SessionID, ev.CallID, ev.Title})
		}
		s.mu.Unlock()
		switch {
		case known:
			return
		case full:
			s.cfg.Logger.Warn("plugin opens more sessions than allowed", "plugin", label, "most", maxSessions)
			return
		}
		s.publish(label, event.SessionOpened{Session: ev.SessionID, Call: event.CallID(ev.CallID), Plugin: label, Title: ev.Title})
	case contract.SessionOutput:
		s.receive(label, ev)
	case contract.SessionExited:
		s.mu.Lock()
		before := len(s.mu.open[label])
		s.mu.open[label] = slices.DeleteFunc(s.mu.open[label], func(o openSession) bool { return o.id == ev.SessionID })
		known := len(s.mu.open[label]) < before
		if known {
			s.overLocked(label, ev.SessionID)
		}
		s.mu.Unlock()
		if !known {
			return
		}
		head, end := s.outputEnds(label, ev.SessionID)
		how := map[contract.SessionEnd]string{contract.SessionEndDenied: "denied", contract.SessionEndLost: "lost"}[ev.End]
		if how == "" {
			how = "exited"
		}
		exited := event.SessionExited{Session: ev.SessionID, How: how, ExitCode: ev.ExitCode, Output: head}
		if ev.End == contract.SessionEndDenied {
			exited.Denied = s.cfg.Denial(end)
		}
		s.publish(label, exited)
	}
}

// Stop ends a session. label names its plugin; if it is empty, only one plugin may have a session with this ID.
func (s *Thread) Stop(ctx context.Context, label, id string) error {
	holder, err := s.Holder(label, id)
	if err != nil {
		return err
	}
	backend, _ := s.cfg.Backend(holder)
	return backend.StopSession(ctx, string(s.thread.ID()), id)
}

// Ended reports whether a session of a plugin has ended, as far as is remembered.
func (s *Thread) Ended(label, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.mu.over[label], id)
}

// Holder returns the plugin that has a session open. If label is empty, only one plugin may have a session with this ID; otherwise label
// is that plugin.
func (s *Thread) Holder(label, id string) (string, error) {
	s.mu.Lock()
	var holders, open []string
	for l, sessions := range s.mu.open {
		for _, o := range sessions {
			open = append(open, o.id)
			if o.id == id && (label == "" || label == l) {
				holders = append(holders, l)
			}
		}
	}
	s.mu.Unlock()
	slices.Sort(holders)
	slices.Sort(open)
	switch {
	case len(holders) == 0 && len(open) == 0:
		return "", hint.With(fmt.Errorf("no session %q: thread %s has no open session", id, s.thread.ID()),
			"wait until a call has left a program running")
	case len(holders) == 0:
		return "", hint.With(fmt.Errorf("no session %q is open", id), "choose one of "+strings.Join(slices.Compact(open), ", "))
	case len(holders) > 1:
		return "", hint.With(fmt.Errorf("session %q is ambiguous", id), "name its plugin: "+strings.Join(holders, ", "))
	}
	return holders[0], nil
}

// SetContext sets a text that a plugin, or a part of the host under its own label, has for the model. An empty text removes it.
func (s *Thread) SetContext(label string, ev contract.ContextText) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev.Text = s.cfg.Redactor.Text(ev.Text)
	texts := s.mu.contexts[label]
	_, known := texts[ev.Key]
	switch {
	case ev.Text == "":
		delete(texts, ev.Key)
	case !known && len(texts) >= maxContexts:
		s.cfg.Logger.Warn("plugin has more texts for the model than allowed", "plugin", label, "most", maxContexts)
	default:
		if texts == nil {
			texts = map[string]string{}
			s.mu.contexts[label] = texts
		}
		texts[ev.Key] = strings.ToValidUTF8(ev.Text[:min(len(ev.Text), maxContext)], "")
	}
}

func (s *Thread) publish(label string, body event.Body) {
	if _, err := s.thread.Publish(context.WithoutCancel(s.ctx), "", body); err != nil {
		s.cfg.Logger.Debug("session event not published", "plugin", label, "err", err)
	}
}

// Contexts returns the current texts for the model, by plugin and key.
func (s *Thread) Contexts() map[string]map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]map[string]string{}
	for label, keys := range s.mu.contexts {
		if len(keys) > 0 {
			out[label] = maps.Clone(keys)
		}
	}
	return out
}

// endBound is the time that all plugins together have to release a thread, which includes the last events of their sessions.
const endBound = 2 * time.Second

// End tells the plugins that the thread has ended, and waits until they have closed their streams.
func (s *Thread) End(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endBound)
	defer cancel()
	defer context.AfterFunc(ctx, s.cancel)()
	s.mu.Lock()
	s.mu.ended = true
	used := slices.Collect(maps.Keys(s.mu.streams))
	for _, revoke := range s.mu.revoke { // from here on plugins can only report how their sessions ended
		revoke()
	}
	s.mu.Unlock()
	var telling sync.WaitGroup
	for _, label := range used {
		telling.Go(func() {
			backend, _ := s.cfg.Backend(label)
			if err := backend.EndThread(ctx, string(s.thread.ID())); err != nil {
				s.cfg.Logger.Debug("plugin did not end the thread", "plugin", label, "err", err)
				s.cancel() // it won't close its stream either
			}
		})
	}
	telling.Wait()
	if s.hasOpen() {
		// Plugins close their streams after the last events of their sessions.
		defer time.AfterFunc(lastWord, s.cancel).Stop()
	} else {
		s.cancel()
	}
	s.work.Wait()
	s.cancel()
}

// lastWord is the time that a plugin has to report the end of its sessions after it released the thread.
const lastWord = 500 * time.Millisecond

func (s *Thread) hasOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, open := range s.mu.open {
		if len(open) > 0 {
			return true
		}
	}
	return false
}

// Abandoned publishes that sessions were ended because no process of their plugin adopted them.
func (s *Thread) Abandoned(of launch.Owner) {
	for _, o := range s.lose(of.Plugin, func(o openSession) bool { return o.call == of.Call }) {
		s.publish(of.Plugin, event.Notice{
			Level: "warning",
			Text: fmt.Sprintf("session %s (%s) was ended: plugin %q did not adopt it within %v",
				o.id, o.title, of.Plugin, launch.DefaultAdoptTime),
			Next: fmt.Sprintf("run `gantry plugin list` to see what is wrong with %q", of.Plugin),
		})
	}
}
