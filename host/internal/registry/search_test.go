package registry

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func deferred(namespace, name, description string, change ...func(*contract.Descriptor)) contract.Descriptor {
	d := contract.Descriptor{
		Namespace: namespace, Name: name, Description: description, Exposure: contract.ExposureDeferred, InputSchema: json.RawMessage(`{"type":"object"}`),
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func TestSearch(t *testing.T) {
	s := snapshot(t,
		greet,
		deferred("cal", "create_event", "Create calendar meeting"),
		deferred("cal", "listEvents", "What is planned"),
		deferred("mail", "send", "Sends a letter.\nTo anybody.", func(d *contract.Descriptor) { d.SearchText = "post" }),
		deferred("", "weather", "Forecasts", func(d *contract.Descriptor) {
			d.InputSchema = json.RawMessage(`{"type":"object","properties":{"city":{"type":"string","description":"Where, for example in Zürich"}}}`)
		}),
		deferred("", "widget_a", "a widget"), deferred("", "widget_b", "a widget"), deferred("", "widget_c", "a widget"),
		deferred("", "look", "a picture", func(d *contract.Descriptor) { d.ModelTraits = []string{"images"} }),
		contract.Descriptor{Name: "calendar_of_nobody", Exposure: contract.ExposureHidden, InputSchema: json.RawMessage(`{"type":"object"}`)},
	)
	for _, tc := range []struct{ query, want string }{
		{`{"query":"calendar meeting"}`, "cal.create_event"},
		{`{"query":"events"}`, "cal.listEvents cal.create_event"}, // the one of fewer words first
		{`{"query":"EVENT list"}`, "cal.listEvents cal.create_event"},
		{`{"query":"meetings, created"}`, "cal.create_event"},
		{`{"query":"posting"}`, "mail.send"},
		{`{"query":"zurich"}`, "weather"},
		{`{"query":"city"}`, "weather"},
		{`{"query":"widget"}`, "widget_a widget_b widget_c"}, // as they were declared
		{`{"query":"widget","limit":2}`, "widget_a widget_b"},
		{`{"query":"widget","limit":1e9}`, "widget_a widget_b widget_c"},
		{`{"query":"the of and"}`, ""},
		{`{"query":"picture"}`, ""}, // the model has no eyes
		{`{"query":"greet"}`, ""},   // it is offered as it is
		{`{"query":"nobody"}`, ""},
		{`{"query":"nothing like it"}`, ""},
	} {
		tools, text, err := s.Search(json.RawMessage(tc.query), []string{"patches"})
		if err != nil {
			t.Fatal(tc.query, err)
		}
		var names []string
		for _, tl := range tools {
			names = append(names, FullName(tl.Namespace, tl.Name))
			if !strings.Contains(text, "- "+FullName(tl.Namespace, tl.Name)+":") {
				t.Errorf("%s: %q does not say what was found", tc.query, text)
			}
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.query, got, tc.want)
		}
	}
	if tools, _, _ := s.Search(json.RawMessage(`{"query":"picture"}`), []string{"images"}); len(tools) != 1 {
		t.Errorf("a model with eyes finds %v", tools)
	}
	if _, text, _ := s.Search(json.RawMessage(`{"query":"letter"}`), nil); text != "Found:\n- mail.send: Sends a letter." {
		t.Errorf("%q", text)
	}

	e, ok := s.Lookup("", SearchName)
	if !ok || !e.Search || !e.ReadOnly || !e.ParallelSafe || slices.Contains(s.Entries(), e) {
		t.Errorf("the tool that searches is %+v", e)
	}
	if want := "There are tools of: cal (2), mail (1), p (5)"; !strings.HasSuffix(e.Description, want) {
		t.Errorf("%q does not say %q", e.Description, want)
	}
	for args, want := range map[string]string{
		`{}`: "query", `{"query":""}`: "query", `{"query":"x","limit":0}`: "`limit`", `{"q":"x"}`: "q", `{"query":7}`: "query",
	} {
		if _, err := e.Parse(&llm.ToolCall{Name: SearchName, Input: args}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if _, _, err := s.Search(json.RawMessage(`{"query":" "}`), nil); err == nil {
		t.Error("a blank query is searched for")
	}
}

// Where nothing is found by search, nobody searches; and the name belongs to the host.
func TestSearchIsTheHosts(t *testing.T) {
	if _, ok := snapshot(t, greet).Lookup("", SearchName); ok {
		t.Error("there is a search for nothing")
	}
	r := New("p")
	d := greet
	d.Name = SearchName
	if problems := r.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) != 1 || !strings.Contains(problems[0].Error(), "the host's own") {
		t.Errorf("problems %q", problems)
	}
	d.Namespace = "mine"
	if problems := r.Set("p", contract.ToolSet{Tools: []contract.Descriptor{d}}); len(problems) != 0 {
		t.Errorf("problems %q", problems)
	}
}
