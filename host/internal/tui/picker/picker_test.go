package picker

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"pgregory.net/rapid"
)

func TestChoosing(t *testing.T) {
	p := &Picker{Title: "Threads", Rows: []Row{{Label: "fix the tests", Value: 1}, {Label: "write docs", Detail: "yesterday", Value: 2}, {Label: "more docs", Value: 3}}}
	p.Type("docs")
	p.Do(keys.Down)
	p.Do(keys.Down)
	if r := p.Do(keys.Choose); r == nil || r.Value != 3 {
		t.Errorf("%+v", r)
	}
	p.Type(" yester")
	if r := p.Do(keys.Choose); r == nil || r.Value != 2 {
		t.Errorf("%+v", r)
	}
	p.Type("x")
	if r := p.Do(keys.Choose); r != nil {
		t.Errorf("%+v", r)
	}
	if got := p.View(40, 5)[1].Plain(); got != "  nothing matches" {
		t.Errorf("%q", got)
	}
}

// The selected row is always seen, and nothing is drawn outside.
func TestView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Picker{Title: rapid.String().Draw(t, "title")}
		for i := range rapid.IntRange(0, 30).Draw(t, "rows") {
			p.Rows = append(p.Rows, Row{Label: rapid.String().Draw(t, "label"), Value: i})
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			p.Do(rapid.SampledFrom([]keys.Action{keys.Up, keys.Down, keys.Delete}).Draw(t, "key"))
		}
		width, height := rapid.IntRange(1, 50).Draw(t, "width"), rapid.IntRange(0, 12).Draw(t, "height")
		lines := p.View(width, height)
		if len(lines) > height {
			t.Fatalf("%d lines in %d", len(lines), height)
		}
		selected := 0
		for _, l := range lines {
			if l.Width() > width {
				t.Fatalf("%q is wider than %d", l.Plain(), width)
			}
			if len(l) == 1 && l[0].Style.Reverse {
				selected++
			}
		}
		if height > 1 && len(p.Rows) > 0 && selected != 1 {
			t.Fatalf("%d rows are selected", selected)
		}
	})
}
