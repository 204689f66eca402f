package store

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// Passage is a message that matches a search.
type Passage struct {
	Turn    event.TurnID
	Seq     uint64 // number of its event
	Role    string // [RoleUser] or [RoleAgent]
	Snippet string // the text around the match, in one line
}

// Hit is a thread whose name or messages match a search.
type Hit struct {
	Thread   ThreadInfo
	Passages []Passage // the first ones
	More     int       // number of further ones
}

const (
	// shownPassages is the maximum number of passages per thread in the result of a search.
	shownPassages = 3
	// maxWords limits the words of a query.
	maxWords = 16
	// indexedRunes is the minimum length of a word that the index can find: it is an index of trigrams.
	indexedRunes = 3
)

// Search finds threads whose name, or one of whose messages, contains all words of the query, ignoring case; a word may be part of
// a longer word. It searches the beginning of the messages of users and agents in turns that were not reverted. The order and
// the position are those of [Store.Threads].
func (s *Store) Search(ctx context.Context, query string, f Filter) ([]Hit, error) {
	words := strings.Fields(query)
	switch {
	case len(words) == 0:
		return nil, fmt.Errorf("search: the query is empty")
	case len(words) > maxWords:
		return nil, hint.With(fmt.Errorf("search: the query has %d words, the maximum is %d", len(words), maxWords), "use fewer words")
	}
	g, err := s.db.Read(ctx)
	if err != nil {
		return nil, err
	}
	m, err := newMatch(g, words)
	if err != nil {
		return nil, fmt.Errorf("search: %w", s.db.Explain(err))
	}
	said, named := m.passages(g), g
	for _, w := range words {
		named = named.Where(`LOWER(threads.name) LIKE ? ESCAPE '\'`, containsPattern(w))
	}
	q := f.where(g.Model(&threadRow{})).Where(m.threads(g, said).Or(named)).
		Order(f.order())
	if f.Before != (Cursor{}) {
		q = q.Where(f.after(), database.Nanos(f.Before.Updated), string(f.Before.ID))
	}
	if f.Limit > 0 {
		q = q.Limit(f.Limit)
	}
	infos, err := threadInfos(q, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("search: %w", s.db.Explain(err))
	}
	hits, err := passagesOf(g, infos, said, words)
	if err != nil {
		return nil, fmt.Errorf("search: %w", s.db.Explain(err))
	}
	return hits, nil
}

// passagesOf finds the matching passages of threads. It reads the texts only of those that are shown.
func passagesOf(g *gorm.DB, infos []ThreadInfo, said *gorm.DB, words []string) ([]Hit, error) {
	hits, places, ids := make([]Hit, len(infos)), map[string]*Hit{}, make([]string, len(infos))
	for i, t := range infos {
		hits[i].Thread = t
		places[string(t.ID)], ids[i] = &hits[i], string(t.ID)
	}
	var found []passageRow
	err := said.Session(&gorm.Session{}).Select("passages.id", "passages.thread_id").Where("passages.thread_id IN ?", ids).Order("passages.seq").
		Find(&found).Error
	if err != nil {
		return nil, err
	}
	shown := map[string]int{}
	var show []int64
	for _, p := range found {
		if shown[p.ThreadID]++; shown[p.ThreadID] > shownPassages {
			places[p.ThreadID].More++
			continue
		}
		show = append(show, p.ID)
	}
	found = nil
	if err := g.Where("id IN ?", show).Order("seq").Find(&found).Error; err != nil {
		return nil, err
	}
	for _, p := range found {
		h := places[p.ThreadID]
		h.Passages = append(h.Passages, Passage{Turn: event.TurnID(p.TurnID), Seq: p.Seq, Role: p.Role, Snippet: snippet(p.Text, words)})
	}
	return hits, nil
}

// match is the condition that a passage contains words.
type match struct {
	indexed string   // the query for the index; empty: the index can't help
	others  []string // words that the index can't find
	common  bool     // the index finds so many passages that looking at each costs more than going through the threads in order
}

// commonMatches is the number of passages from which a match is common.
const commonMatches = 500

func newMatch(g *gorm.DB, words []string) (match, error) {
	var m match
	var indexed []string
	for _, w := range words {
		if g.Name() == "sqlite" && utf8.RuneCountInString(w) >= indexedRunes {
			indexed = append(indexed, `"`+strings.ReplaceAll(w, `"`, `""`)+`"`)
			continue
		}
		m.others = append(m.others, w)
	}
	if len(indexed) == 0 {
		return m, nil
	}
	m.indexed = strings.Join(indexed, " AND ")
	var n int
	err := g.Raw("SELECT count(*) FROM (SELECT rowid FROM passages_index WHERE passages_index MATCH ? LIMIT ?)", m.indexed, commonMatches).Scan(&n).Error
	m.common = n == commonMatches
	return m, err
}

// passages selects the passages of turns that were not reverted that contain all words.
func (m match) passages(g *gorm.DB) *gorm.DB {
	q := g.Model(&passageRow{}).Where(revertOfPassage + " = 0")
	for _, w := range m.others {
		q = q.Where(`LOWER(passages.text) LIKE ? ESCAPE '\'`, containsPattern(w))
	}
	switch {
	case m.common: // the sign keeps SQLite from starting with the matches
		q = q.Where("+passages.id IN (SELECT rowid FROM passages_index WHERE passages_index MATCH ?)", m.indexed)
	case m.indexed != "":
		q = q.Where("passages.id IN (SELECT rowid FROM passages_index WHERE passages_index MATCH ?)", m.indexed)
	}
	return q
}

// threads selects the threads of passages.
func (m match) threads(g, passages *gorm.DB) *gorm.DB {
	if m.common {
		return g.Where("EXISTS (?)", passages.Session(&gorm.Session{}).Select("1").Where("passages.thread_id = threads.id"))
	}
	return g.Where("threads.id IN (?)", passages.Session(&gorm.Session{}).Select("passages.thread_id"))
}

// containsPattern is the pattern of texts in lower case that contain a text.
func containsPattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(text)) + "%"
}

// snippetRunes is the length of the text shown before a match; after its beginning, twice as much is shown.
const snippetRunes = 60

// snippet returns the text around the first match of any of the words.
func snippet(text string, words []string) string {
	runes := []rune(text)
	lower := make([]rune, len(runes))
	for i, r := range runes {
		lower[i] = unicode.ToLower(r)
	}
	at := len(runes)
	for _, w := range words {
		if i := strings.Index(string(lower), strings.ToLower(w)); i >= 0 {
			at = min(at, utf8.RuneCountInString(string(lower)[:i]))
		}
	}
	if at == len(runes) {
		at = 0
	}
	from, to := max(at-snippetRunes, 0), min(at+2*snippetRunes, len(runes))
	out := preview(string(runes[from:to]))
	if from > 0 {
		out = "…" + out
	}
	if to < len(runes) && !strings.HasSuffix(out, "…") {
		out += "…"
	}
	return out
}
