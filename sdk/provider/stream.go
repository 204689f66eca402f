package provider

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// Models implements the provider service.
func (s *server) Models(ctx context.Context, r *gantryv1.ModelsRequest) (*gantryv1.ModelsResponse, error) {
	i, release, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	rows, err := models(ctx, i.provider, r.GetName())
	if err != nil {
		return nil, callError(ctx, err)
	}
	return &gantryv1.ModelsResponse{Models: convert.ModelRowsToProto(rows)}, nil
}

// models returns the row of the model name, or all rows if name is empty.
func models(ctx context.Context, p Provider, name string) ([]llm.ModelRow, error) {
	if f, ok := p.(Finder); ok && name != "" {
		row, found, err := f.Find(ctx, name)
		if err != nil || !found {
			return nil, err
		}
		return []llm.ModelRow{row}, nil
	}
	rows, err := p.Models(ctx)
	if name == "" || err != nil {
		return rows, err
	}
	i := slices.IndexFunc(rows, func(r llm.ModelRow) bool { return r.ID == name })
	if i < 0 {
		return nil, nil
	}
	return rows[i : i+1], nil
}

// Prepare implements the provider service.
func (s *server) Prepare(ctx context.Context, r *gantryv1.PrepareRequest) (*gantryv1.PrepareResponse, error) {
	i, release, err := s.acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	req, lerr := requestFromProto(r.GetRequest())
	if lerr != nil {
		return nil, callError(ctx, lerr)
	}
	p, err := i.provider.Prepare(ctx, req)
	if err != nil {
		return nil, callError(ctx, err)
	}
	res := &gantryv1.PrepareResponse{Method: p.Method, Url: p.URL, Body: p.Body}
	for _, h := range p.Headers {
		res.Headers = append(res.Headers, &gantryv1.Header{Name: h.Name, Value: h.Value})
	}
	return res, nil
}

// callError converts an error to a status, for calls whose response has no field for errors.
func callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	text := err.Error()
	if e, ok := errors.AsType[*llm.Error](err); ok && e.Next != "" {
		text = strings.TrimSuffix(text, ".") + "; next: " + e.Next
	}
	return status.Error(codes.FailedPrecondition, text)
}

func requestFromProto(p *gantryv1.LlmRequest) (*llm.Request, *llm.Error) {
	r, err := convert.RequestFromProto(p)
	switch {
	case err != nil:
		return nil, &llm.Error{
			Code: llm.ErrInvalidRequest, Message: "invalid request: " + err.Error(),
			Next: "Update the provider plugin: the host uses a newer version of the contract.",
		}
	case r == nil:
		return nil, &llm.Error{Code: llm.ErrInvalidRequest, Message: "the request is empty"}
	}
	return r, nil
}

// Stream implements the provider service.
func (s *server) Stream(r *gantryv1.StreamRequest, ss grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
	i, release, err := s.acquire()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	out := newOutbox(ctx, ss.Send)
	defer out.close() // also when Stream panics

	req, lerr := requestFromProto(r.GetRequest())
	if lerr != nil {
		_ = out.emit(lerr)
		return out.close()
	}
	sr := &StreamRequest{Request: req, MaxAttempts: int(r.GetMaxAttempts()), ThreadID: r.GetThreadId(), TurnID: r.GetTurnId()}
	if sr.MaxAttempts <= 0 {
		sr.MaxAttempts = DefaultMaxAttempts
	}
	err = i.provider.Stream(ctx, sr, out.emit)
	if ss.Context().Err() != nil {
		return status.FromContextError(ss.Context().Err()).Err()
	}
	switch {
	case out.terminal && err != nil:
		s.logger.Warn("the provider failed after its answer was complete", "thread", sr.ThreadID, "turn", sr.TurnID, "err", err)
	case out.terminal:
	case err != nil:
		_ = out.emit(asError(err))
	default:
		_ = out.emit(&llm.Error{Code: llm.ErrIncompleteStream, Message: "the provider's answer is incomplete", Retryable: true})
	}
	return out.close()
}

// asError converts an error to the last event of a stream.
func asError(err error) *llm.Error {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e
	}
	return &llm.Error{Code: llm.ErrUnknown, Message: err.Error()}
}
