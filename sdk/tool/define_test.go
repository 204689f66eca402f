package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type place struct {
	City  string   `json:"city" jsonschema:"name of the city"`
	Unit  string   `json:"unit,omitempty" enum:"c,f"`
	Days  *int     `json:"days,omitempty"`
	Tags  []string `json:"tags,omitempty" enum:"a,b"`
	Where struct {
		Side string `json:"side,omitempty" enum:"left,right"`
	} `json:"where,omitzero"`
}

func TestDescriptor(t *testing.T) {
	run := func(context.Context, *tool.Call, place) (*tool.Result, error) { return nil, nil }
	d := tool.New("forecast", "Forecasts.", run,
		tool.ParallelSafe(), tool.ReadOnly(), tool.SerialGroup("g"), tool.Effects(contract.NetworkEffect{Host: "h"}), tool.Namespace("ns"),
		tool.Deferred(), tool.Hook("Bash", "Shell"), tool.HookField("command", "city"), tool.AbortReadsAsCommand(), tool.Lenient(),
		tool.Output[struct{ Degrees float64 }](), tool.SearchText("sky"), tool.ModelTraits("images"), tool.Source("s"),
	).Descriptor()
	want := `{"type":"object","properties":{` +
		`"city":{"type":"string","description":"name of the city"},` +
		`"unit":{"type":"string","enum":["c","f"]},` +
		`"days":{"type":["null","integer"]},` +
		`"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}},` +
		`"where":{"type":"object","properties":{"side":{"type":"string","enum":["left","right"]}},"additionalProperties":false}` +
		`},"required":["city"],"additionalProperties":false}`
	if !sameJSON(t, d.InputSchema, want) {
		t.Errorf("schema\n%s\nwant\n%s", d.InputSchema, want)
	}
	if !d.ParallelSafe || !d.ReadOnly || d.SerialGroup != "g" || len(d.Effects) != 1 || d.Namespace != "ns" || d.Exposure != contract.ExposureDeferred ||
		d.HookName != "Bash" || d.HookAliases[0] != "Shell" || d.HookFields["command"] != "city" || !d.AbortReadsAsCommand || !d.LenientArguments ||
		!strings.Contains(string(d.OutputSchema), "Degrees") || d.SearchText != "sky" || d.ModelTraits[0] != "images" || d.Source != "s" || d.Assess {
		t.Errorf("descriptor %+v", d)
	}
	if d := tool.New("x", "", run, tool.Hidden(), tool.Assess(func(context.Context, *tool.AssessCall, place) (*contract.Assessment, error) { return nil, nil })).Descriptor(); !d.Assess || d.Exposure != contract.ExposureHidden {
		t.Errorf("descriptor %+v", d)
	}
	odd := tool.Schema(json.RawMessage(`{"type":"object","properties":{"a":{"pattern":"(?=x)"}}}`))
	raw := func(context.Context, *tool.Call, json.RawMessage) (*tool.Result, error) { return nil, nil }
	if d := tool.New("x", "", raw, odd, tool.UncheckedArguments()).Descriptor(); d.Validate() != nil || !d.UncheckedArguments {
		t.Errorf("a tool that checks its arguments itself: %v", d.Validate())
	}
	for want, option := range map[contract.Nesting]tool.Option{
		contract.NestingUnknown: tool.ReadOnly(), contract.NestingNever: tool.ModelOnly(), contract.NestingOnly: tool.CodeOnly(),
	} {
		if d := tool.New("x", "", run, option).Descriptor(); d.Nesting != want {
			t.Errorf("nesting %d, want %d", d.Nesting, want)
		}
	}
	own := json.RawMessage(`{"type":"object","required":["x"]}`)
	if d := tool.New("x", "", func(context.Context, *tool.Call, json.RawMessage) (*tool.Result, error) { return nil, nil }, tool.Schema(own)).Descriptor(); string(d.InputSchema) != string(own) {
		t.Errorf("schema %s", d.InputSchema)
	}
}

func sameJSON(t *testing.T, a json.RawMessage, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func TestArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, tool.Plugin{Tools: []tool.Tool{
			tool.New("place", "", func(_ context.Context, _ *tool.Call, in place) (*tool.Result, error) {
				return tool.Text(in.City + in.Unit), nil
			}),
			tool.New("raw", "", func(_ context.Context, _ *tool.Call, in json.RawMessage) (*tool.Result, error) {
				return tool.Text(string(in)), nil
			}, tool.Schema(json.RawMessage(`{"type":"object","required":["x"]}`))),
			tool.NewFreeform("patch", "", contract.Freeform{Syntax: "lark", Definition: "start: /.+/"}, func(_ context.Context, _ *tool.Call, text string) (*tool.Result, error) {
				return tool.Text("<" + text + ">"), nil
			}),
		}}, nil, "{}")
		const failed = "failed to parse function arguments: "
		for _, tc := range []struct{ tool, in, want string }{
			{"place", `{"city":"Rome","unit":"c"}`, "Romec"},
			{"place", `{"city":"Rome","more":1}`, "Rome"},
			{"place", `{}`, failed + "missing field `city` at line 1 column 2 (error)"},
			{"place", ``, failed + "missing field `city` at line 1 column 2 (error)"},
			{"place", "{\n \"unit\": \"c\"\n}\n", failed + "missing field `city` at line 3 column 1 (error)"},
			{"place", `{"city":7}`, failed + "field `city`: invalid type: number, expected string at line 1 column 9 (error)"},
			{"place", `{"city":"a","where":{"side":[]}}`, failed + "field `where.side`: invalid type: array, expected string at line 1 column 29 (error)"},
			{"place", `{"city":"a","days":1.5}`, failed + "field `days`: invalid type: number, expected integer that is not too large at line 1 column 22 (error)"},
			{"place", `"x"`, failed + "invalid type: string, expected object at line 1 column 3 (error)"},
			{"place", `{"city":`, failed + "unexpected end of JSON input at line 1 column 8 (error)"},
			{"place", `null`, failed + "missing field `city` at line 1 column 4 (error)"},
			{"raw", `{"x": 1}`, `{"x": 1}`},
			{"raw", `{"y": 1}`, failed + "missing field `x` at line 1 column 8 (error)"},
			{"raw", `[1]`, failed + "invalid type: array, expected object at line 1 column 1 (error)"},
			{"patch", `{"input":"text"}`, "<text>"},
			{"patch", `{"input":3}`, failed + "invalid type: number, expected string at line 1 column 1 (error)"},
			{"patch", `{}`, failed + "missing field `input` at line 1 column 2 (error)"},
		} {
			r, _ := p.run(t, &gantryv1.CallStart{Tool: tc.tool, Input: arguments(tc.in)})
			if got := resultShape(r); got != tc.want {
				t.Errorf("%s %s\n got %s\nwant %s", tc.tool, tc.in, got, tc.want)
			}
		}
		text := &gantryv1.CallInput{Input: &gantryv1.CallInput_Text{Text: "*** Begin"}}
		if r, _ := p.run(t, &gantryv1.CallStart{Tool: "patch", Input: text}); resultShape(r) != "<*** Begin>" {
			t.Errorf("freeform: %s", resultShape(r))
		}
		if r, _ := p.run(t, &gantryv1.CallStart{Tool: "place", Input: text}); !r.GetIsError() || !strings.HasPrefix(resultShape(r), failed+"got raw text") {
			t.Errorf("text for arguments: %s", resultShape(r))
		}
	})
}

func FuzzArguments(f *testing.F) {
	f.Add(`{"city":"Rome","days":3}`)
	f.Add("{\n\"where\":{\"side\":null}}")
	f.Add(`{"city":1e999}`)
	f.Fuzz(func(t *testing.T, in string) {
		// Whatever comes, the tool runs or the model gets a text that says why not.
		ran := false
		tl := tool.New("place", "", func(context.Context, *tool.Call, place) (*tool.Result, error) { ran = true; return nil, nil })
		err := tool.RunForTest(tl, contract.Input{Arguments: json.RawMessage(in)})
		if ran == (err != nil) {
			t.Fatalf("%q: ran %v, %v", in, ran, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "failed to parse function arguments: ") {
			t.Fatalf("%q: %v", in, err)
		}
	})
}

func TestAssess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		judge := func(_ context.Context, c *tool.AssessCall, in place) (*contract.Assessment, error) {
			switch in.City {
			case "error":
				return nil, errors.New("no such place")
			case "panic":
				panic("boom")
			case "nothing":
				return nil, nil
			case "early":
				return &contract.Assessment{Early: tool.Text("known already")}, nil
			case "digest":
				return &contract.Assessment{Digest: strings.Repeat("d", 129)}, nil
			}
			return &contract.Assessment{
				Effects: []contract.Effect{contract.ExecEffect{Argv: []string{"ls"}, Cwd: c.Cwd()}}, Digest: "d",
				Summary: fmt.Sprint(c.ThreadID(), c.TurnID(), c.ID(), c.Tool(), c.Env().Label, c.Thread().ID()),
			}, nil
		}
		p := configured(t, tool.Plugin{Tools: []tool.Tool{
			tool.New("place", "", func(context.Context, *tool.Call, place) (*tool.Result, error) { return nil, nil }, tool.Assess(judge)),
			tool.New("plain", "", func(context.Context, *tool.Call, place) (*tool.Result, error) { return nil, nil }),
			tool.NewFreeform("patch", "", contract.Freeform{Property: "patch"}, func(context.Context, *tool.Call, string) (*tool.Result, error) { return nil, nil },
				tool.Assess(func(_ context.Context, _ *tool.AssessCall, text string) (*contract.Assessment, error) {
					return &contract.Assessment{Summary: "<" + text + ">"}, nil
				})),
		}}, nil, "{}")
		assess := func(name string, in *gantryv1.CallInput) (*gantryv1.AssessResponse, error) {
			return p.Assess(t.Context(), &gantryv1.AssessRequest{ThreadId: "t", TurnId: "u", CallId: "c", Tool: name, Cwd: "/w", Input: in})
		}
		r, err := assess("place", arguments(`{"city":"Rome"}`))
		if err != nil || r.GetEarly() != nil || r.GetEffects()[0].GetExec().GetCwd() != "/w" || r.GetDigest() != "d" ||
			strings.ReplaceAll(r.GetSummary(), " ", "") != "tucplacetestt" {
			t.Errorf("assessment %v, %v", r, err)
		}
		for in, want := range map[string]string{
			`{"city":"error"}`:   "no such place (error)",
			`{"city":"panic"}`:   "tool place crashed: boom (error)",
			`{"city":"nothing"}`: `tool "place" returned no assessment (error)`,
			`{"city":"early"}`:   "known already",
			`{"city":"digest"}`:  `tool "place": the digest of the assessment has 129 bytes; the maximum is 128 (error)`,
			`{}`:                 "failed to parse function arguments: missing field `city` at line 1 column 2 (error)",
		} {
			r, err := assess("place", arguments(in))
			if err != nil || r.GetEarly() == nil || resultShape(r.GetEarly()) != want || len(r.GetEffects()) > 0 {
				t.Errorf("%s: %v, %v", in, r, err)
			}
		}
		if r, err := assess("gone", arguments(`{}`)); err != nil || resultShape(r.GetEarly()) != "unsupported call: gone (error)" {
			t.Errorf("unknown tool: %v, %v", r, err)
		}
		if _, err := assess("plain", arguments(`{}`)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("a tool without: %v", err)
		}
		for _, in := range []*gantryv1.CallInput{
			{Input: &gantryv1.CallInput_Text{Text: "p"}}, arguments(`{"patch":"p"}`),
		} {
			if r, err := assess("patch", in); err != nil || r.GetSummary() != "<p>" {
				t.Errorf("freeform: %v, %v", r, err)
			}
		}
	})
}
