package history

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

func user(s string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: s}}}
}

func says(s string) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Text{Text: s}}}
}

// sealed is thoughts whose encrypted form has n bytes.
func sealed(n int) llm.Message {
	raw := json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
	return llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Reasoning{Metadata: llm.Metadata{"v": raw}}}}
}

func TestWindow(t *testing.T) {
	for _, tc := range []struct {
		name            string
		size, configure int64
		usable, limit   int64
	}{
		{"of the model", 272_000, 0, 258_400, 244_800},
		{"more than the model's own", 272_000, 300_000, 258_400, 244_800},
		{"less", 272_000, 100_000, 258_400, 100_000},
		{"unknown", 0, 0, 258_400, 244_800},
		{"unknown, with a limit", 0, 50_000, 258_400, 50_000},
		{"tiny", 100, 200, 95, 90},
	} {
		w := WindowOf(llm.ModelRow{ContextWindow: tc.size}, tc.configure)
		if w.Usable() != tc.usable || w.Limit != tc.limit {
			t.Errorf("%s: usable %d, limit %d; want %d, %d", tc.name, w.Usable(), w.Limit, tc.usable, tc.limit)
		}
	}
}

// What a provider counted is believed; what came after is estimated.
func TestActive(t *testing.T) {
	h := New(nil)
	h.Append(user(strings.Repeat("x", 400)))
	if got := h.Active(); got != 0 {
		t.Errorf("before any answer: %d", got)
	}
	h.Append(says("yes"))
	h.Counted(300, 250)
	if got := h.Active(); got != 300 {
		t.Errorf("after the answer: %d, want what was counted", got)
	}
	m := user(strings.Repeat("x", 400))
	h.Append(m)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := h.Active(), 300+Tokens(int64(len(b))); got != want {
		t.Errorf("with another message: %d, want %d", got, want)
	}
}

// Encrypted thoughts of earlier turns are given back to the model, and vendors leave them out of what they count.
func TestSealedThoughtsBeforeTheLastWordOfTheUser(t *testing.T) {
	h := New([]llm.Message{sealed(900), sealed(1000), user("on"), sealed(2000)})
	h.Counted(1000, 900)
	if got := h.Active() - 1000; got != 32 {
		t.Errorf("%d tokens added, want 32", got)
	}
}

func TestEstimateOfImages(t *testing.T) {
	picture := func(w, h int) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, tc := range []struct {
		name string
		m    llm.Media
		want int64 // bytes that stand for the payload
	}{
		{"any", llm.Media{Data: bytes.Repeat([]byte("x"), 100_000)}, 7_373},
		{"as a URL", llm.Media{URL: "data:image/png;base64," + strings.Repeat("eHh4", 9000)}, 7_373},
		{"in its own size", llm.Media{Detail: "original", Data: picture(2304, 864)}, 7_776},
		{"in its own size, huge", llm.Media{Detail: "original", Data: picture(3201, 3201)}, 40_000},
		{"in its own size, which nobody can read", llm.Media{Detail: "original", Data: []byte("RIFF")}, 7_373},
	} {
		tc.m.MediaType = "image/png"
		msg := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&tc.m}}
		b, err := json.Marshal(msg)
		if err != nil {
			t.Fatal(err)
		}
		payload := base64.StdEncoding.EncodedLen(len(tc.m.Data))
		if _, p, ok := strings.Cut(tc.m.URL, ";base64,"); ok {
			payload = len(p)
		}
		if got, want := messageBytes(msg), int64(len(b)-payload)+tc.want; got != want {
			t.Errorf("%s: %d bytes, want %d", tc.name, got, want)
		}
		inResult := llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "c", Content: llm.Parts{&tc.m}}}}
		if got := messageBytes(inResult); got < tc.want || got > tc.want+300 {
			t.Errorf("%s, of a tool: %d bytes, want a little more than %d", tc.name, got, tc.want)
		}
	}
}

// The limit may be for what a conversation grew by: what stands before it is not made smaller by a summary.
func TestLimitOfTheBody(t *testing.T) {
	type answer struct{ in, out int64 }
	for _, tc := range []struct {
		name    string
		row     int64
		limit   int64
		body    bool
		answers []answer
		want    []bool // reached after each
	}{
		{"grown", 1000, 100, true, []answer{{600, 50}, {700, 50}}, []bool{false, true}},
		{"the window's end counts all the same", 100, 200, true, []answer{{80, 5}, {98, 1}}, []bool{false, true}},
		{"all of it, and no more than the window", 100, 200, false, []answer{{80, 11}}, []bool{true}},
	} {
		h, w := New(nil), WindowOf(llm.ModelRow{ContextWindow: tc.row}, tc.limit)
		w.Body = tc.body
		for i, a := range tc.answers {
			h.Counted(a.in+a.out, a.in)
			if got := w.Reached(h, 0); got != tc.want[i] {
				t.Errorf("%s: after answer %d reached = %v", tc.name, i+1, got)
			}
		}
	}
	h := New(nil)
	h.Counted(150, 120)
	h.Counted(300, 280)
	if h.count.Prefix != 120 {
		t.Errorf("prefix %d, want that of the first request", h.count.Prefix)
	}
}

func TestRefusedForItsLength(t *testing.T) {
	h := New(nil)
	w := WindowOf(llm.ModelRow{ContextWindow: 1000}, 0)
	h.Counted(10, 10)
	h.Overflowed()
	if !w.Reached(h, 0) || h.Active() != 10 {
		t.Errorf("reached %v with %d tokens: the count must stay what it is", w.Reached(h, 0), h.Active())
	}
	h.Counted(20, 10)
	if w.Reached(h, 0) {
		t.Error("an answer shows that it fits")
	}
}

// A history has the same revision as long as all of it is there.
func TestRevision(t *testing.T) {
	h := New([]llm.Message{user("a")})
	first := h.Revision()
	if h.Append(says("b")); first == "" || h.Revision() != first {
		t.Error("the revision of a history that only grows has changed")
	}
	if Restore(h.Messages(), Count{}).Revision() == first {
		t.Error("a restored history, which may end elsewhere, has the same revision")
	}
	if h.Replace([]llm.Message{user("summary")}, 5); h.Revision() == first {
		t.Error("a compaction has left the revision")
	}
}

func TestGrown(t *testing.T) {
	h := New([]llm.Message{user("a")})
	if h.Grown() {
		t.Error("the user's words alone are no growth")
	}
	h.Append(says("b"))
	if !h.Grown() {
		t.Error("an answer is growth")
	}
	h.Replace([]llm.Message{user("a"), user("summary")}, 5)
	if h.Append(user("c")); h.Grown() {
		t.Error("nothing was answered since")
	}
	h.Append(says("d"))
	if h.Settle(); h.Grown() {
		t.Error("nothing was answered since the last try")
	}
}

func TestFromUser(t *testing.T) {
	for text, want := range map[string]bool{
		"fix it": true, "": true, "<b>bold</b>": true, "<environment_context> is what?": true, "# AGENTS.md instructions, please": true,
		"<environment_context>\n<cwd>/</cwd>\n</environment_context>":                             false,
		"  <Environment_Context>x</ENVIRONMENT_CONTEXT>\n":                                        false,
		"# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nbe kind\n</INSTRUCTIONS>":             false,
		"<turn_aborted>\nstopped\n</turn_aborted>":                                                false,
		`<hook_prompt hook_run_id="7">go on</hook_prompt>`:                                        false,
		"<external_ticket>text</external_ticket>":                                                 false,
		"<external_ticket>text</external_other>":                                                  true,
		"<" + SummaryMarker + ">\nso far\n</" + SummaryMarker + ">":                               false,
		"<files_restored>\nundone\n</files_restored>":                                             false,
		"<user_shell_command>\n<command>\nls\n</command>\n</user_shell_command>":                  false,
		"<permissions instructions>\n" + strings.Repeat("x", 500) + "</permissions instructions>": false,
	} {
		if got := FromUser(user(text)); got != want {
			t.Errorf("%q: from the user = %v", text, got)
		}
	}
	mixed := llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "hi"}, &llm.Text{Text: "<skill>x</skill>"}}}
	if FromUser(mixed) || FromUser(says("hi")) {
		t.Error("one marked part is enough, and a model is no user")
	}
}

// Encrypted content counts by what it holds, whoever can read it; a model that can't reads a line instead.
func TestEncryptedOutput(t *testing.T) {
	result := func(p llm.Part) llm.Message {
		return llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: "c", Content: llm.Parts{p}}}}
	}
	empty := messageBytes(result(&llm.Sealed{Namespace: "v"}))
	for n, want := range map[int]int64{0: 0, 1: 1, 16: 9, 17: 10, 1600: 900} {
		if got := messageBytes(result(&llm.Sealed{Namespace: "v", Data: strings.Repeat("x", n)})) - empty; got != want {
			t.Errorf("%d bytes count as %d, want %d", n, got, want)
		}
	}
	h := New([]llm.Message{
		{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: "c", Name: "t"}}}, result(&llm.Sealed{Namespace: "v", Data: "x"}),
	})
	for namespace, want := range map[string]string{"v": "*llm.Sealed", "w": sealedOmitText, "": sealedOmitText} {
		got := h.ForPrompt(Traits{Namespace: namespace})[1].Parts[0].(*llm.ToolResult).Content[0]
		text := fmt.Sprintf("%T", got)
		if t, ok := got.(*llm.Text); ok {
			text = t.Text
		}
		if text != want {
			t.Errorf("a model of %q sees %s, want %s", namespace, text, want)
		}
	}
}
