package transcript

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"pgregory.net/rapid"
)

func notices(n int) []*client.Item {
	var out []*client.Item
	for i := range n {
		out = append(out, &client.Item{Notice: &client.Notice{Text: fmt.Sprintf("line %d", i)}, Done: true})
	}
	return out
}

func plain(lines []term.Line) string {
	var out []string
	for _, l := range lines {
		out = append(out, l.Plain())
	}
	return strings.Join(out, "\n")
}

func TestScrolling(t *testing.T) {
	v := New()
	items := notices(100)
	v.Show(items, 40, 4)
	end := "\n· line 98\n\n· line 99"
	if got := plain(v.Lines()); got != end || !v.Following() {
		t.Errorf("%q", got)
	}
	v.Scroll(-2)
	if got := plain(v.Lines()); got != "\n· line 97\n\n· line 98" || v.Following() {
		t.Errorf("%q", got)
	}
	v.Show(append(items, notices(1)...), 40, 4) // what is added does not move what is seen
	if got := plain(v.Lines()); got != "\n· line 97\n\n· line 98" {
		t.Errorf("%q", got)
	}
	v.Show(append(notices(10), items...), 40, 4)
	v.Prepended(10)
	if got := plain(v.Lines()); got != "\n· line 97\n\n· line 98" {
		t.Errorf("after a page of earlier items: %q", got)
	}
	v.Scroll(1000)
	if got := plain(v.Lines()); got != end || !v.Following() {
		t.Errorf("%q", got)
	}
	v.Scroll(-1000)
	if got := plain(v.Lines()); got != "\n· line 0\n\n· line 1" || !v.AtTop() {
		t.Errorf("%q", got)
	}
}

// Only what is seen is rendered.
func TestRendersWhatIsSeen(t *testing.T) {
	v := New()
	v.Show(notices(10_000), 80, 40)
	v.Lines()
	if n := len(v.cache); n > 40 {
		t.Errorf("%d items were rendered", n)
	}
}

func TestItems(t *testing.T) {
	exit, took := int32(1), int64(75_000)
	out := strings.Repeat("output\n", 20)
	th := client.NewThread(protocol.ThreadStartResponse{Thread: protocol.Thread{ID: "t"}})
	th.Prepend([]protocol.Turn{{ID: "u", Items: []protocol.ThreadItem{
		{Body: protocol.UserMessageItem{ItemHeader: protocol.ItemHeader{ID: "1"}, Content: []protocol.UserInput{{Body: protocol.TextInput{Text: "fix\nit"}}}}},
		{Body: protocol.ReasoningItem{ItemHeader: protocol.ItemHeader{ID: "2"}, Summary: []string{"**Look** first"}}},
		{Body: protocol.CommandExecutionItem{ItemHeader: protocol.ItemHeader{ID: "3"}, Command: "/bin/bash -c 'make test'", CommandActions: []protocol.CommandAction{{Body: protocol.UnknownAction{Command: "make test"}}}, Status: protocol.ItemFailed, AggregatedOutput: &out, ExitCode: &exit, DurationMs: &took}},
		{Body: protocol.FileChangeItem{ItemHeader: protocol.ItemHeader{ID: "4"}, Status: protocol.ItemCompleted, Changes: []protocol.FileUpdateChange{
			{Path: "a.go", Kind: protocol.PatchChangeKind{Body: protocol.UpdatePatch{}}, Diff: "@@ -1,2 +1,2 @@\n-one\n+two\n same\n"},
			{Path: "b\u202e.go", Kind: protocol.PatchChangeKind{Body: protocol.AddPatch{}}, Diff: "new\n"},
		}}},
		{Body: protocol.DynamicToolCallItem{ItemHeader: protocol.ItemHeader{ID: "5"}, Tool: "wait", Arguments: []byte(`{ "a": 1 }`), Status: protocol.ItemCompleted, ContentItems: []protocol.ToolContentItem{{Body: protocol.InputTextContent{Text: "waited"}}}}},
		{Body: protocol.AgentMessageItem{ItemHeader: protocol.ItemHeader{ID: "6"}, Text: "All **done**.\x1b[2J"}},
	}}}, nil)
	v := New()
	v.Show(th.Items, 40, 100)
	want := `
› fix
  it

∴ Look first

$ make test ✗ exit 1 1m15s
  output
  output
  output
  … 12 lines (Ctrl-O shows all)
  output
  output
  output
  output
  output

± changed a.go +1 -1 ✓
  @@ -1,2 +1,2 @@
  -one
  +two
   same

± added b` + "\ufffd" + `.go ✓
  +new

» wait {"a":1} ✓
  waited

All done.`
	if got := plain(v.Lines()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	v.Fold()
	if got := strings.Count(plain(v.Lines()), "output"); got != 20 {
		t.Errorf("%d lines of the output are shown in full", got)
	}
}

// However the window is moved, it shows as many lines as it can, none of them too wide, and scrolling back and forth leads back.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := New()
		items := notices(rapid.IntRange(0, 40).Draw(t, "items"))
		for _, it := range items {
			it.Notice.Text = rapid.StringN(0, 100, -1).Draw(t, "text")
		}
		width, height := rapid.IntRange(1, 40).Draw(t, "width"), rapid.IntRange(1, 20).Draw(t, "height")
		v.Show(items, width, height)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				v.Show(items, rapid.IntRange(1, 40).Draw(t, "width"), rapid.IntRange(1, 20).Draw(t, "height"))
			case 1:
				v.Fold()
			case 2:
				v.Top()
			default:
				v.Scroll(rapid.IntRange(-50, 50).Draw(t, "by"))
			}
			lines := v.Lines()
			if len(lines) > v.height {
				t.Fatalf("%d lines in a window of %d", len(lines), v.height)
			}
			for _, l := range lines {
				if l.Width() > v.width {
					t.Fatalf("%q is wider than %d", l.Plain(), v.width)
				}
			}
		}
		v.Top()
		v.Scroll(10_000)
		if !v.Following() {
			if _, _, full := v.fromEnd(); full {
				t.Fatal("the end is out of reach")
			}
		}
	})
}

func BenchmarkOpen10000(b *testing.B) {
	items := notices(10_000)
	for b.Loop() {
		v := New()
		v.Show(items, 120, 50)
		v.Lines()
	}
}
