package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is a document, taken apart.
type page struct {
	name     string // relative to the root, with slashes
	text     string
	prose    string   // the text without fenced blocks and code spans, line by line
	spans    []string // code spans
	blocks   []block
	headings []string // anchors
}

// block is a fenced block. The first word of info is the language, the others say what the tests do with it.
type block struct {
	info string
	text string
	line int
}

func (b block) words() []string { return strings.Fields(b.info) }

// file is the path behind "file=", "" when there is none.
func (b block) file() string {
	for _, w := range b.words() {
		if path, ok := strings.CutPrefix(w, "file="); ok {
			return path
		}
	}
	return ""
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// read takes a document apart.
func read(t *testing.T, name string) page {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	p := page{name: name, text: string(b)}
	var prose strings.Builder
	var open *block
	seen := map[string]int{}
	line := 0
	for l := range strings.Lines(p.text) {
		line++
		l = strings.TrimSuffix(l, "\n")
		info, fence := strings.CutPrefix(l, "```")
		switch {
		case fence && open == nil:
			open = &block{info: info, line: line}
		case fence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += l + "\n"
		default:
			if h := heading.FindStringSubmatch(l); h != nil {
				a := anchor(h[1])
				if n := seen[a]; n > 0 {
					p.headings = append(p.headings, a+"-"+string(rune('0'+n)))
				} else {
					p.headings = append(p.headings, a)
				}
				seen[a]++
			}
			for _, m := range codeSpan.FindAllStringSubmatch(l, -1) {
				p.spans = append(p.spans, m[1])
			}
			prose.WriteString(codeSpan.ReplaceAllString(l, "") + "\n")
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block is not closed", name, open.line)
	}
	p.prose = prose.String()
	return p
}

var (
	heading    = regexp.MustCompile(`^#{1,6} (.+)$`)
	unanchored = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// anchor is what a heading is linked by.
func anchor(heading string) string {
	return strings.ReplaceAll(unanchored.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// pages reads all documents that this folder answers for.
func pages(t *testing.T) []page {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/guides/*.md", "docs/decisions/*.md", "docs/examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			t.Errorf("%s: no document", pattern)
		}
		for _, f := range found {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.ToSlash(rel))
		}
	}
	slices.Sort(names)
	var out []page
	for _, n := range names {
		out = append(out, read(t, n))
	}
	return out
}

// shown tells whether output shows what a document says it does. In the document "…" stands for any text, and on a line of
// its own for any number of lines; everything else follows line by line.
func shown(output, document string) (missing string, ok bool) {
	lines := strings.Split(output, "\n")
	from, anywhere := 0, true
	for want := range strings.Lines(strings.TrimSuffix(document, "\n") + "\n") {
		want = strings.TrimSuffix(want, "\n")
		if strings.TrimSpace(want) == "…" {
			anywhere = true
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		at := slices.IndexFunc(lines[from:], pattern.MatchString)
		if at < 0 || at > 0 && !anywhere {
			return want, false
		}
		from, anywhere = from+at+1, false
	}
	return "", true
}

func TestShown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, output, document string
		ok                     bool
	}{
		{"the same", "a\nb\n", "a\nb\n", true},
		{"a part", "x\na\nb\ny\n", "a\nb\n", true},
		{"lines left out", "a\nb\nc\n", "a\n…\nc\n", true},
		{"lines left out without saying so", "a\nb\nc\n", "a\nc\n", false},
		{"text left out", "at /tmp/x1/f now\n", "at …/f now\n", true},
		{"another order", "a\nb\n", "b\n…\na\n", false},
		{"not there", "a\n", "c\n", false},
		{"a part of a line", "abc\n", "b\n", false},
	} {
		if missing, ok := shown(tc.output, tc.document); ok != tc.ok {
			t.Errorf("%s: %v (missing %q), want %v", tc.name, ok, missing, tc.ok)
		}
	}
}
