package service_test

import (
	"context"
	"encoding/json"
	"errors"
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
