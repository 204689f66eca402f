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

// Numbers of fields that no message of the contract has.
const (
	unknownText   = 9001
	unknownNumber = 9002
)

// withUnknown adds fields that this version of the contract doesn't know.
func withUnknown[M proto.Message](m M) M {
	b := protowire.AppendTag(nil, unknownText, protowire.BytesType)
	b = protowire.AppendString(b, "from a newer host")
	b = protowire.AppendTag(b, unknownNumber, protowire.VarintType)
	b = protowire.AppendVarint(b, 42)
	r := m.ProtoReflect()
	r.SetUnknown(append(r.GetUnknown(), b...))
	// And in the messages inside.
	r.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() != nil && !f.IsList() && !f.IsMap() {
			withUnknown(v.Message().Interface())
		}
		return true
	})
	return m
}

// padded is a Describe request of exactly size bytes: it names an ability with a long name.
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

// messageLimit is the largest message that the plugin says it receives.
func (k *kit) messageLimit() int {
	if m := k.manifest; m != nil && m.Limits.MaxMessageBytes > 0 {
		return int(m.Limits.MaxMessageBytes)
	}
	return wire.DefaultMaxMessageBytes
}

func checkLarge(ctx context.Context, k *kit) verdict {
	p, err := k.running(ctx)
	if err != nil {
		return broken(err)
	}
	// gRPC's own default is 4 MiB, so that is where a plugin fails that never thought of it.
	sizes := []int{4<<20 - 1, 4<<20 + 1, k.messageLimit()}
	for _, size := range sizes {
		if size > k.messageLimit() {
			continue
		}
		if _, err := call(ctx, k, p, p.plugin().Describe, padded(size)); err != nil {
			return failed("raise the server's largest message to 16 MiB, or announce a smaller one in the manifest's limits", "a message of %d bytes: %v", size, err)
		}
	}
	return passed("up to %d bytes", k.messageLimit())
}

func checkLimit(ctx context.Context, k *kit) verdict {
	const next = "set the server's largest message to what the manifest announces, 16 MiB by default"
	p, err := k.running(ctx)
	if err != nil {
		return broken(err)
	}
	size := k.messageLimit() + 1
	limited, cancel := k.within(ctx, answerPatience)
	defer cancel()
	_, err = p.plugin().Describe(limited, padded(size))
	if code := status.Code(err); code != codes.ResourceExhausted {
		return failed(next, "a message of %d bytes: status %s", size, codeName(code))
	}
	if _, err := call(ctx, k, p, p.plugin().Describe, &gantryv1.DescribeRequest{}); err != nil {
		return failed(next, "after a message that was too large: %v", err)
	}
	return passed("RESOURCE_EXHAUSTED for %d bytes, and it goes on", size)
}

func checkCommand(ctx context.Context, k *kit) verdict {
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
	limited, cancel := k.within(ctx, answerPatience)
	defer cancel()
	resp, err := p.plugin().Command(limited, &gantryv1.CommandRequest{Name: "gantry-plugintest-unknown", InputJson: []byte("{}")})
	switch code := status.Code(err); {
	case err == nil && resp.GetError() == "":
		return failed("answer NOT_FOUND", "it answered %s", quote(string(resp.GetOutputJson())))
	case code == codes.DeadlineExceeded || code == codes.Unavailable:
		return failed("answer NOT_FOUND", "%v", k.explain(limited, p, err))
	case err == nil:
		return passed("refused: %s", resp.GetError())
	}
	return passed("refused with status %s", codeName(status.Code(err)))
}

func checkUnknownFields(ctx context.Context, k *kit) verdict {
	const next = "ignore fields, oneof cases and abilities that you don't know"
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
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

// newerCall makes a call with everything unknown that there can be, and demands the same kind of answer as without.
func (k *kit) newerCall(ctx context.Context, p *process, c Call) error {
	start := k.startOf(c)
	if a, err := k.assess(ctx, p, c, start); err == nil {
		start.AssessDigest = a.GetDigest()
	}
	start.ModelTraits = append(start.ModelTraits, "telepathy")
	running, err := p.begin(ctx, name(c), withUnknown(start))
	if err != nil {
		return k.explain(ctx, p, err)
	}
	running.send(withUnknown(&gantryv1.CallRequest{})) // a control of a newer kind
	t := running.finish(ctx, answerPatience+k.cfg.Slack)
	if err := t.failure(); err != nil {
		return err
	}
	return k.sameKind(c, t)
}

// sameKind compares with what the call is known to do.
func (k *kit) sameKind(c Call, t *transcript) error {
	if want := c.Does == ""; t.result.GetIsError() != want { // a call with bad arguments has no behaviour
		return fmt.Errorf("%s: it answered %s", t.what, says(t.result))
	}
	return nil
}

func checkOldHost(ctx context.Context, k *kit) verdict {
	const next = "treat fields that are not set as the contract says; most zero values mean a default"
	k.drop()
	p, err := k.start(ctx, wire.TransportPeer)
	if p != nil {
		defer p.kill()
	}
	if err != nil {
		return broken(err)
	}
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
		DescriptorsSocket: r.GetHost().GetDescriptorsSocket(),
	}
	return r
}

func oldStart(s *gantryv1.CallStart) {
	s.Grant, s.Caps, s.ToolsRevision, s.ModelTraits, s.Attempt, s.Parents = nil, nil, "", nil, 0, nil
}
