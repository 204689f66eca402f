package gitconfig

import "strings"

// Use is what git does with the value of a setting.
type Use int

// The uses that matter: the value is executed, or read as settings.
const (
	Nothing  Use = iota
	Program      // a command line or a program
	Hooks        // a folder of programs with fixed names
	Template     // a folder that is copied into new repositories
	Include      // a file of settings
)

// programs are the settings by which git starts programs, as section.key, or section.*.key for any subsection. Values that are not
// programs (true, auto) do not name a file either.
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

// Use returns what git does with the value.
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

// interpreters run the file that the next word names.
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
	// Of is the program, without its path, whose argument the word is: one that [Folder] or [Builds] knows, or "".
	Of string
	// Module says that the word is the name of a module, which Python searches in the current folder first.
	Module bool
}

// Python is the [Word.Of] of every version of Python.
const Python = "python"

// folders are programs that run what is in a folder that an argument names.
var folders = map[string]bool{
	Python: true, "pypy": true, "node": true, "nodejs": true, "deno": true, "bun": true, "tsx": true, "go": true, "ruby": true, "perl": true, "php": true, "java": true,
	"lua": true, "julia": true,
}

// Folder reports whether a program runs what is in a folder that it is given.
func Folder(of string) bool { return folders[of] }

// builds are programs that do what certain files say, in the current folder or in one that an argument names.
var builds = map[string][]string{
	"make": {"GNUmakefile", "makefile", "Makefile"}, "gmake": {"GNUmakefile", "makefile", "Makefile"}, "bmake": {"BSDmakefile", "makefile", "Makefile"},
	"just": {"justfile", "Justfile", ".justfile"}, "task": {"Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml"}, "npm": {"package.json", ".npmrc"},
	"pnpm": {"package.json", ".npmrc", ".pnpmfile.cjs"}, "yarn": {"package.json", ".yarnrc.yml"}, "rake": {"Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"}, "bundle": {"Gemfile"},
	"cargo": {"Cargo.toml", "build.rs", ".cargo/config.toml"}, "ninja": {"build.ninja"}, "mvn": {"pom.xml"}, "gradle": {"build.gradle", "build.gradle.kts", "settings.gradle"},
	"ant": {"build.xml"}, "tox": {"tox.ini"}, "nox": {"noxfile.py"}, "invoke": {"tasks.py"}, "inv": {"tasks.py"}, "composer": {"composer.json"}, "mage": {"magefile.go"},
	"scons": {"SConstruct"},
}

// Builds returns the files that a program obeys in a folder; none for other programs.
func Builds(of string) []string { return builds[of] }

// maxWords bounds the words of a line.
const maxWords = 1000

// Words returns the parts of a command line that may be paths. It does not follow the shell's grammar: whatever could be a path is
// a word, so that no way of quoting hides one.
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
			w.runs, w.file, w.of, w.module = true, false, "", false // the next word is a command
		case '\'', '"', '\\': // quotes only join a word
		case '$':
			for at+1 < len(line) && isName(line[at+1]) {
				at++
			}
		default:
			w.text = append(w.text, c)
		}
	}
	w.end()
	// A quoted text may be one path with blanks, and so may the whole line.
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
	runs bool // the next word is a program or an interpreter's file
	file bool // it is an interpreter's file
	of   string
	// module says that the next word is the name of a module.
	module bool
	out    []Word
}

// end completes the current word.
func (w *words) end() {
	text := strings.TrimLeft(string(w.text), "!@")
	w.text = w.text[:0]
	if text == "" {
		return
	}
	if name, value, ok := strings.Cut(text, "="); ok && !strings.Contains(name, "/") { // a variable or an option
		w.add(value, w.runs)
		return
	}
	if option := strings.TrimLeft(text, "-"); option != text {
		w.runs = w.runs || interpreters[text]
		switch i := strings.IndexByte(option, 'm'); {
		case w.of == Python && i >= 0 && text[1] != '-' && !strings.ContainsAny(option[:i], "cIPWX"): // with -I and -P it searches elsewhere
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

// add adds a word. A program without a slash is searched in PATH; an interpreter's file is not.
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
