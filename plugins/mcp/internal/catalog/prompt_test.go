package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestListPrompts(t *testing.T) {
	list := func(items ...string) (string, string, error) {
		prompts, problems, err := ListPrompts(t.Context(), func(context.Context, string) (json.RawMessage, error) {
			return json.RawMessage(`{"prompts":[` + strings.Join(items, ",") + `]}`), nil
		})
		return fmt.Sprintf("%+v", prompts), errors.Join(problems...).Error(), err
	}
	got, problems, err := list(
		`{"name":"greet","title":"G\u001b[1m\n","description":"says \u202ehi","arguments":[{"name":"who","required":true,"description":5},{"name":"how"}]}`,
		`{"name":"greet"}`, `5`, `{"name":""}`, `{"name":"a\nb"}`, `{"name":"c\u202e"}`, `{"name":"args","arguments":5}`, `{"name":"arg","arguments":[{"name":""}]}`,
		`{"name":"many","arguments":[`+strings.TrimSuffix(strings.Repeat(`{"name":"x"},`, 33), ",")+`]}`,
	)
	if err != nil || got != `[{Name:greet Title:G[1m Description:says hi Arguments:[{Name:who Title: Description: Required:true} {Name:how Title: Description: Required:false}]}]` {
		t.Errorf("%s, %v", got, err)
	}
	for _, want := range []string{
		`the prompt "greet" is listed twice`, "a prompt is not a JSON object", "has 0 bytes; 1 to 256", `characters that can't be shown: "a b"`, `characters that can't be shown: "c"`,
		`the arguments of the prompt "args" are not a list`, `the name of an argument of the prompt "arg" has 0 bytes`, `the prompt "many" has 33 arguments`,
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("no %q in\n%s", want, problems)
		}
	}
	long := strings.Repeat("x", 2000)
	for item, want := range map[string]int{`{"name":"p%d"}`: MaxPrompts, `{"name":"p%d","description":"` + long + `","arguments":[{"name":"a","description":"` + long + `"}]}`: 127} {
		var items []string
		for i := range 300 {
			items = append(items, fmt.Sprintf(item, i))
		}
		got, problems, err := list(items...)
		if n := strings.Count(got, "Name:p"); err != nil || n != want || !strings.Contains(problems, fmt.Sprintf("%d prompts are left out", 300-n)) {
			t.Errorf("%d prompts, want %d; %v\n%s", n, want, err, problems)
		}
	}
}

func TestOutputValue(t *testing.T) {
	got, err := OutputValue([]byte(`{"z":["a\u202e",1.50,{"k\u001b":"\u001b[2J"}],"a":null}`))
	if err != nil || string(got) != "{\"a\":null,\"z\":[\"a\uFFFD\",1.50,{\"k\uFFFD\":\"\uFFFD[2J\"}]}" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestValues(t *testing.T) {
	long := strings.Repeat("x", 300)
	if got := Values([]string{"a b", "\x1b[1m", "x\u202e", "two\nlines", long, ""}); fmt.Sprintf("%q", got) != `["a b" ""]` {
		t.Errorf("%q", got)
	}
	if got := Values(strings.Split(strings.Repeat("v,", 1000), ",")); len(got) != maxValues {
		t.Errorf("%d values", len(got))
	}
}
