package action

import (
	"fmt"
	"strings"
	"testing"
)

// Actions are the same by what they aim at. The notes become firmer, and end when something else is done for long enough.
func TestRepeats(t *testing.T) {
	t.Parallel()
	click := Named{Name: "click", Args: &Click{Index: 5}}
	var r repeats
	for i := 1; i <= 12; i++ {
		r.did(click)
		want := ""
		switch {
		case i >= 12:
			want = "stop it"
		case i >= 8:
			want = "Try a different way"
		case i >= 5:
			want = "making progress"
		}
		if got := r.note(); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%d: %q", i, got)
		}
	}
	r.did(Named{Name: "click", Args: &Click{Index: 6}})
	if got := r.note(); got != "" {
		t.Errorf("another action: %q", got)
	}
	for i := range window {
		r.did(Named{Name: "navigate", Args: &Navigate{URL: fmt.Sprint("https://example.com/", i)}})
	}
	r.did(click)
	if got := r.note(); got != "" {
		t.Errorf("out of the window: %q", got)
	}
}

func TestNormalForms(t *testing.T) {
	t.Parallel()
	x, y, down := 300.0, 400.0, true
	same := [][2]Named{
		{{Name: "search", Args: &Search{Query: "Foo, bar BAR"}}, {Name: "search", Args: &Search{Query: "bar foo,"}}},
		{{Name: "input", Args: &Input{Index: 3, Text: " HeLLo "}}, {Name: "input", Args: &Input{Index: 3, Text: "hello"}}},
		{{Name: "scroll", Args: &Scroll{Pages: 3}}, {Name: "scroll", Args: &Scroll{Down: &down}}},
	}
	for _, p := range same {
		if normal(p[0]) != normal(p[1]) || normal(p[0]) == "" {
			t.Errorf("%q, %q", normal(p[0]), normal(p[1]))
		}
	}
	// Clicks at other points are other clicks.
	if a, b := normal(Named{Name: "click", Args: &Click{X: &x, Y: &y}}), normal(Named{Name: "click", Args: &Click{X: &y, Y: &x}}); a == b {
		t.Error(a)
	}
	for _, n := range []Named{{Name: "wait", Args: &Wait{}}, {Name: "go_back", Args: &None{}}, {Name: "wait_for", Args: &WaitFor{Text: "x"}}} {
		if s := normal(n); s != "" {
			t.Errorf("%s may not be repeated", s)
		}
	}
}

func TestStagnation(t *testing.T) {
	t.Parallel()
	var r repeats
	for i := 1; i <= 5; i++ {
		r.begin("the page")
		if got := r.note(); (got == "") != (i < 5) {
			t.Errorf("%d: %q", i, got)
		}
	}
	r.begin("another page")
	if got := r.note(); got != "" {
		t.Error(got)
	}
}
