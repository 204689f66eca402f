//go:build unix

package plugintest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/provider"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// Models implements ProviderService.
func (s *services) Models(context.Context, *gantryv1.ModelsRequest) (*gantryv1.ModelsResponse, error) {
	if s.rows == nil {
		return &gantryv1.ModelsResponse{Models: []*gantryv1.ModelRow{{Id: "small", ContextWindow: 1000}, {Id: "large", ContextWindow: 9000}}}, nil
	}
	return &gantryv1.ModelsResponse{Models: s.rows}, nil
}

// Prepare implements ProviderService.
func (s *services) Prepare(_ context.Context, r *gantryv1.PrepareRequest) (*gantryv1.PrepareResponse, error) {
	if s.prepared != nil {
		return s.prepared, nil
	}
	return &gantryv1.PrepareResponse{
		Method: "POST", Url: "https://example.com/v1/answers", Headers: []*gantryv1.Header{{Name: "Authorization", Value: "(redacted)"}},
		Body: []byte(`{"model":"` + r.GetRequest().GetModel() + `"}`),
	}, nil
}

// greeting is a whole answer.
func greeting() []llm.Event {
	return []llm.Event{
		llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "1"}, llm.BlockDelta{Kind: llm.BlockText, ID: "1", Text: "Hello."},
		llm.BlockEnd{Kind: llm.BlockText, ID: "1"}, llm.StepFinish{Reason: llm.FinishStop}, llm.Finish{Reason: llm.FinishStop},
	}
}

func sendEvents(stream grpc.ServerStreamingServer[gantryv1.StreamResponse], events ...llm.Event) error {
	for _, e := range events {
		if err := stream.Send(&gantryv1.StreamResponse{Events: convert.EventsToProto([]llm.Event{e})}); err != nil {
			return err
		}
	}
	return nil
}

// Stream implements ProviderService.
func (s *services) Stream(_ *gantryv1.StreamRequest, stream grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
	if s.draining.Load() {
		return status.Error(codes.Unavailable, "draining")
	}
	if s.answer != nil {
		return s.answer(stream)
	}
	return sendEvents(stream, greeting()...)
}

// greeter says hello, through the SDK.
type greeter struct{}

func newGreeter(context.Context, provider.Env) (provider.Provider, error) { return greeter{}, nil }

// Models implements provider.Provider.
func (greeter) Models(context.Context) ([]llm.ModelRow, error) {
	return []llm.ModelRow{{ID: "polite"}}, nil
}

// Prepare implements provider.Provider.
func (greeter) Prepare(context.Context, *llm.Request) (*provider.Prepared, error) {
	return &provider.Prepared{Method: "POST", URL: "https://example.com/greet"}, nil
}

// Stream implements provider.Provider.
func (greeter) Stream(_ context.Context, _ *provider.StreamRequest, emit func(llm.Event) error) error {
	for _, e := range greeting() {
		if err := emit(e); err != nil {
			return err
		}
	}
	return nil
}
