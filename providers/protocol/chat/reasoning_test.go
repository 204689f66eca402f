package chat

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
)

func TestReasoning(t *testing.T) {
	think := protocol.Compat{ThinkTags: &protocol.ThinkTags{Open: "<think>", Close: "</think>"}}
	checkAnswers(t, []answerCase{
		{
			name:   "stays open until the end",
			stream: frames(`{"reasoning_content":"a"}`, `{"content":"b"}`, `{"reasoning_content":"c"}`, ended("stop"), done),
			want:   `S+ R+reasoning-0 R~~"a" T+text-0 T~"b" R~~"c" R-@{"model":"m","reasoningField":"reasoning_content"} T- SF(stop) F(stop)`,
		},
		{
			name:   "ends before the calls, and they before the text",
			stream: frames(`{"reasoning":"a","content":null}`, `{"content":"b"}`, calls(`{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}`), ended("tool_calls"), done),
			want: `S+ R+reasoning-0 R~~"a" T+text-0 T~"b" I+c1 f I~"{}" R-@{"model":"m","reasoningField":"reasoning"} I- C c1 f {} T-` +
				` SF(tool-calls raw=tool_calls) F(tool-calls)`,
		},
		{
			name:   "the same text in two fields is told once",
			stream: frames(`{"reasoning_content":"a","reasoning":"a"}`, ended("stop"), done),
			want:   `S+ R+reasoning-0 R~~"a" R-@{"model":"m","reasoningField":"reasoning_content"} SF(stop) F(stop)`,
		},
		{
			name:   "the configured field goes first",
			compat: protocol.Compat{ReasoningField: "reasoning_text"},
			stream: frames(`{"reasoning_content":"x","reasoning_text":"a"}`, ended("stop"), done),
			want:   `S+ R+reasoning-0 R~~"a" R-@{"model":"m","reasoningField":"reasoning_text"} SF(stop) F(stop)`,
		},
		{
			name:   "a field of an unusual name",
			compat: protocol.Compat{ReasoningField: "thoughts"},
			stream: frames(`{"thoughts":"a"}`, `{"content":"b"}`, ended("stop"), done),
			want:   `S+ R+reasoning-0 R~~"a" T+text-0 T~"b" R-@{"model":"m","reasoningField":"thoughts"} T- SF(stop) F(stop)`,
		},
		{
			name: "entries in pieces, with a signature at the end",
			stream: frames(`{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","format":"f1","index":0}]}`,
				`{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","format":"f1","index":0,"signature":null}]}`,
				`{"reasoning_details":[{"type":"reasoning.text","signature":"sig","format":"f1","index":0}]}`, `{"content":"c"}`, ended("stop"), done),
			want: `S+ R+reasoning-0 R~~"a" R~~"b" T+text-0 T~"c"` +
				` R-@{"model":"m","reasoningDetails":[{"format":"f1","index":0,"signature":"sig","text":"ab","type":"reasoning.text"}],"reasoningField":"reasoning"}` +
				` T- SF(stop) F(stop)`,
		},
		{
			name:   "sealed entries have no text and come before what follows them",
			stream: frames(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"E","id":"rs_1"}]}`, `{"content":"c"}`, ended("stop"), done),
			want: `S+ R+reasoning-0 T+text-0 T~"c" R-@{"model":"m","reasoningDetails":[{"data":"E","id":"rs_1","type":"reasoning.encrypted"}]}` +
				` T- SF(stop) F(stop)`,
		},
		{
			name:   "text that comes in entries alone",
			stream: frames(`{"reasoning_details":[{"type":"reasoning.summary","summary":"s"}]}`, ended("stop"), done),
			want:   `S+ R+reasoning-0 R~~"s" R-@{"model":"m","reasoningDetails":[{"summary":"s","type":"reasoning.summary"}]} SF(stop) F(stop)`,
		},
		{
			name:   "entries that are none",
			stream: frames(`{"content":"a","reasoning_details":{"x":1}}`, `{"reasoning_details":[null]}`, `{"reasoning_details":[]}`, ended("stop"), done),
			want:   `S+ T+text-0 T~"a" T- SF(stop) F(stop)`,
		},
		{
			name:   "after the finish reason",
			stream: frames(ended("stop"), `{"reasoning_details":[{"type":"reasoning.encrypted","data":"E"}]}`, done),
			want:   `E(invalid-output "the response continued after its finish reason")`,
		},
		{
			name: "marked inside the text", compat: think,
			stream: frames(`{"content":"<thi"}`, `{"content":"nk>hm"}`, `{"content":"m</th"}`, `{"content":"ink>yes <b"}`, `{"content":">"}`, ended("stop"), done),
			want:   `S+ R+reasoning-0 R~~"hm" R~~"m" T+text-0 T~"yes <b" T~">" R- T- SF(stop) F(stop)`,
		},
		{
			name: "text that looked like a mark to the end", compat: think,
			stream: frames(`{"content":"a <thin"}`, ended("stop"), done),
			want:   `S+ T+text-0 T~"a " T~"<thin" T- SF(stop) F(stop)`,
		},
	})
}

func TestEntriesMerge(t *testing.T) {
	tests := []struct {
		name   string
		chunks []string
		want   []string
	}{
		{
			"texts and summaries grow",
			[]string{`[{"type":"reasoning.text","text":"a"},{"type":"reasoning.text","text":"b"}]`, `[{"type":"reasoning.summary","summary":"c"}]`, `[{"type":"reasoning.summary","summary":"d"}]`},
			[]string{`{"text":"ab","type":"reasoning.text"}`, `{"summary":"cd","type":"reasoning.summary"}`},
		},
		{
			"another index is another entry",
			[]string{`[{"type":"reasoning.text","text":"a","index":0}]`, `[{"type":"reasoning.text","text":"b","index":1}]`},
			[]string{`{"index":0,"text":"a","type":"reasoning.text"}`, `{"index":1,"text":"b","type":"reasoning.text"}`},
		},
		{
			"another signature is another entry",
			[]string{`[{"type":"reasoning.text","text":"a","signature":"s"}]`, `[{"type":"reasoning.text","text":"b","signature":"t"}]`},
			[]string{`{"signature":"s","text":"a","type":"reasoning.text"}`, `{"signature":"t","text":"b","type":"reasoning.text"}`},
		},
		{
			"another id or format is another entry",
			[]string{`[{"type":"reasoning.summary","summary":"a","id":"1","format":"x"}]`, `[{"type":"reasoning.summary","summary":"b","id":"2","format":"x"}]`, `[{"type":"reasoning.summary","summary":"c","id":"2","format":"y"}]`},
			[]string{`{"format":"x","id":"1","summary":"a","type":"reasoning.summary"}`, `{"format":"x","id":"2","summary":"b","type":"reasoning.summary"}`, `{"format":"y","id":"2","summary":"c","type":"reasoning.summary"}`},
		},
		{
			"what was not said yet is taken from a later piece",
			[]string{`[{"type":"reasoning.text","text":"a","id":null,"signature":""}]`, `[{"type":"reasoning.text","text":"","id":"1","signature":"s","future":true}]`},
			[]string{`{"future":true,"id":"1","signature":"s","text":"a","type":"reasoning.text"}`},
		},
		{
			"sealed entries never grow, kinds nobody knows stay as they are",
			[]string{`[{"type":"reasoning.encrypted","data":"a"},{"type":"reasoning.encrypted","data":"a"},{"type":"new","x":1},{"type":"new","x":1}]`},
			[]string{`{"data":"a","type":"reasoning.encrypted"}`, `{"data":"a","type":"reasoning.encrypted"}`, `{"type":"new","x":1}`, `{"type":"new","x":1}`},
		},
		{
			"pieces of one kind that do not follow each other",
			[]string{`[{"type":"reasoning.text","text":"a"},{"type":"reasoning.encrypted","data":"e"},{"type":"reasoning.text","text":"b"}]`},
			[]string{`{"text":"a","type":"reasoning.text"}`, `{"data":"e","type":"reasoning.encrypted"}`, `{"text":"b","type":"reasoning.text"}`},
		},
		{
			"types without a prefix",
			[]string{`[{"type":"summary","summary":"a","index":0}]`, `[{"type":"summary","summary":"b","index":0}]`, `[{"type":"encrypted","encrypted":"E","index":1}]`},
			[]string{`{"index":0,"summary":"ab","type":"summary"}`, `{"encrypted":"E","index":1,"type":"encrypted"}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d details
			for _, c := range tt.chunks {
				d.add([]byte(c), false)
			}
			got := d.entries()
			if len(got) != len(tt.want) {
				t.Fatalf("%d entries %s, want %d", len(got), got, len(tt.want))
			}
			for i := range got {
				if string(got[i]) != tt.want[i] {
					t.Errorf("entry %d is %s, want %s", i, got[i], tt.want[i])
				}
			}
		})
	}
}

func TestAPlainSummaryIsShownOnlyWhereTheReasoningIsNot(t *testing.T) {
	checkAnswers(t, []answerCase{
		{
			name:   "beside the reasoning",
			stream: frames(`{"reasoning_content":"long"}`, `{"reasoning_details":[{"type":"summary","summary":"s","index":0}]}`, ended("stop"), done),
			want: `S+ R+reasoning-0 R~~"long" R-@{"model":"m","reasoningDetails":[{"index":0,"summary":"s","type":"summary"}],` +
				`"reasoningField":"reasoning_content"} SF(stop) F(stop)`,
		},
		{
			name:   "alone",
			stream: frames(`{"reasoning_details":[{"type":"summary","summary":"s","index":0}]}`, ended("stop"), done),
			want:   `S+ R+reasoning-0 R~~"s" R-@{"model":"m","reasoningDetails":[{"index":0,"summary":"s","type":"summary"}]} SF(stop) F(stop)`,
		},
	})
}
