package action_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
)

func read(t *testing.T, text string) ([]action.Action, error) {
	t.Helper()
	var list []map[string]any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	return action.Read(list)
}

func TestRead(t *testing.T) {
	t.Parallel()
	list, err := read(t, `[{"click":{"index":3,"button":"right","count":null}},{"reload":null},{"fill_form":{"fields":[{"index":1,"text":"a","clear":false}]}},
		{"scroll":{"pages":0.5}},{"find_elements":{"selector":"a","attributes":["href"]}}]`)
	if err != nil {
		t.Fatal(err)
	}
	want := []action.Action{
		{Click: &action.Click{Index: 3, Button: "right"}}, {Reload: &action.None{}},
		{FillForm: &action.FillForm{Fields: []action.Input{{Index: 1, Text: "a", Clear: new(false)}}}},
		{Scroll: &action.Scroll{Pages: 0.5}}, {FindElements: &action.FindElements{Selector: "a", Attributes: []string{"href"}}},
	}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("%+v", list)
	}
}

// An error names the action, the argument, and what is allowed.
func TestReadRejects(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[{"reload":{}},{}]`:                                       "action 2 has 0 names (); each action is an object with exactly one of navigate, search, ",
		`[{"click":{"index":1},"reload":{}}]`:                      "action 1 has 2 names (click, reload); each",
		`[{"clik":{}}]`:                                            `action 1: there is no action "clik"; the actions are navigate, `,
		`[{"click":3}]`:                                            "action 1: click must be an object, not 3; it is click{index?:int",
		`[{"click":{"index":"3"}}]`:                                `action 1: click.index must be a number, not "3"; it is click{`,
		`[{"click":{"index":1.5}}]`:                                "action 1: click.index must be an integer, not 1.5",
		`[{"click":{"index":1e300}}]`:                              "action 1: click.index must be an integer, not 1e+300",
		`[{"click":{"index":1,"buton":"left"}}]`:                   `action 1: click has no argument "buton"; it is click{`,
		`[{"click":{"button":"up"}}]`:                              `action 1: click.button must be one of left, right, middle, not "up"`,
		`[{"click":{"force":"yes"}}]`:                              `action 1: click.force must be true or false, not "yes"`,
		`[{"navigate":{}}]`:                                        "action 1: navigate has no url; it is navigate{url, new_tab?:bool}",
		`[{"navigate":{"url":null}}]`:                              "action 1: navigate.url must be a text, not null",
		`[{"find_elements":{"selector":"a","attributes":"href"}}]`: `action 1: find_elements.attributes must be a list, not "href"`,
		`[{"fill_form":{"fields":[{"index":1}]}}]`:                 "action 1: fill_form.fields[0] has no text; it is fill_form{fields:[{index:int, text",
		`[{"fill_form":{"fields":[3]}}]`:                           "action 1: fill_form.fields[0] must be an object, not 3",
	} {
		if _, err := read(t, text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Every action has a signature.
func TestSignatures(t *testing.T) {
	t.Parallel()
	lines := strings.Split(action.Signatures(), "\n")
	if len(lines) != len(action.Names()) {
		t.Fatalf("%d lines for %d actions", len(lines), len(action.Names()))
	}
	for i, name := range action.Names() {
		if !strings.HasPrefix(lines[i], name+"{") {
			t.Errorf("%q is not the signature of %s", lines[i], name)
		}
	}
}

// Whatever a model writes is read, or rejected with an error that names the action.
func FuzzRead(f *testing.F) {
	f.Add(`[{"click":{"index":3,"force":true}},{"reload":{}}]`)
	f.Add(`[{"fill_form":{"fields":[{"index":1,"text":"a"}]}}]`)
	f.Add(`[{"select_dropdown":{"index":1,"texts":["a",2]}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var list []map[string]any
		if json.Unmarshal([]byte(text), &list) != nil {
			t.Skip()
		}
		actions, err := action.Read(list)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "action ") {
				t.Error(err)
			}
			return
		}
		if len(list) > 0 && len(list) <= action.MaxActions {
			if _, err := action.Parse(actions); err != nil {
				t.Errorf("what was read is no sequence: %v", err)
			}
		}
	})
}
