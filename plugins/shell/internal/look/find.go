package look

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
)

const (
	defaultDepth   = 2
	maxEntries     = 1000
	defaultMatches = 100
	maxMatches     = 1000
	// searchTime limits the duration of a search. The answer contains what was found until then.
	searchTime = 20 * time.Second
	// maxMatchBytes is the maximum length of a matching line in the answer.
	maxMatchBytes = 300
)

// List requests the contents of a folder.
type List struct {
	Path  string `json:"path"`            // absolute
	Glob  string `json:"glob,omitempty"`  // matches paths relative to Path; empty: everything
	Depth int    `json:"depth,omitempty"` // maximum depth; 0: 2, or with a Glob unlimited
}

func (l *List) answer() (string, error) {
	if err := checkDir(l.Path); err != nil {
		return "", err
	}
	if err := checkGlob(l.Glob); err != nil {
		return "", err
	}
	depth := l.Depth
	if depth <= 0 && l.Glob == "" {
		depth = defaultDepth
	}
	var out strings.Builder
	n := 0
	err := walk(l.Path, func(_, rel string, e fs.DirEntry) error {
		if matchesGlob(l.Glob, rel) {
			if n++; n > maxEntries {
				return filepath.SkipAll
			}
			out.WriteString(rel)
			if e.IsDir() {
				out.WriteByte('/')
			}
			out.WriteByte('\n')
		}
		if e.IsDir() && depth > 0 && strings.Count(rel, "/") >= depth-1 {
			return filepath.SkipDir
		}
		return nil
	})
	switch {
	case err != nil:
		return "", refuse("unable to read %s: %s", l.Path, patch.OSText(err))
	case n == 0:
		return "Nothing found.", nil
	case n > maxEntries:
		fmt.Fprintf(&out, "… and more than these %d: ask for a folder further down, or with a glob\n", maxEntries)
	}
	return out.String(), nil
}

// Search requests the lines that match a pattern.
type Search struct {
	Path    string `json:"path"`           // absolute; a file, or a folder that is searched recursively
	Pattern string `json:"pattern"`        // a regular expression in RE2 syntax
	Glob    string `json:"glob,omitempty"` // matches files by their path relative to Path; empty: all
	Limit   int    `json:"limit,omitempty"`
}

func (s *Search) answer() (string, error) {
	re, err := regexp.Compile(s.Pattern)
	if err != nil {
		return "", refuse("pattern: %v", err)
	}
	if err := checkGlob(s.Glob); err != nil {
		return "", err
	}
	found := &matches{re: re, limit: s.Limit, until: time.Now().Add(searchTime)}
	if found.limit <= 0 {
		found.limit = defaultMatches
	}
	found.limit = min(found.limit, maxMatches)
	info, err := os.Stat(s.Path)
	switch {
	case err != nil:
		return "", refuse("unable to read %s: %s", s.Path, patch.OSText(err))
	case !info.IsDir():
		f, err := open(s.Path)
		if err != nil {
			return "", err
		}
		found.search(f, filepath.Base(s.Path))
		f.Close()
	default:
		err = walk(s.Path, func(path, rel string, e fs.DirEntry) error {
			if !e.Type().IsRegular() || !matchesGlob(s.Glob, rel) {
				return nil
			}
			if f, err := open(path); err == nil {
				found.search(f, rel)
				f.Close()
			}
			if found.full || found.timedOut {
				return filepath.SkipAll
			}
			return nil
		})
		if err != nil {
			return "", refuse("unable to read %s: %s", s.Path, patch.OSText(err))
		}
	}
	return found.text(), nil
}

// matches collects the matching lines.
type matches struct {
	re    *regexp.Regexp
	limit int
	until time.Time

	out            strings.Builder
	n              int
	full, timedOut bool
}

func (m *matches) search(f *os.File, name string) {
	in := bufio.NewReaderSize(f, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err != nil {
			return
		}
		if m.timedOut = n%1000 == 0 && time.Now().After(m.until); m.timedOut {
			return
		}
		if !m.re.MatchString(line) {
			continue
		}
		if m.full = m.n == m.limit || m.out.Len() > maxTextBytes; m.full {
			return
		}
		m.n++
		if len(line) > maxMatchBytes {
			line = strings.ToValidUTF8(line[:maxMatchBytes], "") + "…"
		}
		fmt.Fprintf(&m.out, "%s:%d: %s\n", name, n, line)
	}
}

func (m *matches) text() string {
	switch {
	case m.full:
		fmt.Fprintf(&m.out, "… and more than these %d: ask for less, with another pattern or a glob\n", m.n)
	case m.timedOut:
		fmt.Fprintf(&m.out, "… not all was searched, it took longer than %v: ask for a folder further down\n", searchTime)
	case m.n == 0:
		return "Nothing found."
	}
	return m.out.String()
}

func checkDir(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return refuse("unable to read %s: %s", path, patch.OSText(err))
	}
	if !info.IsDir() {
		return refuse("%s is not a folder", path)
	}
	return nil
}

func checkGlob(glob string) error {
	if !doublestar.ValidatePattern(glob) {
		return refuse("glob %q is not valid: use *, **, ?, [a-z] and {a,b}", glob)
	}
	return nil
}

// matchesGlob reports whether a relative path matches. A pattern without a slash matches names at any depth.
func matchesGlob(glob, rel string) bool {
	if glob == "" {
		return true
	}
	if !strings.Contains(glob, "/") {
		rel = path.Base(rel)
	}
	ok, err := doublestar.Match(glob, rel)
	return ok && err == nil
}
