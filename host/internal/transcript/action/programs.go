package action

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// spec says how to read the arguments of a program.
type spec struct {
	short  string   // letters of options that have a value
	long   []string // names of options that have a value
	refuse []string // options that make the program do something else, such as starting another one
	single bool     // options have one dash and a whole name, as those of find
	kind   func(part, parsed) ([]protocol.CommandAction, bool)
}

// parsed are the arguments of a program.
type parsed struct {
	operands []string
	options  []option
}

type option struct{ name, value string } // the name has its dashes

// value returns the value of an option that has one of the names.
func (p parsed) value(names ...string) (string, bool) {
	for _, o := range p.options {
		if slices.Contains(names, o.name) {
			return o.value, true
		}
	}
	return "", false
}

// parse reads arguments in the way of getopt; ok is false if an option is refused or lacks its value.
func (s spec) parse(args []string) (out parsed, ok bool) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			out.operands = append(out.operands, args[i+1:]...)
			return out, true
		case len(a) < 2 || a[0] != '-':
			out.operands = append(out.operands, a)
			continue
		case slices.Contains(s.refuse, a):
			return out, false
		}
		name, value, has := a, "", false
		wants := false
		switch {
		case s.single:
			wants = slices.Contains(s.long, a)
		case strings.HasPrefix(a, "--"):
			name, value, has = strings.Cut(a, "=")
			wants = slices.Contains(s.long, strings.TrimPrefix(name, "--"))
		default:
			// A letter with a value takes the rest of the word, or the next word.
			letters := a[1:]
			if at := strings.IndexAny(letters, s.short); at >= 0 {
				letters, value, wants = letters[:at+1], letters[at+1:], true
				has = value != ""
			}
			for _, l := range letters[:len(letters)-1] {
				out.options = append(out.options, option{name: "-" + string(l)})
			}
			name = "-" + letters[len(letters)-1:]
		}
		if slices.ContainsFunc(append(out.options, option{name: name}), func(o option) bool { return slices.Contains(s.refuse, o.name) }) {
			return out, false
		}
		if wants && !has {
			if i++; i == len(args) {
				return out, false
			}
			value = args[i]
		}
		out.options = append(out.options, option{name, value})
	}
	return out, true
}

// programs are the programs that are understood, by name.
var programs = func() map[string]spec {
	out := map[string]spec{
		"cat":    {kind: reads},
		"bat":    {kind: reads, short: "rlmH", long: []string{"line-range", "style", "theme", "language", "paging", "color", "wrap", "tabs", "decorations", "highlight-line"}, refuse: []string{"--pager"}},
		"less":   {kind: reads},
		"more":   {kind: reads},
		"nl":     {kind: reads, short: "bdfhilnsvw"},
		"head":   {kind: reads, short: "nc", long: []string{"lines", "bytes"}},
		"tail":   {kind: reads, short: "ncs", long: []string{"lines", "bytes", "pid", "sleep-interval"}},
		"sed":    {kind: sed, short: "el", long: []string{"expression"}, refuse: []string{"-i", "--in-place", "-f", "--file", "-s"}},
		"ls":     {kind: lists, short: "IwT", long: []string{"ignore", "hide", "width", "tabsize"}},
		"tree":   {kind: lists, short: "LIP", refuse: []string{"-o"}},
		"du":     {kind: lists, short: "dBtX", long: []string{"max-depth", "block-size", "threshold", "exclude"}},
		"find":   {kind: find, single: true, refuse: []string{"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}},
		"fd":     {kind: fd, short: "edtEjSoc", long: []string{"extension", "max-depth", "min-depth", "type", "exclude", "threads", "size", "owner", "color", "changed-within", "changed-before"}, refuse: []string{"-x", "-X", "--exec", "--exec-batch"}},
		"rg":     {kind: rg, short: "ABCEMTdefgjmrt", long: rgValues, refuse: []string{"-f", "--file", "--pre", "--hostname-bin"}},
		"grep":   grepSpec,
		"egrep":  grepSpec,
		"fgrep":  grepSpec,
		"ag":     {kind: grep, short: "ABCGmp", long: []string{"ignore", "depth", "max-count"}, refuse: []string{"--pager"}},
		"wc":     {kind: shapes},
		"sort":   {kind: shapes, short: "kStT", refuse: []string{"-o", "--output", "--compress-program"}},
		"uniq":   {kind: shapes, short: "fsw"},
		"cut":    {kind: shapes, short: "bcdf"},
		"column": {kind: shapes, short: "csolNRHTEO"},
		"tr":     {kind: ignored},
		"echo":   {kind: ignored},
		"printf": {kind: ignored},
		"true":   {kind: ignored},
		"pwd":    {kind: ignored},
	}
	out["batcat"] = out["bat"]
	out["fdfind"] = out["fd"]
	out["eza"], out["exa"] = spec{kind: lists, short: "LIsst"}, spec{kind: lists, short: "LIsst"}
	return out
}()

// gitCommands are the subcommands of git that are understood.
var gitCommands = map[string]spec{
	"grep": {
		kind: grep, short: "ABCefmO", long: []string{"max-depth", "threads", "max-count", "after-context", "before-context", "context"},
		refuse: []string{"-f", "-O", "--open-files-in-pager", "--no-index"},
	},
	"ls-files": {kind: lists, short: "xX", long: []string{"exclude"}},
}

var grepSpec = spec{
	kind: grep, short: "ABCdDefm",
	long: []string{
		"after-context", "before-context", "context", "regexp", "max-count", "include", "exclude", "exclude-dir", "directories", "devices",
		"binary-files", "color", "colour", "label",
	},
	refuse: []string{"-f", "--file"},
}

var rgValues = []string{
	"after-context", "before-context", "context", "regexp", "glob", "iglob", "type", "type-not", "type-add", "max-count", "max-columns", "max-depth",
	"max-filesize", "replace", "threads", "encoding", "color", "colors", "sort", "sortr", "engine", "path-separator", "ignore-file",
	"context-separator", "field-match-separator",
}

func reads(p part, in parsed) ([]protocol.CommandAction, bool) { return p.read(in.operands) }

func lists(p part, in parsed) ([]protocol.CommandAction, bool) { return p.list(in.operands) }

// shapes is for programs that shape their input, as long as that is the output of another command.
func shapes(_ part, in parsed) ([]protocol.CommandAction, bool) { return nil, len(in.operands) == 0 }

func ignored(part, parsed) ([]protocol.CommandAction, bool) { return nil, true }

var sedRange = regexp.MustCompile(`^(\d+|\$)(,(\d+|\$))?p$`)

// sed understands only the printing of lines.
func sed(p part, in parsed) ([]protocol.CommandAction, bool) {
	script, given := in.value("-e", "--expression")
	files := in.operands
	if !given {
		if len(files) == 0 {
			return nil, false
		}
		script, files = files[0], files[1:]
	}
	_, quiet := in.value("-n", "--quiet", "--silent")
	if !quiet || !sedRange.MatchString(script) {
		return nil, false
	}
	return p.read(files)
}

// find lists what is below its folders, which precede its expression.
func find(p part, in parsed) ([]protocol.CommandAction, bool) {
	var folders []string
	for _, a := range p.argv[1:] {
		if strings.HasPrefix(a, "-") || a == "(" || a == "!" {
			break
		}
		folders = append(folders, a)
	}
	return p.list(folders)
}

func fd(p part, in parsed) ([]protocol.CommandAction, bool) {
	if len(in.operands) == 0 {
		return p.list(nil)
	}
	return p.search(in.operands[0], in.operands[1:])
}

func rg(p part, in parsed) ([]protocol.CommandAction, bool) {
	if _, files := in.value("--files"); files {
		return p.list(in.operands)
	}
	return grep(p, in)
}

func grep(p part, in parsed) ([]protocol.CommandAction, bool) {
	if query, given := in.value("-e", "--regexp"); given {
		return p.search(query, in.operands)
	}
	if len(in.operands) == 0 {
		return nil, false
	}
	return p.search(in.operands[0], in.operands[1:])
}
