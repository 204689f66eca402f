package input

import "testing"

func TestKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		down      bool
		modifiers []string
		kind      string
		code      string
		text      string
		commands  int
	}{
		{"a", true, nil, "keyDown", "KeyA", "a", 0},
		{"A", true, []string{"Shift"}, "keyDown", "KeyA", "A", 0},
		{"a", false, nil, "keyUp", "KeyA", "", 0},
		{"a", true, []string{"Control"}, "rawKeyDown", "KeyA", "", 1},
		{"Enter", true, nil, "keyDown", "Enter", "\r", 0},
		{"Tab", true, nil, "rawKeyDown", "Tab", "", 0},
		{"é", true, nil, "keyDown", "", "é", 0},
		{"Unidentified", true, nil, "rawKeyDown", "", "", 0},
	} {
		e := Key(c.name, c.down, c.modifiers)
		if string(e.Type) != c.kind || e.Code != c.code || e.Text != c.text || len(e.Commands) != c.commands || e.Modifiers != Modifiers(c.modifiers) {
			t.Errorf("%+v: %+v", c, e)
		}
	}
}
