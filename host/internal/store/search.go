package store

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"gorm.io/gorm"
)

// Passage is a place in a thread where something was said.
type Passage struct {
	Turn    event.TurnID
	Seq     uint64 // number of its event
	Role    string // [RoleUser] or [RoleAgent]
	Snippet string // the text around what was found, in one line
}

// Hit is a thread in which something was found: in its name, or in the passages.
type Hit struct {
	Thread   ThreadInfo
	Passages []Passage // the first ones
	More     int       // further ones
}

const (
	// shownPassages is how many of a thread's passages a search gives.
	shownPassages = 3
	// maxWords bounds a search: nobody looks for more at once.
	maxWords = 16
	// indexedRunes is what a word needs to be found by the index, which knows groups of three.
	indexedRunes = 3
)

// Search finds threads in whose name or in one of whose messages each word of the query stands, as a part of a word and in any
// case. Messages are those of users and agents, of turns that count; of a long one the beginning is searched. The threads that
// were updated last come first. f.Before is not looked at.
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
	said, named := matchingPassages(g, words), g
	for _, w := range words {
		named = named.Where(`LOWER(threads.name) LIKE ? ESCAPE '\'`, containsPattern(w))
	}
	q := f.where(g.Model(&threadRow{})).Where(g.Where("threads.id IN (?)", said.Session(&gorm.Session{}).Select("passages.thread_id")).Or(named)).
		Order("updated_at DESC, id DESC")
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

// passagesOf finds what was said in threads. Texts are read of what is shown alone.
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

// matchingPassages selects the passages of turns that count in which all words stand.
func matchingPassages(g *gorm.DB, words []string) *gorm.DB {
	q := g.Model(&passageRow{}).Where(revertOfPassage + " = 0")
	var indexed []string
	for _, w := range words {
		if g.Name() == "sqlite" && utf8.RuneCountInString(w) >= indexedRunes {
			indexed = append(indexed, `"`+strings.ReplaceAll(w, `"`, `""`)+`"`)
			continue
		}
		q = q.Where(`LOWER(passages.text) LIKE ? ESCAPE '\'`, containsPattern(w))
	}
	if len(indexed) > 0 {
		q = q.Where("passages.id IN (SELECT rowid FROM passages_index WHERE passages_index MATCH ?)", strings.Join(indexed, " AND "))
	}
	return q
}

// containsPattern is the pattern of texts in lower case that contain a text.
func containsPattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(text)) + "%"
}

// snippetRunes is how much is shown on each side of what was found.
const snippetRunes = 60

// snippet is the text around the first of the words that stands in it.
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
