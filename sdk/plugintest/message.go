package plugintest

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// Field numbers that no message of the contract uses.
const (
	unknownText   = 9001
	unknownNumber = 9002
)

// withUnknown adds unknown fields to m and to the messages in it.
func withUnknown[M proto.Message](m M) M {
	b := protowire.AppendTag(nil, unknownText, protowire.BytesType)
	b = protowire.AppendString(b, "from a newer host")
	b = protowire.AppendTag(b, unknownNumber, protowire.VarintType)
	b = protowire.AppendVarint(b, 42)
	r := m.ProtoReflect()
	r.SetUnknown(append(r.GetUnknown(), b...))
	r.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() != nil && !f.IsList() && !f.IsMap() {
			withUnknown(v.Message().Interface())
		}
		return true
	})
	return m
}

// padded returns a Describe request of exactly size bytes, by means of a capability with a long name.
func padded(size int) *gantryv1.DescribeRequest {
	name := size
	req := &gantryv1.DescribeRequest{ContractVersions: []uint32{contract.Version}}
	for {
		req.HostCapabilities = []string{strings.Repeat("x", name)}
		over := proto.Size(req) - size
		if over <= 0 {
			return req
		}
		name -= over
	}
}

// messageLimit returns the message size limit that the plugin announces.
func (k *kit) messageLimit() int {
	if m := k.manifest; m != nil && m.Limits.MaxMessageBytes > 0 {
		return int(m.Limits.MaxMessageBytes)
	}
	return wire.DefaultMaxMessageBytes
}

func checkLarge(ctx context.Context, k *kit, p *process) verdict {
	// A plugin that sets no limit fails beyond 4 MiB, gRPC's default.
	sizes := []int{4<<20 - 1, 4<<20 + 1, k.messageLimit()}
	for _, size := range sizes {
		if size > k.messageLimit() {
			continue
		}
		if _, err := call(ctx, k, p, p.plugin().Describe, padded(size)); err != nil {
			return failed("raise the server's message size limit to 16 MiB, or announce a smaller limit in the manifest", "a message of %d bytes: %v", size, err)
		}
	}
	return passed("up to %d bytes", k.messageLimit())
}

func checkLimit(ctx context.Context, k *kit, p *process) verdict {
	const next = "set the server's message size limit to that of the manifest, by default 16 MiB"
	size := k.messageLimit() + 1
	limited, cancel := k.within(ctx, responseTimeout)
	defer cancel()
	_, err := p.plugin().Describe(limited, padded(size))
	if code := status.Code(err); code != codes.ResourceExhausted {
		return failed(next, "a message of %d bytes: status %s", size, codeName(code))
	}
	if _, err := call(ctx, k, p, p.plugin().Describe, &gantryv1.DescribeRequest{}); err != nil {
		return failed(next, "after a message over the limit: %v", err)
	}
	return passed("RESOURCE_EXHAUSTED for %d bytes", size)
}

func checkCommand(ctx context.Context, k *kit, p *process) verdict {
	limited, cancel := k.within(ctx, responseTimeout)
	defer cancel()
	resp, err := p.plugin().Command(limited, &gantryv1.CommandRequest{Name: "gantry-plugintest-unknown", InputJson: []byte("{}")})
	switch code := status.Code(err); {
	case err == nil && resp.GetError() == "":
		return failed("return NOT_FOUND", "it returned %s", quote(string(resp.GetOutputJson())))
	case code == codes.DeadlineExceeded || code == codes.Unavailable:
		return failed("return NOT_FOUND", "%v", k.explain(limited, p, err))
	case err == nil:
		return passed("refused: %s", resp.GetError())
	}
	return passed("refused with status %s", codeName(status.Code(err)))
}

func checkUnknownFields(ctx context.Context, k *kit, p *process) verdict {
	const next = "ignore unknown fields, oneof cases and capabilities"
	describe := withUnknown(&gantryv1.DescribeRequest{ContractVersions: []uint32{contract.Version, 900}, HostCapabilities: []string{"time-travel"}})
	if _, err := call(ctx, k, p, p.plugin().Describe, describe); err != nil {
		return failed(next, "Describe: %v", err)
	}
	if err := k.configure(ctx, p, withUnknown(k.configuration())); err != nil {
		return failed(next, "%v", err)
	}
	if k.manifest.Kind == contract.KindProvider {
		if _, err := call(ctx, k, p, p.provider().Models, withUnknown(&gantryv1.ModelsRequest{})); err != nil {
			return failed(next, "Models: %v", err)
		}
		return passed("ignored in Describe, Configure and Models")
	}
	c, ok := k.anyCall()
	if !ok {
		return passed("ignored in Describe and Configure")
	}
	if err := k.newerCall(ctx, p, c); err != nil {
		return failed(next, "%v", err)
	}
	return passed("ignored in Describe, Configure and Call")
}

// newerCall makes a call with unknown fields, traits and controls, and checks that the result is of the same kind as without.
func (k *kit) newerCall(ctx context.Context, p *process, c Call) error {
	start, _ := k.assessedStart(ctx, p, c)
	start.ModelTraits = append(start.ModelTraits, "telepathy")
	running, err := p.begin(ctx, name(c), withUnknown(start))
	if err != nil {
		return k.explain(ctx, p, err)
	}
	running.send(withUnknown(&gantryv1.CallRequest{})) // an unknown control
	t := running.finish(ctx, responseTimeout+k.cfg.Slack)
	if err := t.failure(); err != nil {
		return err
	}
	return k.sameKind(c, t)
}

// sameKind checks that the result is an error or a success as expected.
func (k *kit) sameKind(c Call, t *transcript) error {
	if want := c.Does == ""; t.result.GetIsError() != want { // only invalid calls have no behaviour
		return fmt.Errorf("%s: it returned %s", t.what, says(t.result))
	}
	return nil
}

func checkOldHost(ctx context.Context, k *kit) verdict {
	const next = "handle missing fields as the contract says; most zero values mean a default"
	p, err := k.launch(ctx)
	if err != nil {
		return broken(err)
	}
	defer p.kill()
	if _, err := call(ctx, k, p, p.plugin().Describe, &gantryv1.DescribeRequest{}); err != nil {
		return failed(next, "Describe: %v", err)
	}
	if err := k.configure(ctx, p, oldConfigure(k.configuration())); err != nil {
		return failed(next, "%v", err)
	}
	if k.manifest.Kind == contract.KindProvider {
		if _, err := call(ctx, k, p, p.provider().Models, &gantryv1.ModelsRequest{}); err != nil {
			return failed(next, "Models: %v", err)
		}
		return passed("Describe, Configure and Models with the oldest fields only")
	}
	c, ok := k.anyCall()
	if !ok {
		return passed("Describe and Configure with the oldest fields only")
	}
	t, err := k.perform(ctx, p, c, oldStart)
	if err == nil {
		if err = t.failure(); err == nil {
			err = k.sameKind(c, t)
		}
	}
	if err != nil {
		return failed(next, "%v", err)
	}
	return passed("Describe, Configure and Call with the oldest fields only")
}

func oldConfigure(r *gantryv1.ConfigureRequest) *gantryv1.ConfigureRequest {
	r.Generation, r.Label = 0, ""
	r.Host = &gantryv1.HostFacts{
		ServicesSocket: r.GetHost().GetServicesSocket(), ServicesToken: r.GetHost().GetServicesToken(),
		DescriptorsSocket: r.GetHost().GetDescriptorsSocket(), EgressSocket: r.GetHost().GetEgressSocket(),
	}
	return r
}

func oldStart(s *gantryv1.CallStart) {
	s.Grant, s.Caps, s.ToolsRevision, s.ModelTraits, s.Attempt, s.Parents = nil, nil, "", nil, 0, nil
}
