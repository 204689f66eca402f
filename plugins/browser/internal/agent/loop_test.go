package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
)

// Vectors 16.2. Ours differs in one: an address of a file is not opened, because nothing but http and https is.
func TestStartURL(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		"Go to example.com and log in": "https://example.com", "open https://a.com/x.": "https://a.com/x", "compare a.com and b.com": "", "mail me at joe@site.com": "",
		"never go to bad.com": "", "don't open https://bad.com please": "", "read report.pdf": "", "see https://a.com/file.pdf": "",
		"visit www.site.org/path?q=1), then": "https://www.site.org/path?q=1", "https://XXX.XX": "", "see readme.md and a.com": "https://a.com",
		"go to a.com then a.com": "https://a.com", "open index.html": "", "open file:///x/a.html": "", "use node.js on a.com": "https://a.com",
		"at http://127.0.0.1:8080/x fill in the form": "http://127.0.0.1:8080/x", "in version 1.2.3, e.g. this": "", "ask Dr.Smith or Mr.Foo": "", "": "",
	} {
		if got := StartURL(task); got != want {
			t.Errorf("%q: %q, want %q", task, got, want)
		}
	}
}

func parsed(t *testing.T, text string) history.Action {
	t.Helper()
	var a history.Action
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// Vectors 16.3. Ours differs in two: clicks at different points are different, and a search without an engine is one with the engine that is used.
func TestActionHashes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ action, normal, hash string }{
		{`{"search":{"query":"Foo, bar BAR","engine":"duckduckgo"}}`, "search|duckduckgo|bar|foo", "d82d46dad841"},
		{`{"search":{"query":"bar foo","engine":"google"}}`, "search|google|bar|foo", "636fe1545f1d"},
		{`{"search":{"query":"bar foo"}}`, "search|duckduckgo|bar|foo", "d82d46dad841"},
		{`{"click":{"index":5}}`, "click|5", "def10c9253b3"},
		{`{"click":{"coordinate_x":1,"coordinate_y":2}}`, "click|1,2", ""},
		{`{"click":{}}`, "click|None", "9634366e1174"},
		{`{"input":{"index":3,"text":" HeLLo ","clear":false}}`, "input|3|hello", "2d29a5e49801"},
		{`{"navigate":{"url":"https://a.com/x"}}`, "navigate|https://a.com/x", "4c00de749192"},
		{`{"scroll":{"pages":3}}`, "scroll|down|None", "05e9f467a9ef"},
		{`{"scroll":{"down":false,"index":4}}`, "scroll|up|4", ""},
		{`{"send_keys":{"keys":"Enter"}}`, `send_keys|{"keys": "Enter"}`, "0e7b08935b26"},
		{`{"evaluate":{"code":"x"}}`, `evaluate|{"code": "x"}`, "b51cc4366813"},
		{`{"x":{"b":[1,{"d":"ä<😀","c":null}],"a":1.50}}`, `x|{"a": 1.50, "b": [1, {"d": "\u00e4<\ud83d\ude00"}]}`, ""},
	} {
		a := parsed(t, c.action)
		if got := normal(a); got != c.normal {
			t.Errorf("%s: %s, want %s", c.action, got, c.normal)
		}
		if got := actionHash(a); c.hash != "" && got != c.hash {
			t.Errorf("%s: %s, want %s", c.action, got, c.hash)
		}
	}
}

// Vector A38, and the milder notes before it.
func TestRepeats(t *testing.T) {
	t.Parallel()
	var r repeats
	notes := map[int]string{}
	for i := range 12 {
		r.action(parsed(t, `{"click":{"index":5}}`))
		r.action(parsed(t, `{"wait":{}}`))
		if i%2 == 0 {
			r.action(parsed(t, fmt.Sprintf(`{"click":{"index":%d}}`, 100+i)))
		}
		notes[i+1] = r.note()
	}
	for n, want := range map[int]string{4: "", 5: "make sure", 7: "make sure", 8: "change your approach", 11: "change your approach", 12: "It does not work"} {
		if got := notes[n]; (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("after %d: %q", n, got)
		}
	}
	for i := range window {
		r.action(parsed(t, fmt.Sprintf(`{"click":{"index":%d}}`, i)))
	}
	if r.note() != "" || len(r.Hashes) != window {
		t.Error("what is long ago still counts")
	}
	for range 5 {
		r.page(Page{URL: "u", Text: "t", Elements: 1})
	}
	if !strings.Contains(r.note(), "has not changed for 5 steps") {
		t.Error(r.note())
	}
	if r.page(Page{URL: "u", Text: "t", Elements: 2}); r.note() != "" {
		t.Error("another page is the same")
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	var p plan
	p.update(&history.Output{PlanUpdate: []string{"a", "b", "c"}})
	one, many := 1, 9
	p.update(&history.Output{CurrentItem: &one})
	if got := p.String(); got != "[x] 0: a\n[>] 1: b\n[ ] 2: c\n" {
		t.Error(got)
	}
	if p.update(&history.Output{CurrentItem: &many}); p.Current != 2 {
		t.Error(p.Current)
	}
	if p.update(&history.Output{PlanUpdate: []string{}, CurrentItem: &many}); p.String() != "" {
		t.Error(p)
	}
}

// What a model answers, and what a user writes, is anything.
func FuzzAnswer(f *testing.F) {
	f.Add("```json\n{\"memory\":\"m\",\"action\":[{\"click\":{\"index\":1}},{\"search\":{\"query\":\"a b\"}}]}\n```")
	f.Add(`{"action":[{"x":{"a":[1,null,"ä"]}}],"plan_update":["a"],"current_plan_item":-3}`)
	f.Add("open https://a.com/x. and never b.com")
	f.Fuzz(func(t *testing.T, text string) {
		if u := StartURL(text); u != "" && !strings.HasPrefix(strings.ToLower(u), "http") {
			t.Errorf("%q begins at %q", text, u)
		}
		out, err := parse(text)
		if err != nil {
			return
		}
		var p plan
		if p.update(out); len(p.Items) > 0 && (p.Current < 0 || p.Current >= len(p.Items)) {
			t.Errorf("the plan is at %d of %d", p.Current, len(p.Items))
		}
		_ = p.String()
		for _, a := range out.Actions {
			if b, err := adapt(a); err != nil || actionHash(b) == "" || a.Name == "" {
				t.Errorf("%+v: %v", a, err)
			}
			if moved, err := a.WithIndex(7); err != nil || moved.Index() != 7 {
				t.Errorf("%s: %+v, %v", a.Args, moved, err)
			}
		}
	})
}
