package composer

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"pgregory.net/rapid"
)

func do(c *Composer, actions ...keys.Action) {
	for _, a := range actions {
		c.Do(a)
	}
}

func TestEditing(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(c *Composer)
		want string
	}{
		"typing": {func(c *Composer) { c.Type("héllo") }, "héllo"},
		"newline in the middle": {func(c *Composer) {
			c.Type("ab")
			do(c, keys.Left, keys.Newline)
		}, "a\nb"},
		"a word is cut and inserted": {func(c *Composer) {
			c.Type("one two")
			do(c, keys.DeleteWord, keys.LineStart, keys.Yank)
		}, "twoone "},
		"the end of a line is cut, then its break": {func(c *Composer) {
			c.Type("one\ntwo")
			do(c, keys.Up, keys.LineStart, keys.WordRight, keys.KillEnd)
		}, "onetwo"},
		"undo takes back a typed word": {func(c *Composer) {
			c.Type("o")
			c.Type("k")
			c.Type(" ")
			c.Type("x")
			do(c, keys.Undo)
		}, "ok "},
		"a paste is one character": {func(c *Composer) {
			c.Type("see ")
			c.Paste(strings.Repeat("line\n", 20))
			c.Type("!")
			do(c, keys.Left, keys.Delete)
		}, "see !"},
		"a word is completed": {func(c *Composer) {
			c.Type("look at @ma")
			c.ReplaceWord("@main.go ")
		}, "look at @main.go "},
		"a combined character is deleted as one": {func(c *Composer) {
			c.Type("ae\u0301")
			do(c, keys.Delete)
		}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			var c Composer
			test.do(&c)
			if got := c.Text(); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestHistory(t *testing.T) {
	var c Composer
	for _, m := range []string{"one", "two", "two"} {
		c.Type(m)
		if got := c.Take(); got != m || !c.Empty() {
			t.Errorf("%q was taken, %q is left", got, c.Text())
		}
	}
	c.Type("draft")
	do(&c, keys.Up, keys.Up)
	if got := c.Text(); got != "one" {
		t.Errorf("two messages ago: %q", got)
	}
	if c.Do(keys.Up) {
		t.Error("there is something before the first message")
	}
	do(&c, keys.Down, keys.Down)
	if got := c.Text(); got != "draft" {
		t.Errorf("the draft became %q", got)
	}
}

// A folded paste is shown as one word and sent in full.
func TestPaste(t *testing.T) {
	var c Composer
	long := "a\r\nb\r" + strings.Repeat("x\n", 10)
	c.Paste(long)
	lines, x, y := c.Layout(80)
	if len(lines) != 1 || lines[0].Plain() != "[13 lines pasted]" || x != len("[13 lines pasted]") || y != 0 {
		t.Errorf("%q, cursor %d,%d", lines, x, y)
	}
	if got := c.Text(); got != "a\nb\n"+strings.Repeat("x\n", 10) {
		t.Errorf("%q", got)
	}
}

// Whatever is typed, nothing is drawn outside the width, the cursor is inside, and undo leads back to where it began.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Composer
		width := rapid.IntRange(2, 20).Draw(t, "width")
		all := keys.Table()
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "kind") {
			case 0:
				c.Type(rapid.String().Draw(t, "text"))
			case 1:
				c.Paste(rapid.StringN(0, 1200, -1).Draw(t, "paste"))
			case 2:
				c.ReplaceWord("word")
			default:
				c.Do(rapid.SampledFrom(all).Draw(t, "key").Action)
			}
			lines, x, y := c.Layout(width)
			if x < 0 || x > width || y < 0 || y >= len(lines) {
				t.Fatalf("the cursor is at %d,%d of %d lines", x, y, len(lines))
			}
			for _, l := range lines {
				if l.Width() > width {
					t.Fatalf("%q is wider than %d", l.Plain(), width)
				}
			}
			c.Word()
		}
		for range maxUndo {
			c.Do(keys.Undo)
		}
		if len(c.past) != 0 {
			t.Fatalf("%d steps are left to undo", len(c.past))
		}
	})
}
