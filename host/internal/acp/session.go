package acp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

// session is a thread that the editor has opened.
type session struct {
	agent     *agent
	id        acp.SessionId
	thread    *hub.Thread
	workspace hub.Workspace
	leave     func() // ends attendance
	defaults  defaults
	life      context.Context
	end       context.CancelFunc
	work      sync.WaitGroup
	continues sync.Mutex    // held while the session that continues this one is opened
	gone      chan struct{} // closed when the session can't be used any more: it is closed, or the pump has ended

	// What the pump uses alone. Before it starts, the handler of the request that opens the session does.
	events *hub.Events
	fold   transcript.Fold
	view   *view
	asked  []event.QuestionAsked     // questions that were not sent yet
	mode   acp.SessionModeId         // that the editor knows
	shown  []acp.SessionConfigOption // options that the editor knows
	seq    uint64                    // number of the last stored event

	mu       sync.Mutex
	closed   bool
	over     bool     // the pump has ended
	waiting  []*reply // prompts whose turns run
	starting int      // prompts whose turns are not known yet
	ended    map[string]outcome
	stopped  chan struct{}                  // closed when the last cancellation has taken effect; nil: there was none
	said     []string                       // messages that the editor has sent and the thread has not shown
	pending  map[string]event.QuestionAsked // questions that the editor has, by their ID
	settings event.Settings                 // that apply, or will from the next turn on
	sources  []event.SourceChanged          // those with prompts
}

// opening says how a session is opened.
type opening struct {
	cwd     string
	folders []string // in addition to cwd
	servers int      // MCP servers that the editor wants the session to use
}

// workspace returns the workspace of a session.
func (a *agent) workspace(o opening) (hub.Workspace, error) {
	w := a.cfg.Workspace
	if !filepath.IsAbs(o.cwd) {
		return w, invalid("cwd", "%q is not an absolute path", o.cwd)
	}
	w.Dir = filepath.Clean(o.cwd)
	for _, dir := range o.folders {
		if !filepath.IsAbs(dir) {
			return w, invalid("additionalDirectories", "%q is not an absolute path", dir)
		}
		w.WritableRoots = append(w.WritableRoots[:len(w.WritableRoots):len(w.WritableRoots)], filepath.Clean(dir))
	}
	return w, nil
}

// source is the front end of new threads: the editor's name.
func (a *agent) source() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.editor, "acp")
}

func (a *agent) newSession(ctx context.Context, p acp.NewSessionRequest) (any, func(), error) {
	o := opening{p.Cwd, p.AdditionalDirectories, len(p.McpServers)}
	w, err := a.workspace(o)
	if err != nil {
		return nil, nil, err
	}
	t, err := a.cfg.Hub.Start(ctx, hub.StartParams{Workspace: w, Source: a.source()})
	if err != nil {
		return nil, nil, err
	}
	s, err := a.open(ctx, t, w, 0)
	if err != nil {
		return nil, nil, err
	}
	return acp.NewSessionResponse{SessionId: s.id, Modes: s.modes(), ConfigOptions: s.options()}, s.start(o), nil
}

func (a *agent) loadSession(ctx context.Context, p acp.LoadSessionRequest) (any, func(), error) {
	o := opening{p.Cwd, p.AdditionalDirectories, len(p.McpServers)}
	s, err := a.reopen(ctx, p.SessionId, o, true)
	if err != nil {
		return nil, nil, err
	}
	return acp.LoadSessionResponse{Modes: s.modes(), ConfigOptions: s.options()}, s.start(o), nil
}

func (a *agent) resumeSession(ctx context.Context, p acp.ResumeSessionRequest) (any, func(), error) {
	o := opening{p.Cwd, p.AdditionalDirectories, len(p.McpServers)}
	s, err := a.reopen(ctx, p.SessionId, o, false)
	if err != nil {
		return nil, nil, err
	}
	return acp.ResumeSessionResponse{Modes: s.modes(), ConfigOptions: s.options()}, s.start(o), nil
}

// forkResponse is [acp.UnstableForkSessionResponse] with the options of the stable methods, which are the same on the wire.
type forkResponse struct {
	SessionId     acp.SessionId             `json:"sessionId"`
	Modes         *acp.SessionModeState     `json:"modes,omitempty"`
	ConfigOptions []acp.SessionConfigOption `json:"configOptions,omitempty"`
}

func (a *agent) forkSession(ctx context.Context, p acp.UnstableForkSessionRequest) (any, func(), error) {
	o := opening{p.Cwd, p.AdditionalDirectories, len(p.McpServers)}
	if _, err := a.workspace(o); err != nil {
		return nil, nil, err
	}
	id, err := threadID(p.SessionId)
	if err != nil {
		return nil, nil, err
	}
	fork, err := a.cfg.Hub.Fork(ctx, id, hub.Fork{})
	if err != nil {
		return nil, nil, err
	}
	s, err := a.reopen(ctx, acp.SessionId(fork), o, false)
	if err != nil {
		return nil, nil, err
	}
	return forkResponse{s.id, s.modes(), s.options()}, s.start(o), nil
}

// listPage is the number of sessions of a page.
const listPage = 50

func (a *agent) listSessions(ctx context.Context, p acp.ListSessionsRequest) (any, func(), error) {
	f := hub.Filter{Limit: listPage + 1, HasTurns: true}
	if p.Cwd != nil && *p.Cwd != "" {
		if !filepath.IsAbs(*p.Cwd) {
			return nil, nil, invalid("cwd", "%q is not an absolute path", *p.Cwd)
		}
		f.Cwd = filepath.Clean(*p.Cwd)
	}
	if p.Cursor != nil && *p.Cursor != "" {
		var err error
		if f.Before, err = hub.ParseCursor(*p.Cursor); err != nil {
			return nil, nil, invalid("cursor", "%q is not a cursor that session/list has returned", *p.Cursor)
		}
	}
	infos, err := a.cfg.Hub.List(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	out := acp.ListSessionsResponse{Sessions: []acp.SessionInfo{}}
	if len(infos) > listPage {
		infos = infos[:listPage]
		out.NextCursor = acp.Ptr(infos[listPage-1].CursorBy(f.Sort).String())
	}
	for _, info := range infos {
		s := acp.SessionInfo{SessionId: acp.SessionId(info.ID), Cwd: info.Cwd, UpdatedAt: acp.Ptr(info.Updated.UTC().Format(time.RFC3339))}
		if name := titleOf(info); name != "" {
			s.Title = &name
		}
		out.Sessions = append(out.Sessions, s)
	}
	return out, nil, nil
}

// titleOf returns the title of a session: its name, or the beginning of its first message.
func titleOf(info hub.Info) string { return cut(cmp.Or(info.Name, info.Preview), maxTitle) }

// closeSession detaches the editor from a thread. Prompts of this editor that run are interrupted. The thread is unloaded when it has been
// idle for a while.
func (a *agent) closeSession(ctx context.Context, p acp.CloseSessionRequest) (any, func(), error) {
	s, err := a.session(p.SessionId)
	if err != nil {
		return nil, nil, err
	}
	a.mu.Lock()
	for _, x := range a.arrivals[p.SessionId] {
		x.cancelled = true
	}
	if a.sessions[s.id] == s {
		delete(a.sessions, s.id)
	}
	a.mu.Unlock()
	s.cancel(ctx, false)
	s.close()
	return acp.CloseSessionResponse{}, nil, nil
}

// threadID returns the thread of a session.
func threadID(id acp.SessionId) (event.ThreadID, error) {
	out, err := event.ParseThreadID(string(id))
	if err != nil {
		return "", invalid("sessionId", "%q is not the ID of a session", cut(string(id), 80))
	}
	return out, nil
}

// session returns an open session.
func (a *agent) session(id acp.SessionId) (*session, error) {
	a.mu.Lock()
	s := a.sessions[id]
	a.mu.Unlock()
	if s == nil {
		return nil, invalid("sessionId", "there is no open session %q; open it with session/load or session/resume", cut(string(id), 80))
	}
	return s, nil
}

// live returns an open session. If its thread was unloaded, or the process that ran it has ended, it is continued first.
func (a *agent) live(ctx context.Context, id acp.SessionId) (*session, error) {
	s, err := a.session(id)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.thread.Done(): // the pump may still read the last events
		select {
		case <-s.gone:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	default:
	}
	s.mu.Lock()
	over, set := s.over, s.settings
	s.mu.Unlock()
	if !over {
		return s, nil
	}
	s.continues.Lock()
	defer s.continues.Unlock()
	if now, err := a.session(id); err != nil || now != s { // another caller was faster
		return now, err
	}
	t, err := a.cfg.Hub.Resume(ctx, s.thread.ID(), hub.ResumeParams{Workspace: s.workspace, Settings: set})
	if err != nil {
		return nil, err
	}
	next, err := a.open(ctx, t, s.workspace, s.seq) // the pump of s has ended
	if err != nil {
		return nil, err
	}
	next.fold, next.view = s.fold, s.view // also of what was cut off
	next.view.read, next.view.skip, next.view.titled = next.read, next.known, true
	s.mu.Lock()
	said := s.said
	s.mu.Unlock()
	next.mu.Lock()
	next.said = said
	next.mu.Unlock()
	next.begins()
	return next, nil
}

// follows continues a session after the end of the process that ran its thread. A turn that was cut off is closed by loading the thread
// here, unless another process has. Otherwise, the session continues as soon as another process runs the thread, or at the next prompt.
func (s *session) follows() {
	changes := s.agent.cfg.Hub.Watch()
	defer changes.Close()
	_, runs := s.agent.cfg.Hub.Find(s.life, s.thread.ID())
	for !runs && s.fold.Turn() == nil {
		c, err := changes.Next(s.life)
		if err != nil {
			return // the session was closed or is continued, or the next prompt has to
		}
		runs = c.Thread == s.thread.ID() && c.Kind == hub.ThreadLoaded
	}
	if s.life.Err() != nil {
		return
	}
	if _, err := s.agent.live(s.agent.life, s.id); err != nil && s.life.Err() == nil {
		s.agent.log.Warn("thread not continued after the end of its process", "thread", s.id, "err", err)
	}
}

// reopen opens a session of a thread that exists. With replay, its history is sent.
func (a *agent) reopen(ctx context.Context, raw acp.SessionId, o opening, replay bool) (*session, error) {
	id, err := threadID(raw)
	if err != nil {
		return nil, err
	}
	w, err := a.workspace(o)
	if err != nil {
		return nil, err
	}
	last, info, err := a.settled(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := a.cfg.Hub.Resume(ctx, id, hub.ResumeParams{Workspace: w, Settings: event.Settings{Cwd: w.Dir}})
	if err != nil {
		return nil, err
	}
	s, err := a.open(ctx, t, w, last)
	if err != nil {
		return nil, err
	}
	s.view.titled = info.Name != "" || info.Preview != ""
	if replay {
		err = s.replay(ctx, last)
	}
	if err != nil {
		a.drop(s)
		return nil, err
	}
	if name := titleOf(info); name != "" && replay {
		s.update(title(name))
	}
	return s, nil
}

// settled returns the number of the last event of a thread before its running turn.
func (a *agent) settled(ctx context.Context, id event.ThreadID) (uint64, hub.Info, error) {
	info, err := a.cfg.Hub.Info(ctx, string(id))
	if err != nil {
		if hub.ErrorOf(err).Code == hub.NotFound {
			if _, ok := a.cfg.Hub.Find(ctx, id); ok {
				return 0, info, nil // it is not stored, or not yet
			}
		}
		return 0, info, err
	}
	turns, err := a.cfg.Hub.Turns(ctx, id)
	if n := len(turns); err == nil && n > 0 && turns[n-1].LastSeq == 0 {
		return turns[n-1].FirstSeq - 1, info, nil
	}
	return info.Seq, info, err
}

// open attaches the editor to a thread. The session's updates begin after an event, when it is started.
func (a *agent) open(ctx context.Context, t *hub.Thread, w hub.Workspace, after uint64) (*session, error) {
	s := &session{
		agent: a, id: acp.SessionId(t.ID()), thread: t, workspace: w, ended: map[string]outcome{}, pending: map[string]event.QuestionAsked{},
		gone: make(chan struct{}),
	}
	a.mu.Lock()
	s.view = newView(flag(a.client.Meta, "terminal_output"), s.read)
	a.mu.Unlock()
	s.view.skip = s.known
	var err error
	if s.settings, err = t.Settings(ctx); err != nil {
		return nil, err
	}
	if s.defaults, err = a.defaultsOf(ctx, t, s.settings); err != nil {
		return nil, err
	}
	s.mode, s.shown, s.seq = s.modes().CurrentModeId, s.options(), after
	if s.leave, err = t.Attend(ctx); err != nil {
		return nil, err
	}
	if s.events, err = t.Follow(ctx, after, hub.Coalesce); err != nil {
		s.leave()
		return nil, err
	}
	s.life, s.end = context.WithCancel(a.life)
	a.mu.Lock()
	old := a.sessions[s.id]
	closed := a.closed
	if !closed {
		a.sessions[s.id] = s
	}
	a.mu.Unlock()
	if old != nil {
		old.close()
	}
	if closed {
		s.close()
		return nil, rpc.ErrClosed
	}
	return s, nil
}

// drop closes a session that was not opened successfully.
func (a *agent) drop(s *session) {
	a.mu.Lock()
	if a.sessions[s.id] == s {
		delete(a.sessions, s.id)
	}
	a.mu.Unlock()
	s.close()
}

// close ends the session. The thread continues.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.events.Close()
	s.work.Wait()
	s.leave()
	s.fail(&hub.Error{Code: hub.Closed, Message: "the session was closed"})
}

// start returns the function that starts the session's updates, after the response that opens it.
func (s *session) start(o opening) func() {
	return func() {
		s.update(acp.SessionUpdate{AvailableCommandsUpdate: &acp.SessionAvailableCommandsUpdate{AvailableCommands: s.commands()}})
		if o.servers > 0 {
			s.update(thought("Warning: the MCP servers of the editor are not available to gantry, which does not support MCP yet.\n"))
		}
		s.begins()
	}
}

// begins starts the pump, unless the session was closed.
func (s *session) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.work.Go(s.pump) // ends with the session
		s.work.Go(s.prepare)
	}
}

// prepare has the thread's workspace publish its sources of tools, whose prompts are offered before the first turn. It ends with the session.
func (s *session) prepare() {
	w := s.thread.Workspace()
	if w == nil { // another process runs the thread, and publishes them to those who follow it
		return
	}
	o, err := s.agent.cfg.Hub.Open(s.life, *w)
	if err != nil { // the first turn says why
		return
	}
	defer o.Close()
	o.Prepare(s.life)
}

// update sends an update. It reports whether the connection still exists.
func (s *session) update(u acp.SessionUpdate) bool {
	return s.agent.send(acp.ClientMethodSessionUpdate, acp.SessionNotification{SessionId: s.id, Update: u})
}

func (s *session) updates(us []acp.SessionUpdate) bool {
	for _, u := range us {
		if !s.update(u) {
			return false
		}
	}
	return true
}

// replay sends the turns up to an event. Reverted turns are left out.
func (s *session) replay(ctx context.Context, last uint64) error {
	if last == 0 {
		return nil
	}
	events, err := s.thread.Follow(ctx, 0, hub.Coalesce)
	if err != nil {
		return err
	}
	defer events.Close()
	var fold transcript.Fold // for the usage
	turns, err := transcript.Turns(func(yield func(event.Event, error) bool) {
		for seq := uint64(0); seq < last; {
			e, err := events.Next(ctx)
			if err == nil && e.Seq == 0 {
				continue
			}
			if e.Seq > last {
				return
			}
			seq = e.Seq
			if err == nil {
				s.view.note(e)
				fold.Apply(e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}, protocol.ItemsFull)
	if err != nil {
		return err
	}
	transcript.Stopped(turns)
	for _, t := range turns {
		for _, item := range t.Items {
			if !s.updates(s.view.past(item)) {
				return rpc.ErrClosed
			}
		}
	}
	clear(s.view.changes) // of turns that were reverted
	clear(s.view.images)
	if u := fold.Usage(); u != nil {
		s.updates(usage(*u))
	}
	return nil
}

// pump sends what happens in the thread until the session or the thread ends.
func (s *session) pump() {
	for {
		e, err := s.next()
		if errors.Is(err, context.DeadlineExceeded) && s.life.Err() == nil {
			if !s.updates(s.view.flush()) {
				return
			}
			continue
		}
		if err != nil {
			if s.life.Err() == nil && hub.ErrorOf(err).Code != hub.Closed {
				s.agent.log.Warn("thread can't be followed", "thread", s.id, "err", err)
			}
			s.fail(err)
			if s.life.Err() == nil && hub.ErrorOf(err).Code == hub.Closed && s.thread.Remote() {
				s.agent.begin(s.follows) // ends with the session
			}
			return
		}
		if !s.apply(e) {
			return
		}
	}
}

// next waits for an event, or until output of commands that has changed is due to be sent.
func (s *session) next() (event.Event, error) {
	if s.view.dirty.IsZero() {
		return s.events.Next(s.life)
	}
	ctx, cancel := context.WithDeadline(s.life, s.view.dirty.Add(outputDelay))
	defer cancel()
	return s.events.Next(ctx)
}

// apply sends what an event means for the editor.
func (s *session) apply(e event.Event) bool {
	if e.Seq != 0 {
		s.seq = e.Seq
	}
	s.view.note(e)
	for _, c := range s.fold.Apply(e) {
		if !s.updates(s.view.updates(c)) {
			return false
		}
		if p, ok := c.Params.(protocol.TurnCompletedNotification); ok {
			s.turnEnded(p.Turn)
		}
	}
	switch b := e.Body.(type) {
	case event.SettingsChanged:
		if !s.updates(s.changed(b.Settings)) {
			return false
		}
	case event.SourceChanged:
		if s.offers(b) && !s.update(acp.SessionUpdate{AvailableCommandsUpdate: &acp.SessionAvailableCommandsUpdate{AvailableCommands: s.commands()}}) {
			return false
		}
	case event.QuestionAsked:
		if b.About.ForPerson() {
			s.asked = append(s.asked, b)
		}
	case event.QuestionResolved:
		s.resolved(b.ID)
	}
	if len(s.asked) > 0 && !s.events.More() { // after a replay, most questions are resolved already
		asked := s.asked
		s.asked = nil
		for _, q := range asked {
			if !s.ask(q) {
				return false
			}
		}
	}
	return true
}

// maxText is the size of the files whose changes are shown with their whole text, in bytes.
const maxText = 1 << 20

// read returns the text of an artifact.
func (s *session) read(digest string) (string, bool) {
	if digest == "" {
		return "", false
	}
	r, err := s.agent.cfg.Hub.Artifact(s.agent.life, s.thread.ID(), digest)
	if err != nil {
		return "", false
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil || len(raw) > maxText {
		return "", false
	}
	return string(raw), true
}

// readable reports whether a file can be shown as text.
func readable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }
