package action

import (
	"context"
	"errors"
)

// AskUser are the arguments of ask_user: a person does what the model can't, such as a login.
type AskUser struct {
	Reason string `json:"reason" jsonschema:"what a person must do, such as log in"`
}

func (a *AskUser) do(ctx context.Context, r *run) (string, error) {
	if r.s.AskUser == nil {
		return "", errors.New("nobody can be asked here")
	}
	if err := r.s.AskUser(ctx, r.tab, a.Reason); err != nil {
		return "", err
	}
	r.ends = true
	return "The user says that it is done", nil
}
