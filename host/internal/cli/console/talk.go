package console

import (
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/form"
)

// Talk reads a person's answer to a question that is on the screen.
type Talk struct {
	Say func(text string)
	// Read returns the next line. io.EOF: there are no more.
	Read func() (line string, err error)
}

// Answer reads the answer. It returns the errors of Read, except for io.EOF: then the question has no answer any more, and is denied.
func (t Talk) Answer(q event.QuestionAsked, options []string) (approval.Answer, error) {
	a, err := t.answer(q, options)
	if errors.Is(err, io.EOF) {
		t.Say("\n  no more answers possible: refused\n")
		return approval.Answer{Choice: approval.Deny}, nil
	}
	a.By = "user"
	return a, err
}

func (t Talk) answer(q event.QuestionAsked, options []string) (approval.Answer, error) {
	t.Say("  answer: ")
	for {
		line, err := t.Read()
		if err != nil {
			return approval.Answer{}, err
		}
		choice, ok := render.Chosen(line, q, options)
		switch {
		case !ok:
			t.Say("  type a letter, number or word from the list: ")
		case q.About == event.QuestionForm && choice == approval.Approve:
			return t.fill(q.Schema)
		default:
			return approval.Answer{Choice: choice}, nil
		}
	}
}

// fill asks for the fields of a form, and whether to send what was typed.
func (t Talk) fill(schema json.RawMessage) (approval.Answer, error) {
	f, err := form.Parse(schema)
	if err != nil { // from an older host
		return approval.Answer{}, err
	}
	for {
		object, err := t.fields(f)
		if err != nil {
			return approval.Answer{}, err
		}
		t.Say(render.Filled(object))
		choice, err := t.confirm()
		switch {
		case err != nil:
			return approval.Answer{}, err
		case choice == approval.Approve:
			return approval.Answer{Choice: choice, Data: object}, nil
		case choice != "":
			return approval.Answer{Choice: choice}, nil
		}
	}
}

// fields reads the values of a form until they are valid.
func (t Talk) fields(f *form.Form) (json.RawMessage, error) {
	for {
		values := make([]json.RawMessage, len(f.Fields))
		for i := range f.Fields {
			field := &f.Fields[i]
			t.Say(render.Field(*field, i+1, len(f.Fields)))
			for {
				line, err := t.Read()
				if err != nil {
					return nil, err
				}
				if values[i], err = field.Read(line); err == nil {
					break
				}
				t.Say("  " + render.OptionText(err.Error()) + "; value: ")
			}
		}
		object, err := f.Object(values)
		if err == nil {
			return object, nil
		}
		t.Say("  these values don't fit together: " + render.OptionText(err.Error()) + "; fill in again\n")
	}
}

// confirm reads what to do with a form that is filled in. Empty: fill it in again.
func (t Talk) confirm() (choice string, err error) {
	for {
		line, err := t.Read()
		if err != nil {
			return "", err
		}
		switch strings.ToLower(line) {
		case "y", "yes", "send":
			return approval.Approve, nil
		case "n", "decline":
			return approval.Deny, nil
		case "q", "dismiss":
			return approval.Dismiss, nil
		case "r":
			return "", nil
		}
		t.Say("  type y, r, n or q: ")
	}
}
