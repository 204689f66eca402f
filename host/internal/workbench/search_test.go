//go:build unix

package workbench_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// paths returns the results' paths, with a slash after folders.
func paths(list []protocol.FuzzyFileSearchResult) []string {
	out := []string{}
	for _, f := range list {
		p := f.Path
		if f.MatchType == protocol.FuzzyDirectory {
			p += "/"
		}
		out = append(out, p)
	}
	return out
}

func TestFuzzyFileSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	for path, text := range map[string]string{
		"ws/.gitignore": "*.log\n/build/\n!keep.log", "ws/.git/info/exclude": "excluded", "ws/src/.ignore": "hidden.go", "ws/src/app_server.go": "",
		"ws/src/AppServer.md": "", "ws/src/hidden.go": "", "ws/a.log": "", "ws/keep.log": "", "ws/build/app_server.go": "", "ws/excluded": "",
		"ws/src/deep/.gitignore": "*.tmp", "ws/src/deep/x.tmp": "", "ws/naïve.txt": "", "ws/z/arrow_apps_server_go/x": "", "ws/locked/app.go": "",
	} {
		w.write(path, text)
	}
	w.cfg.Sandbox.DenyRead = []string{"**/*.env", "locked"}
	w.link("../../out", "ws/src/link")
	root := w.in("ws")
	search := func(query string, roots ...string) []string {
		t.Helper()
		got, err := w.bench.FuzzyFileSearch(t.Context(), protocol.FuzzyFileSearchParams{Query: query, Roots: roots})
		if err != nil {
			t.Fatal(err)
		}
		return paths(got.Files)
	}
	for _, tc := range []struct {
		query string
		want  []string
	}{
		{"appserver.go", []string{"src/app_server.go"}},
		{"AppServer", []string{"src/AppServer.md"}},
		{"src deep", []string{"src/deep/", "src/deep/.gitignore"}},
		{"naive", []string{"naïve.txt"}},
		{"log", []string{"keep.log"}},
		{"tmp", []string{}}, {"hidden", []string{}}, {"excluded", []string{}}, {"build", []string{}}, {"HEAD", []string{}}, {"secret", []string{}}, {"locked", []string{}},
		{"link", []string{"src/link/"}}, {"", []string{}}, {" ", []string{}}, {strings.Repeat("a", 2000), []string{}},
	} {
		got := search(tc.query, root)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.query, got, tc.want)
		}
	}
	// A root below the repository's top has its patterns too; so does each of several roots.
	if got := search("o", w.in("ws/src"), w.in("out")); slices.Contains(got, "hidden.go") || !slices.Contains(got, "app_server.go") {
		t.Errorf("%q", got)
	}
	w.write("ws/src/x.log", "")
	if got := search("x.log", w.in("ws/src")); len(got) != 0 {
		t.Errorf("%q", got)
	}
	got, err := w.bench.FuzzyFileSearch(t.Context(), protocol.FuzzyFileSearchParams{Query: "aps", Roots: []string{w.in("ws/src")}})
	if err != nil || len(got.Files) == 0 {
		t.Fatal(got, err)
	}
	want := protocol.FuzzyFileSearchResult{Root: w.in("ws/src"), Path: "app_server.go", MatchType: protocol.FuzzyFile, FileName: "app_server.go", Indices: []uint32{0, 1, 4}}
	first := got.Files[0]
	if first.Score == 0 {
		t.Error("the score is 0")
	}
	if first.Path == "AppServer.md" {
		want.Path, want.FileName, want.Indices = first.Path, first.Path, []uint32{0, 1, 3}
	}
	if first.Score = 0; !reflect.DeepEqual(first, want) {
		t.Errorf("%+v", first)
	}
	for name, roots := range map[string][]string{"relative": {"ws"}, "hidden": {w.in("home/.ssh")}, "a file": {w.in("ws/a.txt")}, "missing": {w.in("none")}} {
		if _, err := w.bench.FuzzyFileSearch(t.Context(), protocol.FuzzyFileSearchParams{Query: "a", Roots: roots}); err == nil {
			t.Errorf("%s was searched", name)
		}
	}
}

func TestFuzzyFileSearchReturnsTheBest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	for i := range 300 {
		w.write(fmt.Sprintf("ws/d%d/m_a_i_n_%d.go", i%7, i), "")
	}
	w.write("ws/d3/main.go", "")
	got, err := w.bench.FuzzyFileSearch(t.Context(), protocol.FuzzyFileSearchParams{Query: "main.go", Roots: []string{w.in("ws")}})
	if err != nil || len(got.Files) != 50 || got.Files[0].Path != "d3/main.go" {
		t.Errorf("%d, %q, %v", len(got.Files), paths(got.Files)[:1], err)
	}
	if !slices.IsSortedFunc(got.Files, func(a, b protocol.FuzzyFileSearchResult) int { return int(b.Score) - int(a.Score) }) {
		t.Error("not sorted by score")
	}
}

// A file with patterns that is a pipe, or leads to an endless file, does not stop a search.
func TestSearchWithOddPatterns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	w.link("/dev/zero", "ws/.gitignore")
	if err := mkfifo(w.in("ws/sub/.gitignore")); err != nil {
		t.Fatal(err)
	}
	got, err := w.bench.FuzzyFileSearch(t.Context(), protocol.FuzzyFileSearchParams{Query: "btxt", Roots: []string{w.in("ws")}})
	if err != nil || !slices.Equal(paths(got.Files), []string{"sub/b.txt"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSearchIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := w.bench.FuzzyFileSearch(ctx, protocol.FuzzyFileSearchParams{Query: "a", Roots: []string{w.in("ws")}})
	if err != nil || got.Files == nil || len(got.Files) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	token := "t"
	for range 20 { // the last one is not replaced
		results := make(chan int, 8)
		for range cap(results) {
			go func() { // ends with its search
				got, err := w.bench.FuzzyFileSearch(t.Context(), protocol.FuzzyFileSearchParams{Query: "a", Roots: []string{w.in("ws")}, CancellationToken: &token})
				if err != nil {
					t.Error(err)
				}
				results <- len(got.Files)
			}()
		}
		most := 0
		for range cap(results) {
			most = max(most, <-results)
		}
		if most == 0 {
			t.Error("every search was replaced")
		}
	}
}

// answers returns what a session was told: queries of updates, with the number of files, and "." for each completion.
func (w *world) answers(id string) (out []string) {
	for _, n := range w.told() {
		switch p := n.params.(type) {
		case protocol.FuzzyFileSearchSessionUpdatedNotification:
			if p.SessionID == id {
				out = append(out, fmt.Sprintf("%s:%d", p.Query, len(p.Files)))
			}
		case protocol.FuzzyFileSearchSessionCompletedNotification:
			if p.SessionID == id {
				out = append(out, ".")
			}
		}
	}
	return out
}

func TestSearchSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, box.WorkspaceWrite)
	ctx := t.Context()
	start := func(id string) error {
		begin, err := w.bench.FuzzyFileSearchSessionStart(ctx, protocol.FuzzyFileSearchSessionStartParams{SessionID: id, Roots: []string{w.in("ws")}})
		if err == nil {
			begin()
		}
		return err
	}
	update := func(id, query string) error {
		return w.bench.FuzzyFileSearchSessionUpdate(ctx, protocol.FuzzyFileSearchSessionUpdateParams{SessionID: id, Query: query})
	}
	ends := func(want ...string) {
		t.Helper()
		w.await(func(note) bool {
			got := w.answers("s")
			return len(got) >= len(want) && slices.Equal(got[len(got)-len(want):], want)
		})
	}
	fails(t, "start", start("s"), 0, "")
	ends(":0", ".")
	if got := w.answers("s"); !slices.Equal(got, []string{":0", "."}) {
		t.Errorf("%q", got)
	}
	fails(t, "update", update("s", "txt"), 0, "")
	ends("txt:2", ".")
	fails(t, "update", update("s", "b.t"), 0, "")
	ends("b.t:1", ".")
	fails(t, "duplicate", start("s"), invalidRequest, "sessionId")
	fails(t, "no id", start(""), invalidRequest, "sessionId")
	fails(t, "unknown", update("none", ""), invalidRequest, "sessionId")
	stop := func(id string) error {
		return w.bench.FuzzyFileSearchSessionStop(ctx, protocol.FuzzyFileSearchSessionStopParams{SessionID: id})
	}
	fails(t, "stop", stop("s"), 0, "")
	fails(t, "again", stop("s"), 0, "")
	fails(t, "update", update("s", "x"), invalidRequest, "sessionId")
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = start(fmt.Sprint("many", i))
	}
	fails(t, "many", err, invalidRequest, "limit")
	w.bench.Close()
	if err := start("late"); err == nil {
		t.Error("a session was started after the end")
	}
}

func BenchmarkFuzzyFileSearch(b *testing.B) {
	w := newWorld(b, box.WorkspaceWrite)
	for i := range 200 {
		for j := range 100 {
			path := fmt.Sprintf("ws/internal/package%d/sub%d/file_%d.go", i%50, i, j)
			if j == 0 {
				w.write(path, "")
			} else if f, err := os.Create(w.in(path)); err != nil {
				b.Fatal(err)
			} else {
				f.Close()
			}
		}
	}
	for b.Loop() {
		if _, err := w.bench.FuzzyFileSearch(b.Context(), protocol.FuzzyFileSearchParams{Query: "pkgfile7", Roots: []string{w.in("ws")}}); err != nil {
			b.Fatal(err)
		}
	}
}
