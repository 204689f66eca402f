package command

import (
	"path"
	"slices"
	"strings"
)

// Reaches reports whether some of a command's words after the first n may make its program start another program, or write to a place that
// they name, neither of which a rule for the first n words allows. A word that is not fixed may do so, as may an unknown option of the
// programs in [reaching].
func Reaches(c Command, n int) bool {
	if len(c) == 0 || n >= len(c) {
		return false
	}
	n = max(n, 1)
	name, r, ok := reachOf(c, n)
	if subscripts(name, c[n:]) {
		return true
	}
	if !ok {
		return false
	}
	if r.interprets(name) {
		return n > 1 && !hasOperand(c[1:n]) && !valued(c[n-1])
	}
	return r.text && !hasOperand(c[1:n]) || r.among(name, c[n:], n) || r.beyond(name, c, n)
}

// Narrow reports whether a rule for these words does not allow its commands to start arbitrary programs.
func Narrow(words []string) bool {
	c := Fixed(words...)
	name, r, ok := reachOf(c, len(c))
	if !ok || r.interprets(name) {
		return true
	}
	starts := slices.DeleteFunc(slices.Clone(c[1:]), func(w Word) bool { return r.onlyWrites(name, w.Text) })
	return !r.among(name, starts, 1) && (!r.text || hasOperand(c[1:]))
}

// onlyWrites reports whether a word that reaches only names a place to write to, which is visible in a rule with this word.
func (r reach) onlyWrites(name, word string) bool {
	w, ok := writing[name]
	switch {
	case !ok:
		return false
	case strings.HasPrefix(word, "--"):
		long, _, _ := strings.Cut(word, "=")
		return slices.Contains(w.long, long)
	case strings.HasPrefix(word, "-") && r.single || slices.ContainsFunc(w.prefixes, func(p string) bool { return strings.HasPrefix(word, p) }):
		return slices.ContainsFunc(w.prefixes, func(p string) bool { return strings.HasPrefix(word, p) })
	case strings.HasPrefix(word, "-") && len(word) > 1:
		i := strings.IndexAny(r.cluster(word[1:]), r.letters)
		return i >= 0 && strings.IndexByte(w.letters, word[i+1]) >= 0 // the rest is its value
	}
	set, _, assigned := strings.Cut(word, "=")
	return w.sets && assigned && !strings.Contains(set, "SHELL") && !strings.Contains(set, "FLAGS") && !strings.ContainsAny(set, ":+?!")
}

// reachOf finds the entry of a command's program. The first n of the command's words are those of a rule.
func reachOf(c Command, n int) (name string, r reach, ok bool) {
	name = stem(c[0].Text)
	if same := sames[name]; same != "" {
		name = same
	} else if _, listed := reaching[name]; !listed {
		name = withoutVersion(name)
	}
	if at := strings.LastIndexByte(name, '-') + 1; at > 0 && (name[at:] == "gcc" || sames[name[at:]] == "gcc") { // x86_64-linux-gnu-gcc
		name = "gcc"
	}
	r, ok = reaching[name]
	if name == "git" {
		sub, _ := subcommand(c[1:])
		r.letters, r.operands = gitLetters[sub], gitOperands[sub]
		if n == 1 || len(c) > 1 && strings.HasPrefix(c[1].Text, "-") {
			r.letters += gitLetters[""]
		}
		if !slices.Contains(gitSubcommands, sub) {
			r.known = &options{}
		}
	}
	return name, r, ok
}

// withoutVersion removes a version from the end of a program's name, such as `python3.12` and `gcc-13`.
func withoutVersion(name string) string {
	short := strings.TrimRight(name, "0123456789.-")
	if same := sames[short]; same != "" {
		return same
	}
	return short
}

// interprets reports whether the program is an interpreter of files. A rule for its name alone allows all files.
func (r reach) interprets(name string) bool { return r.text && r.known == nil && name != "" }

// hasOperand reports whether there is a word that is not an option.
func hasOperand(words Command) bool {
	return slices.ContainsFunc(words, func(w Word) bool { return !strings.HasPrefix(w.Text, "-") })
}

// valued reports whether a word is an interpreter's option whose value is a program. A rule that ends with it allows all programs.
func valued(w Word) bool {
	return slices.Contains([]string{"-c", "-m", "-e", "-p", "-r", "-lc"}, w.Text)
}

// among reports whether one of the words reaches; the first of them has the index at in the command.
func (r reach) among(name string, words Command, at int) bool {
	for i, w := range words {
		if name == "tar" && at+i == 1 && !strings.HasPrefix(w.Text, "-") { // tar's first options need no dash
			w.Text = "-" + w.Text
		}
		if r.ends != "" && w.Fixed && w.Text == r.ends && !(i > 0 && r.takes(words[i-1].Text)) {
			return false
		}
		if !w.Fixed || r.is(w.Text) || name == "git" && strings.Contains(w.Text, "::") { // a helper for an address
			return true
		}
	}
	return false
}

// takes reports whether a word is an option that may have the next word as its value, even if that is `--`. Only Go's flags do.
func (r reach) takes(word string) bool {
	return r.single && len(word) > 1 && word[0] == '-' && !strings.Contains(word, "=") && !slices.Contains(switches, strings.TrimLeft(word, "-"))
}

// switches are the options of go without a value.
var switches = strings.Fields("v race msan asan short cover benchmem n x json failfast a i c u t m e deps test find compiled export work linkshared trimpath modcacherw fullpath")

// is reports whether a word reaches.
func (r reach) is(word string) bool {
	if slices.Contains(r.words, word) || slices.Contains(r.words, "+") && strings.HasPrefix(word, "+") {
		return true
	}
	if slices.ContainsFunc(r.prefixes, func(p string) bool { return strings.HasPrefix(word, p) }) || r.sets && assigns(word) {
		return true
	}
	if strings.HasPrefix(word, "--") && !r.single {
		return slices.ContainsFunc(r.long, func(long string) bool { return abbreviates(word, long) })
	}
	return len(word) > 1 && word[0] == '-' && !r.single && strings.ContainsAny(r.cluster(word[1:]), r.letters)
}

// cluster returns the short options of a word, without the value of the last one.
func (r reach) cluster(letters string) string {
	if r.known == nil {
		return letters
	}
	if i := strings.IndexAny(letters, r.known.values); i >= 0 {
		return letters[:i]
	}
	return letters
}

// assigns reports whether a word sets a variable to what may be a program or a path: anything but a number or a switch.
func assigns(word string) bool {
	name, value, ok := strings.Cut(word, "=")
	if !ok || name == "" || strings.HasPrefix(name, "-") {
		return false
	}
	switch {
	case strings.Contains(name, "SHELL"), strings.Contains(name, "FLAGS"), strings.ContainsAny(name, ":+?!"):
		return true
	case strings.Trim(value, "0123456789.") == "":
		return false
	}
	return !slices.Contains([]string{"y", "n", "yes", "no", "true", "false", "on", "off", "debug", "release"}, strings.ToLower(value))
}

// beyond reports whether the words after the first n have an option that is not known to be harmless, or too many operands.
func (r reach) beyond(name string, c Command, n int) bool {
	others, skip := 0, false
	args := c[1:]
	if name == "git" {
		_, args = subcommand(args)
	}
	for i, w := range args {
		behind := len(c)-len(args)+i >= n
		switch {
		case skip:
			skip = false
			continue
		case r.ends != "" && w.Text == r.ends && !(i > 0 && r.takes(args[i-1].Text)):
			return false
		case len(w.Text) > 1 && w.Text[0] == '-' && !(name == "tar" && i == 0):
			known := true
			switch {
			case name == "git" && r.known == nil:
				known = !strings.HasPrefix(w.Text, "--") || gitKnows(w.Text)
				skip = r.operands > 0 && slices.Contains([]string{"--depth", "--branch", "-b", "--origin", "-o", "--shallow-since"}, w.Text)
			case r.known != nil:
				known, skip = r.known.knows(w.Text, r.single)
			}
			if behind && !known {
				return true
			}
			continue
		}
		if others++; behind && (r.operands < 0 || r.operands > 0 && others > r.operands) {
			return true
		}
		if name == "git" && behind && c[1].Text == "worktree" && (path.IsAbs(w.Text) || strings.HasPrefix(w.Text, "..")) {
			return true
		}
	}
	return false
}

// gitKnows reports whether a long option of git is harmless.
func gitKnows(word string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	name = strings.TrimPrefix(name, "no-")
	return name == "" || slices.Contains(strings.Fields(gitOptions), name) || slices.Contains(strings.Fields(gitOptions), "no-"+name)
}

// subscripts reports whether a builtin's words may have a subscript with a command, which bash evaluates even if it is quoted.
func subscripts(name string, words Command) bool {
	if !slices.Contains(evaluating, name) {
		return false
	}
	return slices.ContainsFunc(words, func(w Word) bool {
		at := strings.IndexByte(w.Text, '[')
		return at >= 0 && strings.ContainsAny(w.Text[at:], "$`")
	})
}

// evaluating lists builtins that treat words as names of variables or as arithmetic.
var evaluating = []string{
	"test", "[", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly", "let", "mapfile", "readarray", "wait", "getopts", "set", "shift", "return", "exit", "break", "continue",
}
