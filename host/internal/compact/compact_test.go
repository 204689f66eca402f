package compact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
	"pgregory.net/rapid"
)

func says(s string) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Text{Text: s}}}
}

func call(id string) llm.Message {
	return llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.ToolCall{ID: id, Name: "t"}}}
}

func output(id string) llm.Message {
	return llm.Message{Role: llm.RoleTool, Parts: []llm.Part{&llm.ToolResult{ID: id, Name: "t", Content: llm.Parts{&llm.Text{Text: "ok"}}}}}
}

func mail(text string) llm.Message {
	return history.MailMessage(event.Mail{Author: "/root/a", Recipient: "/root", Type: event.MailMessage, Text: text})
}

var initial = []llm.Message{
	{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: "D"}}}, text("<environment_context>\nX\n</environment_context>"),
}

// shape writes messages as letters: the user's words as they are, D and X for the context, S for a summary.
func shape(ms []llm.Message) string {
	var out []string
	for _, m := range ms {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case *llm.Text:
				switch {
				case strings.HasPrefix(p.Text, "<environment_context>"):
					out = append(out, "X")
				case history.IsMail(m):
					_, text, _ := strings.Cut(p.Text, "Payload:\n")
					out = append(out, strings.TrimSuffix(text, "\n</agent_message>"))
				case strings.HasPrefix(p.Text, intro):
					out = append(out, "S:"+strings.TrimSuffix(strings.TrimPrefix(p.Text, intro), outro))
				default:
					out = append(out, p.Text)
				}
			case *llm.Media:
				out = append(out, "image")
			default:
				out = append(out, fmt.Sprintf("%T", p))
			}
		}
	}
	return strings.Join(out, " ")
}

func TestReplace(t *testing.T) {
	system := llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{Text: "a note of the host"}}}
	for _, tc := range []struct {
		name string
		old  []llm.Message
		want string
	}{
		{"in the middle of a turn", append(initial[:2:2], text("U1"), call("1"), output("1")), "D X U1 S:so far"},
		{"several turns", append(initial[:2:2], text("U1"), says("A1"), text("U2"), says("A2")), "U1 D X U2 S:so far"},
		{"an earlier account", []llm.Message{text("U1"), text("U2"), Summary("old"), says("A"), text("U3")}, "U1 U2 D X U3 S:so far"},
		{"notes and markers", []llm.Message{text("U1"), system, text("<turn_aborted>\nx\n</turn_aborted>"), says("A")}, "D X U1 S:so far"},
		{"mail of other agents", []llm.Message{text("U1"), mail("M1"), says("A"), mail("M2")}, "U1 M1 D X M2 S:so far"},
		{"nobody said anything", []llm.Message{says("A")}, "D X S:so far"},
		{"nothing at all", nil, "D X S:so far"},
	} {
		if got := shape(Replace(tc.old, initial, " so far\n")); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// long is a message of so many tokens whose beginning and end say which one it is.
func long(name string, tokens int) llm.Message {
	return text(name + strings.Repeat("x", 4*tokens-2*len(name)) + name)
}

func TestRoomForTheUsersWords(t *testing.T) {
	for _, tc := range []struct {
		name   string
		tokens []int // oldest first
		want   []int // what is left of each, from the first that stays
	}{
		{"the oldest goes", []int{10_000, 10_000, 10_000}, []int{10_000, 10_000}},
		{"one loses its middle", []int{12_000, 15_000}, []int{5_000, 15_000}},
		{"one alone that is too long", []int{30_000}, []int{20_000}},
		{"nothing behind the one that was cut", []int{10, 12_000, 15_000}, []int{5_000, 15_000}},
		{"all of them", []int{10, 20, 30}, []int{10, 20, 30}},
	} {
		var old []llm.Message
		for i, n := range tc.tokens {
			old = append(old, long(fmt.Sprint("m", i), n), says("A"))
		}
		got := words(old)
		if len(got) != len(tc.want) {
			t.Errorf("%s: %d messages, want %d", tc.name, len(got), len(tc.want))
			continue
		}
		for i, m := range got {
			s, from := m.Text(), len(tc.tokens)-len(tc.want)+i
			want := fmt.Sprint("m", from)
			if !strings.HasPrefix(s, want) || !strings.HasSuffix(s, want) {
				t.Errorf("%s: message %d is %.10q…", tc.name, i, s)
			}
			if n, cut := tc.want[i], tc.want[i] < tc.tokens[from]; cut {
				if marker := fmt.Sprintf("…%d tokens truncated…", tc.tokens[from]-n); !strings.Contains(s, marker) || len(s) != 4*n+len(marker) {
					t.Errorf("%s: message %d has %d bytes, want %d and %s", tc.name, i, len(s), 4*n, marker)
				}
			} else if len(s) != 4*n {
				t.Errorf("%s: message %d has %d bytes, want all %d", tc.name, i, len(s), 4*n)
			}
		}
		// Compacted again, nothing is cut a second time.
		if again := words(got); shape(again) != shape(got) && len(tc.want) == 1 {
			t.Errorf("%s: compacted again it changed", tc.name)
		}
	}
}

func TestImagesOfTheUser(t *testing.T) {
	image := func() llm.Part { return &llm.Media{MediaType: "image/png", Data: []byte("x")} }
	var old []llm.Message
	for i := range 6 {
		old = append(old, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: fmt.Sprint("U", i)}, image()}})
	}
	old[5].Parts = append(old[5].Parts, &llm.Media{MediaType: "application/pdf"})
	want := "U0 " + noImage + " U1 " + noImage + " U2 image U3 image U4 image U5 image " + noMedia
	if got := shape(words(old)); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTrimmed(t *testing.T) {
	ms := append(initial[:2:2], text("U"), call("1"), output("1"))
	for n, want := range []string{
		"D X U *llm.ToolCall *llm.ToolResult", "X U *llm.ToolCall *llm.ToolResult", "U *llm.ToolCall *llm.ToolResult", "*llm.ToolCall *llm.ToolResult", "",
	} {
		got, ok := Trimmed(ms, n)
		if shape(got) != want || !ok {
			t.Errorf("after %d refusals: %q %v, want %q", n, shape(got), ok, want)
		}
	}
	if _, ok := Trimmed(ms, 5); ok {
		t.Error("there is nothing left to leave out")
	}
	many := make([]llm.Message, 10_000)
	for i := range many {
		many[i] = text("U")
	}
	steps := 0
	for {
		if rest, ok := Trimmed(many, steps); !ok || len(rest) == 0 {
			break
		}
		steps++
	}
	if steps > 24 {
		t.Errorf("%d requests to give up on 10,000 items", steps)
	}
}

func TestPrompt(t *testing.T) {
	if got := Prompt("").Text(); got != prompt || len(got) < 500 {
		t.Errorf("prompt: %q", got)
	}
	if got := Prompt("shorter, please").Text(); got != "shorter, please" {
		t.Errorf("prompt of the user: %q", got)
	}
}

// Whatever a conversation was: of its compacted form every call has its output, the user's last words are there, the account is
// the last message, and compacting again neither loses words nor grows.
func TestReplaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var old []llm.Message
		said := ""
		for i, kind := range rapid.SliceOfN(rapid.SampledFrom([]string{"user", "long", "call", "half", "says", "context", "summary"}), 0, 40).Draw(t, "kinds") {
			id := fmt.Sprint(i)
			switch kind {
			case "user":
				said = "word " + id
				old = append(old, text(said))
			case "long":
				said = "long " + id
				old = append(old, long(said, rapid.IntRange(100, 30_000).Draw(t, "tokens")))
			case "call":
				old = append(old, call(id), output(id))
			case "half":
				old = append(old, call(id))
			case "says":
				old = append(old, says(strings.Repeat("a", 100)))
			case "context":
				old = append(old, initial...)
			case "summary":
				old = append(old, Summary("account "+id))
			}
		}
		got := Replace(old, initial, "account")
		h := history.New(got)
		if n := len(h.Unanswered()); n > 0 {
			t.Fatalf("%d calls without an output", n)
		}
		if shown := h.ForPrompt(history.Traits{}); len(shown) != len(got) {
			t.Fatalf("%d messages are shown of %d", len(shown), len(got))
		}
		if last := got[len(got)-1].Text(); last != Summary("account").Text() {
			t.Fatalf("the last message is %q", last)
		}
		if said != "" {
			if s := got[len(got)-2].Text(); !strings.HasPrefix(s, said) || !strings.HasSuffix(s, said[len(said)-1:]) {
				t.Fatalf("the user's last words %q became %.60q", said, s)
			}
		}
		before := history.Estimate(initial) + history.Estimate([]llm.Message{Summary("account")})
		if n := history.Estimate(got) - before; n > keptTokens+int64(len(got))*16 {
			t.Fatalf("%d tokens of the user's words are left", n)
		}
		again := Replace(got, initial, "account")
		if history.Estimate(again) > history.Estimate(got) {
			t.Fatalf("compacted again it grew: %d to %d messages", len(got), len(again))
		}
	})
}

// What other agents wrote has room of its own: it never takes the place of a person's words.
func TestRoomForMail(t *testing.T) {
	got := Replace([]llm.Message{
		text("the task"), mail("old " + strings.Repeat("x", 40_000)), mail("middle " + strings.Repeat("y", 36_000)), mail("new " + strings.Repeat("z", 8_000)), says("A"),
	}, initial, "so far")
	var sizes []int
	for _, m := range got {
		if history.IsMail(m) {
			sizes = append(sizes, len(m.Text()))
		}
	}
	if got[0].Text() != "the task" || len(sizes) != 2 || sizes[0] > 33_000 || sizes[0] < 31_000 || sizes[1] < 8_000 {
		t.Errorf("%d messages, mail of %d bytes", len(got), sizes)
	}
	for _, m := range got {
		if strings.Contains(m.Text(), "old ") {
			t.Error("what there was no room for is there")
		}
	}
	if !strings.Contains(got[len(got)-2].Text(), "new z") {
		t.Errorf("the last mail is not the last word: %.40q", got[len(got)-2].Text())
	}
}
