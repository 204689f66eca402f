package convert_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// pair is one type with its two functions, over the wire's bytes in between.
type pair struct {
	name string
	typ  reflect.Type                      // the Go type; for an interface, all types that implement it
	msg  proto.Message                     // of the other side
	over func(v any) any                   // Go → proto → bytes → proto → Go
	back func(proto.Message) proto.Message // proto → Go → proto
}

// newPair makes a pair of two functions.
func newPair[G any, P proto.Message](name string, to func(G) P, from func(P) G) pair {
	var zero P
	fresh := func() P { return zero.ProtoReflect().New().Interface().(P) }
	return pair{
		name: name,
		typ:  reflect.TypeFor[G](),
		msg:  fresh(),
		over: func(v any) any {
			b, err := proto.Marshal(to(v.(G)))
			if err != nil {
				panic(err)
			}
			p := fresh()
			if err := proto.Unmarshal(b, p); err != nil {
				panic(err)
			}
			return from(p)
		},
		back: func(m proto.Message) proto.Message { return to(from(m.(P))) },
	}
}

// known drops the second result of a function that can meet something unknown.
func known[P, G any](f func(P) (G, bool)) func(P) G {
	return func(p P) G {
		g, ok := f(p)
		if !ok {
			panic(fmt.Sprintf("%v is not known", p))
		}
		return g
	}
}

// must drops the error of a function that can meet something unknown.
func must[P, G any](f func(P) (G, error)) func(P) G {
	return func(p P) G {
		g, err := f(p)
		if err != nil {
			panic(err)
		}
		return g
	}
}

func pairs() []pair {
	return []pair{
		newPair("manifest", convert.ManifestToProto, convert.ManifestFromProto),
		newPair("diagnostic", convert.DiagnosticToProto, convert.DiagnosticFromProto),
		newPair("descriptor", convert.DescriptorToProto, convert.DescriptorFromProto),
		newPair("tool set", convert.ToolSetToProto, convert.ToolSetFromProto),
		newPair("effect", convert.EffectToProto, convert.EffectFromProto),
		newPair("item", convert.ItemToProto, convert.ItemFromProto),
		newPair("part", convert.PartToProto, convert.PartFromProto),
		newPair("result", convert.ResultToProto, convert.ResultFromProto),
		newPair("input", convert.InputToProto, convert.InputFromProto),
		newPair("grant facts", convert.GrantFactsToProto, convert.GrantFactsFromProto),
		newPair("assess request", convert.AssessRequestToProto, convert.AssessRequestFromProto),
		newPair("assessment", convert.AssessmentToProto, convert.AssessmentFromProto),
		newPair("call start", convert.CallStartToProto, convert.CallStartFromProto),
		newPair("call event", convert.CallEventToProto, known(convert.CallEventFromProto)),
		newPair("thread event", convert.ThreadEventToProto, known(convert.ThreadEventFromProto)),
		newPair("view request", convert.ViewRequestToProto, known(convert.ViewRequestFromProto)),
		newPair("view event", convert.ViewEventToProto, known(convert.ViewEventFromProto)),
		newPair("artifact", convert.ArtifactRefToProto, convert.ArtifactRefFromProto),
		newPair("request", convert.RequestToProto, must(convert.RequestFromProto)),
		newPair("message", convert.MessageToProto, must(convert.MessageFromProto)),
		newPair("llm part", convert.LLMPartToProto, must(convert.LLMPartFromProto)),
		newPair("llm tool", convert.LLMToolToProto, convert.LLMToolFromProto),
		newPair("event", convert.EventToProto, known(convert.EventFromProto)),
		newPair("usage", convert.UsageToProto, convert.UsageFromProto),
		newPair("error", convert.ErrorToProto, convert.ErrorFromProto),
		newPair("model row", convert.ModelRowToProto, convert.ModelRowFromProto),
	}
}

// implementations of the sealed interfaces.
var implementations = map[reflect.Type][]reflect.Type{
	reflect.TypeFor[contract.Effect](): types(contract.ExecEffect{}, contract.WriteEffect{}, contract.ReadEffect{},
		contract.NetworkEffect{}, contract.BrowserEffect{}, contract.SessionInputEffect{}, contract.ServiceEffect{}, contract.OtherEffect{}),
	reflect.TypeFor[contract.Item](): types(&contract.CommandItem{}, &contract.FileChangeItem{}, &contract.MCPCallItem{},
		&contract.WebSearchItem{}, &contract.ImageItem{}, &contract.BrowserItem{}, &contract.OtherItem{}, &contract.CodeItem{}),
	reflect.TypeFor[contract.Part](): types(&contract.TextPart{}, &contract.MediaPart{}, &contract.ArtifactPart{}, &contract.JSONPart{}, &contract.SealedPart{}),
	reflect.TypeFor[contract.CallEvent](): types(contract.Started{}, contract.Output{}, contract.Progress{}, contract.ArtifactRef{},
		contract.ItemUpdate{}, contract.Note{}, &contract.Result{}),
	reflect.TypeFor[contract.ThreadEvent](): types(contract.ContextText{}, contract.SessionOpened{}, contract.SessionOutput{},
		contract.SessionExited{}),
	reflect.TypeFor[contract.ViewRequest](): types(contract.ViewOpen{}, contract.ViewAck{}, contract.ViewResize{}, contract.ViewInput{},
		contract.ViewControl{}, contract.ViewClose{}),
	reflect.TypeFor[contract.ViewAct](): types(contract.ViewBytes{}, contract.ViewPointer{}, contract.ViewWheel{}, contract.ViewKey{},
		contract.ViewText{}, contract.ViewPaste{}, contract.ViewFiles{}, contract.ViewNavigate{}, contract.ViewSwitch{}, contract.ViewAnswer{}),
	reflect.TypeFor[contract.ViewEvent](): types(contract.ViewOpened{}, contract.ViewFrame{}, contract.ViewState{}, contract.ViewClosed{}),
	reflect.TypeFor[llm.Part]():           types(&llm.Text{}, &llm.Media{}, &llm.ToolCall{}, &llm.ToolResult{}, &llm.Reasoning{}, &llm.Sealed{}),
	reflect.TypeFor[llm.Event](): types(llm.Attempt{}, llm.StepStart{}, llm.BlockStart{}, llm.BlockDelta{}, llm.BlockEnd{},
		llm.ToolInputError{}, llm.ToolCallDone{}, llm.ToolResultDone{}, llm.StepFinish{}, llm.Finish{}, &llm.Error{}),
}

func types(vs ...any) []reflect.Type {
	var out []reflect.Type
	for _, v := range vs {
		out = append(out, reflect.TypeOf(v))
	}
	return out
}

// lastOf is the last value of each enumeration; the first is 0.
var lastOf = map[reflect.Type]int64{
	reflect.TypeFor[contract.Kind]():        int64(contract.KindProvider),
	reflect.TypeFor[contract.Severity]():    int64(contract.SeverityWarning),
	reflect.TypeFor[contract.StepKind]():    int64(contract.StepIndex),
	reflect.TypeFor[contract.Exposure]():    int64(contract.ExposureHidden),
	reflect.TypeFor[contract.Nesting]():     int64(contract.NestingOnly),
	reflect.TypeFor[contract.SourceState](): int64(contract.SourceFailed),
	reflect.TypeFor[contract.ChangeKind]():  int64(contract.ChangeDelete),
	reflect.TypeFor[contract.Audience]():    int64(contract.AudienceBoth),
	reflect.TypeFor[contract.Fit]():         int64(contract.FitTruncatable),
	reflect.TypeFor[contract.SessionEnd]():  int64(contract.SessionEndLost),
	reflect.TypeFor[contract.ViewKind]():    int64(contract.ViewScreen),
	reflect.TypeFor[contract.ViewAction]():  int64(contract.PointerUp),
	reflect.TypeFor[llm.Role]():             int64(llm.RoleTool),
	reflect.TypeFor[llm.BlockKind]():        int64(llm.BlockToolInput),
	reflect.TypeFor[llm.FinishReason]():     int64(llm.FinishError),
	reflect.TypeFor[llm.ErrorCode]():        int64(llm.ErrOverloaded),
}

// source makes the values of leaves.
type source interface {
	number(lo, hi int64) int64
	real() float64
	text() string
	length(most int) int
	flag() bool
}

// drawn takes them from rapid.
type drawn struct{ t *rapid.T }

func (d drawn) number(lo, hi int64) int64 { return rapid.Int64Range(lo, hi).Draw(d.t, "n") }
func (d drawn) real() float64             { return rapid.Float64().Draw(d.t, "f") }
func (d drawn) text() string              { return rapid.String().Draw(d.t, "s") }
func (d drawn) length(most int) int       { return rapid.IntRange(0, most).Draw(d.t, "len") }
func (d drawn) flag() bool                { return rapid.Bool().Draw(d.t, "b") }

// full makes every leaf different from zero and from its neighbours, so that a field that is lost or swapped shows.
type full struct{ n int64 }

func (f *full) number(lo, hi int64) int64 {
	f.n++
	if lo <= 0 {
		lo = 1
	}
	if hi == math.MaxInt64 {
		return f.n
	}
	return lo + f.n%(hi-lo+1)
}
func (f *full) real() float64  { f.n++; return float64(f.n) + 0.5 }
func (f *full) text() string   { f.n++; return fmt.Sprintf("text %d", f.n) }
func (f *full) length(int) int { return 2 }
func (f *full) flag() bool     { return true }

// maker builds values of any type of the contract.
type maker struct {
	src source
	// choose picks one of n implementations; nil: what src says.
	choose func(n int) int
	depth  int
}

var (
	rawType      = reflect.TypeFor[json.RawMessage]()
	durationType = reflect.TypeFor[time.Duration]()
)

// make returns a value of type t. Nothing inside an interface is nil, since the wire has no form for most of that.
func (m *maker) make(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	m.depth++
	defer func() { m.depth-- }()
	last, isEnum := lastOf[t]
	switch {
	case t == rawType || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		if s := m.src.text(); s != "" {
			v.SetBytes([]byte(s))
		}
		return v
	case t == durationType:
		v.SetInt(m.src.number(0, 1<<40) * int64(time.Millisecond))
		return v
	case isEnum:
		v.SetInt(m.src.number(0, last))
		return v
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString(m.src.text())
	case reflect.Bool:
		v.SetBool(m.src.flag())
	case reflect.Int32, reflect.Int:
		v.SetInt(m.src.number(math.MinInt32, math.MaxInt32))
	case reflect.Int64:
		v.SetInt(m.src.number(math.MinInt64, math.MaxInt64))
	case reflect.Uint32:
		v.SetUint(uint64(m.src.number(0, math.MaxUint32)))
	case reflect.Uint64:
		v.SetUint(uint64(m.src.number(0, math.MaxInt64)))
	case reflect.Float64:
		v.SetFloat(m.src.real())
	case reflect.Pointer:
		if m.depth == 1 || m.depth < 8 && m.src.flag() {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(m.make(t.Elem()))
		}
	case reflect.Slice:
		m.fillSlice(v)
	case reflect.Map:
		if n := m.src.length(3); n > 0 {
			v.Set(reflect.MakeMap(t))
			for range n {
				v.SetMapIndex(m.make(t.Key()), m.make(t.Elem()))
			}
		}
	case reflect.Struct:
		for i := range t.NumField() {
			v.Field(i).Set(m.make(t.Field(i).Type))
		}
		m.mend(v)
	case reflect.Interface:
		impl := implementations[t]
		if len(impl) == 0 {
			panic("no implementations of " + t.String())
		}
		if m.depth > 8 { // the leaves that hold nothing further
			v.Set(reflect.New(impl[0]).Elem())
			if impl[0].Kind() == reflect.Pointer {
				v.Set(reflect.New(impl[0].Elem()))
			}
			break
		}
		n := int(m.src.number(0, int64(len(impl))-1))
		if m.choose != nil {
			n = m.choose(len(impl))
		}
		if impl[n].Kind() == reflect.Pointer {
			p := reflect.New(impl[n].Elem())
			p.Elem().Set(m.make(impl[n].Elem()))
			v.Set(p)
		} else {
			v.Set(m.make(impl[n]))
		}
	default:
		panic("can't make a " + t.String())
	}
	return v
}

func (m *maker) fillSlice(v reflect.Value) {
	if m.depth > 8 {
		return
	}
	n := m.src.length(3)
	for range n {
		v.Set(reflect.Append(v, m.make(v.Type().Elem())))
	}
}

// mend makes a struct keep what its documentation promises, where not every combination has a meaning.
func (m *maker) mend(v reflect.Value) {
	switch s := v.Addr().Interface().(type) {
	case *contract.Step:
		*s = contract.Step{Kind: s.Kind, Name: s.Name, Key: s.Key, Index: s.Index}
		switch s.Kind {
		case contract.StepName:
			*s = contract.Name(s.Name)
		case contract.StepKey:
			*s = contract.Key(s.Key)
		case contract.StepIndex:
			*s = contract.Index(s.Index)
		default:
			*s = contract.Step{}
		}
	case *contract.Input:
		if s.Freeform {
			s.Arguments = nil
		} else {
			s.Text = ""
		}
	case *contract.MediaPart:
		if s.Artifact != "" {
			s.Data = nil
		}
	case *llm.Media:
		switch {
		case s.Artifact != "":
			s.URL, s.Data = "", nil
		case s.URL != "":
			s.Data = nil
		}
	case *llm.BlockStart:
		s.Kind = max(s.Kind, llm.BlockText)
		if s.Kind == llm.BlockToolInput {
			s.Metadata = nil
		} else {
			s.Name, s.Namespace, s.Freeform, s.ProviderExecuted = "", "", false, false
		}
	case *llm.BlockDelta:
		s.Kind = max(s.Kind, llm.BlockText)
	case *llm.BlockEnd:
		s.Kind = max(s.Kind, llm.BlockText)
	}
}

func TestRoundTrips(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, rapid.MakeCheck(func(t *rapid.T) {
			v := (&maker{src: drawn{t}}).make(p.typ).Interface()
			if got := p.over(v); !reflect.DeepEqual(got, v) {
				t.Fatalf("came back as\n%s, was\n%s", show(got), show(v))
			}
		}))
	}
}

// TestEveryGoFieldTravels sets each field of each type, for each implementation of the interfaces in it.
func TestEveryGoFieldTravels(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			for n := range 12 { // more than any interface has implementations
				m := &maker{src: &full{n: int64(n)}, choose: func(of int) int { return n % of }}
				v := m.make(p.typ).Interface()
				if got := p.over(v); !reflect.DeepEqual(got, v) {
					t.Errorf("came back as\n%s, was\n%s", show(got), show(v))
				}
			}
		})
	}
}

// TestEveryWireFieldTravels sets each field of each message, for each case of its oneofs.
func TestEveryWireFieldTravels(t *testing.T) {
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			for n := range 20 { // more than any oneof has cases
				m := p.msg.ProtoReflect().New()
				fill(m, &full{n: int64(n)}, n, 0)
				if got := p.back(m.Interface()); !proto.Equal(got, m.Interface()) {
					t.Errorf("came back as\n%v, was\n%v", got, m.Interface())
				}
			}
		})
	}
}

// fill sets every field of m; of each oneof the n-th case, counted round.
func fill(m protoreflect.Message, src *full, n, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() && o.Fields().Get(n%o.Fields().Len()) != f {
			continue
		}
		switch {
		case f.IsMap():
			v := m.NewField(f)
			for range 2 {
				v.Map().Set(leaf(f.MapKey(), src).MapKey(), leaf(f.MapValue(), src))
			}
			m.Set(f, v)
		case f.IsList():
			if depth > 6 {
				continue
			}
			v := m.NewField(f)
			for range 2 {
				if f.Message() != nil {
					e := v.List().NewElement()
					fill(e.Message(), src, n, depth+1)
					v.List().Append(e)
				} else {
					v.List().Append(leaf(f, src))
				}
			}
			m.Set(f, v)
		case f.Message() != nil:
			v := m.NewField(f)
			fill(v.Message(), src, n, depth+1)
			m.Set(f, v)
		default:
			m.Set(f, leaf(f, src))
		}
	}
}

func leaf(f protoreflect.FieldDescriptor, src *full) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(src.text())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(src.text()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(src.number(1, math.MaxInt32)))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(src.number(1, math.MaxInt64))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(src.number(1, math.MaxUint32)))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(src.number(1, math.MaxInt64)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(src.real())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(src.number(1, int64(f.Enum().Values().Len())-1)))
	}
	panic("can't make a " + f.Kind().String())
}

// TestEnumsKeepTheirMeaning compares names, since the conversion counts on equal numbers.
func TestEnumsKeepTheirMeaning(t *testing.T) {
	for k := contract.ExposureUnknown; k <= contract.ExposureHidden; k++ {
		want := map[string]gantryv1.Exposure{
			"unknown": gantryv1.Exposure_EXPOSURE_UNSPECIFIED, "direct": gantryv1.Exposure_EXPOSURE_DIRECT,
			"deferred": gantryv1.Exposure_EXPOSURE_DEFERRED, "hidden": gantryv1.Exposure_EXPOSURE_HIDDEN,
		}[k.String()]
		if got := convert.DescriptorToProto(contract.Descriptor{Exposure: k}).GetExposure(); got != want {
			t.Errorf("exposure %v becomes %v", k, got)
		}
	}
	for n, want := range map[contract.Nesting]gantryv1.Nesting{
		contract.NestingBoth: gantryv1.Nesting_NESTING_BOTH, contract.NestingNever: gantryv1.Nesting_NESTING_NEVER,
		contract.NestingOnly: gantryv1.Nesting_NESTING_ONLY,
	} {
		if got := convert.DescriptorToProto(contract.Descriptor{Nesting: n}).GetNesting(); got != want {
			t.Errorf("nesting %v becomes %v", n, got)
		}
	}
	for k, want := range map[contract.Kind]gantryv1.PluginKind{
		contract.KindTool: gantryv1.PluginKind_PLUGIN_KIND_TOOL, contract.KindProvider: gantryv1.PluginKind_PLUGIN_KIND_PROVIDER,
	} {
		if got := convert.ManifestToProto(&contract.Manifest{Kind: k}).GetKind(); got != want {
			t.Errorf("kind %v becomes %v", k, got)
		}
	}
	for k, want := range map[contract.Severity]gantryv1.Severity{
		contract.SeverityError: gantryv1.Severity_SEVERITY_ERROR, contract.SeverityWarning: gantryv1.Severity_SEVERITY_WARNING,
	} {
		if got := convert.DiagnosticToProto(contract.Diagnostic{Severity: k}).GetSeverity(); got != want {
			t.Errorf("severity %v becomes %v", k, got)
		}
	}
	for k := llm.RoleUnknown + 1; k <= llm.RoleTool; k++ {
		want := map[string]gantryv1.LlmRole{
			"system": gantryv1.LlmRole_LLM_ROLE_SYSTEM, "user": gantryv1.LlmRole_LLM_ROLE_USER,
			"assistant": gantryv1.LlmRole_LLM_ROLE_ASSISTANT, "tool": gantryv1.LlmRole_LLM_ROLE_TOOL,
		}[k.String()]
		if got := convert.MessageToProto(llm.Message{Role: k}).GetRole(); got != want {
			t.Errorf("role %v becomes %v", k, got)
		}
	}
	for name, got := range map[string]gantryv1.LlmFinishReason{
		"LLM_FINISH_REASON_UNKNOWN":        convert.FinishReasonToProto(llm.FinishUnknown),
		"LLM_FINISH_REASON_STOP":           convert.FinishReasonToProto(llm.FinishStop),
		"LLM_FINISH_REASON_LENGTH":         convert.FinishReasonToProto(llm.FinishLength),
		"LLM_FINISH_REASON_TOOL_CALLS":     convert.FinishReasonToProto(llm.FinishToolCalls),
		"LLM_FINISH_REASON_CONTENT_FILTER": convert.FinishReasonToProto(llm.FinishContentFilter),
		"LLM_FINISH_REASON_ERROR":          convert.FinishReasonToProto(llm.FinishError),
	} {
		if got.String() != name {
			t.Errorf("%s is %v", name, got)
		}
	}
	codes := map[llm.ErrorCode]gantryv1.LlmErrorCode{
		llm.ErrUnknown:          gantryv1.LlmErrorCode_LLM_ERROR_CODE_UNKNOWN,
		llm.ErrInvalidRequest:   gantryv1.LlmErrorCode_LLM_ERROR_CODE_INVALID_REQUEST,
		llm.ErrContextOverflow:  gantryv1.LlmErrorCode_LLM_ERROR_CODE_CONTEXT_OVERFLOW,
		llm.ErrPayloadTooLarge:  gantryv1.LlmErrorCode_LLM_ERROR_CODE_PAYLOAD_TOO_LARGE,
		llm.ErrNoRoute:          gantryv1.LlmErrorCode_LLM_ERROR_CODE_NO_ROUTE,
		llm.ErrAuthentication:   gantryv1.LlmErrorCode_LLM_ERROR_CODE_AUTHENTICATION,
		llm.ErrRateLimit:        gantryv1.LlmErrorCode_LLM_ERROR_CODE_RATE_LIMIT,
		llm.ErrQuotaExceeded:    gantryv1.LlmErrorCode_LLM_ERROR_CODE_QUOTA_EXCEEDED,
		llm.ErrContentPolicy:    gantryv1.LlmErrorCode_LLM_ERROR_CODE_CONTENT_POLICY,
		llm.ErrProviderInternal: gantryv1.LlmErrorCode_LLM_ERROR_CODE_PROVIDER_INTERNAL,
		llm.ErrTransport:        gantryv1.LlmErrorCode_LLM_ERROR_CODE_TRANSPORT,
		llm.ErrInvalidOutput:    gantryv1.LlmErrorCode_LLM_ERROR_CODE_INVALID_OUTPUT,
		llm.ErrIncompleteStream: gantryv1.LlmErrorCode_LLM_ERROR_CODE_INCOMPLETE_STREAM,
		llm.ErrOverloaded:       gantryv1.LlmErrorCode_LLM_ERROR_CODE_OVERLOADED,
	}
	for code, want := range codes {
		if got := convert.ErrorToProto(&llm.Error{Code: code}).GetCode(); got != want {
			t.Errorf("code %v becomes %v", code, got)
		}
		if got := convert.ErrorFromProto(&gantryv1.LlmError{Code: want}).Code; got != code {
			t.Errorf("%v becomes %v", want, got)
		}
	}
}

func show(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(b)
}
