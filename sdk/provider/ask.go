package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// Question is a question to the user who ran a command: a choice if Options is set, a form if FormSchema is set, a URL if
// URL is set.
type Question struct {
	Title, Message string
	Options        []string
	FormSchema     json.RawMessage // JSON Schema of an object with flat properties
	URL            string
	// Redirect makes the host listen for the redirect of the browser. It replaces "{redirect_uri}" in URL by its own
	// percent-encoded address. RedirectPort is the port to listen on; 0: any.
	Redirect     bool
	RedirectPort int
}

// Answer is the user's answer.
type Answer struct {
	Declined bool // the user declined, or there is no user to ask
	Choice   string
	Form     json.RawMessage
	// RedirectURI is the address to which the browser was redirected, with Query.
	RedirectURI string
	Query       map[string]string
}

type tokenKey struct{}

// Ask asks the user a question and waits for the answer. It can only be called within [Command].Run, with the context that
// was passed there.
func (h *Host) Ask(ctx context.Context, q Question) (Answer, error) {
	token, _ := ctx.Value(tokenKey{}).(string)
	if token == "" && h.client != nil {
		return Answer{}, errors.New("ask: only a command can ask the user")
	}
	r := &gantryv1.AskRequest{CallToken: token, Title: q.Title, Message: q.Message}
	switch {
	case len(q.Options) > 0:
		r.Kind, r.Options = gantryv1.AskKind_ASK_KIND_CHOICE, q.Options
	case len(q.FormSchema) > 0:
		r.Kind, r.FormSchemaJson = gantryv1.AskKind_ASK_KIND_FORM, q.FormSchema
	case q.URL != "":
		r.Kind, r.Url, r.Redirect, r.RedirectPort = gantryv1.AskKind_ASK_KIND_URL, q.URL, q.Redirect, int32(q.RedirectPort)
	default:
		return Answer{}, errors.New("ask: the question has neither options, a form nor a URL")
	}
	resp, err := h.services().Ask(ctx, r)
	if err != nil {
		return Answer{}, fmt.Errorf("ask: %w", err)
	}
	return answerOf(q, resp)
}

func answerOf(q Question, resp *gantryv1.AskResponse) (a Answer, err error) {
	switch resp.GetOutcome() {
	case gantryv1.AskOutcome_ASK_OUTCOME_ANSWERED:
	case gantryv1.AskOutcome_ASK_OUTCOME_CANCELLED:
		return Answer{}, context.Canceled
	default:
		return Answer{Declined: true}, nil
	}
	raw := resp.GetAnswerJson()
	switch {
	case len(q.Options) > 0:
		err = json.Unmarshal(raw, &a.Choice)
	case len(q.FormSchema) > 0:
		a.Form = raw
	case q.Redirect:
		var back struct {
			RedirectURI string            `json:"redirect_uri"`
			Query       map[string]string `json:"query"`
		}
		err = json.Unmarshal(raw, &back)
		a.RedirectURI, a.Query = back.RedirectURI, back.Query
	}
	if err != nil {
		return Answer{}, fmt.Errorf("ask: invalid answer: %w", err)
	}
	return a, nil
}
