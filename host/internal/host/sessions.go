package host

import (
	"context"
	"sort"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// sessions are what plugins hold for one thread: a stream for each plugin that the thread has used.
type sessions struct {
	host   *Host
	thread *thread.Thread
	cwd    string
	ctx    context.Context // of the thread; set by begin
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu struct {
		sync.Mutex
		streams  map[string]bool
		contexts map[string]map[string]string // plugin → key → text
	}
}

func newSessions(h *Host, t *thread.Thread, cwd string) *sessions {
	s := &sessions{host: h, thread: t, cwd: cwd}
	s.mu.streams = map[string]bool{}
	s.mu.contexts = map[string]map[string]string{}
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
	if s.mu.streams[label] || s.ctx == nil {
		return
	}
	s.mu.streams[label] = true
	s.work.Go(func() { // ends with the plugin's process or the thread
		err := family.Thread(s.ctx, string(s.thread.ID()), s.cwd, func(ev contract.ThreadEvent) { s.event(label, ev) })
		if err != nil && s.ctx.Err() == nil {
			s.host.log.Debug("thread stream ended", "plugin", label, "thread", s.thread.ID(), "err", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.streams[label] = false
	})
}

// maxContext bounds one text of a plugin for the model, as the contract announces.
const maxContext = 16 << 10

func (s *sessions) event(label string, ev contract.ThreadEvent) {
	var body event.Body
	switch ev := ev.(type) {
	case contract.ContextText:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.contexts[label] == nil {
			s.mu.contexts[label] = map[string]string{}
		}
		if ev.Text == "" {
			delete(s.mu.contexts[label], ev.Key)
		} else {
			s.mu.contexts[label][ev.Key] = strings.ToValidUTF8(ev.Text[:min(len(ev.Text), maxContext)], "")
		}
		return
	case contract.SessionOpened:
		body = event.SessionOpened{Session: ev.SessionID, Call: event.CallID(ev.CallID), Plugin: label, Title: ev.Title}
	case contract.SessionOutput:
		body = event.SessionOutput{Session: ev.SessionID, Offset: ev.Offset, Text: strings.ToValidUTF8(string(ev.Data), "\uFFFD")}
	case contract.SessionExited:
		how := map[contract.SessionEnd]string{contract.SessionEndDenied: "denied", contract.SessionEndLost: "lost"}[ev.End]
		if how == "" {
			how = "exited"
		}
		body = event.SessionExited{Session: ev.SessionID, How: how, ExitCode: ev.ExitCode}
	default:
		return
	}
	if _, err := s.thread.Publish(s.ctx, "", body); err != nil && s.ctx.Err() == nil {
		s.host.log.Debug("session event not published", "plugin", label, "err", err)
	}
}

// texts joins what plugins have to say to the model, in a fixed order.
func (s *sessions) texts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for label, keys := range s.mu.contexts {
		for key, text := range keys {
			out = append(out, "## "+label+": "+key+"\n"+text)
		}
	}
	sort.Strings(out)
	return strings.Join(out, "\n\n")
}

// end tells the plugins that the thread is over and waits for the streams.
func (s *sessions) end(ctx context.Context) {
	s.mu.Lock()
	var used []string
	for label, open := range s.mu.streams {
		if open {
			used = append(used, label)
		}
	}
	s.mu.Unlock()
	for _, label := range used {
		if err := s.host.families[label].EndThread(ctx, string(s.thread.ID())); err != nil {
			s.host.log.Debug("plugin did not end the thread", "plugin", label, "err", err)
		}
	}
	s.cancel()
	s.work.Wait()
}
