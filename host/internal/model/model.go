// Package model is the typed client of a provider plugin.
//
// It owns: the stream of one request as canonical events, the check of their order, the rows of the models, and what a broken
// provider process means for a request. It must not know: any vendor or wire format, and what a request is for.
//
// Start with [Client.Stream].
package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// fallbackContextWindow is assumed for a model that its provider does not list, so that limits always apply. Compatible with
// codex.
const fallbackContextWindow = 272_000

// Client sends requests to one provider. Its methods may be called concurrently.
type Client struct {
	slot   *plugin.Slot
	thread event.ThreadID
	others []string
}

// maxAnswerBytes limits one answer on the wire: a hundred times what models write. An endless answer is an error that is not
// retried.
const maxAnswerBytes = 64 << 20

// New returns a client for the requests of one thread. The first request starts the provider. Errors about an unusable provider
// suggest the others.
func New(slot *plugin.Slot, thread event.ThreadID, others ...string) *Client {
	return &Client{slot, thread, others}
}

// Row returns the row of a model. A model that the provider does not know gets a row that says so, with the metadata namespace
// that all models of the provider share.
func (c *Client) Row(ctx context.Context, name string) (llm.ModelRow, error) {
	rows, err := c.rows(ctx, name)
	if err != nil {
		return llm.ModelRow{}, err
	}
	if i := slices.IndexFunc(rows, func(r llm.ModelRow) bool { return r.ID == name }); i >= 0 {
		return rows[i], nil
	}
	row := FallbackRow(name)
	if rows, err = c.rows(ctx, ""); err != nil {
		return llm.ModelRow{}, err
	}
	if len(rows) > 0 {
		row.MetadataNamespace = rows[0].MetadataNamespace
	}
	return row, nil
}

// FallbackRow returns the assumed row of an unknown model.
func FallbackRow(name string) llm.ModelRow {
	return llm.ModelRow{
		ID: name, ContextWindow: fallbackContextWindow, ContextWindowSource: llm.WindowAssumed, InputModalities: []string{"text"}, OutputModalities: []string{"text"},
		ToolKinds: []string{"function"}, ParallelToolCalls: true, Fallback: true, TruncationMode: "bytes", TruncationLimit: 10_000,
	}
}

// Rows returns the models that the provider offers.
func (c *Client) Rows(ctx context.Context) ([]llm.ModelRow, error) { return c.rows(ctx, "") }

func (c *Client) rows(ctx context.Context, name string) ([]llm.ModelRow, error) {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	resp, err := gantryv1.NewProviderServiceClient(lease.Conn).Models(ctx, &gantryv1.ModelsRequest{Name: name})
	if status.Code(err) == codes.FailedPrecondition {
		// The provider answered with an error, so its process works.
		return nil, fmt.Errorf("provider %q: %w", c.label(), hint.Parse(status.Convert(err).Message()))
	}
	if err != nil {
		return nil, plugin.Classify(err, lease)
	}
	return convert.ModelRowsFromProto(resp.GetModels()), nil
}

// Stream runs a request. attempts limits the tries before the first part of an answer; 0: the provider's default. Errors of the
// provider or its process are [*llm.Error]. A crashed process is a broken stream, which may be retried.
func (c *Client) Stream(ctx context.Context, r *llm.Request, turn event.TurnID, attempts int) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		// Cancels the rpc, and the provider's request, if the consumer stops early.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		lease, err := c.slot.Acquire(ctx)
		if err != nil {
			yield(nil, c.Unreachable(ctx, err))
			return
		}
		defer lease.Release()
		stream, err := gantryv1.NewProviderServiceClient(lease.Conn).Stream(ctx, &gantryv1.StreamRequest{
			Request: convert.RequestToProto(r), MaxAttempts: int32(attempts), ThreadId: string(c.thread), TurnId: string(turn),
		})
		if err != nil {
			yield(nil, c.streamError(ctx, lease, err))
			return
		}
		convert.WarmEvents()
		var order llm.Checker
		var size int64
		for {
			batch, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				if err := order.Done(); err != nil {
					yield(nil, c.badOutput(llm.ErrIncompleteStream, err))
				}
				return
			}
			if err != nil {
				yield(nil, c.streamError(ctx, lease, err))
				return
			}
			if size += int64(proto.Size(batch)); size > maxAnswerBytes {
				yield(nil, &llm.Error{Code: llm.ErrInvalidOutput, Message: fmt.Sprintf(
					"provider %q: the answer is longer than %d MiB", c.label(), maxAnswerBytes>>20)})
				return
			}
			for _, pb := range batch.GetEvents() {
				ev, ok := convert.EventFromProto(pb)
				if !ok {
					continue // an event kind of a later version
				}
				if e, failed := ev.(*llm.Error); failed {
					yield(nil, c.explained(e))
					return
				}
				if err := order.Check(ev); err != nil {
					yield(nil, c.badOutput(llm.ErrInvalidOutput, err))
					return
				}
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
}

func (c *Client) label() string { return c.slot.Spec().Label }

// badOutput returns the error for a provider that violates the contract. A retry may help, because the answer is sampled again.
func (c *Client) badOutput(code llm.ErrorCode, err error) *llm.Error {
	return &llm.Error{
		Code: code, Message: fmt.Sprintf("provider %q: stream disconnected before completion: %v", c.label(), err), Retryable: true,
	}
}

func (c *Client) streamError(ctx context.Context, lease *plugin.Lease, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if status.Code(err) == codes.ResourceExhausted {
		// The limit of the transport. A retry would exceed it again.
		return &llm.Error{
			Code: llm.ErrPayloadTooLarge, Message: fmt.Sprintf("the conversation is too large to be sent to provider %q: %s", c.label(), status.Convert(err).Message()),
			Next: "start a new thread, or provide large content as files",
		}
	}
	return &llm.Error{
		Code: llm.ErrTransport, Retryable: true,
		Message: fmt.Sprintf("provider %q: stream disconnected before completion: %v", c.label(), plugin.Classify(err, lease)),
	}
}
