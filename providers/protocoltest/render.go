package protocoltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Render formats events on one line:
//
//	S+  S+(model=gpt-x id=resp_1)      step-start
//	T+id  T~"text"  T-                 text; R+ R~ R- is reasoning, I+id name  I~ I- a tool's input
//	I!id "raw"                         input that is not valid JSON
//	C id name {"q":"x"}                a call; the input of a freeform tool is quoted
//	X id name "text" image/png         the result of a call that the vendor ran; X! is an error
//	A(2 after=200ms "why")             the provider retries
//	SF(stop raw=end_turn again)        step-finish; raw if it differs from the reason
//	F(stop in=5 read=1 write=2 out=2 reasoning=0 total=7)
//	E(rate-limit "message" after=2s)   an error
//
// Deltas and ends refer to the open block of their kind that started last; otherwise they name it: T~text-0"x". Tool names are
// namespace.name, with (freeform) or (hosted) if applicable. A vendor's metadata follow as @{"itemId":"m_1"}: the object of the
// namespace, or all of them if there are others. SF contains its usage if it differs from F's.
func Render(namespace string, events []llm.Event) string {
	r := renderer{namespace: namespace}
	for i, e := range events {
		if i > 0 {
			r.b.WriteByte(' ')
		}
		r.event(e)
	}
	return r.b.String()
}

type renderer struct {
	namespace string
	b         strings.Builder
	open      []openBlock // in the order of their start
	end       llm.StepFinish
}

type openBlock struct {
	kind llm.BlockKind
	id   string
}

var letters = [...]string{"?", "T", "R", "I"}

func letter(k llm.BlockKind) string {
	if k < 0 || int(k) >= len(letters) {
		return letters[0]
	}
	return letters[k]
}

func (r *renderer) event(e llm.Event) {
	put := func(format string, args ...any) { fmt.Fprintf(&r.b, format, args...) }
	switch e := e.(type) {
	case llm.Attempt:
		put("A(%d after=%dms %q)", e.N, e.DelayMS, e.Reason)
	case llm.StepStart:
		put("S+")
		switch {
		case e.ServedModel != "" && e.ResponseID != "":
			put("(model=%s id=%s)", e.ServedModel, e.ResponseID)
		case e.ServedModel != "":
			put("(model=%s)", e.ServedModel)
		case e.ResponseID != "":
			put("(id=%s)", e.ResponseID)
		}
	case llm.BlockStart:
		r.open = append(r.open, openBlock{e.Kind, e.ID})
		put("%s+%s", letter(e.Kind), e.ID)
		if e.Kind == llm.BlockToolInput {
			put(" %s", tool(e.Namespace, e.Name, e.Freeform, e.ProviderExecuted))
		}
		r.meta(e.Metadata)
	case llm.BlockDelta:
		raw := ""
		if e.Raw {
			raw = "~"
		}
		put("%s~%s%s%q", letter(e.Kind), raw, r.which(e.Kind, e.ID), e.Text)
	case llm.BlockEnd:
		put("%s-%s", letter(e.Kind), r.which(e.Kind, e.ID))
		r.close(e.Kind, e.ID)
		r.meta(e.Metadata)
	case llm.ToolInputError:
		put("I!%s %q", e.ID, e.Raw)
		r.close(llm.BlockToolInput, e.ID)
		r.meta(e.Metadata)
	case llm.ToolCallDone:
		c := e.Call
		input := c.Input
		if c.Freeform || !json.Valid([]byte(input)) {
			input = strconv.Quote(input)
		}
		put("C %s %s %s", c.ID, tool(c.Namespace, c.Name, c.Freeform, c.ProviderExecuted), input)
		r.meta(c.Metadata)
	case llm.ToolResultDone:
		r.result(e.Result)
	case llm.StepFinish:
		r.end = e
		put("SF(%s", reason(e.Reason, e.RawReason))
		if e.Again {
			put(" again")
		}
		r.b.WriteString(")")
	case llm.Finish:
		put("F(%s%s", e.Reason, figures(e.Usage))
		if s := figures(r.end.Usage); s != figures(e.Usage) {
			put(" SF:%s", s)
		}
		r.b.WriteString(")")
		r.meta(e.Metadata)
	case *llm.Error:
		put("E(%s %q", e.Code, e.Message)
		if e.RetryAfter > 0 {
			put(" after=%v", e.RetryAfter)
		}
		r.b.WriteString(")")
	default:
		put("%s", llm.EventName(e))
	}
}

func tool(namespace, name string, freeform, hosted bool) string {
	if namespace != "" {
		name = namespace + "." + name
	}
	if freeform {
		name += "(freeform)"
	}
	if hosted {
		name += "(hosted)"
	}
	return name
}

func (r *renderer) result(res llm.ToolResult) {
	mark := "X"
	if res.IsError {
		mark = "X!"
	}
	fmt.Fprintf(&r.b, "%s %s %s", mark, res.ID, tool(res.Namespace, res.Name, res.Freeform, res.ProviderExecuted))
	for _, p := range res.Content {
		switch p := p.(type) {
		case *llm.Text:
			fmt.Fprintf(&r.b, " %q", p.Text)
		case *llm.Media:
			fmt.Fprintf(&r.b, " %s", p.MediaType)
		default:
			fmt.Fprintf(&r.b, " %T", p)
		}
	}
	r.meta(res.Metadata)
}

func reason(r llm.FinishReason, raw string) string {
	if raw == "" || raw == r.String() {
		return r.String()
	}
	return r.String() + " raw=" + raw
}

func figures(u llm.Usage) string {
	var s string
	for _, f := range []struct {
		name string
		n    *int64
	}{
		{"in", u.Input}, {"read", u.CacheRead}, {"write", u.CacheWrite},
		{"out", u.Output}, {"reasoning", u.Reasoning}, {"total", u.Total},
	} {
		if f.n != nil {
			s += fmt.Sprintf(" %s=%d", f.name, *f.n)
		}
	}
	return s
}

// which names a block that is not the default one.
func (r *renderer) which(kind llm.BlockKind, id string) string {
	for _, b := range slices.Backward(r.open) {
		if b.kind == kind {
			if b.id == id {
				return ""
			}
			break
		}
	}
	return id
}

func (r *renderer) close(kind llm.BlockKind, id string) {
	r.open = slices.DeleteFunc(r.open, func(b openBlock) bool { return b == openBlock{kind, id} })
}

func (r *renderer) meta(md llm.Metadata) {
	if len(md) == 0 {
		return
	}
	var v any = md
	if own, ok := md[r.namespace]; ok && len(md) == 1 {
		v = own
	}
	b, err := protocol.Encode(v)
	if err != nil {
		b = strconv.AppendQuote(nil, err.Error())
	}
	r.b.WriteString("@" + string(b))
}
