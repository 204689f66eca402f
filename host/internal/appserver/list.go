package appserver

import (
	"context"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Limits of pages; those of codex.
const (
	defaultPage = 25
	maxPage     = 100
)

// limitOf returns the number of entries of a page.
func limitOf(p protocol.Page) int {
	if p.Limit == nil {
		return defaultPage
	}
	return int(max(1, min(*p.Limit, maxPage)))
}

// backwards marks cursors with which a client reads from the first entry of a page in the other direction, which includes the entry.
const backwards = "b"

// cursorOf parses the cursor of a listing of threads.
func cursorOf(p protocol.Page) (c hub.Cursor, inclusive bool, err error) {
	if p.Cursor == nil {
		return c, false, nil
	}
	text, inclusive := strings.CutPrefix(*p.Cursor, backwards)
	c, err = hub.ParseCursor(text)
	if err != nil || text == "" {
		return c, false, rpc.Errorf(rpc.InvalidRequest, "invalid cursor: %s", *p.Cursor)
	}
	return c, inclusive, nil
}

func (s threads) threadList(ctx context.Context, _ *call, p protocol.ThreadListParams) (out protocol.ThreadListResponse, err error) {
	switch {
	case p.ParentThreadID != nil || p.AncestorThreadID != nil:
		return out, rpc.Errorf(rpc.InvalidParams, "parentThreadId and ancestorThreadId are not supported: list all threads, and read their parentThreadId")
	case p.SectionID != nil || p.ProjectID != nil || p.AttachedToThreadID != nil:
		return out, nil // threads have no sections, projects or attachments
	}
	f := hub.Filter{
		Archived: deref(p.Archived), Name: deref(p.SearchTerm), Limit: limitOf(p.Page) + 1, Sort: hub.ByCreated, Providers: p.ModelProviders,
		Sources: sourcesOf(p.SourceKinds), HasTurns: true, Ascending: p.SortDirection != nil && *p.SortDirection == protocol.Ascending,
	}
	if p.SortKey != nil && *p.SortKey != protocol.SortByCreatedAt {
		f.Sort = hub.ByUpdated
	}
	if p.Cwd != nil {
		f.Cwds = *p.Cwd
	}
	for _, id := range p.ExcludedThreadIDs {
		f.Without = append(f.Without, event.ThreadID(id))
	}
	if f.Before, f.Inclusive, err = cursorOf(p.Page); err != nil {
		return out, err
	}
	infos, err := s.cfg.Hub.List(ctx, f)
	if err != nil {
		return out, err
	}
	if len(infos) == f.Limit {
		infos = infos[:f.Limit-1]
		out.NextCursor = orNull(infos[len(infos)-1].CursorBy(f.Sort).String())
	}
	for _, info := range infos {
		out.Data = append(out.Data, s.describe(ctx, info))
	}
	if len(infos) > 0 {
		out.BackwardsCursor = orNull(backwards + infos[0].CursorBy(f.Sort).String())
	}
	return out, nil
}

// sourcesOf returns the front ends of the kinds of sources; nil: all. Kinds that gantry's threads do not have match nothing.
func sourcesOf(kinds []protocol.ThreadSourceKind) []string {
	var out []string
	for _, k := range kinds {
		switch k {
		case protocol.SourceKindExec:
			out = append(out, "exec")
		case protocol.SourceKindCLI:
			out = append(out, "cli", "tui")
		case protocol.SourceKindVSCode, protocol.SourceKindAppServer:
			return nil // the names of clients are theirs to choose
		case protocol.SourceKindSubAgent, protocol.SourceKindSubAgentReview:
			out = append(out, event.SourceReviewer)
		default:
			out = append(out, string(k))
		}
	}
	return out
}

func (s threads) threadSearch(ctx context.Context, _ *call, p protocol.ThreadSearchParams) (out protocol.ThreadSearchResponse, err error) {
	if strings.TrimSpace(p.SearchTerm) == "" {
		return out, rpc.Errorf(rpc.InvalidRequest, "searchTerm must not be empty")
	}
	if p.Cursor != nil {
		return out, rpc.Errorf(rpc.InvalidRequest, "invalid cursor: %s", *p.Cursor) // no page has one
	}
	hits, err := s.cfg.Hub.Search(ctx, p.SearchTerm, hub.Filter{Archived: deref(p.Archived), Limit: limitOf(p.Page), Sources: sourcesOf(p.SourceKinds)})
	if err != nil {
		return out, err
	}
	for _, h := range hits {
		r := protocol.ThreadSearchResult{Thread: s.describe(ctx, h.Thread), Snippet: h.Thread.Name}
		if len(h.Passages) > 0 {
			r.Snippet = h.Passages[0].Snippet
		}
		out.Data = append(out.Data, r)
	}
	return out, nil
}
