package turn_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// What a client says beside its user's words stands before them, also when they are said in the middle of a turn, and only where
// it is new.
func TestWhatClientsSayBeside(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Call("c1", "echo", `{}`)), turntest.Say(turntest.Text("done")))
	b.Tools = []turntest.Tool{echo("echo")}
	s := prompt.State{Environment: event.Environment{Cwd: "/w"}, External: map[string]string{}}
	b.Context = func(last *event.Reference) []prompt.Section { return s.Sections(last) }
	b.OnClientContext = func(texts map[string]string) { maps.Copy(s.External, texts) }
	say := func(text, file string) turn.Input {
		return turn.Input{Parts: []llm.Part{&llm.Text{Text: text}}, Context: map[string]string{"file": file}}
	}
	b.OnStream = func(n int) {
		if n == 1 {
			b.Inbox.Add(say("two", "b.go"))
			b.Inbox.Add(say("three", "b.go"))
		}
	}
	if res := b.RunInput(t, t.Context(), say("one", "a.go")); res.Status != event.TurnCompleted {
		t.Fatalf("%+v", res)
	}
	_, got, _ := strings.Cut(b.Requests()[1], "</environment_context>\n")
	want := "user: <external_file>\na.go\n</external_file>\nuser: one\ncall c1: echo {}\noutput c1: ran {}\n" +
		"user: <external_file>\nb.go\n</external_file>\nuser: two\nuser: three"
	if got != want {
		t.Errorf("the second request:\n%s\nwant:\n%s", got, want)
	}
}
