package pager

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/transcript"
	"pgregory.net/rapid"
)

// thread returns n rounds of a message, a command with long output, and an answer with code.
func thread(n int) []*client.Item {
	t := client.ResumeThread(protocol.ThreadResumeResponse{ThreadStartResponse: protocol.ThreadStartResponse{}})
	var page []protocol.Turn
	for i := n - 1; i >= 0; i-- {
		output := strings.Repeat("some output\n", 20) + fmt.Sprintf("needle %d\n", i)
		page = append(page, protocol.Turn{ID: fmt.Sprint(i), Status: protocol.TurnCompleted, Items: []protocol.ThreadItem{
			{Body: protocol.UserMessageItem{ItemHeader: protocol.ItemHeader{ID: "u"}, Content: []protocol.UserInput{{Body: protocol.TextInput{Text: fmt.Sprintf("task %d", i)}}}}},
			{Body: protocol.CommandExecutionItem{ItemHeader: protocol.ItemHeader{ID: "c"}, Command: "make", AggregatedOutput: &output, Status: protocol.ItemCompleted}},
			{Body: protocol.AgentMessageItem{ItemHeader: protocol.ItemHeader{ID: "a"}, Text: fmt.Sprintf("Done %d.\n\n```go\none(%d)\n```\n\n- in a list\n\n  ```\n  two\n  ```\n", i, i)}},
		}})
	}
	t.Prepend(page, nil)
	return t.Items
}

const height = 12

// open opens a pager at the end of a thread.
func open(items []*client.Item) *Pager {
	v := transcript.New()
	v.Show(items, 60, height)
	p := Open(v, items)
	p.View(items, 60, height)
	return p
}

func (p *Pager) text() string {
	lines, _ := p.View(p.items, 60, height)
	var out []string
	for _, l := range lines {
		out = append(out, l.Plain())
	}
	return strings.Join(out, "\n")
}

func (p *Pager) find1(text string) {
	p.Do(keys.Search)
	p.Type(text)
	p.Do(keys.Choose)
}

// What is folded elsewhere is found, in either case and direction, and over the ends.
func TestSearch(t *testing.T) {
	p := open(thread(5))
	wants := func(texts ...string) {
		t.Helper()
		for _, s := range texts {
			if got := p.text(); !strings.Contains(got, s) {
				t.Errorf("%q is not seen:\n%s", s, got)
			}
		}
	}
	p.Do(keys.Top)
	p.find1("NEEDLE")
	wants("needle 0", "n and N find NEEDLE")
	p.Do(keys.FindNext)
	wants("needle 1")
	p.Do(keys.FindNext)
	p.Do(keys.FindPrevious)
	wants("needle 1")
	p.Do(keys.FindPrevious)
	p.Do(keys.FindPrevious)
	wants("needle 4", "found from the end on")
	p.Do(keys.FindNext)
	wants("needle 0", "found from the beginning on")
	p.find1("nowhere")
	wants("not found")
	p.Do(keys.Search)
	p.Type("needle 33")
	p.Do(keys.Delete)
	wants("/needle 3")
	p.Do(keys.Choose)
	wants("needle 3")
	p.Do(keys.Search)
	p.Do(keys.Close)
	p.Do(keys.FindNext)
	wants("nothing is searched for")
}

func TestMessages(t *testing.T) {
	p := open(thread(3))
	copies := func(a keys.Action, want string) {
		t.Helper()
		if got := p.Do(a); !strings.HasPrefix(got, want) || got == "" {
			t.Errorf("%q, want %q", got, want)
		}
	}
	copies(keys.CopyMessage, "Done 2.\n\n```go")
	copies(keys.CopyCode, "one(2)\n")
	copies(keys.CopyCode, "two\n")
	copies(keys.CopyCode, "one(2)\n")
	p.Do(keys.NextMessage)
	if got := p.text(); !strings.Contains(got, "no other message") {
		t.Errorf("%s", got)
	}
	p.Do(keys.LastMessage)
	copies(keys.CopyMessage, "task 2")
	if got := p.text(); !strings.HasPrefix(got, "\n› task 2") {
		t.Errorf("%s", got)
	}
	if got := p.Do(keys.CopyCode); got != "" {
		t.Errorf("%q", got)
	}
	p.Do(keys.LastMessage)
	copies(keys.CopyCode, "one(1)")
	n := len(p.items)
	p.View(append(thread(1), p.items...), 60, height) // earlier ones arrive
	p.Prepended(len(p.items) - n)
	copies(keys.CopyMessage, "Done 1.")
}

// The screen is full, and no line is too wide, whatever is pressed.
func TestRandom(t *testing.T) {
	var all []keys.Action
	for _, b := range keys.Table() {
		if b.Context == keys.Pager && b.Action != keys.Close {
			all = append(all, b.Action)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := open(thread(rapid.IntRange(0, 3).Draw(t, "turns")))
		for range 30 {
			width, height := rapid.IntRange(1, 70).Draw(t, "width"), rapid.IntRange(1, 20).Draw(t, "height")
			switch {
			case p.Searching():
				p.Type(rapid.SampledFrom([]string{"e", "ö", "needle", " ", "d"}).Draw(t, "text"))
				p.Do(rapid.SampledFrom([]keys.Action{keys.Choose, keys.Delete, keys.Close}).Draw(t, "key"))
			default:
				p.Do(rapid.SampledFrom(all).Draw(t, "key"))
			}
			lines, x := p.View(p.items, width, height)
			if len(lines) != height || x >= width {
				t.Fatalf("%d lines of %d, the cursor is at %d of %d", len(lines), height, x, width)
			}
			for _, l := range lines {
				if l.Width() > width {
					t.Fatalf("%q is wider than %d", l.Plain(), width)
				}
			}
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	items := thread(3334)
	p := open(items)
	for b.Loop() {
		p.Do(keys.Top)
		p.find1("needle 3333")
	}
}
