package e2e_test

import (
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// idleScript is a model that is not asked for anything but an answer.
const idleScript = "[[step]]\ntimes = -1\ndo = [{ text = \"x\" }]\n"

// match is a result of a file search.
type match struct {
	Root, Path string
	MatchType  string `json:"match_type"`
	FileName   string `json:"file_name"`
	Indices    []int
}

// A file search returns the best 50 matches. A session reports its results after the response, for the empty query first.
func TestAppServerFileSearch(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	r.Write("src/parser.go", "")
	r.Write("ignored.log", "")
	r.Write(".gitignore", "*.log\n")
	for i := range 60 {
		r.Write(fmt.Sprintf("many/file%d.txt", i), "")
	}
	c := r.AppServer()
	greet(t, c)
	var found struct{ Files []match }
	c.Call("fuzzyFileSearch", map[string]any{"query": "prsr", "roots": []string{r.Dir}, "cancellationToken": "t"}, &found)
	if len(found.Files) != 1 || found.Files[0].Path != "src/parser.go" || found.Files[0].Root != r.Dir || found.Files[0].MatchType != "file" ||
		found.Files[0].FileName != "parser.go" || len(found.Files[0].Indices) != 4 {
		t.Errorf("%+v", found)
	}
	if c.Call("fuzzyFileSearch", map[string]any{"query": "file", "roots": []string{r.Dir}}, &found); len(found.Files) != 50 {
		t.Errorf("%d matches", len(found.Files))
	}
	if c.Call("fuzzyFileSearch", map[string]any{"query": "ignored", "roots": []string{r.Dir}}, &found); len(found.Files) != 0 {
		t.Errorf("%+v", found)
	}

	// completed returns the last result of a query before its end.
	completed := func(query string) (files []match) {
		t.Helper()
		of := "none"
		c.Until(func(m rig.Message) bool {
			var p struct {
				SessionID, Query string
				Files            []match
			}
			if m.Method == "fuzzyFileSearch/sessionUpdated" {
				m.Into(t, &p)
				of, files = p.Query, p.Files
			}
			return m.Method == "fuzzyFileSearch/sessionCompleted" && of == query
		})
		return files
	}
	from := len(c.All)
	c.Call("fuzzyFileSearch/sessionStart", map[string]any{"sessionId": "s", "roots": []string{r.Dir}}, nil)
	if n := len(c.All) - from; n != 1 {
		t.Errorf("%d messages up to the response", n)
	}
	if files := completed(""); len(files) != 0 {
		t.Errorf("%+v", files)
	}
	c.Request("fuzzyFileSearch/sessionUpdate", map[string]any{"sessionId": "s", "query": "parser"})
	if files := completed("parser"); len(files) != 1 {
		t.Errorf("%+v", files)
	}
	c.Call("fuzzyFileSearch/sessionStop", map[string]any{"sessionId": "s"}, nil)
	if code, _ := c.Refused("fuzzyFileSearch/sessionUpdate", map[string]any{"sessionId": "s", "query": "x"}); code != -32600 {
		t.Errorf("an update of a session that has ended: %d", code)
	}
	if code, _ := c.Refused("fuzzyFileSearch", map[string]any{"query": "x", "roots": []string{"relative"}}); code != -32600 {
		t.Errorf("a relative root: %d", code)
	}
}
