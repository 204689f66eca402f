//go:build unix

package plugintest

import (
	"context"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

func providerMutants() []mutant {
	rows := func(rows ...*gantryv1.ModelRow) func(*reference) {
		return asProvider(func(r *reference) { r.services = func(s *services) { s.rows = rows } })
	}
	prepared := func(p *gantryv1.PrepareResponse) func(*reference) {
		return asProvider(func(r *reference) { r.services = func(s *services) { s.prepared = p } })
	}
	answer := func(do func(grpc.ServerStreamingServer[gantryv1.StreamResponse]) error) func(*reference) {
		return asProvider(func(r *reference) { r.services = func(s *services) { s.answer = do } })
	}
	return []mutant{
		{check: "models.rows", how: "twice the same id", change: rows(&gantryv1.ModelRow{Id: "small"}, &gantryv1.ModelRow{Id: "small"})},
		{check: "models.rows", how: "no id", change: rows(&gantryv1.ModelRow{})},
		{check: "models.rows", how: "negative", change: rows(&gantryv1.ModelRow{Id: "small", ContextWindow: -1})},
		{check: "models.rows", how: "more than the most", change: rows(&gantryv1.ModelRow{Id: "small", ContextWindow: 2, MaxContextWindow: 1})},
		{check: "models.rows", how: "status", change: asProvider(unary(onUnary(gantryv1.ProviderService_Models_FullMethodName,
			func(context.Context, any, grpc.UnaryHandler) (any, error) { return nil, refused(codes.Internal) })))},
		{check: "prepare.answers", how: "no URL", change: prepared(&gantryv1.PrepareResponse{Method: "POST"})},
		{check: "prepare.answers", how: "not there", change: asProvider(unary(onUnary(gantryv1.ProviderService_Prepare_FullMethodName,
			func(context.Context, any, grpc.UnaryHandler) (any, error) { return nil, refused(codes.Unimplemented) })))},
		{check: "prepare.redacts", how: "in a header", change: prepared(&gantryv1.PrepareResponse{
			Method: "POST", Url: "https://example.com", Headers: []*gantryv1.Header{{Name: "Authorization", Value: "Bearer " + secret}},
		})},
		{check: "prepare.redacts", how: "in the URL", change: prepared(&gantryv1.PrepareResponse{Method: "POST", Url: "https://example.com?key=" + secret})},
		{check: "stream.order", how: "no end", change: answer(func(s grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			return sendEvents(s, greeting()[:4]...)
		})},
		{check: "stream.order", how: "no beginning", change: answer(func(s grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			return sendEvents(s, greeting()[1:]...)
		})},
		{check: "stream.order", how: "something after the end", change: answer(func(s grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			return sendEvents(s, append(greeting(), llm.BlockStart{Kind: llm.BlockText, ID: "2"})...)
		})},
		{check: "stream.order", how: "status instead of error", change: answer(func(grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			return refused(codes.Internal)
		})},
		{check: "stream.cancel", how: "fatal", change: answer(func(s grpc.ServerStreamingServer[gantryv1.StreamResponse]) error {
			if err := sendEvents(s, greeting()[:3]...); err != nil {
				return err
			}
			if waitFor(s.Context(), 3*time.Second) {
				os.Exit(2)
			}
			return sendEvents(s, greeting()[3:]...)
		})},
		{check: "drain.refuses", how: "takes requests", change: asProvider(func(r *reference) {
			r.unary = onUnary(gantryv1.PluginService_Drain_FullMethodName, func(context.Context, any, grpc.UnaryHandler) (any, error) {
				return &gantryv1.DrainResponse{}, nil
			})
		})},
	}
}
