package turn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hook"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/prompt"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/host/internal/turn/turntest"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func letter(text string, trigger bool) event.Mail {
	return event.Mail{Item: event.ItemID("i-" + text), Author: "/root/a", Recipient: "/root", Type: event.MailMessage, Text: text, TriggerTurn: trigger}
}

// told writes a request in few letters: the user's words, the model's, mail as "mail:" and its text.
func told(r string) string {
	var out []string
	for line := range strings.SplitSeq(r, "\n") {
		switch _, after, _ := strings.Cut(line, ": "); {
		case line == "user: <agent_message>" || strings.HasPrefix(line, "Message Type") || strings.HasPrefix(line, "Task name") || strings.HasPrefix(line, "Sender"):
		case line == "Payload:":
			out = append(out, "mail:")
		case line == "</agent_message>":
		case len(out) > 0 && out[len(out)-1] == "mail:":
			out[len(out)-1] += line
		case strings.HasPrefix(line, "call"), strings.HasPrefix(line, "output"):
			word, _, _ := strings.Cut(line, ":")
			out = append(out, strings.ReplaceAll(word, " ", ""))
		case strings.HasPrefix(line, "thought"):
			out = append(out, "("+after+")")
		default:
			out = append(out, after)
		}
	}
	return strings.Join(out, " ")
}

// Mail that comes behind a thought or a remark ends the answer there, and the next request has it. Behind the answer itself it waits
// for the next turn, unless the turn goes on anyway.
func TestMailInTheMiddleOfAnAnswer(t *testing.T) {
	think := func(s string) llm.Part { return &llm.Reasoning{Text: s} }
	call := turntest.Call("c1", "look", "{}")
	for _, tc := range []struct {
		name    string
		answers []turntest.Answer
		when    string // the delta at which mail comes
		steer   bool   // the user says something, too
		stops   []bool // what a hook says at the turn's end
		want    []string
		left    int // mails that wait for the next turn
	}{
		{"behind a thought", []turntest.Answer{turntest.Say(think("hm"), turntest.Text("no"), call), turntest.Say(turntest.Text("yes"))}, "hm", false, nil,
			[]string{"go", "go (hm) mail:M"}, 0},
		{"behind the last of several thoughts", []turntest.Answer{turntest.Say(think("hm"), think("so"), turntest.Text("no")), turntest.Say(turntest.Text("yes"))}, "hm", false, nil,
			[]string{"go", "go (hm) (so) mail:M"}, 0},
		{"before a call", []turntest.Answer{turntest.Say(think("hm"), call), turntest.Say(turntest.Text("yes"))}, "hm", false, nil,
			[]string{"go", "go (hm) mail:M"}, 0},
		{"behind a remark", []turntest.Answer{turntest.Say(turntest.Text("on my way"), turntest.Text("no")).Remarking(), turntest.Say(turntest.Text("yes"))}, "on my way", false, nil,
			[]string{"go", "go on my way mail:M"}, 0},
		{"a remark and nothing else", []turntest.Answer{turntest.Say(turntest.Text("on my way")).Remarking(), turntest.Say(turntest.Text("yes"))}, "on my way", false, nil,
			[]string{"go", "go on my way mail:M"}, 0},
		{"a thought and nothing else", []turntest.Answer{turntest.Say(think("hm")), turntest.Say(turntest.Text("yes"))}, "hm", false, nil,
			[]string{"go", "go (hm) mail:M"}, 0},
		{"behind a call and a thought", []turntest.Answer{turntest.Say(call, think("hm"), turntest.Text("no")), turntest.Say(turntest.Text("yes"))}, "hm", false, nil,
			[]string{"go", "go callc1 (hm) outputc1 mail:M"}, 0},
		{"behind the answer", []turntest.Answer{turntest.Say(turntest.Text("done"))}, "done", false, nil, []string{"go"}, 1},
		{"behind the answer and a thought", []turntest.Answer{turntest.Say(turntest.Text("done"), think("hm"), turntest.Text("really"))}, "hm", false, nil, []string{"go"}, 1},
		{"behind the answer, with words of the user's", []turntest.Answer{turntest.Say(turntest.Text("done")), turntest.Say(turntest.Text("yes"))}, "done", true, nil,
			[]string{"go", "go done and mail:M"}, 0},
		{"behind a text that a call follows", []turntest.Answer{turntest.Say(turntest.Text("look"), call), turntest.Say(turntest.Text("yes"))}, "look", false, nil,
			[]string{"go", "go look callc1 outputc1 mail:M"}, 0},
		{"behind the answer that a hook does not let end", []turntest.Answer{turntest.Say(turntest.Text("done")), turntest.Say(turntest.Text("yes"))}, "done", false, []bool{true, false},
			[]string{"go", "go done more mail:M"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := turntest.New(tc.answers...)
			b.Mail = turn.NewMailbox(nil)
			b.Tools = []turntest.Tool{{Descriptor: contract.Descriptor{Name: "look", ReadOnly: true}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
				return contract.Text("ok"), nil
			}}}
			came := false
			b.OnDelta = func(text string) {
				if text != tc.when || came {
					return
				}
				came = true
				b.Mail.Add(letter("M", true))
				if tc.steer {
					b.Inbox.Add(turn.Input{Parts: []llm.Part{turntest.Text("and")}})
				}
			}
			if tc.stops != nil {
				b.Stops = stopper(func(e hook.Ending) (hook.StopVerdict, error) {
					return hook.StopVerdict{Block: tc.stops[e.Held], Reason: "more"}, nil
				})
			}
			completed(t, b.Run(t, t.Context(), "go"))
			var got []string
			for _, r := range b.Requests() {
				r = strings.ReplaceAll(r, `<hook_prompt hook_run_id="">more</hook_prompt>`, "more")
				got = append(got, told(r))
			}
			if !slices.Equal(got, tc.want) || len(b.Mail.Waiting()) != tc.left {
				t.Errorf("the model saw %q, want %q; %d mails wait, want %d", got, tc.want, len(b.Mail.Waiting()), tc.left)
			}
		})
	}
}

// Mail that waits when a turn begins was there before the words that began it; what comes while calls run stands behind them.
func TestMailBetweenRequests(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Call("c1", "look", "{}")), turntest.Say(turntest.Text("done")))
	b.Mail = turn.NewMailbox([]event.Mail{letter("A", false)})
	b.Tools = []turntest.Tool{{Descriptor: contract.Descriptor{Name: "look", ReadOnly: true}, Run: func(context.Context, contract.CallStart) (*contract.Result, error) {
		b.Inbox.Add(turn.Input{Parts: []llm.Part{turntest.Text("and")}})
		b.Mail.Add(letter("B", false))
		b.Mail.Add(letter("C", true))
		return contract.Text("ok"), nil
	}}}
	completed(t, b.Run(t, t.Context(), "go"))
	var got []string
	for _, r := range b.Requests() {
		got = append(got, told(r))
	}
	if want := []string{"mail:A go", "mail:A go callc1 outputc1 and mail:B mail:C"}; !slices.Equal(got, want) {
		t.Errorf("the model saw %q, want %q", got, want)
	}
	var items []string
	for _, e := range b.Events() {
		if d, ok := e.Body.(event.ItemCompleted); ok && d.Item.Type == event.ItemMail {
			items = append(items, fmt.Sprintf("%s %s %s", d.Item.ID, d.Item.Author, d.Item.Text))
		}
	}
	if want := []string{"i-A /root/a A", "i-B /root/a B", "i-C /root/a C"}; !slices.Equal(items, want) {
		t.Errorf("items %q, want %q", items, want)
	}
	if b.Mail.Call() {
		t.Error("mail that was read wants a turn")
	}
}

// A turn that mail began reads it first. One that is stopped before it has leaves no trace of itself, and the mail where it was.
func TestTurnThatMailBegan(t *testing.T) {
	b := turntest.New(turntest.Say(turntest.Text("done")))
	b.Mail = turn.NewMailbox([]event.Mail{letter("M", true)})
	completed(t, b.RunInput(t, t.Context(), turn.Input{}))
	if got := told(b.Requests()[0]); got != "mail:M" {
		t.Errorf("the model saw %q", got)
	}
	for _, cause := range []error{orchestrate.ErrShutdown, orchestrate.ErrInterrupted} {
		b := turntest.New()
		b.Mail = turn.NewMailbox([]event.Mail{letter("M", true)})
		ctx, cancel := context.WithCancelCause(t.Context())
		b.Context = func(*event.Reference) []prompt.Section { cancel(cause); return nil }
		res := b.RunInput(t, ctx, turn.Input{})
		if got := turntest.Render(b.History.Messages()); res.Status != event.TurnInterrupted || got != "" || !b.Mail.Pending() {
			t.Errorf("%v: %s, history %q, the mail waits: %v", cause, res.Status, got, b.Mail.Pending())
		}
	}
}

// Mail that a mailbox calls for is called for once: a turn that fails before it reads it is not begun over and over.
func TestMailboxCallsOnce(t *testing.T) {
	b := turn.NewMailbox([]event.Mail{letter("old", true)})
	if b.Call() {
		t.Error("what waited before wants a turn by itself")
	}
	b.Add(letter("q", false))
	if b.Call() {
		t.Error("mail that waits wants a turn")
	}
	b.Add(letter("t", true))
	if !b.Call() || b.Call() {
		t.Error("a turn is wanted once")
	}
	if got := len(b.Waiting()); got != 3 {
		t.Errorf("%d mails wait", got)
	}
	for range 512 {
		b.Add(letter("x", false))
	}
	if !b.Full() {
		t.Error("a mailbox takes any number")
	}
}

func TestParentOfATurn(t *testing.T) {
	from := func(trigger bool, turn event.TurnID) event.Mail {
		return event.Mail{TriggerTurn: trigger, AuthorTurn: turn}
	}
	for _, tc := range []struct {
		name  string
		mails []event.Mail
		want  event.TurnID
	}{
		{"none", nil, ""},
		{"two turns", []event.Mail{from(true, "a"), from(true, "b")}, ""},
		{"one, and nobody says", []event.Mail{from(true, "a"), from(true, "")}, ""},
		{"nobody says, and one", []event.Mail{from(true, ""), from(true, "a")}, ""},
		{"the same turn", []event.Mail{from(true, "a"), from(true, "a")}, "a"},
		{"mail that only waits does not count", []event.Mail{from(false, "q"), from(true, "a")}, "a"},
		{"only mail that waits", []event.Mail{from(false, "q")}, ""},
		{"a blank", []event.Mail{from(true, " ")}, ""},
	} {
		if got := turn.ParentOf(tc.mails); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
