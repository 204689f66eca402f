package gitconfig

import "strings"

// Use is what git does with what a setting names.
type Use int

// The uses that matter: what is executed, and what is read as settings.
const (
	Nothing  Use = iota
	Program      // the value is a line for a shell, or a program
	Hooks        // a folder of programs with fixed names
	Template     // a folder of which a copy becomes a new repository's own
	Include      // a file of settings
)

// programs are the settings by which git starts programs, as section.key; a section with a subsection has a star between. Values that
// are no programs (true, auto) name no file either.
var programs = map[string]bool{
	"core.fsmonitor": true, "core.editor": true, "core.pager": true, "core.sshcommand": true, "core.askpass": true, "core.gitproxy": true,
	"core.alternaterefscommand": true, "sequence.editor": true, "interactive.difffilter": true,
	"diff.external": true, "diff.*.command": true, "diff.*.textconv": true, "difftool.*.cmd": true, "difftool.*.path": true, "diff.guitool": true,
	"merge.*.driver": true, "mergetool.*.cmd": true, "mergetool.*.path": true,
	"filter.*.clean": true, "filter.*.smudge": true, "filter.*.process": true,
	"gpg.program": true, "gpg.*.program": true, "gpg.*.defaultkeycommand": true,
	"credential.helper": true, "credential.*.helper": true,
	"remote.*.uploadpack": true, "remote.*.receivepack": true, "remote.*.vcs": true, "uploadpack.packobjectshook": true,
	"submodule.*.update": true, "trailer.*.command": true, "trailer.*.cmd": true, "gc.recentobjectshook": true,
	"sendemail.smtpserver": true, "sendemail.tocmd": true, "sendemail.cccmd": true, "sendemail.headercmd": true, "sendemail.sendmailcmd": true,
	"sendemail.*.smtpserver": true, "sendemail.*.tocmd": true, "sendemail.*.cccmd": true, "sendemail.*.headercmd": true, "sendemail.*.sendmailcmd": true,
	"man.*.cmd": true, "man.*.path": true, "browser.*.cmd": true, "browser.*.path": true, "web.browser": true, "help.browser": true,
	"instaweb.httpd": true, "instaweb.browser": true, "guitool.*.cmd": true, "imap.tunnel": true, "tar.*.command": true,
	"lfs.*.path": true, "lfs.customtransfer.*.path": true, "hook.*.command": true,
}

// Use says what git does with the value.
func (s Setting) Use() Use {
	switch name := s.Section + "." + s.Key; {
	case s.Bare || s.Value == "":
		return Nothing
	case name == "core.hookspath" && !s.HasSub:
		return Hooks
	case name == "init.templatedir" && !s.HasSub:
		return Template
	case name == "include.path" && !s.HasSub, name == "includeif.path":
		return Include
	case s.Section == "alias":
		if strings.HasPrefix(strings.TrimSpace(s.Value), "!") {
			return Program
		}
	case s.Section == "pager" && !s.HasSub, !s.HasSub && programs[name], s.HasSub && programs[s.Section+".*."+s.Key]:
		return Program
	case s.Section == "remote" && (s.Key == "url" || s.Key == "pushurl") && strings.Contains(s.Value, "::"): // ext::sh -c …
		return Program
	}
	return Nothing
}

// interpreters run the file that a word behind them names.
var interpreters = map[string]bool{
	"sh": true, "bash": true, "zsh": true, "dash": true, "ksh": true, "fish": true, "python": true, "python2": true, "python3": true, "node": true,
	"nodejs": true, "deno": true, "bun": true, "tsx": true, "ruby": true, "perl": true, "php": true, "lua": true, "Rscript": true, "awk": true, "gawk": true,
	"source": true, ".": true, "exec": true, "env": true, "command": true, "run": true, "make": true, "-f": true, "pwsh": true, "tclsh": true, "java": true,
}

// scripts are the ends of the names of files that some program runs.
var scripts = []string{".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".awk", ".ps1", ".jar", ".tcl"}

// Word is a part of a line that may name a file.
type Word struct {
	Text string
	// Runs says that the word stands where a program, or the file of an interpreter, stands, or is called like a script: a file of
	// that name is executed whatever its mode.
	Runs bool
	// Of is the program of [Folders] or [Builds] whose argument the word is, without its path; empty: none.
	Of string
	// Module says that the word is a module's name, which Python looks for in the folder first.
	Module bool
}

// Python is the name in [Word.Of] of every version of it.
const Python = "python"

// folders are programs that run what lies in a folder that an argument names.
var folders = map[string]bool{
	Python: true, "pypy": true, "node": true, "nodejs": true, "deno": true, "bun": true, "tsx": true, "go": true, "ruby": true, "perl": true, "php": true, "java": true,
	"lua": true, "julia": true,
}

// Folder reports whether a program of this name runs what lies in a folder that it is given.
func Folder(of string) bool { return folders[of] }

// builds are programs that run what certain files say, in a folder that an argument names or in the one in which they are started.
var builds = map[string][]string{
	"make": {"GNUmakefile", "makefile", "Makefile"}, "gmake": {"GNUmakefile", "makefile", "Makefile"}, "bmake": {"BSDmakefile", "makefile", "Makefile"},
	"just": {"justfile", "Justfile", ".justfile"}, "task": {"Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml"}, "npm": {"package.json", ".npmrc"},
	"pnpm": {"package.json", ".npmrc", ".pnpmfile.cjs"}, "yarn": {"package.json", ".yarnrc.yml"}, "rake": {"Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"}, "bundle": {"Gemfile"},
	"cargo": {"Cargo.toml", "build.rs", ".cargo/config.toml"}, "ninja": {"build.ninja"}, "mvn": {"pom.xml"}, "gradle": {"build.gradle", "build.gradle.kts", "settings.gradle"},
	"ant": {"build.xml"}, "tox": {"tox.ini"}, "nox": {"noxfile.py"}, "invoke": {"tasks.py"}, "inv": {"tasks.py"}, "composer": {"composer.json"}, "mage": {"magefile.go"},
	"scons": {"SConstruct"},
}

// Builds are the files that a program of this name runs in a folder; none: it is no such program.
func Builds(of string) []string { return builds[of] }

// maxWords bounds what is looked at in a line.
const maxWords = 1000

// Words are the parts of a line that may be paths. It does not follow the shell's grammar: everything that could be a path is one, so that
// no way of quoting hides any.
func Words(line string) []Word {
	w := words{runs: true}
	for at := 0; at < len(line) && len(w.out) < maxWords; at++ {
		switch c := line[at]; c {
		case ' ', '\t', '\r', ',', '<', '>':
			w.end()
		case ':':
			w.end()
			if at > 0 && line[at-1] == ':' { // ext::sh -c …
				w.runs, w.file = true, false
			}
		case '\n', ';', '|', '&', '(', ')', '{', '}', '`':
			w.end()
			w.runs, w.file, w.of, w.module = true, false, "", false // a command begins, or what follows one in its place
		case '\'', '"', '\\': // which only hold a word together
		case '$':
			for at+1 < len(line) && isName(line[at+1]) {
				at++
			}
		default:
			w.text = append(w.text, c)
		}
	}
	w.end()
	// What stands in quotes may have blanks in it, and so may the whole.
	for _, quote := range []string{`"`, "'"} {
		for i, text := range strings.Split(line, quote) {
			if i%2 == 1 && len(w.out) < maxWords && strings.ContainsAny(text, " \t,:") {
				w.out = append(w.out, Word{Text: text, Runs: true})
			}
		}
	}
	if strings.ContainsAny(line, " \t,:") {
		w.out = append(w.out, Word{Text: line, Runs: true})
	}
	return w.out
}

type words struct {
	text []byte
	runs bool // the next word stands where a program does, or the file of an interpreter
	file bool // it is the latter
	of   string
	// module says that the next word is the name of a module.
	module bool
	out    []Word
}

// end takes what was collected as a word.
func (w *words) end() {
	text := strings.TrimLeft(string(w.text), "!@")
	w.text = w.text[:0]
	if text == "" {
		return
	}
	if name, value, ok := strings.Cut(text, "="); ok && !strings.Contains(name, "/") { // a variable, an option
		w.add(value, w.runs)
		return
	}
	if option := strings.TrimLeft(text, "-"); option != text {
		w.runs = w.runs || interpreters[text]
		switch i := strings.IndexByte(option, 'm'); {
		case w.of == Python && i >= 0 && text[1] != '-' && !strings.ContainsAny(option[:i], "cIPWX"): // with -I and -P it looks elsewhere
			if w.module = i == len(option)-1; !w.module {
				w.out = append(w.out, Word{Text: option[i+1:], Of: w.of, Module: true})
			}
		case strings.Contains(option, "/"):
			w.add(option, w.runs)
			w.add(option[1:], w.runs) // of -Ipath
		case w.of != "" && len(option) > 1:
			w.out = append(w.out, Word{Text: option[1:], Of: w.of})
		}
		return
	}
	if w.module {
		w.module = false
		w.out = append(w.out, Word{Text: text, Of: w.of, Module: true})
		return
	}
	base := text[strings.LastIndexByte(text, '/')+1:]
	bare := strings.TrimRight(base, "0123456789.")
	if w.runs || w.of == "" {
		switch {
		case folders[bare]:
			w.of = bare
		case len(builds[base]) > 0:
			w.of = base
		}
	}
	w.add(text, w.runs)
	w.runs = interpreters[base] || interpreters[bare]
	w.file = w.runs
}

// add adds a word. A program without a slash is looked for elsewhere; the file of an interpreter is not.
func (w *words) add(text string, runs bool) {
	if text != "" {
		w.out = append(w.out, Word{Text: text, Runs: runs && (w.file || strings.Contains(text, "/")) || isScript(text), Of: w.of})
	}
}

func isName(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isScript(text string) bool {
	for _, end := range scripts {
		if strings.HasSuffix(strings.ToLower(text), end) {
			return true
		}
	}
	return false
}
