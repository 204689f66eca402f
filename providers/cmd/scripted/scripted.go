package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/providers/recording"
	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// scripted is the provider: exactly one of player and replay is set.
type scripted struct {
	config *config
	logger hclog.Logger
	player *script.Player
	replay *recording.Replay
	models []llm.ModelRow
	memory *memory
	log    *appendFile // may be nil
	tape   *appendFile // may be nil

	clock func() (wall time.Time, monotonic time.Duration)
	end   func(how string, code int) error // ends the process; returns only if it can't
}

// Models implements provider.Provider.
func (s *scripted) Models(context.Context) ([]llm.ModelRow, error) { return s.models, nil }

// Prepare implements provider.Provider. There is no HTTP behind a script: the method says so, and the body is the
// canonical request.
func (s *scripted) Prepare(_ context.Context, r *llm.Request) (*provider.Prepared, error) {
	body, err := recording.Canonical(r)
	if err != nil {
		return nil, err
	}
	target := url.URL{Scheme: "script", Host: "replay", Path: "/"}
	if s.player != nil {
		step, err := s.player.Peek(r)
		if err != nil {
			return nil, err
		}
		target.Host, target.Path = url.PathEscape(s.player.Name()), "/"+step
	}
	return &provider.Prepared{
		Method: "SCRIPT", URL: target.String(), Body: body,
		Headers: []provider.Header{{Name: "content-type", Value: "application/json"}},
	}, nil
}

// Stream implements provider.Provider.
func (s *scripted) Stream(ctx context.Context, r *provider.StreamRequest, emit func(llm.Event) error) error {
	wall, monotonic := s.clock()
	answer, n, refusal := s.answer(r)
	if err := s.logRequest(r, wall, monotonic, n, answer, refusal); err != nil {
		return err
	}
	tape, err := s.newTake(r, n)
	if err != nil {
		return err
	}
	if refusal != nil {
		tape.add(refusal)
		return errors.Join(refusal, tape.close(ctx))
	}
	p := &performance{ctx: ctx, emit: emit, take: tape, end: s.end, step: answer.Step}
	if !answer.Whole {
		// Nothing in the conversation will tell that this step was played.
		s.memory.note(r.ThreadID, answer.Position, s.logger)
	}
	err = p.perform(answer.Actions)
	switch {
	case err != nil && answer.Whole:
		s.memory.note(r.ThreadID, answer.Position, s.logger) // cut off by the host
	case answer.Whole:
		s.memory.forgetNote(r.ThreadID)
	}
	if closeErr := tape.close(ctx); closeErr != nil && err == nil {
		err = closeErr
	}
	return err
}

// answer finds out what is answered, and the number of the request in its thread.
func (s *scripted) answer(r *provider.StreamRequest) (*script.Answer, int, *llm.Error) {
	if s.replay != nil {
		e, err := s.replay.Next(r.ThreadID, r.Request)
		if err != nil {
			return nil, 0, asError(err)
		}
		a, err := replayed(e)
		return a, e.Request, asError(err)
	}
	a, err := s.memory.advance(r.ThreadID, func(known script.Position) (*script.Answer, error) {
		return s.player.Play(script.Input{Request: r.Request, Thread: r.ThreadID, Turn: r.TurnID, MaxAttempts: r.MaxAttempts, Known: known})
	})
	if err != nil {
		return nil, 0, asError(err)
	}
	return a, a.Position.Request, nil
}

// replayed makes a recorded answer playable.
func replayed(e recording.Entry) (*script.Answer, error) {
	events, err := e.Answer()
	if err != nil {
		return nil, err
	}
	a := &script.Answer{Step: fmt.Sprintf("request %d of %s", e.Request, e.Thread), Whole: true} // a replay keeps no notes
	for _, ev := range events {
		a.Actions = append(a.Actions, script.Emit{Event: ev})
	}
	switch {
	case e.Cancel:
		a.Actions = append(a.Actions, script.Halt{How: "hang"}) // until the host cancels it as it did then
	case e.Cut:
		a.Actions = append(a.Actions, script.Halt{How: "eof"})
	}
	return a, nil
}

func asError(err error) *llm.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e
	}
	return &llm.Error{Code: llm.ErrUnknown, Message: err.Error()}
}

// requestLine is a line of the request log.
type requestLine struct {
	Time        string          `json:"time"`
	Monotonic   int64           `json:"monotonic_ns"` // of the machine's clock, comparable between processes where there is one
	Process     int             `json:"pid"`
	Thread      string          `json:"thread"`
	Turn        string          `json:"turn"`
	MaxAttempts int             `json:"max_attempts"`
	N           int             `json:"n,omitempty"`       // which request of its thread, as the script counts
	Step        string          `json:"step,omitempty"`    // what answers
	Refused     string          `json:"refused,omitempty"` // why nothing does
	Request     json.RawMessage `json:"request"`
}

func (s *scripted) logRequest(r *provider.StreamRequest, wall time.Time, monotonic time.Duration, n int, a *script.Answer, refusal *llm.Error) error {
	if s.log == nil {
		return nil
	}
	body, err := recording.Canonical(r.Request)
	if err != nil {
		return err
	}
	line := requestLine{
		Time: wall.UTC().Format(time.RFC3339Nano), Monotonic: monotonic.Nanoseconds(), Process: os.Getpid(),
		Thread: r.ThreadID, Turn: r.TurnID, MaxAttempts: r.MaxAttempts, N: n, Request: body,
	}
	if a != nil {
		line.Step = a.Step
	}
	if refusal != nil {
		line.Refused = refusal.Message
	}
	return s.log.writeJSON(line)
}

// Close gives the files back.
func (s *scripted) Close() error { return errors.Join(s.log.Close(), s.tape.Close()) }
