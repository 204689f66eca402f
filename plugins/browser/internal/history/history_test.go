package history

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func button(attributes map[string]string, name, xpath string) Identity {
	return Identity{Path: []string{"html", "body", "div", "button"}, Attributes: attributes, Name: name, XPath: xpath, Frame: "f"}
}

// The identity vectors: the hashes of files that other programs have written.
func TestHashes(t *testing.T) {
	t.Parallel()
	link := func(href, name string) Identity {
		return Identity{Path: []string{"html", "body", "ul", "li", "a"}, Attributes: map[string]string{"href": href, "data-other": "x"}, Name: name}
	}
	for _, c := range []struct {
		Identity
		hash, stable Hash
	}{
		{button(map[string]string{"id": "go", "class": "btn btn-primary hover", "data-testid": "g"}, "Go now", ""), 9150468308909514624, 9991513815630970699},
		{button(nil, "Two", ""), 4789846693955969315, 4789846693955969315},
		{link("/1", "L1"), 1589411555935822563, 1589411555935822563},
		{link("/2", "L2"), 878727737564425924, 12407942783632895679},
	} {
		if c.Hash() != c.hash || c.StableHash() != c.stable {
			t.Errorf("%v: %d and %d, want %d and %d", c.Identity, c.Hash(), c.StableHash(), c.hash, c.stable)
		}
	}
	if a, b := button(map[string]string{"class": "hover"}, "x", ""), button(nil, "x", ""); a.StableHash() != b.StableHash() || a.Hash() == b.Hash() {
		t.Error("a class of which nothing is left is part of the stable hash")
	}
}

// Vector A40, and what must not be taken for the element.
func TestMatch(t *testing.T) {
	t.Parallel()
	const here, there = "html/body/div/button[1]", "html/body/div/button[2]"
	was := button(map[string]string{"id": "a", "name": "n", "class": "btn"}, "Save 1", here)
	other := button(map[string]string{"id": "z", "name": "o"}, "Leave", there)
	field := func(name, label, xpath string) Identity {
		return Identity{Path: []string{"html", "body", "input"}, Attributes: map[string]string{"name": name, "class": "new"}, Name: label, XPath: xpath}
	}
	oldField := field("mail", "E-mail", "html/body/input[1]")
	oldField.Attributes = map[string]string{"name": "mail", "class": "old"}
	for name, c := range map[string]struct {
		was   Identity
		page  []Identity
		level Level  // "": none
		want  string // number that is found, or a part of the error
	}{
		"nothing changed":              {was, []Identity{other, was}, Exact, "2"},
		"only a class active added":    {was, []Identity{button(map[string]string{"id": "a", "name": "n", "class": "btn active"}, "Save 1", here)}, Stable, "1"},
		"id changed, same place":       {was, []Identity{other, button(map[string]string{"id": "b", "name": "n"}, "Save 1", here)}, XPath, "2"},
		"number in its name changed":   {was, []Identity{button(map[string]string{"id": "b"}, "Save 22", here)}, XPath, "1"},
		"moved elsewhere, same name":   {was, []Identity{other, button(map[string]string{"id": "b"}, "Save 1", "html/body/button")}, AXName, "2"},
		"name changed, same attribute": {was, []Identity{other, button(map[string]string{"name": "n"}, "Store", "html/body/button")}, Attribute, "2"},
		"id is the attribute":          {was, []Identity{button(map[string]string{"id": "a"}, "Store", "x")}, Attribute, "1"},
		"another tag":                  {was, []Identity{{Path: []string{"a"}, Name: "Save 1", Attributes: map[string]string{"name": "n"}}}, "", `<button id=a name=n> "Save 1" is not in the page`},
		"something else in its place":  {was, []Identity{button(map[string]string{"id": "d"}, "Delete", here)}, "", "not in the page"},
		"alike, one in its place":      {was, []Identity{button(was.Attributes, was.Name, there), was}, Exact, "2"},
		"alike, none in its place": {was, []Identity{button(was.Attributes, was.Name, there), button(was.Attributes, was.Name, "x")}, "",
			`can't be told apart from 1 others; similar: [1] <button id=a name=n> "Save 1", [2] <button`},
		"fields changed places and classes": {oldField, []Identity{field("phone", "Phone", "html/body/input[1]"), field("mail", "E-mail", "html/body/input[2]")}, AXName, "2"},
		"nothing there":                     {was, nil, "", "not in the page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var page []Candidate
			for i, x := range c.page {
				page = append(page, Candidate{i + 1, x})
			}
			got, level, err := Match(c.was.Element(), page)
			if level != c.level {
				t.Fatalf("%q (%v), want %q", level, err, c.level)
			}
			if err == nil {
				if string(rune('0'+got.Number)) != c.want {
					t.Errorf("found %d, want %s", got.Number, c.want)
				}
				return
			}
			if _, ok := errors.AsType[*NoMatchError](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	framed := was
	framed.Frame = "g"
	if got, _, err := Match(framed.Element(), []Candidate{{1, was}, {2, framed}}); err != nil || got.Number != 2 {
		t.Errorf("of two frames: %v, %v", got, err)
	}
}

// upstream is a file as browser-use writes it.
const upstream = `{"history":[
{"model_output":null,"result":[{"extracted_content":"Navigated","long_term_memory":"Navigated"}],"state":{"url":"","title":"","tabs":[],"interacted_element":[null],"screenshot_path":null},"metadata":{"step_start_time":1.5,"step_end_time":2.5,"step_number":0,"step_interval":null}},
{"model_output":{"thinking":"t","evaluation_previous_goal":"e","memory":"m","next_goal":"g","current_plan_item":0,"plan_update":["a"],"action":[
 {"input":{"index":12,"text":"ada@example.com","clear":true}},{"click":{"index":15},"navigate":null},{"input":{"index":3,"text":"Ada Lovelace"}},{"input":{"index":4,"text":"Ada Lovelace"}},
 {"search":{"query":"2026-05-01"}},{"input":{"index":5,"text":"<secret>pw</secret>"}},{"input":{"index":6,"text":"Grace Hopper"}}]},
"result":[{"is_done":false,"extracted_content":"Typed","metadata":{"input_x":1}},{"error":"no"}],
"state":{"url":"https://example.com","title":"T","screenshot_path":null,"tabs":[{"url":"u","title":"t","target_id":"AB12","parent_target_id":null}],
"interacted_element":[{"node_id":1,"backend_node_id":12,"frame_id":null,"x_path":"html/body/input","element_hash":9150468308909514624,"stable_hash":12407942783632895679,"bounds":{"x":1.5,"y":2,"width":3,"height":4},"attributes":{"type":"email"},"ax_name":null,"node_name":"INPUT","node_type":1,"node_value":""}]},
"metadata":{"step_start_time":1.5,"step_end_time":2.5,"step_number":1,"step_interval":1.0},"state_message":"s"}]}`

func TestUpstreamFileIsLoadedAndWritten(t *testing.T) {
	t.Parallel()
	h, err := Load([]byte(upstream))
	if err != nil {
		t.Fatal(err)
	}
	step := h.Items[1]
	if a := step.Output.Actions[1]; a.Name != "click" || a.Index() != 15 {
		t.Errorf("%+v", a)
	}
	if e := step.Interacted(0); *e.StableHash != 12407942783632895679 || e.Bounds.X != 1.5 || e.Attributes["type"] != "email" || step.Interacted(1) != nil {
		t.Errorf("%+v", e)
	}
	b, err := h.Save()
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := errors.Join(json.Unmarshal([]byte(strings.NewReplacer(`,"navigate":null`, "", `"is_done":false,`, "").Replace(upstream)), &want), json.Unmarshal(b, &got)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("written:\n%s", b)
	}
	moved, err := step.Output.Actions[0].WithIndex(3)
	if err != nil || moved.Index() != 3 || !strings.Contains(string(moved.Args), "ada@example.com") {
		t.Errorf("%s, %v", moved.Args, err)
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	t.Parallel()
	for b, want := range map[string]string{
		``: "not the history", `null`: `no list "history"`, `{}`: `no list "history"`, `[]`: "not the history",
		`{"history":[{"model_output":{"action":[{"a":{},"b":{}}]}}]}`: "exactly one name", `{"history":[{"model_output":{"action":[{}]}}]}`: "no name",
		`{"history":[{"model_output":{"action":[{"a":1}]}}]}`:                                    "no object",
		`{"history":[{"state":{"interacted_element":[{"element_hash":-1}]}}]}`:                   "not the hash",
		`{"history":[` + strings.TrimSuffix(strings.Repeat(`{},`, maxSteps+1), ",") + `]}`:       "at most",
		`{"history":[{"state":{"interacted_element":[{"element_hash":99999999999999999999}]}}]}`: "not the hash",
	} {
		if _, err := Load([]byte(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", b, err, want)
		}
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	h, err := Load([]byte(upstream))
	if err != nil {
		t.Fatal(err)
	}
	want := []Variable{{"email", "ada@example.com"}, {"full_name", "Ada Lovelace"}, {"date", "2026-05-01"}, {"full_name_2", "Grace Hopper"}}
	if got := h.Variables(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if err := h.Substitute(map[string]string{"nickname": "x"}); err == nil || !strings.Contains(err.Error(), `its variables are email ("ada@example.com"), full_name`) {
		t.Error(err)
	}
	if err := h.Substitute(map[string]string{"full_name": `Alan "T"`, "email": "alan@example.com"}); err != nil {
		t.Fatal(err)
	}
	b, err := h.Save()
	if err != nil || strings.Count(string(b), `"Alan \"T\""`) != 2 || strings.Contains(string(b), "ada@") || !strings.Contains(string(b), `"index":12`) {
		t.Errorf("%s, %v", b, err)
	}
	if err := (&History{}).Substitute(map[string]string{"x": "y"}); err == nil || !strings.Contains(err.Error(), "and no other") {
		t.Error(err)
	}
}

func TestNamesOfVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ attributes, value, want string }{
		{"type=tel", "x", "phone"}, {"type=text id=billingStreet", "x", "billing_address"}, {"name=first_name", "ada", "first_name"}, {"placeholder=Your-city", "x", "city"},
		{"id=user-name", "x", "name"}, {"aria-label=Zip", "x", "zip_code"}, {"type=number id=email", "x", "number"}, {"id=email-address", "x", "email"},
		{"", "+49 170 1234567", "phone"}, {"", "12345", "number"}, {"", "1234567890", "phone"}, {"", "2026-02-03", "date"}, {"", "Ada", "first_name"},
		{"", "ada", ""}, {"", "", ""}, {"", strings.Repeat("A", 31), ""}, {"", "a@b.c", "email"},
	} {
		e := &Element{Attributes: map[string]string{}}
		for f := range strings.FieldsSeq(c.attributes) {
			k, v, _ := strings.Cut(f, "=")
			e.Attributes[k] = v
		}
		if got := nameOf(e, c.value); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.attributes, c.value, got, c.want)
		}
	}
}

// A value is left out everywhere, and another run can have it again.
func TestRedact(t *testing.T) {
	t.Parallel()
	mask := strings.NewReplacer("abc123", "<secret>k2</secret>", "abc", "<secret>k1</secret>").Replace
	const file = `{"history":[{"model_output":{"evaluation_previous_goal":"abc","memory":"","next_goal":"","action":[{"evaluate":{"code":"f('abc123')","n":1e400}}]},"result":[{"extracted_content":"abc"}],"state":{"url":"https://x/?abc123","title":"","tabs":[],"screenshot_path":null,"interacted_element":[]}}]}`
	h, err := Load([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Redact(mask); err != nil {
		t.Fatal(err)
	}
	b, err := h.Save()
	if err != nil || strings.Contains(string(b), "abc") || !strings.Contains(string(b), "1e400") || h.Items[0].Results[0].Content != "<secret>k1</secret>" {
		t.Errorf("%s, %v", b, err)
	}
	if got := h.Hidden(); !slices.Equal(got, []string{"k2"}) {
		t.Errorf("left out: %q", got)
	}
	if err := h.Substitute(map[string]string{"k1": "x"}); err == nil || !strings.Contains(err.Error(), "its variables are k2 (left out)") {
		t.Error(err)
	}
	if err := h.Substitute(map[string]string{"k2": `"new"`}); err != nil || string(h.Items[0].Output.Actions[0].Args) != `{"code":"f('\"new\"')","n":1e400}` {
		t.Errorf("%s, %v", h.Items[0].Output.Actions[0].Args, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(upstream))
	f.Add([]byte(`{"history":[{"model_output":{"action":[{"a":{"b":[1,"x",{"c":null}]}}]}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Load(b)
		if err != nil {
			return
		}
		first, err := h.Save()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Load(first)
		if err != nil {
			t.Fatalf("what is written can't be loaded: %v\n%s", err, first)
		}
		second, err := again.Save()
		if err != nil || string(second) != string(first) {
			t.Fatalf("written twice: %v\n%s\n%s", err, first, second)
		}
		values := map[string]string{}
		for _, v := range h.Variables() {
			values[v.Name] = "a secret value"
		}
		if err := h.Substitute(maps.Clone(values)); err != nil {
			t.Fatal(err)
		}
		if err := h.Redact(strings.NewReplacer("a secret value", "").Replace); err != nil {
			t.Fatal(err)
		}
		if text, _ := h.Save(); strings.Contains(string(text), "a secret value") {
			t.Fatalf("a secret is left: %s", text)
		}
	})
}
