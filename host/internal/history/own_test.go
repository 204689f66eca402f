package history

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
	"pgregory.net/rapid"
)

func md(namespaces ...string) llm.Metadata {
	out := llm.Metadata{}
	for _, ns := range namespaces {
		out[ns] = json.RawMessage(`{"seal":"` + ns + `"}`)
	}
	return out
}

// say makes an assistant's message of parts.
func say(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.RoleAssistant, Parts: parts} }

// rendered is messages as one line each, with the namespaces of the metadata behind each part.
func rendered(ms []llm.Message) string {
	var b strings.Builder
	var parts func([]llm.Part)
	parts = func(ps []llm.Part) {
		for _, p := range ps {
			var meta llm.Metadata
			switch p := p.(type) {
			case *llm.Text:
				fmt.Fprintf(&b, " T(%s)", p.Text)
				meta = p.Metadata
			case *llm.Reasoning:
				fmt.Fprintf(&b, " R(%s)", p.Text)
				meta = p.Metadata
			case *llm.Media:
				fmt.Fprintf(&b, " M(%s)", p.MediaType)
				meta = p.Metadata
			case *llm.ToolCall:
				fmt.Fprintf(&b, " C(%s %s)", p.ID, p.Name)
				meta = p.Metadata
			case *llm.ToolResult:
				fmt.Fprintf(&b, " O(%s:", p.ID)
				parts(p.Content)
				b.WriteString(")")
				meta = p.Metadata
			}
			for _, ns := range []string{"a", "b", ""} {
				if _, ok := meta[ns]; ok {
					b.WriteString("@" + ns)
				}
			}
		}
	}
	for _, m := range ms {
		b.WriteString(m.Role.String())
		for _, ns := range []string{"a", "b"} {
			if _, ok := m.Metadata[ns]; ok {
				b.WriteString("@" + ns)
			}
		}
		parts(m.Parts)
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}

func TestForeignMetadata(t *testing.T) {
	const image = "image/png"
	for _, tc := range []struct {
		name, ns string
		in       []llm.Message
		want     string
	}{
		{"one's own stays", "a", []llm.Message{say(&llm.Reasoning{Text: "hm", Metadata: md("a")}, &llm.Text{Text: "hi", Metadata: md("a")})},
			"assistant R(hm)@a T(hi)@a"},
		{"another's thoughts go, words stay", "a", []llm.Message{say(&llm.Reasoning{Text: "hm", Metadata: md("b")}, &llm.Text{Text: "hi", Metadata: md("b")})},
			"assistant T(hi)"},
		{"thoughts of nobody stay", "a", []llm.Message{say(&llm.Reasoning{Text: "hm"})}, "assistant R(hm)"},
		{"of two namespaces one's own stays", "a", []llm.Message{say(&llm.Reasoning{Text: "hm", Metadata: md("a", "b")})}, "assistant R(hm)@a"},
		{"a message of thoughts goes whole", "a", []llm.Message{say(&llm.Reasoning{Metadata: md("b")}), say(&llm.Text{Text: "hi"})},
			"assistant T(hi)"},
		{"a text that only carried a seal goes", "a", []llm.Message{say(&llm.Text{Metadata: md("b")}, &llm.Text{Text: "hi"})}, "assistant T(hi)"},
		{"messages, calls, outputs and media", "a", []llm.Message{
			{Role: llm.RoleAssistant, Metadata: md("a", "b"), Parts: []llm.Part{&llm.ToolCall{ID: "1", Name: "f", Metadata: md("b")}}},
			{Role: llm.RoleTool, Metadata: md("b"), Parts: []llm.Part{&llm.ToolResult{ID: "1", Metadata: md("a", "b"), Content: llm.Parts{
				&llm.Text{Text: "out", Metadata: md("b")}, &llm.Media{MediaType: image, Metadata: md("b")}}}}},
		}, "assistant@a C(1 f)\ntool O(1: T(out) M(image/png))@a"},
		{"a provider that takes back nothing", "", []llm.Message{say(&llm.Reasoning{Text: "hm", Metadata: llm.Metadata{"": nil}}, &llm.Text{Text: "hi", Metadata: md("a")})},
			"assistant T(hi)"},
		{"calls that the vendor ran go back to it", "a", []llm.Message{
			say(&llm.ToolCall{ID: "h", Name: "search", ProviderExecuted: true, Metadata: md("a")}),
			say(&llm.ToolResult{ID: "h", Name: "search", ProviderExecuted: true, Metadata: md("a"), Content: llm.Parts{&llm.Text{Text: "found"}}}),
		}, "assistant C(h search)@a\nassistant O(h: T(found))@a"},
		{"for another they are words", "b", []llm.Message{
			say(&llm.ToolCall{ID: "h", Name: "search", Input: `{"q":"x"}`, ProviderExecuted: true, Metadata: md("a")}),
			say(&llm.ToolResult{ID: "h", Name: "search", ProviderExecuted: true, Metadata: md("a"), Content: llm.Parts{&llm.Text{Text: "found"}}}),
			say(&llm.ToolCall{ID: "i", Name: "search", Input: "{}", ProviderExecuted: true, Metadata: md("a")}),
			say(&llm.ToolResult{ID: "i", Name: "search", IsError: true, ProviderExecuted: true, Metadata: md("a"), Content: llm.Parts{&llm.Text{Text: "busy"}}}),
			say(&llm.ToolResult{ID: "j", Name: "draw", ProviderExecuted: true, Metadata: md("a"), Content: llm.Parts{&llm.Media{MediaType: image}}}),
		}, `assistant T((The tool search was run by the vendor of the model that answered here, with {"q":"x"}.))` + "\n" +
			"assistant T((The tool search gave:)\nfound)\n" +
			"assistant T((The tool search was run by the vendor of the model that answered here.))\n" +
			"assistant T((The tool search failed: busy))\n" +
			"assistant T((What the tool draw gave is not shown here.))"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := New(tc.in)
			before := rendered(h.Messages())
			if got := rendered(h.ForPrompt(Traits{Namespace: tc.ns, Images: true})); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if after := rendered(h.Messages()); after != before {
				t.Errorf("the history changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
}

// Media within a result that the model can't see, metadata that is not its own: both at once, in a copy.
func TestForeignMediaOfAnOutput(t *testing.T) {
	h := New([]llm.Message{say(&llm.ToolCall{ID: "1", Name: "f"}), {Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{
		ID: "1", Content: llm.Parts{&llm.Media{MediaType: "image/png"}, &llm.Text{Text: "x", Metadata: md("b")}}}}}})
	if got, want := rendered(h.ForPrompt(Traits{Namespace: "a"})), "assistant C(1 f)\ntool O(1: T("+imageOmittedText+") T(x))"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func drawMessages(t *rapid.T) []llm.Message {
	namespaces := rapid.SampledFrom([]llm.Metadata{nil, md("a"), md("b"), md("a", "b")})
	ids := rapid.SampledFrom([]string{"1", "2", "3"})
	text := rapid.SampledFrom([]string{"", "x"})
	part := rapid.Custom(func(t *rapid.T) llm.Part {
		meta := namespaces.Draw(t, "metadata")
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return &llm.Text{Text: text.Draw(t, "text"), Metadata: meta}
		case 1:
			return &llm.Reasoning{Text: text.Draw(t, "text"), Metadata: meta}
		case 2:
			return &llm.Media{MediaType: rapid.SampledFrom([]string{"image/png", "audio/wav", "application/pdf"}).Draw(t, "type"), Metadata: meta}
		case 3:
			return &llm.ToolCall{ID: ids.Draw(t, "id"), Name: "f", ProviderExecuted: rapid.Bool().Draw(t, "hosted"), Metadata: meta}
		}
		return &llm.ToolResult{ID: ids.Draw(t, "id"), Name: "f", ProviderExecuted: rapid.Bool().Draw(t, "hosted"), Metadata: meta,
			Content: llm.Parts{&llm.Text{Text: "x", Metadata: namespaces.Draw(t, "metadata inside")}}}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) llm.Message {
		return llm.Message{
			Role: rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleTool}).Draw(t, "role"), Metadata: namespaces.Draw(t, "metadata"),
			Parts: rapid.SliceOfN(part, 1, 3).Draw(t, "parts"),
		}
	}), 0, 6).Draw(t, "messages")
}

// Whatever was said by whomever: a provider sees nothing of others, a second pass changes nothing, and what it gets shares
// every part that did not have to change.
func TestPromptIsTheProvidersOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		traits := Traits{Namespace: "a", Images: rapid.Bool().Draw(t, "images")}
		in := drawMessages(t)
		before := rendered(in)
		out := New(in).ForPrompt(traits)
		if s := rendered(out); strings.Contains(s, "@b") {
			t.Fatalf("metadata of another:\n%s", s)
		}
		if rendered(in) != before {
			t.Fatal("the history changed")
		}
		again := New(out).ForPrompt(traits)
		if got, want := rendered(again), rendered(out); got != want {
			t.Fatalf("the second pass gives\n%s\nthe first gave\n%s", got, want)
		}
		for i, m := range again {
			if len(m.Parts) > 0 && &m.Parts[0] != &out[i].Parts[0] {
				t.Fatalf("message %d was copied though nothing had to change", i)
			}
		}
	})
}

// long is a thread of n messages: answers with thoughts, calls and outputs.
func long(n int, ns string) []llm.Message {
	var out []llm.Message
	for i := 0; len(out) < n; i++ {
		id := fmt.Sprint("c", i)
		out = append(out, say(&llm.Reasoning{Text: "thinking", Metadata: md(ns)}), say(&llm.ToolCall{ID: id, Name: "f", Input: "{}", Metadata: md(ns)}),
			llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: id, Content: llm.Parts{&llm.Text{Text: "output"}}}}})
	}
	return out[:n]
}

// A request of a long thread costs the list of its messages, and no copy of a part while the provider stays the same.
func TestPromptIsCheap(t *testing.T) {
	h := New(long(300, "a"))
	if n := testing.AllocsPerRun(50, func() { h.ForPrompt(Traits{Namespace: "a"}) }); n > 40 {
		t.Errorf("%v allocations for 300 messages of which none changes", n)
	}
}

func BenchmarkForPrompt(b *testing.B) {
	for _, ns := range []string{"own", "foreign"} {
		b.Run(ns, func(b *testing.B) {
			h := New(long(300, "a"))
			traits := Traits{Namespace: "a"}
			if ns == "foreign" {
				traits.Namespace = "b"
			}
			b.ReportAllocs()
			for b.Loop() {
				h.ForPrompt(traits)
			}
		})
	}
}
