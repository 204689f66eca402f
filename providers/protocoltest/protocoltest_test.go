package protocoltest_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// toy is a format of one word a line. mistake is what its decoder does wrong.
type toy struct {
	mistake string
	body    string
}

func (toy) ID() string                    { return "toy" }
func (toy) Framing() protocol.Framing     { return protocol.FramingNDJSON }
func (toy) Path(*protocol.Request) string { return "/toy" }
func (p toy) Decode(r *protocol.Request) protocol.Decoder {
	return &toyDecoder{mistake: p.mistake, life: protocol.Lifecycle{Namespace: r.Namespace}}
}

func (p toy) Body(r *protocol.Request) ([]byte, error) {
	if p.body != "" {
		return []byte(p.body), nil
	}
	return protocol.Encode(r.Messages)
}

type toyDecoder struct {
	mistake string
	life    protocol.Lifecycle
	kept    []byte
}

func (d *toyDecoder) Step(dst []llm.Event, f protocol.Frame) ([]llm.Event, error) {
	var word string
	if err := json.Unmarshal(f.Data, &word); err != nil {
		if d.mistake == "error" {
			return dst, err
		}
		return dst, protocol.Garbled("that is no word")
	}
	if word != "." {
		if d.mistake == "kept" {
			if d.kept == nil {
				d.kept = f.Data
			}
			word = string(d.kept)
		}
		return d.life.Delta(dst, llm.BlockText, "text-0", word), nil
	}
	switch d.mistake {
	case "no finish":
		d.life.Finish(nil, llm.StepFinish{}, nil)
		return dst, nil
	case "order":
		return append(d.life.Finish(dst, llm.StepFinish{Reason: llm.FinishStop}, nil), llm.BlockDelta{}), nil
	case "event":
		return append(dst, protocol.Incomplete()), nil
	}
	return d.life.Finish(dst, llm.StepFinish{Reason: llm.FinishStop}, protocol.Meta{"id": 1}), nil
}

func (d *toyDecoder) End(dst []llm.Event) ([]llm.Event, error) {
	switch {
	case d.mistake == "endless" && d.life.Finished():
		return append(dst, llm.StepStart{}), nil
	case d.life.Finished(), d.mistake == "silent":
		return dst, nil
	}
	return dst, protocol.Incomplete()
}

func (d *toyDecoder) Done() bool { return d.life.Finished() }

func request() *protocol.Request {
	return &protocol.Request{Request: &llm.Request{}, Namespace: "toy"}
}

// failing takes the place of a test that is expected to fail.
type failing struct {
	testing.TB
}

type failure string

func (failing) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }
func (failing) Errorf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// fails returns what a test complains of.
func fails(t *testing.T, run func(t testing.TB)) (message string) {
	t.Helper()
	defer func() {
		if f, ok := recover().(failure); ok {
			message = string(f)
		}
	}()
	run(failing{t})
	return ""
}

func TestAnswersOfAGoodFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, stream, want string
	}{
		{"whole", "\"Hel\"\n\"lo\"\n\".\"\n", `S+ T+text-0 T~"Hel" T~"lo" T- SF(stop) F(stop)@{"id":1}`},
		{"nothing is read after the end", "\"a\"\n\".\"\n{", `S+ T+text-0 T~"a" T- SF(stop) F(stop)@{"id":1}`},
		{"cut off between frames", "\"a\"\n", `S+ T+text-0 T~"a" E(incomplete-stream "the stream ended before the answer was complete")`},
		{"cut off in a frame", "\"a", `E(incomplete-stream "the stream ended before the answer was complete")`},
		{"garbled", "\"a\"\n3\n", `S+ T+text-0 T~"a" E(invalid-output "that is no word")`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := protocoltest.Splits(t, toy{}, request(), []byte(tc.stream)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestBadFormatsAreFound(t *testing.T) {
	t.Parallel()
	for mistake, tc := range map[string]struct{ stream, want string }{
		"error":     {"3\n", "no *llm.Error"},
		"kept":      {"\"a\"\n\"b\"\n\".\"\n", "cut into"},
		"no finish": {"\".\"\n", "without a finish"},
		"order":     {"\".\"\n", "after the terminal event finish"},
		"event":     {"\".\"\n", "appended an error"},
		"endless":   {"\".\"\n", "the end of a complete answer leads to S+"},
		"silent":    {"\"a\"\n", "neither a finish nor an error"},
	} {
		t.Run(mistake, func(t *testing.T) {
			t.Parallel()
			got := fails(t, func(t testing.TB) { protocoltest.Splits(t, toy{mistake: mistake}, request(), []byte(tc.stream)) })
			if !strings.Contains(got, tc.want) {
				t.Errorf("the complaint is %q, want one of %q", got, tc.want)
			}
		})
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	n := func(i int64) *int64 { return &i }
	own := llm.Metadata{"toy": json.RawMessage(`{"a":1}`)}
	var events []llm.Event
	var want []string
	for _, tc := range []struct {
		want  string
		event llm.Event
	}{
		{`A(2 after=200ms "busy")`, llm.Attempt{N: 2, DelayMS: 200, Reason: "busy"}},
		{`S+(model=m id=r)`, llm.StepStart{ServedModel: "m", ResponseID: "r"}},
		{`R+r1@{"a":1}`, llm.BlockStart{Kind: llm.BlockReasoning, ID: "r1", Metadata: own}},
		{`T+t1`, llm.BlockStart{Kind: llm.BlockText, ID: "t1"}},
		{`R+r2`, llm.BlockStart{Kind: llm.BlockReasoning, ID: "r2"}},
		{`R~"a\n\"é\""`, llm.BlockDelta{Kind: llm.BlockReasoning, ID: "r2", Text: "a\n\"é\""}},
		{`R~~"raw"`, llm.BlockDelta{Kind: llm.BlockReasoning, ID: "r2", Text: "raw", Raw: true}},
		{`R~r1"b"`, llm.BlockDelta{Kind: llm.BlockReasoning, ID: "r1", Text: "b"}},
		{`R-r1`, llm.BlockEnd{Kind: llm.BlockReasoning, ID: "r1"}},
		{`R-@{"other":{},"toy":{"a":1}}`, llm.BlockEnd{
			Kind: llm.BlockReasoning, ID: "r2", Metadata: llm.Metadata{"toy": json.RawMessage(`{"a":1}`), "other": json.RawMessage(`{}`)},
		}},
		{`I+c1 db.query(freeform)(hosted)`, llm.BlockStart{
			Kind: llm.BlockToolInput, ID: "c1", Namespace: "db", Name: "query", Freeform: true, ProviderExecuted: true,
		}},
		{`I!c1 "{"`, llm.ToolInputError{ID: "c1", Raw: "{"}},
		{`C c2 look {"q": "x"}@{"a":1}`, llm.ToolCallDone{Call: llm.ToolCall{ID: "c2", Name: "look", Input: `{"q": "x"}`, Metadata: own}}},
		{`C c3 patch(freeform) "{}"`, llm.ToolCallDone{Call: llm.ToolCall{ID: "c3", Name: "patch", Input: `{}`, Freeform: true}}},
		{`X! c2 look(hosted) "no" image/png`, llm.ToolResultDone{Result: llm.ToolResult{
			ID: "c2", Name: "look", IsError: true, ProviderExecuted: true, Content: llm.Parts{&llm.Text{Text: "no"}, &llm.Media{MediaType: "image/png"}},
		}}},
		{`SF(stop raw=pause_turn again)`, llm.StepFinish{
			Reason: llm.FinishStop, RawReason: "pause_turn", Again: true, Usage: llm.Usage{Input: n(1)},
		}},
		{`F(length in=5 read=0 write=2 out=3 reasoning=1 total=8 SF: in=1)@{"a":1}`, llm.Finish{
			Reason: llm.FinishLength, Metadata: own,
			Usage: llm.Usage{Input: n(5), CacheRead: n(0), CacheWrite: n(2), Output: n(3), Reasoning: n(1), Total: n(8)},
		}},
		{`E(rate-limit "slow" after=2s)`, &llm.Error{Code: llm.ErrRateLimit, Message: "slow", RetryAfter: 2 * time.Second}},
	} {
		events = append(events, tc.event)
		want = append(want, tc.want)
	}
	if got, want := protocoltest.Render("toy", events), strings.Join(want, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	req := request()
	req.Messages = []llm.Message{{Role: llm.RoleUser, Parts: llm.Parts{&llm.Text{Text: "a <b>"}}}}
	protocoltest.Golden(t, "message", toy{}, req)
	if flag.Lookup("update").Value.String() == "true" {
		return // the rest is about files that are not as they should be
	}
	for body, want := range map[string]string{
		`{`: "not JSON",
		`[{"parts":[{"text":"a <b>","type":"text"}],"role":"user"}]`: "from line 3:\n",
	} {
		got := fails(t, func(t testing.TB) { protocoltest.Golden(t, "message", toy{body: body}, req) })
		if !strings.Contains(got, want) {
			t.Errorf("the complaint about %s is %q, want one of %q", body, got, want)
		}
	}
	got := fails(t, func(t testing.TB) { protocoltest.Golden(t, "none", toy{}, req) })
	if !strings.Contains(got, "-update writes it") {
		t.Errorf("a missing golden file leads to %q", got)
	}
	if _, err := os.Stat(filepath.Join("testdata", "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a golden file was written unasked: %v", err)
	}
}

func FuzzToy(f *testing.F) {
	protocoltest.Fuzz(f, toy{}, request(), []byte("\"a\"\n\".\"\n"), []byte("\"a"), []byte("3\n"))
}
