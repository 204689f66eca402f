package host

import (
	"cmp"
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
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// sessions are what plugins hold for one thread: a stream for each plugin that the thread has used.
type sessions struct {
	host   *Host
	thread *thread.Thread
	ctx    context.Context // of the thread; set by begin
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu struct {
		sync.Mutex
		ended    bool
		streams  map[string]bool
		revoke   map[string]func()            // takes the plugin's thread token back
		contexts map[string]map[string]string // plugin → key → text
		open     map[string][]openSession     // plugin → sessions that have not exited
		over     map[string][]string          // plugin → sessions that have, the last maxSessions
		shown    map[string]map[string]*shown // plugin → session → its output, as far as it was shown
	}
}

// openSession is a session that has not exited.
type openSession struct{ id, call, title string }

func newSessions(h *Host, t *thread.Thread) *sessions {
	s := &sessions{host: h, thread: t}
	s.mu.streams = map[string]bool{}
	s.mu.revoke = map[string]func(){}
	s.mu.contexts = map[string]map[string]string{}
	s.mu.open = map[string][]openSession{}
	s.mu.over = map[string][]string{}
	s.mu.shown = map[string]map[string]*shown{}
	return s
}

func (s *sessions) begin(ctx context.Context) {
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
}

// use makes sure that the plugin knows the thread. It is called before each call, so a plugin that was restarted is told
// again by the next one.
func (s *sessions) use(label string, family *tool.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.streams[label] || s.mu.ended {
		return
	}
	s.mu.streams[label] = true
	token, revoke := s.host.tokens.IssueThread(label, s.thread.ID())
	s.mu.revoke[label] = revoke
	s.work.Go(func() { // ends with the plugin's process or the thread
		defer revoke()
		err := family.Thread(s.ctx, string(s.thread.ID()), s.thread.Settings().Cwd, token, func(ev contract.ThreadEvent) { s.event(label, ev) })
		if err != nil && s.ctx.Err() == nil {
			s.host.log.Debug("thread stream ended", "plugin", label, "thread", s.thread.ID(), "err", err)
		}
		if s.gone(label) && !errors.Is(err, tool.ErrUnreached) && s.ctx.Err() == nil {
			s.use(label, family) // which starts the next process: it adopts what is kept
		}
	})
}

// gone: the plugin's process has ended or has let go of the thread. What it held is lost, but for what the launcher keeps,
// and what it had to say was said by a process that is not there any more. It tells whether something is kept.
func (s *sessions) gone(label string) (kept bool) {
	calls := map[string]bool{}
	for _, p := range s.host.launcher.Kept(label, string(s.thread.ID())) {
		calls[p.Owner().Call] = true
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

// lose closes sessions of which nobody knows what became of them, and returns them.
func (s *sessions) lose(label string, which func(openSession) bool) []openSession {
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
		s.outputEnds(label, o.id)
		s.publish(label, event.SessionExited{Session: o.id, How: "lost"})
	}
	return lost
}

// overLocked remembers a session that has exited, for whoever takes it over without knowing that.
func (s *sessions) overLocked(label, id string) {
	over := append(s.mu.over[label], id)
	s.mu.over[label] = over[max(0, len(over)-maxSessions):]
}

// maxContext bounds one text of a plugin for the model, as the contract announces.
const maxContext = 16 << 10

// maxContexts is how many of them a plugin may have, and maxSessions how many sessions it may announce; what is beyond is
// left out, and the log says so.
const (
	maxContexts = 32
	maxSessions = 256
)

func (s *sessions) event(label string, ev contract.ThreadEvent) {
	switch ev := ev.(type) {
	case contract.ContextText:
		s.context(label, ev)
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
			s.host.log.Warn("plugin opens more sessions than allowed", "plugin", label, "most", maxSessions)
			return
		}
		s.publish(label, event.SessionOpened{Session: ev.SessionID, Call: event.CallID(ev.CallID), Plugin: label, Title: ev.Title})
	case contract.SessionOutput:
		s.output(label, ev)
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
		end := s.outputEnds(label, ev.SessionID)
		how := map[contract.SessionEnd]string{contract.SessionEndDenied: "denied", contract.SessionEndLost: "lost"}[ev.End]
		if how == "" {
			how = "exited"
		}
		exited := event.SessionExited{Session: ev.SessionID, How: how, ExitCode: ev.ExitCode}
		if ev.End == contract.SessionEndDenied {
			set := s.thread.Settings()
			mode := cmp.Or(set.Sandbox, s.host.opts.Config.Sandbox.Mode)
			permitted, _ := s.thread.Approvals().Permitted("")
			exited.Denied = grants.Denial(s.host.opts.Environ, grants.WithPermissions(grants.For(s.host.opts.Config, mode, set.Cwd, ""), permitted), set.Cwd, end)
		}
		s.publish(label, exited)
	}
}

// stop ends a session. label names the plugin that holds it; empty: the only one that has a session of this ID.
func (s *sessions) stop(ctx context.Context, label, id string) error {
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
		return fmt.Errorf("no session %q: thread %s has no open session", id, s.thread.ID())
	case len(holders) == 0:
		return hint.With(fmt.Errorf("no session %q is open", id), "choose one of "+strings.Join(slices.Compact(open), ", "))
	case len(holders) > 1:
		return hint.With(fmt.Errorf("session %q is ambiguous", id), "name its plugin: "+strings.Join(holders, ", "))
	}
	backend, _ := s.host.plugins.Backend(holders[0])
	return backend.StopSession(ctx, string(s.thread.ID()), id)
}

func (s *sessions) context(label string, ev contract.ContextText) {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := s.mu.contexts[label]
	_, known := texts[ev.Key]
	switch {
	case ev.Text == "":
		delete(texts, ev.Key)
	case !known && len(texts) >= maxContexts:
		s.host.log.Warn("plugin has more texts for the model than allowed", "plugin", label, "most", maxContexts)
	default:
		if texts == nil {
			texts = map[string]string{}
			s.mu.contexts[label] = texts
		}
		texts[ev.Key] = strings.ToValidUTF8(ev.Text[:min(len(ev.Text), maxContext)], "")
	}
}

func (s *sessions) publish(label string, body event.Body) {
	if _, err := s.thread.Publish(context.WithoutCancel(s.ctx), "", body); err != nil {
		s.host.log.Debug("session event not published", "plugin", label, "err", err)
	}
}

// texts are what plugins have to say to the model now, by plugin and key.
func (s *sessions) texts() map[string]map[string]string {
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

// endBound is how long the plugins may take to let go of a thread, all of them together; it is their sessions' last word.
const endBound = 2 * time.Second

// end tells the plugins that the thread is over and waits for the streams, which they end then.
func (s *sessions) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endBound)
	defer cancel()
	defer context.AfterFunc(ctx, s.cancel)()
	s.mu.Lock()
	s.mu.ended = true
	used := slices.Collect(maps.Keys(s.mu.streams))
	for _, revoke := range s.mu.revoke { // from here on only sessions have a last word
		revoke()
	}
	s.mu.Unlock()
	var telling sync.WaitGroup
	for _, label := range used {
		telling.Go(func() {
			backend, _ := s.host.plugins.Backend(label)
			if err := backend.EndThread(ctx, string(s.thread.ID())); err != nil {
				s.host.log.Debug("plugin did not end the thread", "plugin", label, "err", err)
				s.cancel() // it will not end its stream either
			}
		})
	}
	telling.Wait()
	if s.holding() {
		// Streams end behind the last word of their sessions. A plugin that leaves its stream open has none to say.
		defer time.AfterFunc(lastWord, s.cancel).Stop()
	} else {
		s.cancel()
	}
	s.work.Wait()
	s.cancel()
}

// lastWord is how long it may take a plugin that let go of a thread to say how its sessions ended.
const lastWord = 500 * time.Millisecond

func (s *sessions) holding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, open := range s.mu.open {
		if len(open) > 0 {
			return true
		}
	}
	return false
}

// abandoned tells people of sessions that are ended because no process of their plugin took them over.
func (s *sessions) abandoned(of launch.Owner) {
	for _, o := range s.lose(of.Plugin, func(o openSession) bool { return o.call == of.Call }) {
		s.publish(of.Plugin, event.Notice{
			Level: "warning",
			Text: fmt.Sprintf("session %s (%s) was ended: plugin %q did not come back to it within %v",
				o.id, o.title, of.Plugin, launch.DefaultAdoptTime),
			Next: fmt.Sprintf("run `gantry plugin list` to see what is wrong with %q", of.Plugin),
		})
	}
}

// abandoned hears of a kept session that nobody adopted.
func (h *Host) abandoned(p *launch.Process) {
	h.mu.Lock()
	r := h.mu.threads[event.ThreadID(p.Owner().Thread)]
	h.mu.Unlock()
	if r != nil {
		r.plugs.abandoned(p.Owner())
	}
}
