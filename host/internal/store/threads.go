package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// Statuses of a thread, in addition to the [event.TurnStatus] of its last turn.
const (
	StatusNew     = "new"     // it has had no turn
	StatusRunning = "running" // its last turn has not ended; if no process has the thread locked, it never will
	StatusStopped = "stopped" // such a thread; see [Store.MarkStopped]
)

// ThreadInfo describes a thread in a listing.
type ThreadInfo struct {
	ID         event.ThreadID
	Cwd        string
	Model      string // name of the model block, of the last turn
	Provider   string // label of the provider block, of the last turn
	ModelName  string
	Source     string
	Name       string
	Preview    string // beginning of the first message of the user, in one line
	Status     string
	Created    time.Time
	Updated    time.Time // when its last turn started or ended, or when it was named
	Archived   time.Time // zero: it is not archived
	Turns      int
	Seq        uint64 // number of the last event
	Tokens     event.Tokens
	ForkedFrom event.ThreadID
	Parent     event.ThreadID // the thread that it works for; empty: for its user
	Run        string         // the host process that wrote last
	Read       ReadState      // with [Filter.ReadStates]
	Git        Git
}

// Git is what clients have said about the repository in which a thread works. Empty fields are unknown.
type Git struct {
	SHA    string // of the commit
	Branch string
	Origin string // URL
}

func (r threadRow) info() ThreadInfo {
	t := ThreadInfo{
		ID: event.ThreadID(r.ID), Cwd: r.Cwd, Model: r.Model, Provider: r.Provider, ModelName: r.ModelName, Source: r.Source,
		Name: r.Name, Preview: r.Preview, Status: r.Status, Created: database.Time(r.CreatedAt), Updated: database.Time(r.UpdatedAt),
		Archived: database.Time(r.ArchivedAt), Turns: r.Turns, Seq: r.Seq, ForkedFrom: event.ThreadID(r.ForkedFrom), Parent: event.ThreadID(r.Parent), Run: r.RunID,
		Git: Git{r.GitSHA, r.GitBranch, r.GitOrigin},
	}
	if t.Status == "" {
		t.Status = StatusNew
	}
	if r.Tokens != "" {
		// Only this package writes the column; a total that can't be decoded is shown as zero.
		_ = json.Unmarshal([]byte(r.Tokens), &t.Tokens)
	}
	return t
}

// Cursor is a position in the listing of threads. The zero Cursor is its beginning.
type Cursor struct {
	Updated time.Time // or the time of another key
	ID      event.ThreadID
}

// Cursor returns the position right after t.
func (t ThreadInfo) Cursor() Cursor { return Cursor{Updated: t.Updated, ID: t.ID} }

// String returns a text that [ParseCursor] parses.
func (c Cursor) String() string {
	if c == (Cursor{}) {
		return ""
	}
	return strconv.FormatInt(database.Nanos(c.Updated), 10) + "_" + string(c.ID)
}

// ParseCursor parses the result of [Cursor.String].
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	ns, id, ok := strings.Cut(s, "_")
	n, err := strconv.ParseInt(ns, 10, 64)
	if !ok || err != nil || id == "" {
		return Cursor{}, fmt.Errorf("cursor %q: not the cursor of a listing of threads", s)
	}
	return Cursor{Updated: database.Time(n), ID: event.ThreadID(id)}, nil
}

// Filter selects threads for a listing.
type Filter struct {
	Cwd            string // only threads whose last turn ran here; empty: all
	Archived       bool   // archived threads instead of the others
	IncludeWorkers bool   // also threads that work for other threads
	Name           string // only threads with this text in their name or, without a name, in their preview; ignores case
	Limit          int    // maximum number of threads; 0: all
	Before         Cursor // continue after this position, in the order of Sort
	Inclusive      bool   // the thread at the position Before is listed as well

	Sort      Sort
	Ascending bool // the oldest thread comes first

	Cwds      []string // as Cwd, for several folders; empty: all
	Providers []string // labels of provider blocks; empty: all
	Sources   []string // empty: all
	NoSources []string // not from these front ends
	Without   []event.ThreadID
	HasTurns  bool // only threads that have had a turn

	ReadStates bool // set the read states of the threads

	Parent    event.ThreadID // only threads that work for this one directly
	Ancestor  event.ThreadID // only threads that work for this one, or for one that does
	NoParents bool           // only threads that work for their user
}

// Threads lists threads; unless the filter has another order, those updated last come first.
func (s *Store) Threads(ctx context.Context, f Filter) ([]ThreadInfo, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	q := f.where(g.Model(&threadRow{}).Order(f.order()))
	if f.Before != (Cursor{}) {
		q = q.Where(f.after(), database.Nanos(f.Before.Updated), string(f.Before.ID))
	}
	if f.Limit > 0 {
		q = q.Limit(f.Limit)
	}
	expected := int64(f.Limit)
	if expected == 0 {
		if err := g.Model(&threadRow{}).Count(&expected).Error; err != nil {
			return nil, fmt.Errorf("list threads: %w", s.db.Explain(err))
		}
	}
	infos, err := threadInfos(q, int(expected))
	if err != nil {
		return nil, fmt.Errorf("list threads: %w", s.db.Explain(err))
	}
	if f.ReadStates {
		return infos, s.addReadStates(g, infos)
	}
	return infos, nil
}

// where adds the conditions of the filter to q, except Limit and Before.
func (f Filter) where(q *gorm.DB) *gorm.DB {
	if f.Archived {
		q = q.Where("threads.archived_at <> 0")
	} else {
		q = q.Where("threads.archived_at = 0")
	}
	if !f.IncludeWorkers {
		q = q.Where("threads.source NOT IN (?, ?)", event.SourceReviewer, event.SourceAgent)
	}
	if f.Cwd != "" {
		q = q.Where("threads.cwd = ?", f.Cwd)
	}
	if len(f.Cwds) == 1 { // an index has the order of one folder's threads
		q = q.Where("threads.cwd = ?", f.Cwds[0])
	} else if len(f.Cwds) > 1 {
		q = q.Where("threads.cwd IN ?", f.Cwds)
	}
	if len(f.Providers) > 0 {
		q = q.Where("threads.provider IN ?", f.Providers)
	}
	if len(f.Sources) > 0 {
		q = q.Where("threads.source IN ?", f.Sources)
	}
	if len(f.NoSources) > 0 {
		q = q.Where("threads.source NOT IN ?", f.NoSources)
	}
	if len(f.Without) > 0 {
		q = q.Where("threads.id NOT IN ?", f.Without)
	}
	if f.Parent != "" {
		q = q.Where("threads.parent = ?", string(f.Parent))
	}
	if f.Ancestor != "" {
		q = q.Where(`threads.id IN (WITH RECURSIVE descendants (id) AS (SELECT id FROM threads WHERE parent = ?
			UNION SELECT threads.id FROM threads JOIN descendants ON threads.parent = descendants.id AND threads.parent <> '') SELECT id FROM descendants)`,
			string(f.Ancestor))
	}
	if f.NoParents {
		q = q.Where("threads.parent = ''")
	}
	if f.HasTurns {
		q = q.Where("threads.turns > 0")
	}
	if f.Name != "" {
		q = q.Where(`LOWER(CASE WHEN threads.name <> '' THEN threads.name ELSE threads.preview END) LIKE ? ESCAPE '\'`, containsPattern(f.Name))
	}
	return q
}

// MarkStopped tells threads that run from those whose log says so because their host was killed: the lock knows better.
func (s *Store) MarkStopped(ctx context.Context, infos []ThreadInfo) {
	for i := range infos {
		if infos[i].Status != StatusRunning {
			continue
		}
		if _, held, err := s.Holder(ctx, infos[i].ID); err == nil && !held {
			infos[i].Status = StatusStopped
		}
	}
}

// maxExpected limits the memory that a listing allocates in advance.
const maxExpected = 1 << 16

// threadInfos scans the rows itself and allocates in advance: gorm's reflection and a growing slice took half the time of a long
// listing.
func threadInfos(q *gorm.DB, expected int) (infos []ThreadInfo, err error) {
	rows, err := q.Model(&threadRow{}).Select(threadInfoColumns).Rows()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	infos = make([]ThreadInfo, 0, min(expected, maxExpected))
	for rows.Next() {
		var r threadRow
		err := rows.Scan(&r.ID, &r.Seq, &r.RunID, &r.CreatedAt, &r.UpdatedAt, &r.ArchivedAt, &r.Cwd, &r.Model, &r.Provider,
			&r.ModelName, &r.Source, &r.ForkedFrom, &r.Parent, &r.Name, &r.Preview, &r.Status, &r.Turns, &r.Tokens, &r.GitSHA, &r.GitBranch, &r.GitOrigin)
		if err != nil {
			return nil, err
		}
		infos = append(infos, r.info())
	}
	return infos, rows.Err()
}

const threadInfoColumns = "id, seq, run_id, created_at, updated_at, archived_at, cwd, model, provider, model_name, source, " +
	"forked_from, parent, name, preview, status, turns, tokens, git_sha, git_branch, git_origin"

// ambiguousShown is the number of threads that an [*AmbiguousError] names.
const ambiguousShown = 5

// shortestTail is the number of characters from which the end of an ID names a thread.
const shortestTail = 4

// isTail reports whether a text can be the end of an ID: the random part of a UUID, unlike its beginning, which is its time.
func isTail(text string) bool {
	return len(text) >= shortestTail && strings.Trim(text, "0123456789abcdef-") == ""
}

// Thread finds a thread by its ID, by a unique prefix of its ID, by its name, or by the unique end of its ID. If the query matches several threads, the error is
// an [*AmbiguousError]; if it matches none, a [*NotFoundError].
func (s *Store) Thread(ctx context.Context, query string) (ThreadInfo, error) {
	g, err := s.db.Read(ctx)
	if err != nil {
		return ThreadInfo{}, err
	}
	query = strings.TrimSpace(query)
	if query == "" {
		return ThreadInfo{}, &NotFoundError{What: "thread", ID: query}
	}
	lower := strings.ToLower(query)
	found, err := threadInfos(g.Where("id IN (?, ?)", query, lower), 1)
	if err == nil && len(found) == 0 {
		// A UNION of two look-ups, because OR would scan all threads. "~" sorts after all characters of IDs.
		found, err = threadInfos(g.Where(`id IN (SELECT id FROM threads WHERE id >= ? AND id < ?
			UNION SELECT id FROM threads WHERE name <> '' AND name = ?)`, lower, lower+"~", query).
			Order("updated_at DESC, id DESC").Limit(ambiguousShown+1), 1)
	}
	if err == nil && len(found) == 0 && isTail(lower) {
		found, err = threadInfos(g.Where("id LIKE ?", "%"+lower).Order("updated_at DESC, id DESC").Limit(ambiguousShown+1), 1)
	}
	switch {
	case err != nil:
		return ThreadInfo{}, fmt.Errorf("find thread %q: %w", query, s.db.Explain(err))
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return ThreadInfo{}, &AmbiguousError{
			Query: query, Threads: found[:min(len(found), ambiguousShown)], More: len(found) > ambiguousShown,
		}
	}
	return ThreadInfo{}, &NotFoundError{What: "thread", ID: query}
}
