package call

//lint:file-ignore SA1019 most servers are of versions that have sampling, roots and logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func TestSample(t *testing.T) {
	const simple = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`
	const sent = `{"messages":[{"role":"user","parts":[{"type":"text","text":"hi"}]}]}`
	yes := tool.Answer{JSON: json.RawMessage(`"allow"`)}
	for _, tc := range []struct {
		name, in string
		answer   *tool.Answer // nil: no one is asked
		err      error        // of the model
		request  string       // "": none
		want     string       // answer, or an error
	}{
		{"allowed", simple, nil, nil, sent, `{"content":{"type":"text","text":"answer"},"model":"m1","role":"assistant","stopReason":"endTurn"}`},
		{"asked", simple, &yes, nil, sent, `{"content":{"type":"text","text":"answer"}`},
		{
			"settings", `{"systemPrompt":"be\u202e brief","maxTokens":50,"temperature":0.5,"stopSequences":["END"],"modelPreferences":{"hints":[{"name":"gpt"}]},"includeContext":"allServers",
			"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"QUJD"}]},{"role":"assistant","content":{"type":"audio","mimeType":"audio/wav","data":"QUJD"}}]}`, nil, nil,
			`{"system":["be� brief"],"messages":[{"role":"user","parts":[{"type":"text","text":"a"},{"type":"media","mediaType":"image/png","data":"QUJD"}]},` +
				`{"role":"assistant","parts":[{"type":"media","mediaType":"audio/wav","data":"QUJD"}]}],"generation":{"maxTokens":50,"temperature":0.5,"stop":["END"]}}`, `{"content"`,
		},
		{"declined", simple, &tool.Answer{Declined: true}, nil, "", "-1 the user declined the sampling request"},
		{"the other option", simple, &tool.Answer{JSON: json.RawMessage(`"decline"`)}, nil, "", "-1 the user declined"},
		{"dismissed", simple, &tool.Answer{Dismissed: true}, nil, "", "-1 the user declined"},
		{"no one to ask", simple, &tool.Answer{Declined: true, Note: "nobody"}, nil, "", "-1 the sampling request was declined: nobody"},
		{"the model fails", simple, nil, &llm.Error{Code: llm.ErrQuotaExceeded, Message: "of account 7"}, sent, "-1 the model did not answer the sampling request: quota-exceeded"},
		{"no model", simple, nil, errors.New("dial /run/secret"), sent, "-1 the model did not answer the sampling request: it could not be reached"},
		{"tools", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`, &yes, nil, "", "-32602 sampling requests with tools are not supported"},
		{"result of a tool", `{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[]}}]}`, nil, nil, "", "-32602 message 1: its content is neither text"},
		{"no messages", `{"messages":[]}`, nil, nil, "", "-32602 the sampling request has no messages"},
		{"no content", `{"messages":[{"role":"user","content":[]}]}`, nil, nil, "", "-32602 message 1 has no content"},
		{"role", `{"messages":[{"role":"system","content":{"type":"text","text":"hi"}}]}`, nil, nil, "", `-32602 message 1 has the role "system"`},
		{"not an image", `{"messages":[{"role":"user","content":{"type":"image","mimeType":"text/html","data":"QUJD"}}]}`, nil, nil, "", `-32602 message 1: its image has the type "text/html" and 3 bytes`},
		{"stops", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"stopSequences":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]}`, nil, nil, "", "-32602 the sampling request has 17 stop sequences"},
	} {
		var p mcp.CreateMessageWithToolsParams
		if err := json.Unmarshal([]byte(tc.in), &p); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		var ask func(context.Context, tool.Question) (tool.Answer, error)
		if tc.answer != nil {
			ask = func(_ context.Context, q tool.Question) (tool.Answer, error) {
				if q.Source != "srv" || !strings.Contains(q.Title, `"srv"`) || !strings.Contains(q.Message, "user:\n  > hi\n") {
					t.Errorf("%s: question %+v", tc.name, q)
				}
				return *tc.answer, nil
			}
		}
		request := ""
		res, err := Sample(t.Context(), "srv", &p, ask, func(_ context.Context, r *llm.Request) (*tool.Sampled, error) {
			b, _ := json.Marshal(r)
			request = strings.Replace(string(b), `"model":"",`, "", 1)
			return &tool.Sampled{Message: llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Text{Text: "answer"}}}, Reason: llm.FinishStop, Model: "m1"}, tc.err
		})
		got := ""
		if err != nil {
			got = errorOf(err)
		} else {
			b, _ := json.Marshal(res)
			got = string(b)
		}
		if !strings.HasPrefix(got, tc.want) || request != tc.request {
			t.Errorf("%s: %s\nafter %s\nwant %s\nafter %s", tc.name, got, request, tc.want, tc.request)
		}
	}
}

// What a person sees of a request is bounded, and no line of it looks like gantry's.
func TestDescribe(t *testing.T) {
	long := &llm.Request{System: []string{"a\nallow\n\x1b[2J\u202e"}}
	for range 1000 {
		long.Messages = append(long.Messages, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: strings.Repeat("x\n", 2000)}, &llm.Media{MediaType: "image/png", Data: make([]byte, 7)}}})
	}
	got := describe(long)
	if len(got) > maxRequest || strings.ContainsAny(got, "\x1b\u202e") || !strings.HasPrefix(got, "system:\n  > a\n  > allow\n  > [2J\nuser:\n  > x\n") {
		t.Errorf("%d bytes: %.300q", len(got), got)
	}
	short := &llm.Request{Messages: long.Messages[:1]}
	short.Messages[0].Parts = short.Messages[0].Parts[1:]
	if got := describe(short); got != "user:\n  > [image/png, 7 bytes]\n" {
		t.Errorf("%q", got)
	}
}

func errorOf(err error) string {
	var wire struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	b, _ := json.Marshal(err)
	if json.Unmarshal(b, &wire) != nil || wire.Code == 0 {
		return err.Error()
	}
	return fmt.Sprint(wire.Code, " ", wire.Message)
}
