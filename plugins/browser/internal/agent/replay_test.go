package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// fake is a browser whose elements are given.
type fake struct {
	page     Page
	elements []history.Candidate
	acted    []string                       // NAME{...}
	act      func(a history.Action) Outcome // nil: every action works
	look     func() Page
	broken   error
}

func (f *fake) Look(context.Context, bool) (Page, error) {
	if f.look != nil {
		return f.look(), f.broken
	}
	return f.page, f.broken
}

func (f *fake) Act(_ context.Context, a history.Action) (Outcome, error) {
	f.acted = append(f.acted, a.Name+string(a.Args))
	if f.act != nil {
		return f.act(a), f.broken
	}
	return Outcome{Text: "1. did " + a.Name}, f.broken
}

func (f *fake) Elements(_ context.Context, numbers ...int) ([]history.Candidate, error) {
	if len(numbers) == 0 {
		return f.elements, f.broken
	}
	var out []history.Candidate
	for _, c := range f.elements {
		if slices.Contains(numbers, c.Number) {
			out = append(out, c)
		}
	}
	return out, f.broken
}

func named(number int, name string) history.Candidate {
	return history.Candidate{Number: number, Identity: history.Identity{Path: []string{"html", "button"}, Name: name, XPath: fmt.Sprintf("html/button[%d]", number), Attributes: map[string]string{}}}
}

// recorded returns a history in which each action is a step, about the element with its index.
func recorded(t *testing.T, elements []history.Candidate, actions ...string) *history.History {
	t.Helper()
	h := &history.History{}
	for _, text := range actions {
		var a history.Action
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		item := history.Item{Output: &history.Output{Actions: []history.Action{a}}, Results: []history.Result{{}}}
		item.State.Interacted = []*history.Element{nil}
		for _, c := range elements {
			if c.Number == a.Index() {
				item.State.Interacted[0] = c.Element()
			}
		}
		h.Items = append(h.Items, item)
	}
	return h
}

func TestReplay(t *testing.T) {
	t.Parallel()
	was := []history.Candidate{named(1, "Name"), named(2, "Send")}
	b := &fake{elements: []history.Candidate{named(4, "Other"), named(7, "Send"), named(9, "Name")}}
	h := recorded(t, was, `{"go_to_url":{"url":"https://example.com","new_tab":null}}`, `{"input_text":{"index":1,"text":"Ada"}}`, `{"click":{"index":2}}`,
		`{"write_file":{"file_name":"x.md"}}`, `{"extract":{"query":"x"}}`, `{"go_back":{"description":""}}`, `{"done":{"text":"all is well","success":true}}`)
	got, err := Replay(t.Context(), h, b, Replaying{})
	if err != nil || !got.Complete || got.Failed != 0 || got.Model != 0 || got.Result != "all is well" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []string{`navigate{"url":"https://example.com"}`, `input{"index":9,"text":"Ada"}`, `click{"index":7}`, `go_back{}`}
	if !slices.Equal(b.acted, want) {
		t.Errorf("%q", b.acted)
	}
	for i, text := range []string{"1. go_to_url: did navigate", `2. input_text on [9] <button> "Name", found by EXACT: did input`, `3. click on [7] <button> "Send", found by EXACT`,
		"write_file was skipped: it does nothing", "extract was skipped: it needs a model", "did go_back", "the recorded run has ended here"} {
		if !strings.Contains(got.Steps[i].String(), text) {
			t.Errorf("%s, want %q", got.Steps[i], text)
		}
	}
}

// A step whose element is gone stops the replay, or is passed over; before that, it is waited for.
func TestReplayWithoutItsElement(t *testing.T) {
	t.Parallel()
	was := []history.Candidate{named(1, "Send the form"), named(2, "Close")}
	steps := []string{`{"click":{"index":1}}`, `{"click":{"index":2}}`}
	b := &fake{elements: []history.Candidate{named(5, "Send a copy"), named(2, "Close")}}
	got, err := Replay(t.Context(), recorded(t, was, steps...), b, Replaying{})
	if err != nil || got.Complete || len(got.Steps) != 1 || got.Failed != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if s := got.Steps[0].String(); s != `1. click failed: <button> "Send the form" is not in the page; similar: [5] <button> "Send a copy"` {
		t.Error(s)
	}
	if !slices.Equal(b.acted, []string{`wait{"seconds":0.5}`, `wait{"seconds":1}`, `wait{"seconds":2}`}) {
		t.Errorf("%q", b.acted)
	}
	b.acted = nil
	if got, err = Replay(t.Context(), recorded(t, was, steps...), b, Replaying{SkipFailures: true}); err != nil || got.Complete || len(got.Steps) != 2 || !slices.Contains(b.acted, `click{"index":2}`) {
		t.Errorf("%+v, %v", got, err)
	}
	for answer, want := range map[string]history.Level{"It is this one:\n```json\n{\"index\": 5}\n```": ByModel, `{"index":0}`: "", `{"index":17}`: "", "I don't know": ""} {
		asked := ""
		got, err := Replay(t.Context(), recorded(t, was, steps[0]), b, Replaying{Model: func(_ context.Context, r *llm.Request) (string, llm.Usage, error) {
			asked = r.Messages[0].Text()
			return answer, llm.Usage{}, nil
		}})
		if err != nil || got.Steps[0].Match != want || got.Model != 1 || !strings.Contains(asked, `[5] <button> "Send a copy"`) {
			t.Errorf("%s: %+v, %v", answer, got, err)
		}
	}
}

// An element that comes late is found; a menu that has closed is opened again.
func TestReplayWaits(t *testing.T) {
	t.Parallel()
	item := named(3, "Export")
	item.Attributes["role"] = "menuitem"
	was := []history.Candidate{named(1, "Menu"), item}
	for name, open := range map[string]func(a history.Action, n int) bool{
		"late": func(a history.Action, _ int) bool { return a.Name == "wait" },
		"menu": func(a history.Action, n int) bool { return a.Name == "click" && n > 1 },
	} {
		b := &fake{elements: was[:1]}
		b.act = func(a history.Action) Outcome {
			if open(a, len(b.acted)) {
				b.elements = was
			}
			return Outcome{Text: "1. ok"}
		}
		got, err := Replay(t.Context(), recorded(t, was, `{"click":{"index":1}}`, `{"click":{"index":3}}`), b, Replaying{})
		if err != nil || !got.Complete || got.Steps[1].Match != history.Exact {
			t.Errorf("%s: %+v, %v, %q", name, got, err, b.acted)
		}
	}
}

func TestReplayOfOddSteps(t *testing.T) {
	t.Parallel()
	was := []history.Candidate{named(1, "Next")}
	h := recorded(t, was, `{"click":{"index":1}}`, `{"click":{"index":1}}`, `{"click":{"index":1}}`, `{"click":{"index":8}}`)
	h.Items[1].Output.Evaluation = "The click failed, I try it again"
	h.Items[2].Results[0].Error = "no such element"
	b := &fake{elements: was}
	got, err := Replay(t.Context(), h, b, Replaying{})
	if err != nil || got.Failed != 1 || len(b.acted) != 1 {
		t.Fatalf("%+v, %v, %q", got, err, b.acted)
	}
	for i, want := range []string{"did click", "it repeats the action before it", "it failed in the recorded run, too: no such element", "does not say which element"} {
		if !strings.Contains(got.Steps[i].Outcome, want) {
			t.Errorf("%s, want %q", got.Steps[i], want)
		}
	}
	// Another page of a list is no repetition.
	if got, err = Replay(t.Context(), recorded(t, was, `{"click":{"index":1}}`, `{"click":{"index":1}}`), &fake{elements: was}, Replaying{}); err != nil || got.Steps[1].Skipped {
		t.Errorf("%+v, %v", got, err)
	}

	h = recorded(t, nil, `{"scroll":{"down":true}}`, `{"switch":{"tab_id":"ab12"}}`, `{"close":{"tab_id":"0000"}}`)
	h.Items[0].State.URL = "https://example.com/form"
	h.Items[1].State.Tabs = []history.Tab{{ID: "XXAB12", URL: "https://other.example/"}}
	b = &fake{page: Page{URL: "about:blank", Tabs: []history.Tab{{ID: "99ff", URL: "https://other.example/"}}}}
	if got, err = Replay(t.Context(), h, b, Replaying{}); err != nil || !slices.Equal(b.acted, []string{`navigate{"url":"https://example.com/form"}`, `scroll{"down":true}`, `switch{"tab_id":"99ff"}`}) {
		t.Errorf("%+v, %v, %q", got, err, b.acted)
	}
	if !strings.Contains(got.Steps[3].Outcome, "does not say what was in tab 0000") {
		t.Error(got.Steps[3])
	}

	b = &fake{}
	extracts := recorded(t, nil, `{"extract":{"query":"q","extract_links":true,"start_from_char":0,"output_schema":null}}`)
	if _, err = Replay(t.Context(), extracts, b, Replaying{Model: func(context.Context, *llm.Request) (string, llm.Usage, error) { return "", llm.Usage{}, nil }}); err != nil || !slices.Equal(b.acted, []string{`extract{"from":0,"links":true,"query":"q"}`}) {
		t.Errorf("%v, %q", err, b.acted)
	}

	b = &fake{broken: errors.New("the browser is gone")}
	if got, err = Replay(t.Context(), recorded(t, was, `{"click":{"index":1}}`), b, Replaying{SkipFailures: true}); err == nil || got.Complete || got.Steps[0].Outcome != "the browser is gone" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, "Sure:\n```json\n{\"a\":{\"b\":\"}\"}}\n```": `{"a":{"b":"}"}}`, "set {x} is {\"a\":2} done": `{"a":2}`, "none": "", "{": "", `[{"a":1}]`: `{"a":1}`,
	} {
		if got, ok := object(in); string(got) != want || ok != (want != "") {
			t.Errorf("%q: %s", in, got)
		}
	}
}
