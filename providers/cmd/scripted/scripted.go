package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// scripted is the provider.
type scripted struct {
	config *config
	logger hclog.Logger
	player *script.Player
	models []llm.ModelRow
	memory *memory
	log    *appendFile // may be nil

	clock func() (wall time.Time, monotonic time.Duration)
	end   func(how string, code int) error // ends the process; returns only if that fails
}

// Models implements provider.Provider.
func (s *scripted) Models(context.Context) ([]llm.ModelRow, error) { return s.models, nil }

// Prepare implements provider.Provider. A script uses no HTTP: the method says so, and the body is the canonical request.
func (s *scripted) Prepare(_ context.Context, r *llm.Request) (*provider.Prepared, error) {
	body, err := canonical(r)
	if err != nil {
		return nil, err
	}
	step, err := s.player.Peek(r)
	if err != nil {
		return nil, err
	}
	target := url.URL{Scheme: "script", Host: url.PathEscape(s.player.Name()), Path: "/" + step}
	return &provider.Prepared{
		Method: "SCRIPT", URL: target.String(), Body: body,
		Headers: []provider.Header{{Name: "content-type", Value: "application/json"}},
	}, nil
}

// Stream implements provider.Provider.
func (s *scripted) Stream(ctx context.Context, r *provider.StreamRequest, emit func(llm.Event) error) error {
	wall, monotonic := s.clock()
	answer, err := s.memory.advance(r.ThreadID, func(known script.Position) (*script.Answer, error) {
		return s.player.Play(script.Input{Request: r.Request, Thread: r.ThreadID, Turn: r.TurnID, MaxAttempts: r.MaxAttempts, Known: known})
	})
	refusal := asError(err)
	if err := s.logRequest(r, wall, monotonic, answer, refusal); err != nil {
		return err
	}
	if refusal != nil {
		return refusal
	}
	p := &performance{ctx: ctx, emit: emit, end: s.end, step: answer.Step}
	if !answer.Whole {
		// The conversation will not show that this step was played.
		s.memory.note(r.ThreadID, answer.Position, s.logger)
	}
	err = p.perform(answer.Actions)
	switch {
	case err != nil && answer.Whole:
		s.memory.note(r.ThreadID, answer.Position, s.logger) // cancelled by the host
	case answer.Whole:
		s.memory.forgetNote(r.ThreadID)
	}
	return err
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
	Monotonic   int64           `json:"monotonic_ns"` // monotonic clock of the machine, comparable between processes if available
	Process     int             `json:"pid"`
	Thread      string          `json:"thread"`
	Turn        string          `json:"turn"`
	MaxAttempts int             `json:"max_attempts"`
	N           int             `json:"n,omitempty"`       // the number of the request in its thread, as the script counts
	Step        string          `json:"step,omitempty"`    // the step that responds
	Refused     string          `json:"refused,omitempty"` // why no step responds
	Request     json.RawMessage `json:"request"`
}

func (s *scripted) logRequest(r *provider.StreamRequest, wall time.Time, monotonic time.Duration, a *script.Answer, refusal *llm.Error) error {
	if s.log == nil {
		return nil
	}
	body, err := canonical(r.Request)
	if err != nil {
		return err
	}
	line := requestLine{
		Time: wall.UTC().Format(time.RFC3339Nano), Monotonic: monotonic.Nanoseconds(), Process: os.Getpid(),
		Thread: r.ThreadID, Turn: r.TurnID, MaxAttempts: r.MaxAttempts, Request: body,
	}
	if a != nil {
		line.Step, line.N = a.Step, a.Position.Request
	}
	if refusal != nil {
		line.Refused = refusal.Message
	}
	return s.log.writeJSON(line)
}

// Close closes the log.
func (s *scripted) Close() error { return s.log.Close() }

// canonical returns the request as JSON that depends only on its content: compact, with sorted keys in all objects, including
// schemas and metadata.
func canonical(req *llm.Request) ([]byte, error) {
	b, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("request as JSON: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("request as JSON: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, fmt.Errorf("request as JSON: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
