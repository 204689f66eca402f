package convert_test

import (
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// future is the encoding of a field that no message of this version has: number 1000, the bytes "new".
var future = []byte{0xc2, 0x3e, 3, 'n', 'e', 'w'}

// decode reads a message that holds nothing but a field of the future.
func decode[P proto.Message](t *testing.T, m P) P {
	t.Helper()
	if err := proto.Unmarshal(future, m); err != nil {
		t.Fatal(err)
	}
	if len(m.ProtoReflect().GetUnknown()) == 0 {
		t.Fatal("the field of the future is not unknown")
	}
	return m
}

func TestUnknownEffectIsSeen(t *testing.T) {
	want := contract.OtherEffect{Label: contract.UnknownEffect}
	for name, got := range map[string]contract.Effect{
		"of the future": convert.EffectFromProto(decode(t, &gantryv1.Effect{})),
		"empty":         convert.EffectFromProto(&gantryv1.Effect{}),
		"nil":           convert.EffectFromProto(nil),
		"nil in Go":     convert.EffectFromProto(convert.EffectToProto(nil)),
	} {
		if got != contract.Effect(want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := convert.EffectsFromProto([]*gantryv1.Effect{{}, nil}); len(got) != 2 {
		t.Errorf("two unknown effects became %v", got)
	}
}

func TestUnknownKindsAreSkipped(t *testing.T) {
	if got := convert.ItemFromProto(decode(t, &gantryv1.Item{})); got != nil {
		t.Errorf("item: %v", got)
	}
	parts := []*gantryv1.ResultPart{
		decode(t, &gantryv1.ResultPart{}), convert.PartToProto(&contract.TextPart{Text: "known"}), {},
	}
	if got := convert.PartsFromProto(parts); len(got) != 1 {
		t.Errorf("parts: %v", got)
	}
	if got := convert.PartsToProto([]contract.Part{nil, &contract.TextPart{}}); len(got) != 1 {
		t.Errorf("parts with a nil: %v", got)
	}
	if e, ok := convert.CallEventFromProto(decode(t, &gantryv1.CallResponse{})); ok || e != nil {
		t.Errorf("call event: %v", e)
	}
	if e, ok := convert.ThreadEventFromProto(decode(t, &gantryv1.ThreadResponse{})); ok || e != nil {
		t.Errorf("thread event: %v", e)
	}
	if e, ok := convert.EventFromProto(decode(t, &gantryv1.LlmEvent{})); ok || e != nil {
		t.Errorf("event: %v", e)
	}
	events := []*gantryv1.LlmEvent{decode(t, &gantryv1.LlmEvent{}), convert.EventToProto(llm.StepStart{}), nil}
	if got := convert.EventsFromProto(events); !reflect.DeepEqual(got, []llm.Event{llm.StepStart{}}) {
		t.Errorf("events: %v", got)
	}
	if got := convert.EventsToProto([]llm.Event{nil, llm.BlockStart{}, (*llm.Error)(nil), llm.Finish{}}); len(got) != 1 {
		t.Errorf("events without a form: %v", got)
	}
	if got := convert.DiagnosticFromProto(&gantryv1.Diagnostic{Path: []*gantryv1.PathStep{{}}}); got.Path[0].Kind != contract.StepUnknown {
		t.Errorf("path step: %v", got)
	}
}

func TestUnknownPartOfAConversationIsAnError(t *testing.T) {
	unknown := decode(t, &gantryv1.LlmPart{})
	result := &gantryv1.LlmPart{Part: &gantryv1.LlmPart_ToolResult{ToolResult: &gantryv1.LlmToolResult{
		Id: "c1", Content: []*gantryv1.LlmPart{unknown},
	}}}
	for name, p := range map[string]*gantryv1.LlmPart{"in a message": unknown, "in a result": result} {
		_, err := convert.RequestFromProto(&gantryv1.LlmRequest{Messages: []*gantryv1.LlmMessage{{}, {Parts: []*gantryv1.LlmPart{p}}}})
		if !errors.Is(err, convert.ErrUnknownPart) {
			t.Errorf("%s: %v", name, err)
		}
	}
	event := &gantryv1.LlmEvent{Event: &gantryv1.LlmEvent_ToolResult{ToolResult: &gantryv1.LlmToolResultEvent{
		Result: &gantryv1.LlmToolResult{Id: "c1", Content: []*gantryv1.LlmPart{unknown}},
	}}}
	if e, ok := convert.EventFromProto(event); ok {
		t.Errorf("event with an unknown part: %v", e)
	}
}

func TestUnknownEnumsAreZero(t *testing.T) {
	for _, n := range []int32{-1, 99} {
		if k := convert.ManifestFromProto(&gantryv1.Manifest{Kind: gantryv1.PluginKind(n)}).Kind; k != contract.KindUnknown {
			t.Errorf("kind %d becomes %v", n, k)
		}
		if r := convert.FinishReasonFromProto(gantryv1.LlmFinishReason(n)); r != llm.FinishUnknown {
			t.Errorf("reason %d becomes %v", n, r)
		}
		if p := convert.ManifestToProto(&contract.Manifest{Kind: contract.Kind(n)}).GetKind(); p != gantryv1.PluginKind_PLUGIN_KIND_UNSPECIFIED {
			t.Errorf("kind %d becomes %v", n, p)
		}
	}
}

func TestStringsBecomeUTF8(t *testing.T) {
	m := convert.ResultToProto(contract.Text("a\xffb"))
	if s := m.GetParts()[0].GetText().GetText(); !utf8.ValidString(s) || s != "a\uFFFDb" {
		t.Errorf("text becomes %q", s)
	}
	if _, err := proto.Marshal(m); err != nil {
		t.Error(err)
	}
}

func TestNilStaysNil(t *testing.T) {
	if convert.ManifestToProto(nil) != nil || convert.ManifestFromProto(nil) != nil || convert.ResultToProto(nil) != nil ||
		convert.ResultFromProto(nil) != nil || convert.ItemToProto(nil) != nil || convert.ErrorToProto(nil) != nil {
		t.Error("a nil became something")
	}
	if r, err := convert.RequestFromProto(nil); r != nil || err != nil {
		t.Errorf("no request: %v, %v", r, err)
	}
}

// FuzzFromWire feeds bytes that a hostile other side could send to every conversion.
func FuzzFromWire(f *testing.F) {
	all := pairs()
	f.Add([]byte{})
	f.Add(future)
	for n := range 20 {
		for _, p := range all {
			m := p.msg.ProtoReflect().New()
			fill(m, &full{}, n, 4)
			b, err := proto.Marshal(m.Interface())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range all {
			m := p.msg.ProtoReflect().New().Interface()
			if proto.Unmarshal(b, m) != nil {
				continue
			}
			func() {
				defer func() {
					// known and must turn what is unknown into a panic with a text of theirs; all else is a bug.
					switch v := recover().(type) {
					case nil, string:
					case error:
						if !errors.Is(v, convert.ErrUnknownPart) {
							panic(v)
						}
					}
				}()
				if _, err := proto.Marshal(p.back(m)); err != nil {
					t.Errorf("%s: %v", p.name, err)
				}
			}()
		}
	})
}
