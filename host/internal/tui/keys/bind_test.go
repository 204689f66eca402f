package keys

import (
	"slices"
	"strings"
	"testing"
)

func TestBind(t *testing.T) {
	for name, test := range map[string]struct {
		settings map[string]string
		finds    map[string]Action // by context and key
		problems []string
	}{
		"another key": {
			map[string]string{"pager": "f3 Alt-T"}, map[string]Action{"anywhere f3": OpenPager, "anywhere alt+t": OpenPager, "anywhere ctrl+t": ""}, nil,
		},
		"two are exchanged": {
			map[string]string{"pager": "ctrl+o", "fold": "ctrl+t"}, map[string]Action{"anywhere ctrl+o": OpenPager, "anywhere ctrl+t": Fold}, nil,
		},
		"without a key": {map[string]string{"mouse": ""}, map[string]Action{"anywhere f2": ""}, nil},
		"a key of another action": {
			map[string]string{"pager": "ctrl+r"}, map[string]Action{"anywhere ctrl+r": OpenPager},
			[]string{"tui.keys.pager: Ctrl-R no longer does this: search earlier messages"},
		},
		"a key of editing": {
			map[string]string{"pager": "ctrl+w"}, map[string]Action{"anywhere ctrl+w": OpenPager, "while you type ctrl+w": "", "while you type alt+backspace": DeleteWord},
			[]string{"tui.keys.pager: Ctrl-W no longer does this"},
		},
		"two of the configuration": {
			map[string]string{"pager": "f5", "fold": "f5"}, map[string]Action{"anywhere f5": Fold},
			[]string{"tui.keys.fold: F5 no longer does this: read the whole thread"},
		},
		"other contexts": {
			map[string]string{"list-close": "ctrl+g", "pager-close": "x", "question-close": "esc"},
			map[string]Action{"in lists ctrl+g": Close, "anywhere ctrl+g": Editor, "in the pager x": Close, "in questions ctrl+c": ""}, nil,
		},
		"no action": {map[string]string{"fly": "f5"}, map[string]Action{"anywhere f5": ""}, []string{"tui.keys.fly: there is no such action"}},
		"no key":    {map[string]string{"pager": "ctrl+tt"}, map[string]Action{"anywhere ctrl+t": OpenPager}, []string{`tui.keys.pager: "ctrl+tt" is not a key`}},
		"a character": {
			map[string]string{"pager": "x", "help": "!"}, map[string]Action{"anywhere x": "", "anywhere ctrl+t": OpenPager, "anywhere !": Help},
			[]string{`tui.keys.pager: "x" types a character`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, problems := Bind(Table(), test.settings)
			for at, want := range test.finds {
				i := strings.LastIndex(at, " ")
				if got := Find(table, Context(at[:i]), at[i+1:]); got != want {
					t.Errorf("%s is %q, want %q", at, got, want)
				}
			}
			if len(problems) != len(test.problems) {
				t.Fatalf("problems: %q", problems)
			}
			for i, p := range problems {
				if !strings.HasPrefix(p, test.problems[i]) {
					t.Errorf("%q, want %q", p, test.problems[i])
				}
			}
		})
	}
}

// Every key of the table is understood, by both of its names, and no name means two bindings.
func TestParse(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range Table() {
		if seen[b.Setting()] {
			t.Errorf("%s is the name of two bindings", b.Setting())
		}
		seen[b.Setting()] = true
		for _, k := range b.Keys {
			for _, text := range []string{k, Name(k)} {
				if got, wrong := parse(text); got != k || wrong != "" {
					t.Errorf("%s is %q %s", text, got, wrong)
				}
			}
		}
	}
	for text, want := range map[string]string{"shift+ctrl+up": "ctrl+shift+up", "CTRL+T": "ctrl+t", "ctrl+-": "ctrl+-", "ctrl++": "ctrl++", "-": "-", "+": "+", "escape": "esc"} {
		if got, wrong := parse(text); got != want || wrong != "" {
			t.Errorf("%s is %q %s", text, got, wrong)
		}
	}
	if got := slices.IndexFunc(Table(), func(b Binding) bool { return First(Table(), b.Context, b.Action) == "" }); got >= 0 {
		t.Errorf("%+v has no first key", Table()[got])
	}
}
