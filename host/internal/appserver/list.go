package appserver

import (
	"context"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/transcript"
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
		return c, false, pageError(&transcript.CursorError{Cursor: *p.Cursor})
	}
	return c, inclusive, nil
}

// listing is a page of threads that is being listed.
type listing struct {
	filter hub.Filter
	limit  int
}

// listingOf begins a page. One thread more than the page has is read.
func listingOf(p protocol.Page, by protocol.ThreadSortKey, order *protocol.SortDirection) (l listing, err error) {
	l.limit = limitOf(p)
	l.filter = hub.Filter{Sort: hub.ByCreated, Ascending: deref(order) == protocol.Ascending, Limit: l.limit + 1}
	if by != "" && by != protocol.SortByCreatedAt {
		l.filter.Sort = hub.ByUpdated
	}
	l.filter.Before, l.filter.Inclusive, err = cursorOf(p)
	return l, err
}

// page returns how many of the threads that were found belong to the page, and its cursors. thread returns the thread at an index.
func (l listing) page(found int, thread func(int) hub.Info) (n int, next, back *string) {
	n = min(found, l.limit)
	if n == 0 {
		return 0, nil, nil
	}
	if found > n {
		next = orNull(thread(n - 1).CursorBy(l.filter.Sort).String())
	}
	return n, next, orNull(backwards + thread(0).CursorBy(l.filter.Sort).String())
}

func (s threads) threadList(ctx context.Context, c *call, p protocol.ThreadListParams) (out protocol.ThreadListResponse, err error) {
	switch {
	case p.ParentThreadID != nil && p.AncestorThreadID != nil:
		return out, rpc.Errorf(rpc.InvalidParams, "`parentThreadId` and `ancestorThreadId` exclude each other")
	case p.SectionID != nil || p.ProjectID != nil || p.AttachedToThreadID != nil:
		return protocol.ThreadListResponse{Data: []protocol.Thread{}}, nil // threads have no sections, projects or attachments
	}
	l, err := listingOf(p.Page, protocol.ThreadSortKey(deref(p.SortKey)), p.SortDirection)
	if err != nil {
		return out, err
	}
	f := &l.filter
	f.Archived, f.Name, f.Providers, f.HasTurns = deref(p.Archived), deref(p.SearchTerm), p.ModelProviders, true
	f.Parent, f.Ancestor = event.ThreadID(deref(p.ParentThreadID)), event.ThreadID(deref(p.AncestorThreadID))
	if children := f.Parent != "" || f.Ancestor != ""; children && len(p.SourceKinds) == 0 {
		f.IncludeWorkers = true // they are of no interactive kind
	} else {
		from(p.SourceKinds, f)
	}
	if len(p.Originators) > 0 {
		f.Sources = both(f.Sources, p.Originators)
	}
	if p.Cwd != nil {
		f.Cwds = *p.Cwd
	}
	for _, id := range p.ExcludedThreadIDs {
		f.Without = append(f.Without, event.ThreadID(id))
	}
	f.ReadStates = !c.stable() // other clients don't get them
	infos, err := s.cfg.Hub.List(ctx, *f)
	if err != nil {
		return out, err
	}
	n, next, back := l.page(len(infos), func(i int) hub.Info { return infos[i] })
	out.Data, out.NextCursor, out.BackwardsCursor = make([]protocol.Thread, n), next, back
	for i := range out.Data {
		out.Data[i] = s.describe(ctx, infos[i])
		if f.ReadStates {
			if out.ReadStates == nil {
				out.ReadStates = map[string]protocol.ThreadReadState{}
			}
			out.ReadStates[out.Data[i].ID] = readState(infos[i].Read)
		}
	}
	return out, nil
}

// kindOf returns the kind of a front end. Clients of a server choose their names; codex lists them as an editor.
func kindOf(source string) protocol.ThreadSourceKind {
	switch source {
	case "exec":
		return protocol.SourceKindExec
	case "cli", "tui":
		return protocol.SourceKindCLI
	case event.SourceReviewer:
		return protocol.SourceKindSubAgentReview
	case event.SourceAgent:
		return protocol.SourceKindSubAgentThreadSpawn
	case "":
		return protocol.SourceKindUnknown
	}
	return protocol.SourceKindVSCode
}

// isWorker reports whether threads of a source work for other threads.
func isWorker(source string) bool {
	return source == event.SourceReviewer || source == event.SourceAgent
}

// from restricts a filter to front ends of some kinds; none: interactive ones, as in codex.
func from(kinds []protocol.ThreadSourceKind, f *hub.Filter) {
	if len(kinds) == 0 {
		kinds = []protocol.ThreadSourceKind{protocol.SourceKindCLI, protocol.SourceKindVSCode}
	}
	wanted := func(source string) bool {
		kind := kindOf(source)
		return slices.Contains(kinds, kind) || isWorker(source) && slices.Contains(kinds, protocol.SourceKindSubAgent) ||
			kind == protocol.SourceKindVSCode && slices.Contains(kinds, protocol.SourceKindAppServer)
	}
	all := wanted("any client")
	for _, source := range []string{"exec", "cli", "tui", event.SourceReviewer, event.SourceAgent, ""} {
		switch w := wanted(source); {
		case w && !all:
			f.Sources = append(f.Sources, source)
		case !w && all:
			f.NoSources = append(f.NoSources, source)
		}
	}
	f.IncludeWorkers = wanted(event.SourceReviewer) || wanted(event.SourceAgent)
	f.NoParents = !slices.ContainsFunc(kinds, func(k protocol.ThreadSourceKind) bool { return strings.HasPrefix(string(k), "subAgent") })
	if !all && len(f.Sources) == 0 {
		f.Sources = []string{noSource} // none of our threads is of these kinds
	}
}

// noSource is a front end that no thread has: names of clients are legal in an HTTP header.
const noSource = "\n"

// both returns what two lists have in common; an empty first list is that of all.
func both(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	out := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
	if len(out) == 0 {
		return []string{noSource}
	}
	return out
}

func (s threads) threadSearch(ctx context.Context, _ *call, p protocol.ThreadSearchParams) (out protocol.ThreadSearchResponse, err error) {
	if strings.TrimSpace(p.SearchTerm) == "" {
		return out, rpc.Errorf(rpc.InvalidRequest, "searchTerm must not be empty")
	}
	l, err := listingOf(p.Page, protocol.ThreadSortKey(deref(p.SortKey)), p.SortDirection)
	if err != nil {
		return out, err
	}
	l.filter.Archived = deref(p.Archived)
	from(p.SourceKinds, &l.filter)
	hits, err := s.cfg.Hub.Search(ctx, p.SearchTerm, l.filter)
	if err != nil {
		return out, invalid(err)
	}
	n, next, back := l.page(len(hits), func(i int) hub.Info { return hits[i].Thread })
	out.Data, out.NextCursor, out.BackwardsCursor = make([]protocol.ThreadSearchResult, n), next, back
	for i, h := range hits[:n] {
		out.Data[i] = protocol.ThreadSearchResult{Thread: s.describe(ctx, h.Thread), Snippet: h.Thread.Name}
		if len(h.Passages) > 0 {
			out.Data[i].Snippet = h.Passages[0].Snippet
		}
	}
	return out, nil
}
