package recording_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/providers/recording"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func request(texts ...string) *llm.Request {
	r := &llm.Request{Model: "m", Tools: []llm.Tool{{Name: "t", InputSchema: json.RawMessage(`{"b":1,"a":{"d":1.50,"c":2}}`)}}}
	for i, text := range texts {
		role := llm.RoleUser
		if i%2 == 1 {
			role = llm.RoleAssistant
		}
		r.Messages = append(r.Messages, llm.Message{Role: role, Parts: llm.Parts{&llm.Text{Text: text}}})
	}
	return r
}

func entry(t *testing.T, thread string, n int, r *llm.Request, events ...llm.Event) recording.Entry {
	t.Helper()
	asked, err := recording.Summarize(r)
	if err != nil {
		t.Fatal(err)
	}
	e := recording.Entry{Thread: thread, Request: n, Asked: asked}
	for _, ev := range events {
		if err := e.Add(ev); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestCanonicalDependsOnContentOnly(t *testing.T) {
	t.Parallel()
	a, b := request("<hello>"), request("<hello>")
	b.Tools[0].InputSchema = json.RawMessage(" {\"a\": {\"c\":2, \"d\":1.50},\n\"b\":1}")
	got, err := recording.Canonical(a)
	if err != nil {
		t.Fatal(err)
	}
	again, err := recording.Canonical(b)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(again) || !strings.Contains(string(got), `"inputSchema":{"a":{"c":2,"d":1.50},"b":1}`) || !strings.Contains(string(got), "<hello>") {
		t.Errorf("%s\n%s", got, again)
	}
}

func TestEntriesSurviveTheFile(t *testing.T) {
	t.Parallel()
	want := []llm.Event{llm.StepStart{ResponseID: "r"}, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, &llm.Error{Code: llm.ErrTransport}}
	e := entry(t, "t1", 1, request("one\n"+strings.Repeat("é", 500)), want...)
	e.Cancel = true
	line, err := e.Line()
	if err != nil {
		t.Fatal(err)
	}
	got, err := recording.Parse([]byte("\n" + string(line) + "\r\n\n" + string(line)))
	if err != nil || len(got) != 2 || !reflect.DeepEqual(got[1], e) {
		t.Fatalf("%+v, %v", got, err)
	}
	events, err := got[0].Answer()
	if err != nil || !reflect.DeepEqual(events, want) {
		t.Errorf("%#v, %v", events, err)
	}
	if l := got[0].Asked.Lines[0]; len([]rune(l)) != 201 {
		t.Errorf("a long line is kept with %d characters", len([]rune(l)))
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "nothing is recorded",
		"\n{}\nx":                         "line 3: invalid",
		`{"events":[{"type":"nothing"}]}`: `line 1: event 1: unknown event type "nothing"`,
	} {
		if _, err := recording.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestThreadsAreToldApartByWhatTheyAsk(t *testing.T) {
	t.Parallel()
	r, err := recording.NewReplay("run", []recording.Entry{
		entry(t, "main", 1, request("do it")),
		entry(t, "child", 1, request("help")),
		entry(t, "main", 2, request("do it", "ok", "more")),
		entry(t, "child", 2, request("help", "yes", "thanks")),
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		thread string
		req    *llm.Request
		want   string
	}{
		{"b", request("help"), "child 1"},
		{"a", request("do it"), "main 1"},
		{"b", request("help", "yes", "thanks"), "child 2"},
		{"a", request("do it", "ok", "less"), "- user: more\n+ user: less"},
		{"a", request("do it", "ok", "more"), "main 2"},
		{"a", request("do it", "ok", "more", "?"), "ends after 2 requests"},
		{"c", request("do it"), "all 2 recorded threads are taken"},
	} {
		e, err := r.Next(q.thread, q.req)
		if err != nil {
			le, ok := errors.AsType[*llm.Error](err)
			if !ok || le.Code != llm.ErrInvalidRequest || le.Retryable || le.Next == "" || !strings.Contains(le.Message, q.want) {
				t.Errorf("%s: %v, want %s", q.thread, err, q.want)
			}
			continue
		}
		if got := e.Thread + " " + string(rune('0'+e.Request)); got != q.want {
			t.Errorf("%s: %s, want %s", q.thread, got, q.want)
		}
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	otherTools := request("one")
	otherTools.Tools[0].Description = "changed"
	otherModel := request("one")
	otherModel.Model = "n"
	for _, tc := range []struct {
		name  string
		check recording.Check
		req   *llm.Request
		want  string // "": accepted
	}{
		{"the same", recording.CheckExact, request("one"), ""},
		{"tools differ, shape only", recording.CheckShape, otherTools, ""},
		{"tools differ", recording.CheckExact, otherTools, "tool descriptions, settings or longer texts differ"},
		{"model", recording.CheckShape, otherModel, "- model: m\n+ model: n"},
		{"text", recording.CheckExact, request("two"), "- user: one\n+ user: two"},
		{"shape", recording.CheckShape, request("one", "a", "one"), "- shape: U\n+ shape: U A U"},
		{"nothing is checked", recording.CheckOff, request("two", "three"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := recording.NewReplay("run", []recording.Entry{entry(t, "t", 1, request("one"))}, tc.check)
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Next("x", tc.req)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := recording.NewReplay("run", nil, "some"); err == nil {
		t.Error("an unknown check is accepted")
	}
}
