package keys

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Setting is the name of a binding in the configuration: that of its action, with the context in front of those that are not for typing.
func (b Binding) Setting() string {
	switch b.Context {
	case List:
		return "list-" + string(b.Action)
	case Question:
		return "question-" + string(b.Action)
	case Pager:
		return "pager-" + string(b.Action)
	}
	return string(b.Action)
}

// area is where a key can have one meaning: while a message is typed, both contexts are looked at.
func (b Binding) area() Context {
	if b.Context == Edit {
		return Main
	}
	return b.Context
}

// Bind returns the table with other keys, given by the names of [Binding.Setting] and separated by spaces, and what is wrong with them. Where
// two actions have the same key, one of the configuration keeps it.
func Bind(table []Binding, settings map[string]string) (bound []Binding, problems []string) {
	bound = slices.Clone(table)
	configured := make([]bool, len(bound))
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		i := slices.IndexFunc(bound, func(b Binding) bool { return b.Setting() == name })
		if i < 0 {
			problems = append(problems, fmt.Sprintf("tui.keys.%s: there is no such action", name))
			continue
		}
		var keys []string
		ok := true
		for _, text := range strings.Fields(settings[name]) {
			key, err := parse(text)
			if err == "" && bound[i].area() == Main && bound[i].Action != Help && utf8.RuneCountInString(key) == 1 {
				err = "types a character"
			}
			if err != "" {
				problems = append(problems, fmt.Sprintf("tui.keys.%s: %q %s", name, text, err))
				ok = false
				continue
			}
			keys = append(keys, key)
		}
		if ok {
			bound[i].Keys, configured[i] = keys, true
		}
	}
	owners := map[string]int{} // of keys in areas
	order := make([]int, 0, len(bound))
	for _, of := range []bool{true, false} { // those of the configuration first
		for i := range bound {
			if configured[i] == of {
				order = append(order, i)
			}
		}
	}
	for _, i := range order {
		b := &bound[i]
		var keep []string
		for _, k := range b.Keys {
			at := string(b.area()) + " " + k
			owner, taken := owners[at]
			if !taken {
				owners[at] = i
				keep = append(keep, k)
			} else if owner != i {
				problems = append(problems, fmt.Sprintf("tui.keys.%s: %s no longer does this: %s", bound[owner].Setting(), Name(k), b.Help))
			}
		}
		b.Keys = keep
	}
	return bound, problems
}

// modifiers are those of keys, in the order in which the terminal library names them.
var modifiers = [...]string{"ctrl", "alt", "shift", "meta", "hyper", "super"}

// named are the keys that have names.
var named = [...]string{
	"enter", "tab", "esc", "space", "backspace", "delete", "insert", "up", "down", "left", "right", "home", "end", "pgup", "pgdown",
	"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
}

// parse returns a key by its name in the terminal library. The names of help, such as Ctrl-PageUp, are understood too.
func parse(text string) (key, wrong string) {
	sep := "+"
	if !strings.Contains(text, "+") {
		sep = "-"
	}
	var base string
	has := map[string]bool{}
	if rest, ok := strings.CutSuffix(text, sep); ok && rest != "" { // the key + or - itself
		base, text = sep, strings.TrimSuffix(rest, sep)
	} else if utf8.RuneCountInString(text) == 1 {
		return text, ""
	}
	for _, part := range strings.Split(text, sep) {
		lower := strings.ToLower(part)
		switch {
		case slices.Contains(modifiers[:], lower):
			has[lower] = true
		case base != "":
			return "", "is not a key"
		case utf8.RuneCountInString(part) == 1:
			base = lower
		default:
			base = strings.NewReplacer("pageup", "pgup", "pagedown", "pgdown", "escape", "esc", "return", "enter").Replace(lower)
			if !slices.Contains(named[:], base) {
				return "", "is not a key"
			}
		}
	}
	if base == "" {
		return "", "is not a key"
	}
	for _, m := range slices.Backward(modifiers[:]) {
		if has[m] {
			base = m + "+" + base
		}
	}
	return base, ""
}

// First returns the name of the first key of an action, as people write it; empty: it has none.
func First(table []Binding, in Context, a Action) string {
	for _, b := range table {
		if b.Context == in && b.Action == a && len(b.Keys) > 0 {
			return Name(b.Keys[0])
		}
	}
	return ""
}
