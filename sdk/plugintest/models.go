package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

func checkModels(ctx context.Context, k *kit, p *process) verdict {
	resp, err := call(ctx, k, p, p.provider().Models, &gantryv1.ModelsRequest{})
	if err != nil {
		return failed("list the models from the configuration and built-in data, without a request to the vendor", "%v", err)
	}
	seen := map[string]bool{}
	for _, row := range convert.ModelRowsFromProto(resp.GetModels()) {
		if err := checkRow(row, seen); err != nil {
			return failed("correct the row", "model %q: %v", row.ID, err)
		}
		seen[row.ID] = true
	}
	k.models = resp.GetModels()
	return passed("%d models", len(k.models))
}

func checkRow(r llm.ModelRow, seen map[string]bool) error {
	switch {
	case r.ID == "":
		return errors.New("it has no ID")
	case seen[r.ID]:
		return errors.New("the ID is not unique")
	case r.ContextWindow < 0 || r.MaxContextWindow < 0 || r.MaxOutputTokens < 0:
		return errors.New("a negative number of tokens")
	case r.MaxContextWindow > 0 && r.ContextWindow > r.MaxContextWindow:
		return fmt.Errorf("its context window of %d exceeds its maximum of %d", r.ContextWindow, r.MaxContextWindow)
	}
	for _, price := range []*float64{r.Prices.Input, r.Prices.Output, r.Prices.CacheRead, r.Prices.CacheWrite} {
		if price != nil && *price < 0 {
			return errors.New("a negative price")
		}
	}
	return nil
}

// request returns a short request to the model under test, or nil if there is no model.
func (k *kit) request() *gantryv1.LlmRequest {
	model := k.cfg.Model
	if model == "" {
		if len(k.models) == 0 {
			return nil
		}
		model = k.models[0].GetId()
	}
	return &gantryv1.LlmRequest{
		Model: model, System: []*gantryv1.SystemPart{{Text: "You answer in one sentence."}},
		Messages: []*gantryv1.LlmMessage{{Role: gantryv1.LlmRole_LLM_ROLE_USER, Parts: []*gantryv1.LlmPart{
			{Part: &gantryv1.LlmPart_Text{Text: &gantryv1.LlmText{Text: "Say hello."}}},
		}}},
	}
}

func checkPrepare(ctx context.Context, k *kit, p *process, req *gantryv1.LlmRequest) verdict {
	resp, err := call(ctx, k, p, p.provider().Prepare, &gantryv1.PrepareRequest{Request: req})
	if err != nil {
		return failed("build the same request as Stream, and return it instead of sending it", "%v", err)
	}
	if resp.GetMethod() == "" || resp.GetUrl() == "" {
		return failed("set the method and the URL", "method %q, URL %q", resp.GetMethod(), resp.GetUrl())
	}
	return passed("%s %s, %d bytes", resp.GetMethod(), resp.GetUrl(), len(resp.GetBody()))
}

func checkRedacts(ctx context.Context, k *kit, p *process, req *gantryv1.LlmRequest) verdict {
	secrets := k.host.secretValues()
	if len(secrets) == 0 {
		return skipped("pass the kit a configuration with a secret, which need not be valid", "the configuration has no secret")
	}
	resp, err := call(ctx, k, p, p.provider().Prepare, &gantryv1.PrepareRequest{Request: req})
	if err != nil {
		return broken(err)
	}
	places := map[string]string{"the URL": resp.GetUrl(), "the body": string(resp.GetBody())}
	for _, h := range resp.GetHeaders() {
		places["the header "+h.GetName()] = h.GetValue()
	}
	for where, text := range places {
		for _, s := range secrets {
			if len(s) >= 4 && strings.Contains(text, s) {
				return failed("redact secrets in the returned request", "%s contains a secret of the configuration", where)
			}
		}
	}
	return passed("none of %d secrets is revealed", len(secrets))
}

// answer reads one response to its end and checks the order of its events.
func (k *kit) answer(ctx context.Context, p *process, req *gantryv1.StreamRequest) (events int, last llm.Event, err error) {
	ctx, cancel := k.within(ctx, 3*responseTimeout)
	defer cancel()
	stream, err := p.provider().Stream(ctx, req)
	if err != nil {
		return 0, nil, k.explain(ctx, p, err)
	}
	var order llm.Checker
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return events, last, k.explain(ctx, p, err)
		}
		for _, e := range convert.EventsFromProto(msg.GetEvents()) {
			events++
			if err := order.Check(e); err != nil {
				return events, e, fmt.Errorf("event %d: %w", events, err)
			}
			last = e
		}
	}
	return events, last, order.Done()
}

func checkStreamOrder(ctx context.Context, k *kit, p *process, req *gantryv1.LlmRequest) verdict {
	const next = "send step-start, blocks with one start and one end each, step-finish and finish, or error as the last event"
	events, last, err := k.answer(ctx, p, &gantryv1.StreamRequest{Request: req, MaxAttempts: 1, ThreadId: threadID, TurnId: turnID})
	if err != nil {
		return failed(next, "%v", err)
	}
	if e, ok := last.(*llm.Error); ok {
		return passed("%d events, the last one the error %s", events, quote(e.Error()))
	}
	return passed("%d events", events)
}

func checkStreamCancel(ctx context.Context, k *kit, p *process, req *gantryv1.LlmRequest) verdict {
	const next = "abort the request when the RPC is cancelled, and continue all others"
	limited, cancel := k.within(ctx, responseTimeout)
	defer cancel()
	stream, err := p.provider().Stream(limited, &gantryv1.StreamRequest{Request: req, MaxAttempts: 1, ThreadId: threadID, TurnId: turnID})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return failed(next, "%v", k.explain(limited, p, err))
	}
	cancel()
	for err == nil {
		_, err = stream.Recv()
	}
	if c := status.Code(err); c != codes.Canceled && !errors.Is(err, io.EOF) {
		return failed(next, "after the cancellation: status %s", codeName(c))
	}
	if _, err := call(ctx, k, p, p.provider().Models, &gantryv1.ModelsRequest{}); err != nil {
		return failed(next, "after the cancellation: %v", err)
	}
	if p.wait(settle) {
		return failed(next, "after the cancellation, the process ended: %s", p.end())
	}
	return passed("the process keeps running")
}
