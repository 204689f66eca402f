package appserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/appserver/dynamictool"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

// threads has the methods about threads.
type threads struct{ *Server }

// threadID checks the ID of a thread.
func threadID(s string) (event.ThreadID, error) {
	id, err := event.ParseThreadID(s)
	if err != nil {
		return "", rpc.Errorf(rpc.InvalidRequest, "invalid thread id: %v", err)
	}
	return id, nil
}

// running returns a thread that runs, here or in another process.
func (s *Server) running(ctx context.Context, raw string) (*hub.Thread, error) {
	id, err := threadID(raw)
	if err != nil {
		return nil, err
	}
	t, ok := s.cfg.Hub.Find(ctx, id)
	if !ok {
		return nil, s.notLoaded(id)
	}
	return t, nil
}

func (s *Server) notLoaded(id event.ThreadID) error {
	e := rpc.Errorf(rpc.InvalidRequest, "thread not found: %s", id)
	e.Data = protocol.ErrorData{Kind: "not_found", Next: orNull("resume it with thread/resume")}
	return e
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// describe converts the description of a stored thread.
func (s *Server) describe(ctx context.Context, info hub.Info) protocol.Thread {
	st := s.cfg.Hub.Status(info.ID)
	updated := unix(info.Updated)
	return protocol.Thread{
		ID: string(info.ID), SessionID: string(info.ID), ForkedFromID: orNull(string(info.ForkedFrom)),
		ParentThreadID: orNull(string(info.Parent)), Preview: info.Preview, Name: orNull(info.Name),
		HistoryMode: protocol.HistoryPaginated, ModelProvider: info.Provider, Model: orNull(modelName(info)),
		CreatedAt: unix(info.Created), UpdatedAt: updated, RecencyAt: &updated, Status: statusOf(st), Cwd: info.Cwd, CLIVersion: s.cfg.Version,
		GitInfo: gitInfo(info), Source: sourceOf(info.Source), Originator: info.Source, Turns: []protocol.Turn{},
	}
}

// gitInfo returns what clients have said about the thread's repository; nil: nothing.
func gitInfo(info hub.Info) *protocol.GitInfo {
	if info.Git == (hub.Info{}).Git {
		return nil
	}
	return &protocol.GitInfo{SHA: orNull(info.Git.SHA), Branch: orNull(info.Git.Branch), OriginURL: orNull(info.Git.Origin)}
}

// modelName returns the name under which a client can choose the model of a thread: the label of its block, or PROVIDER/NAME.
func modelName(info hub.Info) string {
	if info.Model == "" && info.Provider != "" {
		return info.Provider + "/" + info.ModelName
	}
	return info.Model
}

// sourceOf converts the front end that started a thread. Codex records its app server's clients as an editor.
func sourceOf(source string) protocol.SessionSource {
	switch source {
	case "exec":
		return protocol.SessionSource{Kind: protocol.SourceExec}
	case "tui", "cli":
		return protocol.SessionSource{Kind: protocol.SourceCLI}
	case "":
		return protocol.SessionSource{Kind: protocol.SourceUnknown}
	}
	return protocol.SessionSource{Kind: protocol.SourceVSCode}
}

// describeRunning describes a thread that runs. It may not be stored yet, or never.
func (s *Server) describeRunning(ctx context.Context, t *hub.Thread) (protocol.Thread, error) {
	info, err := s.cfg.Hub.Info(ctx, string(t.ID()))
	if err != nil && hub.ErrorOf(err).Code != hub.NotFound {
		return protocol.Thread{}, err
	}
	started := t.Started()
	if err != nil {
		info = hub.Info{
			ID: t.ID(), Cwd: started.Cwd, Model: started.Model, Provider: started.Provider, ModelName: started.ModelName, Source: started.Source, Created: time.Now(),
			Updated: time.Now(), ForkedFrom: started.ForkedFrom, Parent: started.Parent,
		}
	}
	out := s.describe(ctx, info)
	out.Ephemeral = t.Ephemeral()
	return out, nil
}

// opened returns what thread/start, thread/resume and thread/fork return.
func (s *Server) opened(ctx context.Context, t *hub.Thread) (protocol.ThreadStartResponse, error) {
	var out protocol.ThreadStartResponse
	described, err := s.describeRunning(ctx, t)
	if err != nil {
		return out, err
	}
	e, err := s.effective(ctx, t)
	if err != nil {
		return out, err
	}
	if e.settings.Model != "" { // of the next turn
		described.Model = &e.settings.Model
		for _, m := range e.cfg.Models {
			if m.Label == e.settings.Model {
				described.ModelProvider = m.Provider
			}
		}
	}
	described.ReasoningEffort = orNull(e.settings.Reasoning)
	described.Cwd = e.settings.Cwd
	return protocol.ThreadStartResponse{
		Thread: described, Model: deref(described.Model), ModelProvider: described.ModelProvider, DisabledPluginIDs: []string{}, Cwd: e.settings.Cwd,
		RuntimeWorkspaceRoots: []string{e.settings.Cwd}, InstructionSources: []string{}, ApprovalPolicy: e.approval(), ApprovalsReviewer: e.reviewer(),
		Sandbox: e.sandbox(), ActivePermissionProfile: e.profile(), ReasoningEffort: described.ReasoningEffort,
	}, nil
}

func (s threads) threadStart(ctx context.Context, c *call, p protocol.ThreadStartParams) (out protocol.ThreadStartResponse, err error) {
	o, err := s.overrides(p.ThreadOverrides)
	if err != nil {
		return out, err
	}
	o.Ephemeral = deref(p.Ephemeral)
	tools, err := dynamictool.Specs(p.DynamicTools)
	if err != nil {
		return out, invalidParams(err)
	}
	t, err := s.cfg.Hub.Start(ctx, hub.StartParams{
		Workspace: o.Workspace, Model: o.Model, Effort: o.Reasoning, Source: c.source(), Approval: o.Approval, Sandbox: o.Sandbox,
		BaseInstructions: deref(p.BaseInstructions), DeveloperInstructions: deref(p.DeveloperInstructions),
		Tools: tools,
	})
	if err != nil && len(tools) > 0 && hub.ErrorOf(err).Code == hub.Invalid {
		return out, invalidParams(fmt.Errorf("dynamicTools: %w", err))
	}
	if err != nil {
		return out, err
	}
	f, err := s.feedOf(ctx, t, 0)
	if err != nil {
		return out, err
	}
	if out, err = s.opened(ctx, t); err != nil {
		return out, err
	}
	c.warn(o)
	return out, c.begun(f, out.Thread)
}

// begun subscribes the caller to a thread that it has started, and tells all connections about the thread after the response.
func (c *call) begun(f *feed, t protocol.Thread) error {
	release, err := c.subscribe(f, latest, 0, nil)
	if err != nil {
		return err
	}
	c.afterwards(func() {
		c.server.broadcast(f.thread.ID(), "started/"+t.ID, protocol.NotifyThreadStarted.Name, protocol.ThreadStartedNotification{Thread: t}, true)
		release()
	})
	return nil
}

// source returns the front end of new threads: the client's name.
func (c *client) source() string {
	return cmp.Or(c.clientInfo().Name, "vscode") // as codex does
}

// clientInfo returns what the client has said about itself.
func (c *client) clientInfo() protocol.ClientInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.info
}

// unused reports whether a thread can be loaded anew: it is stored, runs here, but no turn, and no client has subscribed to it.
func (s threads) unused(t *hub.Thread) bool {
	if t.Remote() || t.Ephemeral() || s.cfg.Hub.Status(t.ID()).State == hub.Active {
		return false
	}
	return !slices.ContainsFunc(s.all(), func(c *client) bool { return c.subscribed(t.ID()) })
}

func (s threads) threadResume(ctx context.Context, c *call, p protocol.ThreadResumeParams) (out protocol.ThreadResumeResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	if p.Path != nil || p.History != nil {
		return out, rpc.Errorf(rpc.InvalidParams, "`path` and `history` are not supported: threads are in a database; use threadId")
	}
	o, err := s.overrides(p.ThreadOverrides)
	if err != nil {
		return out, err
	}
	o.Dir = o.Cwd // "": that of the thread
	last, err := s.lastSettled(ctx, id)
	if err != nil {
		return out, err
	}
	loaded, wasLoaded := s.cfg.Hub.Find(ctx, id)
	if wasLoaded && o.Settings != (event.Settings{}) && s.unused(loaded) {
		// It has the settings with which it was loaded. A thread that is in use keeps them.
		if err := s.cfg.Hub.Unload(ctx, id); err != nil {
			return out, err
		}
		wasLoaded = false
	}
	t, err := s.cfg.Hub.Resume(ctx, id, hub.ResumeParams{Workspace: o.Workspace, Settings: o.Settings})
	if err != nil {
		return out, err
	}
	f, err := s.feedOf(ctx, t, last)
	if err != nil {
		return out, err
	}
	if out.ThreadStartResponse, err = s.opened(ctx, t); err != nil {
		return out, err
	}
	after := uint64(latest)
	if p.AfterSeq != nil {
		after = *p.AfterSeq
	}
	skip := 0
	if p.AfterSeq != nil && p.AfterPart > 0 && after > 0 {
		after, skip = after-1, p.AfterPart // the rest of the event
	}
	var open []protocol.ThreadItem
	var seq uint64
	var questions []*question
	c.unsubscribe(id) // so that the response and what follows begin at the same event
	release, err := c.subscribe(f, after, skip, func() {
		open, seq, questions = f.fold.Open(), f.seq, slices.Clone(f.questions)
	})
	if err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	out.Seq = &seq
	c.warn(o)
	if !wasLoaded {
		c.afterwards(func() {
			s.broadcast(id, "status/"+string(id), protocol.NotifyThreadStatusChanged.Name,
				protocol.ThreadStatusChangedNotification{ThreadID: string(id), Status: statusOf(s.cfg.Hub.Status(id))}, true)
		})
	}
	if !p.ExcludeTurns {
		if out.Thread.Turns, err = s.turnsUpTo(ctx, t, seq, open); err != nil {
			return out, err
		}
	}
	if err = s.pages(ctx, p, &out); err != nil {
		return out, err
	}
	usage, err := s.usageOf(ctx, t.ID())
	if err != nil {
		return out, err
	}
	sendGoal := goals(s).resumed(ctx, c, t)
	c.afterwards(func() {
		if usage != nil {
			c.send(protocol.NotifyThreadTokenUsageUpdated.Name, *usage)
		}
		sendGoal()
		if after > seq { // otherwise catching up ends with the questions
			for _, q := range questions {
				_ = c.ask(c.life, q) // the client may be gone
			}
		}
		release()
	})
	return out, nil
}

// pages adds to a response what a client needs to read the history in pages.
func (s threads) pages(ctx context.Context, p protocol.ThreadResumeParams, out *protocol.ThreadResumeResponse) error {
	past, err := s.pastOf(ctx, p.ThreadID)
	if err != nil {
		if p.InitialTurnsPage == nil {
			return nil // it is not stored
		}
		return err
	}
	if out.TurnsBackwardsCursor, out.ItemsBackwardsCursor, err = past.ends(ctx); err != nil || p.InitialTurnsPage == nil {
		return err
	}
	page, err := past.turns(ctx, requestOf(protocol.Page{Limit: p.InitialTurnsPage.Limit}, p.InitialTurnsPage.SortDirection), p.InitialTurnsPage.ItemsView)
	out.InitialTurnsPage = &page
	return err
}

// lastTurn returns the last turn of a thread that was not reverted; nil: there is none.
func (s *Server) lastTurn(ctx context.Context, id event.ThreadID) (*hub.TurnInfo, error) {
	past, err := s.cfg.Hub.History(ctx, id)
	if err != nil {
		return nil, err
	}
	turns, err := past.Turns(ctx, hub.Window{Descending: true, Limit: 1})
	if err != nil || len(turns) == 0 {
		return nil, err
	}
	return &turns[0], nil
}

// lastSettled returns the number of the last event of a thread before its running turn.
func (s *Server) lastSettled(ctx context.Context, id event.ThreadID) (uint64, error) {
	info, err := s.cfg.Hub.Info(ctx, string(id))
	if err != nil {
		if hub.ErrorOf(err).Code == hub.NotFound {
			if _, ok := s.cfg.Hub.Find(ctx, id); ok {
				return 0, nil // ephemeral
			}
		}
		return 0, err
	}
	turn, err := s.lastTurn(ctx, id)
	if err != nil {
		return 0, err
	}
	if turn != nil && turn.LastSeq == 0 {
		return turn.FirstSeq - 1, nil
	}
	return info.Seq, nil
}

// turnsUpTo returns the turns of a running thread up to an event, with the items that are open then.
func (s *Server) turnsUpTo(ctx context.Context, t *hub.Thread, seq uint64, open []protocol.ThreadItem) ([]protocol.Turn, error) {
	events, err := t.Follow(ctx, 0, hub.Coalesce)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	turns, err := transcript.Turns(func(yield func(event.Event, error) bool) {
		for last := uint64(0); last < seq; {
			e, err := events.Next(ctx)
			if err == nil && (e.Seq == 0 || e.Seq > seq) {
				if e.Seq > seq {
					return
				}
				continue
			}
			last = e.Seq
			if !yield(e, err) || err != nil {
				return
			}
		}
	}, protocol.ItemsFull)
	if err != nil {
		return nil, err
	}
	if s.cfg.Hub.Status(t.ID()).State != hub.Active {
		transcript.Stopped(turns)
	}
	transcript.WithOpen(turns, open)
	return nonNil(turns), nil
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// unsubscribe ends the client's subscription. It reports whether there was one.
func (c *client) unsubscribe(id event.ThreadID) bool {
	c.mu.Lock()
	s := c.subs[id]
	c.mu.Unlock()
	if s == nil {
		return false
	}
	s.close()
	return true
}

func (s threads) threadUnsubscribe(ctx context.Context, c *call, p protocol.ThreadUnsubscribeParams) (out protocol.ThreadUnsubscribeResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	switch _, loaded := s.cfg.Hub.Find(ctx, id); {
	case c.unsubscribe(id):
		out.Status = protocol.Unsubscribed
	case loaded:
		out.Status = protocol.NotSubscribed
	default:
		out.Status = protocol.UnsubscribeNotLoaded
	}
	return out, nil
}

func (s threads) threadFork(ctx context.Context, c *call, p protocol.ThreadForkParams) (out protocol.ThreadForkResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	if p.LastTurnID != nil && p.BeforeTurnID != nil {
		return out, rpc.Errorf(rpc.InvalidParams, "`lastTurnId` and `beforeTurnId` exclude each other")
	}
	o, err := s.overrides(p.ThreadOverrides)
	if err != nil {
		return out, err
	}
	o.Dir, o.Ephemeral = o.Cwd, p.Ephemeral
	t, last, err := s.forked(ctx, id, hub.Fork{Through: deref(p.LastTurnID), Before: deref(p.BeforeTurnID)}, o)
	if err != nil {
		return out, err
	}
	f, err := s.feedOf(ctx, t, last)
	if err != nil {
		return out, err
	}
	if out.ThreadStartResponse, err = s.opened(ctx, t); err != nil {
		return out, err
	}
	if !p.ExcludeTurns {
		if out.Thread.Turns, err = s.turnsUpTo(ctx, t, last, nil); err != nil {
			return out, err
		}
	}
	out.Seq = &last
	past, err := s.pastOf(ctx, string(t.ID()))
	if err != nil {
		return out, err
	}
	if out.TurnsBackwardsCursor, out.ItemsBackwardsCursor, err = past.ends(ctx); err != nil {
		return out, err
	}
	c.warn(o)
	usage, err := s.usageOf(ctx, t.ID())
	if err != nil {
		return out, err
	}
	if usage != nil {
		c.afterwards(func() { c.send(protocol.NotifyThreadTokenUsageUpdated.Name, *usage) })
	}
	return out, c.begun(f, out.Thread)
}

// forked loads a fork of a thread, and returns the number of the last event that it had before it ran. Nothing of an ephemeral fork is
// stored.
func (s threads) forked(ctx context.Context, id event.ThreadID, at hub.Fork, o overrides) (t *hub.Thread, last uint64, err error) {
	p := hub.ResumeParams{Workspace: o.Workspace, Settings: o.Settings}
	if o.Ephemeral {
		p.Fork = &at
		if t, err = s.cfg.Hub.Resume(ctx, id, p); err != nil {
			return nil, 0, err
		}
		last, err = s.lastSettled(ctx, t.ID())
		return t, last, err
	}
	if id, err = s.cfg.Hub.Fork(ctx, id, at); err != nil {
		return nil, 0, err
	}
	if last, err = s.lastSettled(ctx, id); err != nil {
		return nil, 0, err
	}
	t, err = s.cfg.Hub.Resume(ctx, id, p)
	return t, last, err
}

// usageTurns is the number of turns among which the last answer of the model is looked for. Commands of the user are turns without one.
const usageTurns = 16

// usageOf returns the usage of a thread; nil: it has used nothing.
func (s *Server) usageOf(ctx context.Context, id event.ThreadID) (*protocol.ThreadTokenUsageUpdatedNotification, error) {
	info, err := s.cfg.Hub.Info(ctx, string(id))
	if err != nil && hub.ErrorOf(err).Code != hub.NotFound {
		return nil, err
	}
	if info.Tokens.Total == 0 {
		return nil, nil
	}
	past, err := s.cfg.Hub.History(ctx, id)
	if err != nil {
		return nil, err
	}
	turns, err := past.Turns(ctx, hub.Window{Descending: true, Limit: usageTurns})
	if err != nil {
		return nil, err
	}
	out := protocol.ThreadTokenUsageUpdatedNotification{ThreadID: string(id), TokenUsage: transcript.Usage(info.Tokens, nil)}
	if len(turns) > 0 {
		out.TurnID = string(turns[0].ID)
	}
	for _, t := range turns {
		reports, err := past.Usages(ctx, t)
		if err != nil {
			return nil, err
		}
		if last := transcript.LastReport(reports); last != nil {
			out.TokenUsage = transcript.Usage(info.Tokens, last)
			break
		}
	}
	return &out, nil
}

func (s threads) threadRead(ctx context.Context, c *call, p protocol.ThreadReadParams) (out protocol.ThreadReadResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	t, loaded := s.cfg.Hub.Find(ctx, id)
	if loaded {
		out.Thread, err = s.describeRunning(ctx, t)
	} else {
		info, ierr := s.cfg.Hub.Info(ctx, string(id))
		if ierr != nil {
			return out, ierr
		}
		out.Thread = s.describe(ctx, info)
	}
	if err != nil {
		return out, err
	}
	if !c.stable() {
		past, err := s.pastOf(ctx, p.ThreadID)
		if err == nil { // else it is not stored
			state, err := past.ReadState(ctx)
			if err != nil {
				return out, err
			}
			out.ReadState = new(readState(state))
		}
	}
	if !p.IncludeTurns {
		return out, nil
	}
	turns, err := transcript.Turns(s.cfg.Hub.Events(ctx, id, 0), protocol.ItemsFull)
	if err != nil {
		return out, err
	}
	if !loaded {
		transcript.Stopped(turns)
	}
	out.Thread.Turns = nonNil(turns)
	return out, nil
}

func (s threads) threadLoadedList(_ context.Context, _ *call, p protocol.ThreadLoadedListParams) (out protocol.ThreadLoadedListResponse, err error) {
	out.Data = []string{}
	after := deref(p.Cursor)
	limit := len(s.cfg.Hub.Loaded())
	if p.Limit != nil {
		limit = max(1, int(min(*p.Limit, 1<<20)))
	}
	for _, id := range s.cfg.Hub.Loaded() {
		if string(id) <= after {
			continue
		}
		if len(out.Data) == limit {
			out.NextCursor = orNull(out.Data[limit-1])
			break
		}
		out.Data = append(out.Data, string(id))
	}
	return out, nil
}

func (s threads) threadArchive(ctx context.Context, c *call, p protocol.ThreadArchiveParams) (out protocol.ThreadArchiveResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	return out, c.changing(ctx, id, func() error { return s.cfg.Hub.Archive(ctx, id) })
}

func (s threads) threadUnarchive(ctx context.Context, c *call, p protocol.ThreadUnarchiveParams) (out protocol.ThreadUnarchiveResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	if err := c.changing(ctx, id, func() error { return s.cfg.Hub.Unarchive(ctx, id) }); err != nil {
		return out, err
	}
	info, err := s.cfg.Hub.Info(ctx, string(id))
	if err != nil {
		return out, err
	}
	out.Thread = s.describe(ctx, info)
	return out, nil
}

func (s threads) threadDelete(ctx context.Context, c *call, p protocol.ThreadDeleteParams) (out protocol.ThreadDeleteResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	return out, c.changing(ctx, id, func() error { return s.cfg.Hub.Delete(ctx, id) })
}

func (s threads) threadSetName(ctx context.Context, c *call, p protocol.ThreadSetNameParams) (out protocol.ThreadSetNameResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	name := strings.TrimSpace(p.Name)
	if name == "" {
		return out, rpc.Errorf(rpc.InvalidRequest, "thread name must not be empty")
	}
	c.afterwards(c.hold(id)) // subscribers are told after the response
	return out, s.cfg.Hub.Rename(ctx, id, name)
}

func (s threads) threadMetadataUpdate(ctx context.Context, c *call, p protocol.ThreadMetadataUpdateParams) (out protocol.ThreadMetadataUpdateResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	if p.ProjectID.Value != nil {
		return out, rpc.Errorf(rpc.InvalidParams, "projectId: there are no projects")
	}
	var git event.ThreadDescribed
	if p.GitInfo != nil {
		git = event.ThreadDescribed{SHA: cleared(p.GitInfo.SHA), Branch: cleared(p.GitInfo.Branch), Origin: cleared(p.GitInfo.OriginURL)}
	}
	switch {
	case git != (event.ThreadDescribed{}):
		if err := s.cfg.Hub.Describe(ctx, id, git); err != nil {
			return out, err
		}
	case !p.ProjectID.Set:
		return out, rpc.Errorf(rpc.InvalidRequest, "thread metadata update must include at least one field")
	}
	read, err := s.threadRead(ctx, c, protocol.ThreadReadParams{ThreadID: p.ThreadID})
	out.Thread = read.Thread
	return out, err
}

// cleared returns nil for a field that is absent, and "" for null.
func cleared(n protocol.Nullable[string]) *string {
	if !n.Set || n.Value != nil {
		return n.Value
	}
	return new("")
}

func (s threads) threadRevert(ctx context.Context, c *call, p protocol.ThreadRevertParams) (out protocol.ThreadRevertResponse, err error) {
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	c.afterwards(c.hold(id)) // the caller learns of it after the response, subscribed or not
	c.afterwards(c.holdBroadcasts(id))
	if _, err := s.cfg.Hub.Revert(ctx, id, p.BeforeTurnID); err != nil {
		return out, err
	}
	info, err := s.cfg.Hub.Info(ctx, string(id))
	if err != nil {
		return out, err
	}
	out.Thread = s.describe(ctx, info)
	past, err := s.pastOf(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	out.TurnsBackwardsCursor, out.ItemsBackwardsCursor, err = past.ends(ctx)
	return out, err
}

func (s threads) threadCompact(ctx context.Context, c *call, p protocol.ThreadCompactStartParams) (out protocol.ThreadCompactStartResponse, err error) {
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	release := c.hold(t.ID())
	c.afterwards(release)
	_, err = t.Compact(ctx)
	return out, err
}

func (s threads) threadShellCommand(ctx context.Context, c *call, p protocol.ThreadShellCommandParams) (out protocol.ThreadShellCommandResponse, err error) {
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	release := c.hold(t.ID())
	c.afterwards(release)
	var timeout time.Duration
	if p.TimeoutMs != nil {
		if *p.TimeoutMs < 0 || *p.TimeoutMs > int64(time.Duration(1<<63-1)/time.Millisecond) {
			return out, rpc.Errorf(rpc.InvalidParams, "timeoutMs: %d is out of range", *p.TimeoutMs)
		}
		timeout = time.Duration(*p.TimeoutMs) * time.Millisecond
	}
	_, err = t.Shell(ctx, p.Command, timeout)
	return out, err
}
