package reach

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// shell follows sh SCRIPT, sh -c LINE, and sh with a script on standard input.
func (f *follower) shell(name word, rest []word, s *state, depth int) {
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		v := w.first()
		switch {
		case v == "--":
			continue
		case v == "--rcfile" || v == "--init-file":
			if i++; i < len(rest) {
				f.operand(rest[i], s, depth, true)
			}
		case v == "-o" || v == "+o" || v == "-O" || v == "+O":
			i++
		case len(v) > 1 && (v[0] == '-' || v[0] == '+') && v[1] != '-' && strings.Contains(v, "c"):
			if i+1 >= len(rest) {
				return
			}
			body := rest[i+1]
			if body.unknown || body.covered || len(body.values) == 0 {
				f.lost(name.text+" "+w.text+" "+body.text, "the line is only known at run time", s)
			}
			for _, line := range body.values {
				f.nested(line, s, depth)
			}
			f.rest(rest[i+2:], s, depth)
			return
		case v == "-s" || v == "-" || v == "/dev/stdin":
			s.stdin = true
			f.rest(rest[i+1:], s, depth)
			return
		case len(v) > 1 && (v[0] == '-' || v[0] == '+'):
		default:
			f.operand(w, s, depth, true)
			f.bare(w, name, s)
			f.rest(rest[i+1:], s, depth)
			return
		}
	}
	s.stdin = true
}

// bare handles the name of a missing script without a path: a shell looks it up in PATH, and later perhaps in its working folder.
func (f *follower) bare(w, name word, s *state) {
	for _, value := range w.values {
		if strings.Contains(value, "/") || w.covered || w.glob {
			continue
		}
		if !slices.ContainsFunc(s.dirs, func(dir string) bool { regular, _ := isFile(f.absolute(dir, value)); return regular }) {
			f.lost(name.text+" "+w.text, "it does not exist", s)
		}
	}
}

// nested follows a line inside a line, and returns the folders in which its shell may end.
func (f *follower) nested(line string, s *state, depth int) (dirs []string) {
	in := *s
	in.dirs, in.loose, in.stdin = slices.Clone(s.dirs), nil, false
	f.line(line, &in, depth+1)
	return in.dirs
}

// source follows a script that the shell sources.
func (f *follower) source(rest []word, s *state, depth int) {
	if len(rest) == 0 {
		return
	}
	w := rest[0]
	switch {
	case strings.HasPrefix(w.text, "<(") || w.is("/dev/stdin"):
		s.stdin = true
	case w.covered:
	case w.unknown || w.glob:
		f.operand(w, s, depth, true)
	default:
		f.operand(w, s, depth, true)
		f.bare(w, word{text: "."}, s)
	}
}

// evaluate follows eval and trap.
func (f *follower) evaluate(program string, rest []word, s *state, depth int) {
	var words []string
	for _, w := range rest {
		if w.unknown || w.covered || len(w.values) != 1 {
			f.lost(program+" "+w.text, "the line is only known at run time", s)
			return
		}
		if words = append(words, w.values[0]); program == "trap" {
			break
		}
	}
	if line := strings.Join(words, " "); line != "" && line != "-" {
		dirs := f.nested(line, s, depth)
		if program == "eval" {
			s.dirs = dirs
		}
	}
}

// isolated reports whether an option makes python ignore modules next to the script and in the working folder.
func isolated(option string) bool {
	return len(option) > 1 && option[0] == '-' && option[1] != '-' && strings.ContainsAny(option, "IP")
}

var imports = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(import|__import__|from|require|require_relative|include|include_once|require_once|use|load|source|dofile|exec|eval|open)\b`)
})

// python follows python SCRIPT, python -c CODE and python -m MODULE.
func (f *follower) python(name word, rest []word, s *state, depth int) {
	safe := f.env["PYTHONSAFEPATH"] != ""
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		v := w.first()
		switch {
		case v == "-c" || v == "-m" || strings.HasPrefix(v, "-") && !strings.HasPrefix(v, "--") && strings.ContainsAny(v, "cm"):
			safe = safe || isolated(v)
			body := word{}
			if i+1 < len(rest) {
				body = rest[i+1]
			}
			if safe && len(body.values) > 0 && strings.Contains(body.values[0], "sys.path") {
				safe = false
			}
			if !safe && (strings.Contains(v, "m") || body.unknown || len(body.values) == 0 || imports().MatchString(body.values[0])) {
				f.lost(name.text+" "+v+" "+body.text, "python loads modules from the working folder, unless -I is set", s)
			}
			for _, text := range body.values {
				f.code(text, s, depth)
			}
			f.rest(rest[min(i+2, len(rest)):], s, depth)
			return
		case v == "-W" || v == "-X":
			i++
		case v == "-" || v == "/dev/stdin":
			s.stdin, s.code = true, s.code || !safe
			return
		case len(v) > 1 && v[0] == '-':
			safe = safe || isolated(v)
		default:
			f.interpreted(w, s, depth, safe)
			f.rest(rest[i+1:], s, depth)
			return
		}
	}
	s.stdin, s.code = true, s.code || !safe
}

// starting matches code of scripting languages that runs other programs or files, and literals the strings in code.
var (
	starting = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("\\b(?:exec\\w*|eval|run_path|runIn\\w+|_load|spawn\\w*|system|popen|subprocess|fork|do|dofile|loadfile|getline)\\b|`|\\|[\"' ]")
	})
	literals = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\"[^\"]*\"|'[^']*'|`[^`]*`") })
)

// code covers the files that a piece of code names: programs, scripts, and whatever it may run.
func (f *follower) code(text string, s *state, depth int) {
	f.mentions(text, s.dirs, depth)
	if !starting().MatchString(text) {
		return
	}
	for _, m := range literals().FindAllString(text, 100) {
		m = strings.TrimRight(m[1:len(m)-1], "| ")
		f.operand(word{text: m, values: []string{m}, named: true}, s, depth, false)
		f.perhaps(m, s)
	}
	for _, m := range pathLike().FindAllString(text, 100) {
		f.operand(word{text: m, values: []string{m}, named: true}, s, depth, false)
	}
}

// edits matches sed's command e and the flag e of its command s, which start programs.
var edits = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(?:^|[;{}\d$])\s*e(?:\s|$)|\W[gpIM\d]*e[gpIM\d]*(?:$|[;}])`)
})

// interpreter follows node, ruby, awk and similar interpreters.
func (f *follower) interpreter(name word, rest []word, s *state, depth int, k kind) {
	for i := 0; i < len(rest); i++ {
		w := rest[i]
		v := w.first()
		option, value, joined := strings.Cut(v, "=")
		switch {
		case k == text && (v == "-v" || v == "-F") && strings.HasSuffix(baseName(name), "awk"):
			i++
		case k == text && (v == "-nf" || v == "-Ef" || v == "-rf"):
			if i++; i < len(rest) {
				f.operand(rest[i], s, depth, true)
				f.rest(rest[i+1:], s, depth)
			}
			return
		case k == text && joined && (option == "--file" || option == "--from-file"), k == text && len(v) > 2 && strings.HasPrefix(v, "-f"):
			if !joined {
				value = v[2:]
			}
			f.operand(word{text: v, values: []string{value}}, s, depth, true)
			f.rest(rest[i+1:], s, depth)
			return
		case k == modules && joined && (option == "--eval" || option == "--print"):
			rest = append(fixed(option, value), rest[i+1:]...)
			i = -1
		case slices.Contains([]string{"-e", "-E", "--eval", "-p", "--print", "-pe", "-ne", "-r", "--require", "--import", "-f", "--file", "-i", "--from-file", "-n", "-l"}, v) && (k == modules || v == "-f" || v == "--file" || v == "--from-file"):
			if i++; i >= len(rest) {
				return
			}
			b := rest[i]
			if v == "-f" || v == "--file" || v == "--from-file" || v == "--import" || v == "--require" || v == "-r" {
				f.operand(b, s, depth, true)
				if k == text {
					f.rest(rest[i+1:], s, depth)
					return
				}
			}
			if b.unknown && k == modules {
				f.lost(name.text+" "+v+" "+b.text, "what it runs is only known at run time", s)
			}
			for _, code := range b.values {
				if k == modules && loads(code) {
					f.lost(name.text+" "+v+" "+b.text, "it loads modules from its working folder", s)
				}
				f.code(code, s, depth)
			}
		case v == "-" || v == "/dev/stdin":
			s.stdin, s.code = s.stdin || k == modules, s.code || k == modules
		case len(v) > 1 && v[0] == '-':
			if _, value, ok := strings.Cut(v, "="); ok && k == modules {
				f.operand(word{text: v, values: []string{value}}, s, depth, slices.ContainsFunc([]string{"--require", "--import", "--loader", "--experimental-loader"}, func(o string) bool { return strings.HasPrefix(v, o+"=") }))
			}
			if k == modules && v[1] != '-' && strings.ContainsAny(v[1:2], "IMmrd") {
				f.lost(name.text+" "+w.text, "it loads modules", s)
			}
		case k == text:
			// The program is an argument, unless it was in a file.
			for _, code := range w.values {
				f.code(code, s, depth)
				s.stdin = s.stdin || starting().MatchString(code) && strings.HasSuffix(baseName(name), "awk") || edits().MatchString(code) && baseName(name) == "sed"
			}
			s.stdin = s.stdin || w.unknown && strings.ContainsAny(w.text, "(`") // output of another command, perhaps read from a file
			f.operand(w, s, depth, false)
			f.rest(rest[i+1:], s, depth)
			return
		default:
			f.interpreted(w, s, depth, false)
			f.rest(rest[i+1:], s, depth)
			return
		}
	}
	if k == modules && !slices.ContainsFunc(rest, func(w word) bool {
		return strings.HasPrefix(w.first(), "-e") || strings.HasPrefix(w.first(), "-p") || strings.HasPrefix(w.first(), "--eval")
	}) {
		s.stdin, s.code = true, true
	}
}

// loads reports whether code loads modules that may be in the workspace.
var loading = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(?:require(?:_relative)?|import|__import__|from|include|include_once|require_once|dofile|loadfile|load|use\s+lib)\b`)
})

func loads(code string) bool { return loading().MatchString(code) }

// baseName returns the name of a program without its folder.
func baseName(name word) string { return filepath.Base(name.first()) }

// interpreted covers a script in a language that loads modules from the script's folder.
func (f *follower) interpreted(w word, s *state, depth int, safe bool) {
	before := f.quiet
	f.quiet = true // this function decides about modules, not the script's first line
	f.operand(w, s, depth, true)
	f.quiet = before
	f.bare(w, word{text: "the script"}, s)
	if safe || w.unknown {
		return
	}
	for _, value := range w.values {
		for _, dir := range s.dirs {
			if path := f.absolute(dir, value); f.root(path) != "" {
				f.beside(path)
			}
		}
	}
}

// beside covers the folder of a script that loads modules.
func (f *follower) beside(path string) {
	code, err := Read(path, maxText)
	if regular, _ := isFile(path); err != nil || !regular || !imports().Match(code) {
		return
	}
	if dir := filepath.Dir(path); !f.folder(dir, f.below(path)+" loads modules from its folder") {
		f.gap(Gap{Text: f.below(path), Why: "it loads modules from its folder, which is the workspace itself", Next: "put it into a separate folder, for example .gantry/hooks, or use python -I"})
	}
}

// takers are wrappers with operands of their own before the command.
var takers = []string{"flock", "taskset", "chrt", "chroot", "script", "su", "runuser", "sudo", "doas", "systemd-run", "strace", "ltrace", "gdb", "valgrind", "unshare", "watch", "prlimit", "setpriv"}

// wrapped follows a command after the options of another program. For many programs it is unknown which options take a value: if
// the first word is not a program that runs others, each later word is also treated as a possible start of the command.
func (f *follower) wrapped(program string, rest []word, s *state, depth int) {
	skip := false
	for i, w := range rest {
		v := w.first()
		if skip {
			skip = false
			continue
		}
		option, value, joined := strings.Cut(v, "=")
		switch {
		case w.covered, w.glob, w.unknown && len(w.values) == 0:
			f.run(rest[i:], s, depth)
			return
		case v == "" || v[0] == '-' || v[0] == '{' || v[0] == '%' || number(v):
			f.operand(w, s, depth, false)
			var next []word
			if i+1 < len(rest) {
				next = rest[i+1 : i+2]
			}
			if joined {
				next = []word{{text: value, values: []string{value}}}
			}
			switch option {
			case "-S", "--split-string", "-c", "--command":
				if len(next) == 1 && (next[0].unknown || next[0].covered) {
					f.lost(program+" "+v+" "+next[0].text, "the line is only known at run time", s)
				}
				for _, w := range next {
					for _, line := range w.values {
						f.nested(line, s, depth)
					}
				}
			case "-u", "--unset":
				skip = program == "env" && !joined
			case "-C", "--chdir", "-D", "--working-directory":
				f.enter(next, s)
			default:
				if line, ok := strings.CutPrefix(v, "-S"); ok {
					f.nested(line, s, depth)
				}
				if dir, ok := strings.CutPrefix(v, "-C"); ok && program == "env" {
					f.enter(fixed(dir), s)
				}
				if file, ok := strings.CutPrefix(v, "-a"); ok && program == "xargs" && file != "" {
					f.loosen(fixed(file), s)
				}
				if joined && option == "--arg-file" {
					f.loosen(next, s)
				}
			}
		case joined && !strings.Contains(option, "/"):
			if option == "PATH" {
				s.vars[option] = variable{values: append(slices.Clone(s.vars[option].values), value)}
			}
			for part := range strings.SplitSeq(value, ":") {
				f.operand(word{text: v, values: []string{part}}, s, depth, slices.Contains(loaded, option))
			}
		default:
			if program == "watch" {
				f.nested(strings.Join(values(rest[i:]), " "), s, depth)
				return
			}
			f.run(rest[i:], s, depth)
			if kindOf(v) != plain || i == 0 && !slices.Contains(takers, program) {
				return
			}
			for j := i + 1; j < len(rest); j++ {
				if option := rest[j].first(); (option == "-c" || option == "--command") && j+1 < len(rest) { // flock FILE -c LINE
					f.nested(rest[j+1].first(), s, depth)
					return
				}
				if slices.Contains([]kind{shell, python, modules, wrapper, batch}, kindOf(rest[j].first())) {
					f.run(rest[j:], s, depth)
					return
				}
			}
			return
		}
	}
}

func values(words []word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w.first(); w.unknown || w.covered {
			out[i] = "$(unknown)"
		}
	}
	return out
}

// number reports whether a word is a number or an amount of time or size.
func number(v string) bool {
	return strings.Trim(v, "0123456789.") == "" || len(v) > 1 && strings.Trim(v[:len(v)-1], "0123456789.") == "" && strings.ContainsAny(v[len(v)-1:], "smhdKMG")
}

// project covers the project files that a task runner reads, and reports a gap for whatever they run.
func (f *follower) project(command string, s *state, depth int) {
	for _, dir := range s.dirs {
		for _, name := range says {
			path := filepath.Join(dir, name)
			if regular, _ := isFile(path); regular && f.root(path) != "" {
				f.script(f.below(path), path, s.dirs, depth)
			}
		}
	}
	f.gap(Gap{
		Text: command, Why: "what it runs depends on project files, which sandboxed commands may change",
		Next: `list the files that must not change in files, for example ["Makefile", "scripts"], or use [] to trust whatever it runs`,
	})
}

// find covers the folders in which find runs a program for each file.
func (f *follower) find(rest []word, s *state, depth int) {
	for i, w := range rest {
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"}, w.first()) {
			continue
		}
		for _, place := range rest[:i] {
			if v := place.first(); v == "" && !place.unknown || strings.HasPrefix(v, "-") || v == "(" || v == "!" {
				break
			}
			f.operand(place, s, depth, true)
		}
		f.run(rest[i+1:], s, depth)
		return
	}
	f.rest(rest, s, depth)
}

// managed follows uv run and similar commands.
func (f *follower) managed(program string, rest []word, s *state, depth int) {
	own := false
	for _, w := range rest {
		v := w.first()
		switch {
		case v == "run" || v == "exec" || v == "x":
			continue
		case v == "--no-project" || v == "--script" || v == "-s" && program == "uv":
			own = true
		case strings.HasPrefix(v, "-"):
		default:
			f.interpreted(w, s, depth, false)
			for _, dir := range s.dirs {
				head, _ := Read(f.absolute(dir, v), maxText)
				own = own || strings.Contains(string(head), "# /// script") || len(head) > 0 && (program == "deno" || program == "bun")
			}
			if !own {
				f.project(program+" "+v, s, depth)
			}
			return
		}
	}
}

var hooksPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)hookspath\s*=\s*"?([^"\n]+?)"?\s*(?:\n|$)`) })

// git covers the hooks that git's settings name.
func (f *follower) git(rest []word, s *state, depth int) {
	for i, w := range rest {
		v := w.first()
		if name, value, ok := strings.Cut(v, "="); ok && i > 0 && rest[i-1].is("-c") {
			f.operand(word{text: v, values: []string{strings.TrimPrefix(value, "!")}}, s, depth, strings.EqualFold(name, "core.hookspath") || strings.EqualFold(name, "include.path"))
			if line, ok := strings.CutPrefix(value, "!"); ok {
				f.nested(line, s, depth)
			}
		}
	}
	for _, dir := range s.dirs {
		settings, err := Read(filepath.Join(dir, ".git", "config"), maxText)
		if err != nil {
			continue
		}
		for _, m := range hooksPath().FindAllStringSubmatch(string(settings), 20) {
			f.folder(f.absolute(dir, m[1]), "git runs the hooks in "+m[1])
		}
	}
	f.rest(rest, s, depth)
}
