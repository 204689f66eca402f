package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/form"
	"github.com/gantry-agent/gantry/host/internal/visible"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits of questions, in bytes. Titles and messages are cut; the rest, which an answer refers to, is refused.
const (
	maxAskSource  = 128
	maxAskTitle   = 1 << 10
	maxAskMessage = 16 << 10
	maxAskOption  = 1 << 10
	maxAskOptions = form.MaxOptions
	maxAskURL     = 16 << 10
)

// askAbout completes a question, asks it, and converts the answer.
func (s *server) askAbout(ctx context.Context, r *gantryv1.AskRequest, q approval.Question,
	ask func(context.Context, approval.Question) (approval.Answer, error),
) (*gantryv1.AskResponse, error) {
	f, err := complete(&q, r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	var a approval.Answer
	switch {
	case q.About == event.QuestionURL && r.GetRedirectId() != "":
		to, ok := s.redirects.find(r.GetRedirectId(), r.GetCallToken())
		if !ok {
			return nil, status.Error(codes.PermissionDenied, "the redirect_id is not valid: it is valid for one question of the call or command that has reserved it")
		}
		a, err = to.await(ctx, ask, q)
	case q.About == event.QuestionURL && r.GetRedirect():
		a, err = redirected(ctx, ask, q, int(r.GetRedirectPort()))
	default:
		a, err = ask(ctx, q)
	}
	switch {
	case errors.Is(err, approval.ErrNoApprover):
		return declined(err.Error()), nil
	case ctx.Err() != nil:
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_CANCELLED}, nil
	case err != nil:
		return nil, statusOf(err)
	case a.Choice == approval.Deny:
		return declined(""), nil
	case a.Choice == approval.Dismiss:
		return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_DISMISSED}, nil
	}
	if f != nil {
		if err := f.Check(a.Data); err != nil {
			return declined("the answer does not fit the form: " + err.Error()), nil
		}
	}
	answer := []byte(a.Data)
	if answer == nil {
		answer = jsonString(a.Choice)
	}
	return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_ANSWERED, AnswerJson: answer}, nil
}

// declined is the response to a question without an answer. note says why if the user has not decided.
func declined(note string) *gantryv1.AskResponse {
	return &gantryv1.AskResponse{Outcome: gantryv1.AskOutcome_ASK_OUTCOME_DECLINED, Note: note}
}

// complete copies what a plugin asks into a question, as it is safe to show. For a form, it returns the form.
func complete(q *approval.Question, r *gantryv1.AskRequest) (f *form.Form, err error) {
	switch r.GetKind() {
	case gantryv1.AskKind_ASK_KIND_CHOICE:
		q.About, q.Options = event.QuestionChoice, r.GetOptions()
		if len(q.Options) > maxAskOptions {
			return nil, fmt.Errorf("the question has %d options; the maximum is %d", len(q.Options), maxAskOptions)
		}
		for _, o := range q.Options {
			if err := plainText("an option", o, maxAskOption); err != nil {
				return nil, err
			}
		}
	case gantryv1.AskKind_ASK_KIND_FORM:
		q.About, q.Schema = event.QuestionForm, r.GetFormSchemaJson()
		if f, err = form.Parse(q.Schema); err != nil {
			return nil, err
		}
	case gantryv1.AskKind_ASK_KIND_URL:
		q.About, q.URL = event.QuestionURL, r.GetUrl()
		if err := plainText("the URL", q.URL, maxAskURL); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New("a question is a choice, a form or a URL")
	}
	if err := plainText("the source", r.GetSource(), maxAskSource); err != nil {
		return nil, err
	}
	q.Source = r.GetSource()
	q.Title, q.Message = visible.Text(r.GetTitle(), maxAskTitle), visible.Text(r.GetMessage(), maxAskMessage)
	return f, nil
}

// plainText returns an error if a text is too long or has characters that could hide a part of it.
func plainText(what, s string, limit int) error {
	switch {
	case len(s) > limit:
		return fmt.Errorf("%s of the question has %d bytes; the maximum is %d", what, len(s), limit)
	case strings.ContainsFunc(s, func(c rune) bool { return c == '\n' || c == '\t' || visible.Hides(c) }):
		return fmt.Errorf("%s of the question has control or formatting characters: %.80q", what, s)
	}
	return nil
}
