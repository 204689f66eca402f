package workbench

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/junegunn/fzf/src/algo"
	"github.com/junegunn/fzf/src/util"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Limits of searches.
const (
	maxSearches = 16   // of a connection, sessions and running searches together; beyond it they fail
	maxMatches  = 50   // Compatible with codex.
	maxQuery    = 1000 // bytes; a longer query matches no path
	maxRoots    = 64
)

var (
	// errReplaced is the cause of a search that ends because of a new one.
	errReplaced = errors.New("a new search has the same cancellation token")
	// errStopped is the cause of a session that ends.
	errStopped = errors.New("the client stopped the session")
)

// preferPaths has matches after a slash score higher. It sets variables of the library, always to the same values.
var preferPaths = sync.OnceFunc(func() { algo.Init("path") })

// searches are the searches of a connection.
type searches struct {
	bench    *Bench
	mu       sync.Mutex
	running  int
	index    int // bytes that sessions keep
	byToken  map[string]*search
	sessions map[string]*session
}

// search is a running search that can be replaced.
type search struct{ cancel context.CancelCauseFunc }

// FuzzyFileSearch implements fuzzyFileSearch: the best 50 files and folders whose paths contain the characters of the query in their
// order. Words of the query are looked for one by one; capital letters are distinguished if the query has any. It covers at most a million
// files. A search that is replaced returns nothing.
func (b *searches) FuzzyFileSearch(ctx context.Context, q protocol.FuzzyFileSearchParams) (protocol.FuzzyFileSearchResponse, error) {
	none := protocol.FuzzyFileSearchResponse{Files: []protocol.FuzzyFileSearchResult{}}
	w, err := b.searchWalk(q.Roots)
	if err != nil {
		return protocol.FuzzyFileSearchResponse{}, err
	}
	if err := b.enter(); err != nil {
		return protocol.FuzzyFileSearchResponse{}, err
	}
	defer b.leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.bench.life, func() { cancel(errClosed) })()
	if q.CancellationToken != nil {
		defer b.replace(*q.CancellationToken, &search{cancel})()
	}
	p, ok := newPattern(q.Query)
	if !ok {
		return none, nil
	}
	var tops []*top
	w.run(ctx, func(n int) {
		for range n {
			tops = append(tops, newTop(p))
		}
	}, func(i int, list []found) {
		for _, f := range list {
			tops[i].add(f)
		}
	})
	if ctx.Err() != nil {
		return none, nil
	}
	return protocol.FuzzyFileSearchResponse{Files: merge(tops, q.Roots)}, nil
}

func (b *searches) searchWalk(roots []string) (*walk, error) {
	if len(roots) > maxRoots {
		return nil, rpc.Errorf(rpc.InvalidRequest, "roots has %d folders, the limit is %d", len(roots), maxRoots)
	}
	w, err := asCommand(b.bench, func() (*walk, error) { return b.newWalk(roots) })
	if err == nil {
		w.confined = b.bench.confined()
	}
	return w, err
}

func (s *searches) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running >= maxSearches {
		return hint.With(rpc.Errorf(rpc.InvalidRequest, "%d searches of this connection are running, which is the limit", maxSearches),
			"end sessions with fuzzyFileSearch/sessionStop, or use a cancellationToken")
	}
	s.running++
	return nil
}

func (s *searches) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// replace cancels the search with a token. The returned function frees the token.
func (s *searches) replace(token string, by *search) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byToken[token]; old != nil {
		old.cancel(errReplaced)
	}
	if s.byToken == nil {
		s.byToken = map[string]*search{}
	}
	s.byToken[token] = by
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byToken[token] == by {
			delete(s.byToken, token)
		}
	}
}

// pattern is a query.
type pattern struct {
	words     [][]rune
	sensitive bool
}

// newPattern reads a query. ok is false if it matches nothing.
func newPattern(query string) (p pattern, ok bool) {
	if len(query) > maxQuery {
		return p, false
	}
	p.sensitive = strings.ContainsFunc(query, unicode.IsUpper)
	for _, word := range strings.Fields(query) {
		if !p.sensitive {
			word = strings.ToLower(word)
		}
		p.words = append(p.words, algo.NormalizeRunes([]rune(word)))
	}
	return p, len(p.words) > 0
}

// match is a path that matches.
type match struct {
	found
	score int
}

func (m match) compare(o match) int {
	return cmp.Or(cmp.Compare(o.score, m.score), cmp.Compare(len(m.path), len(o.path)), strings.Compare(m.path, o.path), cmp.Compare(m.root, o.root))
}

// top are the best matches of one goroutine.
type top struct {
	pattern
	slab *util.Slab
	best []match // sorted
}

// slab16 and slab32 are the sizes of the memory for one comparison that the library uses itself. For longer paths it uses a simpler
// algorithm.
const slab16, slab32 = 100 << 10, 2 << 10

func newTop(p pattern) *top {
	preferPaths()
	return &top{pattern: p, slab: util.MakeSlab(slab16, slab32)}
}

func (t *top) add(f found) {
	score, _, ok := t.score(f.path, false)
	if !ok {
		return
	}
	m := match{f, score}
	if len(t.best) == maxMatches && m.compare(t.best[maxMatches-1]) >= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(t.best, m, match.compare)
	t.best = slices.Insert(t.best, i, m)
	t.best = t.best[:min(len(t.best), maxMatches)]
}

// score returns how well a path matches, and, if asked, the indices of the characters that do.
func (t *top) score(path string, asked bool) (total int, indices []uint32, ok bool) {
	chars := util.ToChars([]byte(path))
	for _, word := range t.words {
		r, at := algo.FuzzyMatchV2(t.sensitive, true, true, &chars, word, asked, t.slab)
		if r.Start < 0 {
			return 0, nil, false
		}
		total += r.Score
		if at != nil {
			for _, i := range *at {
				indices = append(indices, uint32(i))
			}
		}
	}
	slices.Sort(indices)
	return total, slices.Compact(indices), true
}

// merge returns the best of all matches as results. roots are those of the request.
func merge(tops []*top, roots []string) []protocol.FuzzyFileSearchResult {
	out := []protocol.FuzzyFileSearchResult{}
	var all []match
	for _, t := range tops {
		all = append(all, t.best...)
	}
	slices.SortFunc(all, match.compare)
	for _, m := range all[:min(len(all), maxMatches)] {
		_, indices, _ := tops[0].score(m.path, true)
		kind := protocol.FuzzyFile
		if m.folder {
			kind = protocol.FuzzyDirectory
		}
		out = append(out, protocol.FuzzyFileSearchResult{
			Root: roots[m.root], Path: m.path, MatchType: kind, FileName: path.Base(m.path), Score: uint32(max(m.score, 0)), Indices: indices,
		})
	}
	return out
}
