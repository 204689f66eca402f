package appserver

import (
	"context"
	"errors"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/transcript"
)

// history has the methods that read parts of a thread's history, and undo what a turn did to files.
type history struct{ *Server }

// past is the history of a thread.
type past struct {
	hub.History
	id     event.ThreadID
	loaded bool                  // the thread runs, here or in another process
	open   []protocol.ThreadItem // with their text so far, as far as it is known
}

// pastOf returns the history of a thread. It loads nothing.
func (s *Server) pastOf(ctx context.Context, raw string) (p past, err error) {
	if p.id, err = threadID(raw); err != nil {
		return p, err
	}
	t, loaded := s.cfg.Hub.Find(ctx, p.id)
	p.loaded = loaded
	info, err := s.cfg.Hub.Info(ctx, string(p.id))
	switch {
	case err == nil && info.ID == p.id:
	case err != nil && hub.ErrorOf(err).Code != hub.NotFound:
		return p, err
	case loaded && t.Remote():
		e := rpc.Errorf(rpc.InvalidRequest, "thread %s is not stored: only the process that runs it has its history", p.id)
		e.Data = protocol.ErrorData{Kind: "not_stored", Next: orNull("resume it with thread/resume: the response has its turns")}
		return p, e
	default:
		e := rpc.Errorf(rpc.InvalidRequest, "thread not found: %s", p.id)
		e.Data = protocol.ErrorData{Kind: string(hub.NotFound), Next: orNull("thread/list lists the stored threads")}
		return p, e
	}
	if loaded {
		s.mu.Lock()
		f := s.mu.feeds[p.id]
		s.mu.Unlock()
		if f != nil {
			f.mu.Lock()
			p.open = f.fold.Open()
			f.mu.Unlock()
		}
	}
	p.History, err = s.cfg.Hub.History(ctx, p.id)
	return p, err
}

// turns returns a page of the turns.
func (p past) turns(ctx context.Context, req transcript.Request, view *protocol.TurnItemsView) (protocol.TurnsPage, error) {
	page, err := transcript.TurnsPage(ctx, p, p.id, req, deref(view))
	if err != nil {
		return page, pageError(err)
	}
	if p.loaded {
		transcript.WithOpen(page.Data, p.open)
	} else {
		transcript.Stopped(page.Data)
	}
	return page, nil
}

// ends returns the cursors with which a client reads the turns and the items backwards from the last ones, which are included; nil: there
// are none.
func (p past) ends(ctx context.Context) (turns, items *string, err error) {
	last := transcript.Request{Limit: new(uint32(1)), Order: protocol.Descending}
	t, err := transcript.TurnsPage(ctx, p, p.id, last, protocol.ItemsNotLoaded)
	if err != nil {
		return nil, nil, err
	}
	i, err := transcript.ItemsPage(ctx, p, p.id, transcript.ItemsRequest{Request: last})
	return t.BackwardsCursor, i.BackwardsCursor, err
}

// pageError converts an error of a page: a wrong cursor or position is the client's.
func pageError(err error) error {
	if bad, ok := errors.AsType[*transcript.CursorError](err); ok {
		e := rpc.Errorf(rpc.InvalidRequest, "%s", bad.Error())
		e.Data = dataOf("invalid_cursor", bad)
		return e
	}
	return err
}

// requestOf converts the common parameters of pages.
func requestOf(p protocol.Page, order *protocol.SortDirection) transcript.Request {
	return transcript.Request{Cursor: deref(p.Cursor), Limit: p.Limit, Order: deref(order)}
}

func (s history) turnsList(ctx context.Context, _ *call, p protocol.ThreadTurnsListParams) (out protocol.ThreadTurnsListResponse, err error) {
	h, err := s.pastOf(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	page, err := h.turns(ctx, requestOf(p.Page, p.SortDirection), p.ItemsView)
	return protocol.ThreadTurnsListResponse(page), err
}

func (s history) itemsList(ctx context.Context, _ *call, p protocol.ThreadItemsListParams) (out protocol.ThreadItemsListResponse, err error) {
	h, err := s.pastOf(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	req := transcript.ItemsRequest{Turn: event.TurnID(deref(p.TurnID)), Defer: deref(p.DeferOutput)}
	req.Limit, req.Order = p.Limit, deref(p.SortDirection)
	if p.Cursor != nil {
		req.Cursor = p.Cursor.Cursor
		if p.Cursor.Anchor != nil {
			if a, ok := p.Cursor.Anchor.Body.(protocol.ItemAnchor); ok {
				req.Item = a.ItemID
			}
		}
	}
	out, err = transcript.ItemsPage(ctx, h, h.id, req)
	if err != nil {
		return out, pageError(err)
	}
	out.Data = h.ended(out.Data)
	return out, nil
}

func (s history) itemsRead(ctx context.Context, _ *call, p protocol.ThreadItemsReadParams) (out protocol.ThreadItemsReadResponse, err error) {
	h, err := s.pastOf(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	if len(p.ItemIDs) > maxPage {
		return out, rpc.Errorf(rpc.InvalidParams, "itemIds: %d items, the maximum is %d", len(p.ItemIDs), maxPage)
	}
	out.Data, err = transcript.ItemsByID(ctx, h, event.TurnID(p.TurnID), p.ItemIDs)
	if err != nil {
		return out, err
	}
	out.Data = h.ended(out.Data)
	return out, nil
}

// ended returns items with the texts of those that are open, or, if the thread is not loaded, without open ones.
func (p past) ended(entries []protocol.ThreadItemEntry) []protocol.ThreadItemEntry {
	if p.loaded {
		transcript.WithOpenItems(entries, p.open)
		return entries
	}
	return transcript.StoppedItems(entries)
}

func (s history) searchOccurrences(ctx context.Context, _ *call, p protocol.ThreadSearchOccurrencesParams) (out protocol.ThreadSearchOccurrencesResponse, err error) {
	if strings.TrimSpace(p.SearchTerm) == "" {
		return out, rpc.Errorf(rpc.InvalidRequest, "searchTerm must not be empty")
	}
	h, err := s.pastOf(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	out, err = transcript.Occurrences(ctx, h, h.id, p.SearchTerm, requestOf(p.Page, nil))
	return out, pageError(err)
}

// readStateUpdate marks a thread as read or unread. Subscribers learn of it after the response.
func (s history) readStateUpdate(ctx context.Context, c *call, p protocol.ThreadReadStateUpdateParams) (out protocol.ThreadReadStateUpdateResponse, err error) {
	h, err := s.pastOf(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	_, unread := p.Operation.Body.(protocol.MarkUnread)
	state, err := h.Mark(ctx, unread, p.ExpectedRevision)
	if err != nil {
		return out, invalid(err)
	}
	out.ReadState = readState(state)
	c.afterwards(func() {
		s.marked(h.id, state)
	})
	return out, nil
}

// readState converts the read state of a thread.
func readState(r hub.ReadState) protocol.ThreadReadState {
	out := protocol.ThreadReadState{Revision: r.Revision}
	switch {
	case r.First != "":
		out.FirstUnread = &protocol.ThreadUnreadPosition{Body: protocol.UnreadTurn{TurnID: string(r.First)}}
	case r.Unread:
		out.FirstUnread = &protocol.ThreadUnreadPosition{Body: protocol.UnreadThreadStart{}}
	}
	return out
}

// marked tells the subscribers of a thread its read state.
func (s *Server) marked(id event.ThreadID, state hub.ReadState) {
	s.mu.Lock()
	f := s.mu.feeds[id]
	s.mu.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, sub := range f.subs {
		sub.push(f.readState(state))
	}
}

func (s history) events(ctx context.Context, _ *call, p protocol.GantryThreadEventsParams) (out protocol.GantryThreadEventsResponse, err error) {
	h, err := s.pastOf(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	out, err = transcript.EventsPage(ctx, h, h.id, transcript.EventsRequest{Request: requestOf(p.Page, p.SortDirection), After: p.AfterSeq, Before: p.BeforeSeq})
	return out, invalid(pageError(err))
}

// undo restores the files that a turn changed. Obstacles are part of the result.
func (s history) undo(ctx context.Context, _ *call, p protocol.GantryTurnUndoParams) (out protocol.GantryTurnUndoResponse, err error) {
	if p.TurnID != nil && p.Redo {
		return out, rpc.Errorf(rpc.InvalidParams, "`turnId` and `redo` exclude each other")
	}
	id, err := threadID(p.ThreadID)
	if err != nil {
		return out, err
	}
	var u hub.UndoParams
	u.Turn, u.Redo, u.Force, u.DryRun = deref(p.TurnID), p.Redo, p.Force, p.DryRun
	r, err := s.cfg.Hub.Undo(ctx, id, u)
	if err != nil {
		return out, invalid(err)
	}
	out = protocol.GantryTurnUndoResponse{
		UndoID: orNull(string(r.Undo)), TurnIDs: []string{}, Files: []protocol.GantryUndoFile{}, Refused: r.Refused, Commands: uint32(r.Commands), Skipped: uint32(r.Skipped),
	}
	for _, id := range r.Undoes {
		out.TurnIDs = append(out.TurnIDs, string(id))
	}
	for _, f := range r.Files {
		out.Files = append(out.Files, protocol.GantryUndoFile{Path: f.Path, Action: f.Action, Obstacle: orNull(string(f.Obstacle)), Reason: orNull(f.Reason)})
	}
	return out, nil
}

// invalid converts an error that has a next step but no kind: the request can't be fulfilled as it is.
func invalid(err error) error {
	if _, ok := errors.AsType[*rpc.Error](err); ok || err == nil || hub.ErrorOf(err).Code != "" {
		return err
	}
	text, next := hint.Split(err)
	if next == "" {
		return err
	}
	e := rpc.Errorf(rpc.InvalidRequest, "%s", text)
	e.Data = dataOf("", err)
	return e
}
