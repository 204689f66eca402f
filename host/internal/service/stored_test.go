package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// A plugin reads what it stored, and nobody else does.
func TestStoredSecrets(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	get := func(c gantryv1.HostServiceClient, name string) (string, codes.Code) {
		r, err := c.Secret(t.Context(), &gantryv1.SecretRequest{Handle: "stored:" + name})
		return r.GetValue(), code(err)
	}
	put := func(name, value string) codes.Code {
		_, err := mine.StoreSecret(t.Context(), &gantryv1.StoreSecretRequest{Name: name, Value: value})
		return code(err)
	}
	if _, c := get(mine, "oauth"); c != codes.NotFound {
		t.Errorf("before it was stored: %v", c)
	}
	if c := put("oauth", "token 1"); c != codes.OK {
		t.Fatal(c)
	}
	if v, c := get(mine, "oauth"); v != "token 1" || c != codes.OK {
		t.Errorf("read %q, %v", v, c)
	}
	if v, c := get(other, "oauth"); v != "" || c != codes.NotFound {
		t.Errorf("another plugin reads %q, %v", v, c)
	}
	for _, bad := range []string{"", "../mine/oauth", "A", "a/b"} {
		if c := put(bad, "x"); c != codes.InvalidArgument {
			t.Errorf("stored under %q: %v", bad, c)
		}
	}
	for range 2 { // forgetting twice is no error
		if c := put("oauth", ""); c != codes.OK {
			t.Error(c)
		}
	}
	if _, c := get(mine, "oauth"); c != codes.NotFound {
		t.Errorf("after it was forgotten: %v", c)
	}
}

// asker answers what a command wants to know.
type asker func(approval.Question) (approval.Answer, error)

func (a asker) Ask(_ context.Context, q approval.Question) (approval.Answer, error) { return a(q) }

// Within a command its plugin may ask who gave it, as long as the command runs.
func TestCommandsAsk(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	choice := &gantryv1.AskRequest{Kind: gantryv1.AskKind_ASK_KIND_CHOICE, Title: "Which?", Options: []string{"a", "b"}}
	ask := func(c gantryv1.HostServiceClient, token string) (*gantryv1.AskResponse, codes.Code) {
		choice.CallToken = token
		r, err := c.Ask(t.Context(), choice)
		return r, code(err)
	}
	token, end := w.commands.Begin(t.Context(), "mine", asker(func(q approval.Question) (approval.Answer, error) {
		if q.About != event.QuestionChoice || q.Title != "Which?" || len(q.Options) != 2 {
			return approval.Answer{}, errors.New("not what was asked")
		}
		return approval.Answer{Choice: "b"}, nil
	}), false)
	if r, c := ask(mine, token); c != codes.OK || string(r.GetAnswerJson()) != `"b"` {
		t.Errorf("answer %v, %v", r, c)
	}
	if _, c := ask(other, token); c != codes.PermissionDenied {
		t.Errorf("another plugin asks with the token: %v", c)
	}
	end()
	if _, c := ask(mine, token); c != codes.PermissionDenied {
		t.Errorf("after the command's end: %v", c)
	}
	token, end = w.commands.Begin(t.Context(), "mine", nil, false)
	defer end()
	if r, c := ask(mine, token); c != codes.OK || r.GetOutcome() != gantryv1.AskOutcome_ASK_OUTCOME_DECLINED {
		t.Errorf("nobody there: %v, %v", r, c)
	}
	form := json.RawMessage(`{`)
	if _, err := mine.Ask(t.Context(), &gantryv1.AskRequest{CallToken: token, Kind: gantryv1.AskKind_ASK_KIND_FORM, FormSchemaJson: form}); code(err) != codes.InvalidArgument {
		t.Errorf("a form that is no JSON: %v", err)
	}
}

// The answer to a form is the object that was asked for, or there is none, and the plugin learns why. What a plugin asks is named as
// its own and can't hide anything.
func TestFormsAndWhoAsks(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	var asked approval.Question
	answer := approval.Answer{}
	var failure error
	token, end := w.commands.Begin(t.Context(), "mine", asker(func(q approval.Question) (approval.Answer, error) {
		asked = q
		return answer, failure
	}), false)
	defer end()
	schema := `{"type":"object","properties":{"size":{"type":"integer"}},"required":["size"]}`
	r := &gantryv1.AskRequest{
		CallToken: token, Kind: gantryv1.AskKind_ASK_KIND_FORM, FormSchemaJson: []byte(schema), Source: "github",
		Title: "Size\x1b[2J", Message: "which\u202e" + strings.Repeat("x", 100_000),
	}
	const (
		answered, said, dismissed = gantryv1.AskOutcome_ASK_OUTCOME_ANSWERED, gantryv1.AskOutcome_ASK_OUTCOME_DECLINED, gantryv1.AskOutcome_ASK_OUTCOME_DISMISSED
	)
	for _, tc := range []struct {
		answer  approval.Answer
		err     error
		outcome gantryv1.AskOutcome
		note    string
	}{
		{approval.Answer{Choice: approval.Approve, Data: json.RawMessage(`{"size":3}`)}, nil, answered, ""},
		{approval.Answer{Choice: approval.Approve, Data: json.RawMessage(`{"size":"3"}`)}, nil, said, "does not fit the form"},
		{approval.Answer{Choice: approval.Approve, Data: json.RawMessage(`{"size":3,"more":1}`)}, nil, said, "does not fit the form"},
		{approval.Answer{Choice: `{"size":3}`}, nil, said, "does not fit the form"}, // a line, as older clients answer
		{approval.Answer{Choice: approval.Deny}, nil, said, ""},
		{approval.Answer{Choice: approval.Dismiss}, nil, dismissed, ""},
		{approval.Answer{}, approval.ErrNoApprover, said, "nobody to ask"},
	} {
		answer, failure = tc.answer, tc.err
		got, err := mine.Ask(t.Context(), r)
		if err != nil || got.GetOutcome() != tc.outcome || (tc.note == "") != (got.GetNote() == "") || !strings.Contains(got.GetNote(), tc.note) {
			t.Errorf("%+v: %+v, %v", tc, got, err)
		}
		if tc.outcome == answered && string(got.GetAnswerJson()) != `{"size":3}` {
			t.Errorf("the answer is %s", got.GetAnswerJson())
		}
	}
	if asked.Plugin != "mine" || asked.Source != "github" || len(asked.Message) > 20_000 || strings.ContainsAny(asked.Title+asked.Message, "\x1b\u202e") {
		t.Errorf("the question is %.200q of %q, %q: %.100q, %d bytes", asked.Title, asked.Plugin, asked.Source, asked.Message, len(asked.Message))
	}
	for what, bad := range map[string]*gantryv1.AskRequest{
		"a nested form":    {Kind: gantryv1.AskKind_ASK_KIND_FORM, FormSchemaJson: []byte(`{"type":"object","properties":{"a":{"type":"object"}}}`)},
		"a source's lines": {Kind: gantryv1.AskKind_ASK_KIND_CHOICE, Source: "a\nb"},
		"a long source":    {Kind: gantryv1.AskKind_ASK_KIND_CHOICE, Source: strings.Repeat("x", 129)},
		"an option":        {Kind: gantryv1.AskKind_ASK_KIND_CHOICE, Options: []string{"a\u202eb"}},
		"options":          {Kind: gantryv1.AskKind_ASK_KIND_CHOICE, Options: make([]string, 1000)},
		"a URL":            {Kind: gantryv1.AskKind_ASK_KIND_URL, Url: "https://a.test/\x1b[2J"},
	} {
		bad.CallToken = token
		if _, err := mine.Ask(t.Context(), bad); code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A command starts processes, which end with it: none for another plugin, none that outlives it, none if its grant is refused.
func TestCommandsStartProcesses(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	token, end := w.commands.Begin(t.Context(), "mine", nil, true)
	spawn := func(c gantryv1.HostServiceClient, r *gantryv1.SpawnRequest) (*gantryv1.SpawnResponse, codes.Code) {
		r.CallToken = token
		p, err := c.Spawn(t.Context(), r)
		return p, code(err)
	}
	p, c := spawn(mine, &gantryv1.SpawnRequest{Argv: []string{"sh", "-c", "exit 7"}})
	if c != codes.OK || p.GetError() != nil {
		t.Fatalf("%v, %v", p, c)
	}
	if exit, err := mine.Wait(t.Context(), &gantryv1.WaitRequest{ProcessId: p.GetProcessId()}); err != nil || exit.GetExitCode() != 7 {
		t.Errorf("%v, %v", exit, err)
	}
	if _, c := spawn(other, &gantryv1.SpawnRequest{Argv: []string{"true"}}); c != codes.PermissionDenied {
		t.Errorf("another plugin with the token: %v", c)
	}
	if _, c := spawn(mine, &gantryv1.SpawnRequest{Argv: []string{"true"}, Session: true}); c != codes.InvalidArgument {
		t.Errorf("a session: %v", c)
	}
	p, c = spawn(mine, &gantryv1.SpawnRequest{Argv: []string{"sleep", "1000"}})
	if c != codes.OK || p.GetError() != nil {
		t.Fatalf("%v, %v", p, c)
	}
	end()
	if _, err := mine.Wait(t.Context(), &gantryv1.WaitRequest{ProcessId: p.GetProcessId()}); code(err) != codes.NotFound {
		t.Errorf("a process after the end of its command: %v", err)
	}
	if _, c := spawn(mine, &gantryv1.SpawnRequest{Argv: []string{"true"}}); c != codes.PermissionDenied {
		t.Errorf("after the command's end: %v", c)
	}
	token, end = w.commands.Begin(t.Context(), "mine", nil, false)
	defer end()
	if p, c := spawn(mine, &gantryv1.SpawnRequest{Argv: []string{"true"}}); c != codes.OK || !p.GetError().GetDenied() || p.GetError().GetMessage() != "there is no sandbox" {
		t.Errorf("without a grant: %v, %v", p, c)
	}
}
