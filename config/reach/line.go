package reach

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/shellsyntax"
	"mvdan.cc/sh/v3/syntax"
)

// parse parses shell code. If it is too large, too deeply nested, or exceeds the total limit, file is nil and why gives the
// reason.
func (f *follower) parse(text string) (file *syntax.File, why string) {
	if shellsyntax.Check(text) == nil {
		if f.parsed += len(text); f.parsed > maxParsed {
			return nil, "there is too much shell code to follow"
		}
	}
	file, err := shellsyntax.Parse(text, syntax.LangBash)
	if err != nil {
		return nil, "it can't be read as shell"
	}
	return file, ""
}

// line follows a line and whatever it pipes into a shell.
func (f *follower) line(line string, s *state, depth int) {
	file, why := f.parse(line)
	switch {
	case file == nil:
		f.gap(Gap{Text: line, Why: why, Next: "put it into a script"})
		return
	case depth > maxDepth:
		f.gap(Gap{Text: line, Why: "scripts call each other too deeply", Next: "put what it runs into one folder"})
		return
	}
	f.walk(file, s, depth)
	f.piped(s)
}

// piped covers everything that a shell or interpreter may read from standard input: every file that the line names, and the texts
// in it.
func (f *follower) piped(s *state) {
	if !s.stdin {
		return
	}
	s.stdin = false
	for _, w := range s.loose {
		f.operand(w, s, 0, true)
		for _, text := range w.values {
			f.perhaps(text, s)
			if s.code && loads(text) {
				f.lost(w.text, "it loads modules from its working folder", s)
			}
		}
	}
}

// perhaps follows a text with several words that may be a line for a shell. It reports no gap if the text is not one.
func (f *follower) perhaps(text string, s *state) {
	text = strings.TrimLeft(text, "! ")
	if !strings.ContainsAny(strings.TrimSpace(text), " \t\n") {
		return
	}
	if _, err := shellsyntax.Parse(text, syntax.LangBash); err != nil {
		return
	}
	if f.guesses++; f.guesses > maxGuesses || f.parsed+len(text) > maxParsed { // otherwise nested would report it, but its gaps are discarded
		f.lost(text, "too many texts may be shell code", s)
		return
	}
	known := len(f.Gaps)
	f.nested(text, s, maxDepth-1)
	f.Gaps = f.Gaps[:known]
}

// walk follows statements in order. It is unknown which of them run, so all count: a variable may have any of its values, and the
// shell may be in any folder that a cd names.
func (f *follower) walk(n syntax.Node, s *state, depth int) {
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			for _, r := range n.Redirs {
				f.redirect(r, s, depth)
			}
		case *syntax.CallExpr:
			for _, a := range n.Assigns {
				f.assign(a, s, len(n.Args) > 0)
			}
			words := make([]word, len(n.Args))
			for i, a := range n.Args {
				words[i] = f.resolve(a, s)
			}
			f.run(words, s, depth)
		case *syntax.DeclClause:
			for _, a := range n.Args {
				f.assign(a, s, false)
			}
		case *syntax.ForClause:
			f.loop(n, s, depth)
		}
		return true
	})
}

// redirect records the files that a command reads, and follows here-documents for a shell.
func (f *follower) redirect(r *syntax.Redirect, s *state, depth int) {
	switch r.Op {
	case syntax.RdrIn, syntax.RdrInOut:
		w := f.resolve(r.Word, s)
		w.from = true
		s.loose = append(s.loose, w)
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		s.writes = s.writes || !f.resolve(r.Word, s).is("/dev/null")
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		doc := r.Hdoc
		if r.Op == syntax.WordHdoc {
			doc = r.Word
		}
		if doc == nil {
			return
		}
		// The document is code if a shell reads it. Otherwise paths in it are not covered unless they are scripts.
		w := f.resolve(doc, s)
		s.loose = append(s.loose, word{text: w.text, values: w.values})
		if !w.unknown {
			for _, text := range w.values {
				f.mentions(text, s.dirs, depth)
			}
		}
	}
}

// assign records the value of a variable. For assignments before a command it also covers programs that the value names, such as
// those in PATH or BASH_ENV.
func (f *follower) assign(a *syntax.Assign, s *state, command bool) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	v := s.vars[name]
	if a.Naked && a.Value == nil {
		return
	}
	if a.Array != nil || a.Append && name != "PATH" || a.Index != nil || a.Value == nil {
		v.unknown = v.unknown || a.Value != nil || a.Array != nil
		if a.Value == nil && a.Array == nil && !slices.Contains(v.values, "") {
			v.values = append(v.values, "")
		}
		s.vars[name] = v
		return
	}
	w := f.resolve(a.Value, s)
	for _, value := range w.values {
		for part := range strings.SplitSeq(value, ":") {
			f.setting(part, s, false)
		}
	}
	if slices.Contains(loaded, name) {
		for _, value := range w.values {
			for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ':' || r == ' ' || r == '=' }) {
				for _, option := range []string{"-I", "-r"} { // PERL5OPT, RUBYOPT
					part = strings.TrimPrefix(part, option)
				}
				f.operand(word{text: name + "=" + value, values: []string{part}}, s, 0, true)
			}
		}
		if w.unknown {
			f.lost(name+"="+w.text, "it names files that programs load", s)
		}
	}
	if command && !slices.Contains([]string{"PATH", "CDPATH"}, name) {
		return
	}
	v.unknown, v.covered = v.unknown || w.unknown, v.covered || w.covered
	for _, value := range w.values {
		if a.Append {
			value = strings.TrimLeft(value, ":")
		}
		if !slices.Contains(v.values, value) {
			v.values = append(v.values, value)
		}
	}
	s.vars[name] = v
}

// loaded are variables that name files which shells and interpreters load automatically.
var loaded = []string{
	"BASH_ENV", "ENV", "ZDOTDIR", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "NODE_OPTIONS", "NODE_PATH", "PERL5LIB", "PERL5OPT", "RUBYLIB", "RUBYOPT", "LD_PRELOAD",
	"LD_LIBRARY_PATH", "LUA_PATH", "LUA_INIT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_EXEC_PATH", "LD_AUDIT", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_PAGER", "PAGER", "EDITOR", "VISUAL",
}

// alsoLoaded are further variables by which programs find or are told what to run.
var alsoLoaded = []string{
	"PATH", "HOME", "XDG_CONFIG_HOME", "SHELL", "PROMPT_COMMAND", "PS4", "BROWSER", "MANPAGER", "LESSOPEN", "LESSCLOSE",
	"PYTHONUSERBASE", "PYTHONPLATLIBDIR", "PYTHONBREAKPOINT", "PYTHONWARNINGS", "PERL5DB", "PERLLIB", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "RUBYSHELL",
	"LUA_CPATH", "CLASSPATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS", "MAVEN_OPTS", "GRADLE_OPTS", "GOROOT", "GOFLAGS", "GOPROXY",
	"DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "CORECLR_PROFILER", "CORECLR_PROFILER_PATH", "PHPRC", "PHP_INI_SCAN_DIR", "JULIA_LOAD_PATH",
	"ERL_LIBS", "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "R_PROFILE", "R_PROFILE_USER", "R_ENVIRON", "R_ENVIRON_USER", "TCLLIBPATH", "RUSTC", "RUSTC_WRAPPER",
	"GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_SEQUENCE_EDITOR", "GIT_TEMPLATE_DIR",
	"OPENSSL_CONF", "OPENSSL_ENGINES", "GCONV_PATH", "GTK_MODULES", "GI_TYPELIB_PATH", "QT_PLUGIN_PATH",
	"XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "SHELLOPTS", "COMSPEC", "PATHEXT", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "JAVA_HOME", "ANT_OPTS",
	"GOPATH", "GOENV", "GOTOOLCHAIN", "GOMODCACHE", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "BUN_OPTIONS", "DENO_DIR",
	"R_LIBS", "R_LIBS_USER", "JULIA_PROJECT", "JULIA_DEPOT_PATH", "BUNDLE_PATH", "COREPACK_NPM_REGISTRY",
	// Their files name programs that get credentials.
	"KUBECONFIG", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "DOCKER_CONFIG",
}

// loadedPrefixes begin the names of families of such variables: those of Lua may end with a version. The last three decide where package managers
// get programs from.
var loadedPrefixes = []string{"LD_", "DYLD_", "BASH_FUNC_", "GIT_CONFIG_", "LUA_PATH_", "LUA_CPATH_", "LUA_INIT_", "NPM_CONFIG_", "PIP_", "UV_"}

// Loads reports whether the value of an environment variable can make programs run other code. It knows the usual ones; a program may
// have more.
func Loads(name string) bool {
	name = strings.ToUpper(name)
	return slices.Contains(loaded, name) || slices.Contains(alsoLoaded, name) ||
		slices.ContainsFunc(loadedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// glue reports whether a character separates a path from the rest of a word, as in --action=exec=PATH, EXEC:PATH, ".shell PATH".
func glue(r rune) bool { return strings.ContainsRune("=:, \t", r) }

// setting covers a program or script that a value names. run is set if whatever it names is run.
func (f *follower) setting(value string, s *state, run bool) {
	if value == "" || !strings.ContainsAny(value, "/.") {
		return
	}
	for _, dir := range s.dirs {
		path := f.absolute(dir, value)
		if regular, executable := isFile(path); regular && (run || executable || isScript(path)) {
			f.script(value, path, s.dirs, 0)
		}
	}
}

// loop covers the files that a loop's variable may name.
func (f *follower) loop(n *syntax.ForClause, s *state, depth int) {
	iter, ok := n.Loop.(*syntax.WordIter)
	if !ok || iter.Name == nil {
		return
	}
	v := variable{}
	if len(iter.Items) == 0 {
		v.unknown = true // the arguments
	}
	for _, item := range iter.Items {
		w := f.resolve(item, s)
		switch {
		case w.covered:
			v.covered = true
		case w.glob:
			if !f.matched(w, s) {
				v.unknown = true
			} else {
				v.covered = true
			}
		default:
			v.unknown = v.unknown || w.unknown
			v.values = append(v.values, w.values...)
		}
	}
	if v.covered && (v.unknown || len(v.values) > 0) {
		for _, value := range v.values {
			f.operand(word{text: value, values: []string{value}}, s, depth, true)
		}
		v.covered = !v.unknown
	}
	s.vars[iter.Name.Value] = v
}

// matched covers the folder in which the shell matches a pattern.
func (f *follower) matched(w word, s *state) bool {
	ok := len(w.values) > 0 && !w.unknown
	for _, value := range w.values {
		base := value
		if i := strings.IndexAny(base, "*?[{"); i >= 0 {
			base = base[:strings.LastIndex(base[:i], "/")+1]
		}
		for _, dir := range s.dirs {
			path := f.absolute(dir, base)
			if !f.folder(path, "the shell matches "+quoteText(w.text)+" in "+f.below(path)) {
				ok = false
			}
		}
	}
	return ok
}

// run follows a command.
func (f *follower) run(words []word, s *state, depth int) {
	if len(words) == 0 {
		return
	}
	name, rest := words[0], words[1:]
	switch {
	case name.covered:
		f.rest(rest, s, depth)
		return
	case name.glob:
		if !f.matched(name, s) {
			f.dynamic(name, s, depth)
		}
		f.rest(rest, s, depth)
		return
	case name.unknown && len(name.values) == 0:
		f.dynamic(name, s, depth)
		f.rest(rest, s, depth)
		return
	case name.unknown:
		f.dynamic(name, s, depth)
	}
	for _, program := range name.values {
		if fields := strings.Fields(program); len(fields) != 1 && !strings.HasPrefix(name.text, `"`) { // the shell splits it into words
			f.run(append(fixed(fields...), rest...), s, depth)
			continue
		}
		f.program(program, name, rest, s, depth)
	}
}

// dynamic handles a word that names a program to run and whose value is unknown.
func (f *follower) dynamic(w word, s *state, depth int) {
	if tail := strings.TrimLeft(w.tail, "/"); tail != "" && strings.HasPrefix(w.tail, "/") {
		for _, dir := range append(slices.Clone(s.dirs), filepath.Dir(s.self)) {
			if path := f.absolute(dir, tail); dir != "." {
				if regular, _ := isFile(path); regular {
					f.script(tail, path, s.dirs, depth)
				}
			}
		}
	}
	f.lost(w.text, "the name is only known at run time", s)
}

// lost reports a gap in a line. For a line in a script, covering the script's folder closes the gap, if that is possible.
func (f *follower) lost(text, why string, s *state) {
	if s.self != "" {
		dir := filepath.Dir(s.self)
		if f.folder(dir, "can't follow "+quoteText(text)+" in "+f.below(s.self)+": "+why) {
			return
		}
		f.gap(Gap{Text: text, Why: why, Next: "put " + f.below(s.self) + " into a separate folder, or list what it runs in files"})
		return
	}
	f.gap(Gap{Text: text, Why: why, Next: "list what it runs in files"})
}

// program follows a program that is known by name.
func (f *follower) program(program string, name word, rest []word, s *state, depth int) {
	if program == "" {
		f.rest(rest, s, depth)
		return
	}
	if strings.Contains(program, "/") {
		f.path(program, name, s, depth)
	} else if p := f.inPath(program, s); p != "" {
		f.script(program, p, s.dirs, depth)
	}
	if slices.Contains(runs[filepath.Base(program)], operand(rest)) {
		f.project(filepath.Base(program)+" "+operand(rest), s, depth)
		return
	}
	switch program {
	case "cd", "pushd":
		f.enter(rest, s)
		return
	case ".", "source":
		f.source(rest, s, depth)
		return
	case "eval", "trap":
		f.evaluate(program, rest, s, depth)
		return
	case "alias":
		for _, w := range rest {
			if _, body, ok := strings.Cut(w.first(), "="); ok {
				f.nested(body, s, depth)
			}
		}
		return
	}
	if slices.Contains([]string{"cp", "mv", "ln", "install", "dd", "tee", "rsync", "tar", "unzip", "cpio", "base64", "gunzip", "patch",
		"sed", "awk", "sort", "split", "csplit", "gcc", "cc", "clang", "g++", "c++", "clang++", "go", "rustc", "javac", "tsc", "esbuild", "curl", "openssl", "gpg", "git"}, program) {
		s.writes = true
	}
	if slices.Contains(ofShell, program) {
		f.builtin(program, rest, s, depth)
		f.loosen(rest, s)
		return
	}
	switch kindOf(program) {
	case shell:
		f.shell(name, rest, s, depth)
	case python:
		f.python(name, rest, s, depth)
	case modules, text:
		f.interpreter(name, rest, s, depth, kindOf(program))
	case wrapper:
		f.wrapped(program, rest, s, depth)
	case runner:
		f.project(strings.TrimSpace(filepath.Base(program)+" "+operand(rest)), s, depth)
	case finder:
		f.find(rest, s, depth)
	case batch:
		s.stdin = true
		f.wrapped(program, rest, s, depth)
	case folder:
		for _, w := range rest {
			f.operand(w, s, depth, true)
		}
	case manager:
		f.managed(program, rest, s, depth)
	case versions:
		f.git(rest, s, depth)
	default:
		if slices.Contains(lookers, filepath.Base(program)) {
			f.arguments(rest, s, depth)
			return
		}
		f.rest(rest, s, depth)
	}
}

// builtin records the effect of a shell's builtin commands on variables and names.
func (f *follower) builtin(program string, rest []word, s *state, depth int) {
	switch program {
	case "read", "mapfile", "readarray", "getopts", "let", "printf":
		for _, w := range rest {
			f.operand(w, s, depth, false)
			name, _, _ := strings.Cut(w.first(), "=")
			if v, ok := s.vars[name]; ok || f.env[name] != "" {
				v.unknown = true
				s.vars[name] = v
			}
			if slices.Contains(loaded, name) {
				f.lost(program+" "+name, "it names files that programs load", s)
			}
		}
	case "hash", "enable", "bind":
		for _, w := range rest {
			f.operand(w, s, depth, true)
		}
	}
}

// operand returns the first word that is not an option.
func operand(words []word) string {
	for _, w := range words {
		if v := w.first(); v != "" && v[0] != '-' {
			return v
		}
	}
	return ""
}

// path follows a program that is named by its path.
func (f *follower) path(program string, name word, s *state, depth int) {
	there := false
	if strings.HasPrefix(program, "~/") && f.env["HOME"] != "" {
		program = filepath.Join(f.env["HOME"], program[2:])
	}
	for _, dir := range s.dirs {
		path := f.absolute(dir, program)
		regular, _ := isFile(path)
		if there = there || regular; regular {
			f.script(firstOf(name.values, program), path, s.dirs, depth)
		}
	}
	if filepath.IsAbs(program) && !systems(program) && f.root(program) == "" {
		s.stdin = s.stdin || s.writes // it may be the product of a file in the workspace
	}
	switch {
	case s.lost != "" && !filepath.IsAbs(program):
		f.lost(s.lost, quoteText(name.text)+" depends on it", s)
	case !there && f.root(f.absolute(f.q.Dir, program)) != "":
		f.lost(name.text, "it does not exist", s)
	}
}

func firstOf(values []string, otherwise string) string {
	if len(values) == 1 {
		return values[0]
	}
	return otherwise
}

// rest handles the arguments of a program that is not known to run others. Programs and scripts among them are covered anyway, and
// so is a possible command that begins with an interpreter.
func (f *follower) rest(words []word, s *state, depth int) {
	for i, w := range words {
		f.operand(w, s, depth, false)
		v := w.first()
		if option, value, ok := strings.Cut(v, "="); ok && option != "" {
			v = value
		}
		switch line := strings.TrimLeft(v, "! "); {
		case interprets(v) && i+1 < len(words): // the program may run another one with the following words
			known := len(f.Gaps)
			f.run(words[i:], s, depth+1)
			f.Gaps = f.Gaps[:known]
			return
		case strings.Contains(line, " ") && interprets(line[:strings.Index(line, " ")]):
			f.perhaps(line, s)
		}
	}
	f.loosen(words, s)
}

// interprets reports whether a word is the name of a shell or an interpreter.
func interprets(name string) bool {
	return slices.Contains([]kind{shell, python, modules}, kindOf(name))
}

// arguments handles the arguments of a program that starts no other program.
func (f *follower) arguments(words []word, s *state, depth int) {
	for _, w := range words {
		f.operand(w, s, depth, false)
	}
	f.loosen(words, s)
}

func (f *follower) loosen(words []word, s *state) { s.loose = append(s.loose, words...) }

// operand covers the files that a word names. run is set if whatever it names is run.
func (f *follower) operand(w word, s *state, depth int, run bool) {
	if w.covered {
		return
	}
	if run && w.glob {
		if !f.matched(w, s) {
			f.dynamic(w, s, depth)
		}
		return
	}
	for _, value := range w.values {
		if value == "" || value == "/dev/null" {
			continue
		}
		if parts := strings.FieldsFunc(value, glue); len(parts) > 1 {
			for _, part := range parts {
				f.setting(part, s, run)
			}
		}
		if value[0] == '-' {
			continue
		}
		if outside := func(dir string) bool { p := f.absolute(dir, value); return !systems(p) && f.root(p) == "" }; run && slices.ContainsFunc(s.dirs, outside) {
			s.stdin = s.stdin || s.writes || strings.HasPrefix(value, "/dev/") || strings.HasPrefix(value, "/proc/")
		}
		found := false
		for _, dir := range s.dirs {
			path := f.absolute(dir, value)
			regular, executable := isFile(path)
			switch {
			case regular && (run || executable || w.named || isScript(value)):
				f.script(value, path, s.dirs, depth)
				found = true
			case run && f.root(path) != "" && isFolder(path):
				if !f.folder(path, f.below(path)+" is an argument") {
					f.lost(w.text, "it is the whole workspace", s)
				}
				found = true
			}
		}
		if run && s.lost != "" && !filepath.IsAbs(value) {
			f.lost(s.lost, quoteText(w.text)+" depends on it", s)
		}
		if run && !found {
			f.missing(value, s)
		}
		if run && !found && (w.from || strings.Contains(value, "/")) && f.root(f.absolute(f.q.Dir, value)) != "" {
			f.lost(w.text, "it does not exist", s)
		}
	}
	if run && w.unknown {
		f.dynamic(w, s, depth)
	}
}

// missing notes a script that does not exist. A name without a folder or the suffix of scripts may be something else, such as a package.
func (f *follower) missing(value string, s *state) {
	named := filepath.IsAbs(value) || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") || isScript(value)
	if !named || len(s.dirs) == 0 {
		return
	}
	path := f.absolute(s.dirs[0], value)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && !slices.Contains(f.Missing, path) {
		f.Missing = append(f.Missing, path)
	}
}

// enter follows a cd.
func (f *follower) enter(rest []word, s *state) {
	for _, w := range rest {
		if len(w.values) == 1 && len(w.values[0]) > 1 && w.values[0][0] == '-' {
			continue
		}
		if _, ok := s.vars["CDPATH"]; ok || f.env["CDPATH"] != "" {
			s.lost = "cd " + w.text
		}
		dirs := slices.Clone(s.dirs)
		ok := !w.unknown && !w.glob && !w.is("-")
		for _, value := range w.values {
			for _, dir := range s.dirs {
				if path := f.absolute(dir, value); !slices.Contains(dirs, path) && len(dirs) < maxChoices {
					dirs = append(dirs, path)
					ok = ok && isFolder(path)
				}
			}
		}
		if s.dirs = dirs; !ok {
			s.lost = "cd " + w.text
		}
		return
	}
	if home := f.env["HOME"]; home != "" && !slices.Contains(s.dirs, home) {
		s.dirs = append(slices.Clone(s.dirs), home)
	}
}

// inPath returns a program in a root that PATH leads to. Sandboxed commands cannot change other programs.
func (f *follower) inPath(name string, s *state) string {
	lists := []string{f.env["PATH"]}
	if v, ok := s.vars["PATH"]; ok {
		lists = append(slices.Clone(v.values), lists...)
	}
	key := name + "\x00" + strings.Join(lists, "\x00")
	found, ok := f.programs[key]
	if !ok {
		found = f.search(name, lists)
		f.programs[key] = found
	}
	return found
}

// search looks in lists of folders for a program in a root.
func (f *follower) search(name string, lists []string) string {
	for _, list := range lists {
		for _, d := range filepath.SplitList(list) {
			p := f.absolute(f.q.Dir, filepath.Join(d, name))
			if _, executable := isFile(p); executable {
				if f.root(p) != "" {
					return p
				}
				break
			}
		}
	}
	return ""
}
