package model

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Prepared is a request as the provider would send it, with secrets redacted.
type Prepared struct {
	Method, URL string
	Headers     []Header
	Body        []byte
}

// Header is one HTTP header.
type Header struct{ Name, Value string }

// Prepare returns what [Client.Stream] would send, without sending it.
func (c *Client) Prepare(ctx context.Context, r *llm.Request) (*Prepared, error) {
	lease, err := c.slot.Acquire(ctx)
	if err != nil {
		return nil, c.Unreachable(ctx, err)
	}
	defer lease.Release()
	resp, err := gantryv1.NewProviderServiceClient(lease.Conn).Prepare(ctx, &gantryv1.PrepareRequest{Request: convert.RequestToProto(r)})
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented:
		return nil, hint.With(fmt.Errorf("provider %q can't show its requests", c.label()), "ask its author for Prepare, or record what it sends")
	case codes.FailedPrecondition:
		// The provider answered with an error, so its process works.
		return nil, fmt.Errorf("provider %q: %w", c.label(), hint.Parse(status.Convert(err).Message()))
	default:
		return nil, plugin.Classify(err, lease)
	}
	p := &Prepared{Method: resp.GetMethod(), URL: resp.GetUrl(), Body: resp.GetBody()}
	for _, h := range resp.GetHeaders() {
		p.Headers = append(p.Headers, Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return p, nil
}
