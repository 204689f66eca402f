package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// starter is the command-line syntax of a program that starts another one.
type starter struct {
	value   string   // short options whose value is attached or the next word
	flags   string   // short options without a value
	quiet   string   // short options with which nothing is started
	script  string   // short options whose value is a script
	long    []string // long options whose value may be the next word
	plain   []string // long options without a value
	scripts []string // long options whose value is a script
	sets    bool     // NAME=VALUE may precede the command
	skip    int      // operands before the command
	joined  bool     // the operands are one script
	more    bool     // the program appends arguments that it reads
}

// starters has the programs whose purpose is to start another one, by name. It is read-only.
var starters = map[string]starter{
	"builtin": {}, "noglob": {}, "nocorrect": {}, "-": {}, "nohup": {}, "catchsegv": {}, "busybox": {}, "toybox": {},
	"command": {flags: "p", quiet: "vV"},
	"exec":    {value: "a", flags: "cl"},
	"env": {value: "uCP", flags: "i0v", long: []string{"--unset", "--chdir", "--argv0"}, plain: []string{"--ignore-environment", "--null", "--debug"},
		sets: true, script: "S", scripts: []string{"--split-string"}},
	"time": {value: "fo", flags: "apvqlh", long: []string{"--format", "--output"}, plain: []string{"--append", "--verbose", "--portability", "--quiet"}},
	"timeout": {value: "ks", flags: "fpv", long: []string{"--kill-after", "--signal"},
		plain: []string{"--foreground", "--preserve-status", "--verbose"}, skip: 1},
	"nice":     {value: "n", flags: "0123456789", long: []string{"--adjustment"}},
	"ionice":   {value: "cnpPu", flags: "t", long: []string{"--class", "--classdata"}, plain: []string{"--ignore"}},
	"chrt":     {value: "TPD", flags: "bfiormaedv", skip: 1},
	"taskset":  {flags: "ac", skip: 1},
	"setsid":   {flags: "cfw", plain: []string{"--ctty", "--fork", "--wait"}},
	"setarch":  {flags: "vRFZLXBIST3", skip: 1},
	"linux32":  {flags: "vRFZLXBIST3"},
	"linux64":  {flags: "vRFZLXBIST3"},
	"stdbuf":   {value: "ioe", long: []string{"--input", "--output", "--error"}},
	"unbuffer": {flags: "p"},
	"choom":    {value: "np", long: []string{"--adjust", "--pid"}},
	"numactl":  {value: "imNCpP", flags: "al"},
	"sudo": {value: "CcDghpRrtTUu", flags: "AbBEeHiKklNnPSsVv", sets: true,
		long:  []string{"--user", "--group", "--host", "--prompt", "--chdir", "--chroot", "--role", "--type", "--close-from", "--command-timeout"},
		plain: []string{"--non-interactive", "--preserve-env", "--login", "--shell", "--set-home", "--background", "--stdin", "--askpass"}},
	"doas":    {value: "Cu", flags: "Lns"},
	"pkexec":  {long: []string{"--user"}, plain: []string{"--disable-internal-agent", "--keep-cwd"}},
	"run0":    {value: "ugD", long: []string{"--user", "--group", "--chdir", "--setenv", "--property", "--unit"}},
	"runuser": {value: "ugGsw", flags: "lmpf", script: "c", scripts: []string{"--command"}, long: []string{"--user", "--group", "--shell"}, plain: []string{"--login"}},
	"su": {value: "gGsw", flags: "lmpfP", script: "c", scripts: []string{"--command"}, long: []string{"--group", "--shell"},
		plain: []string{"--login", "--preserve-environment", "--pty"}, skip: 1},
	"script": {value: "EImBOoTt", flags: "aefq", script: "c", scripts: []string{"--command"}, skip: 1},
	"flock": {value: "wE", flags: "sxeuonFv", long: []string{"--timeout", "--wait", "--conflict-exit-code"},
		plain: []string{"--shared", "--exclusive", "--nonblock", "--close", "--no-fork", "--verbose"}, script: "c", scripts: []string{"--command"}, skip: 1},
	"chroot": {long: []string{"--userspec", "--groups"}, plain: []string{"--skip-chdir"}, skip: 1},
	"unshare": {value: "RwSG", flags: "imnpuUCTfrc", long: []string{"--root", "--wd", "--setuid", "--setgid", "--map-user", "--map-group", "--propagation"},
		plain: []string{"--user", "--map-root-user", "--fork", "--pid", "--net", "--mount", "--ipc", "--uts", "--mount-proc"}},
	"nsenter":          {value: "tSG", flags: "amuinpCUTrwFWeZ", long: []string{"--target", "--setuid", "--setgid"}},
	"strace":           {value: "abeEIoOPpsSuUX", flags: "cCdDfFhiknqrtTvVwxyYzZ"},
	"ltrace":           {value: "aAeFlnosuxpwD", flags: "bcCfhiLrStTV"},
	"systemd-inhibit":  {long: []string{"--what", "--who", "--why", "--mode"}},
	"dbus-run-session": {long: []string{"--config-file", "--dbus-daemon"}},
	"caffeinate":       {value: "tw", flags: "disum"},
	"systemd-run": {value: "HMptuE", flags: "PGdqrS", plain: []string{"--user", "--scope", "--pty", "--pipe", "--wait", "--collect", "--quiet"},
		long: []string{"--unit", "--property", "--description", "--slice", "--uid", "--gid", "--working-directory", "--setenv", "--on-active"}},
	"xargs": {value: "aEdILnPsR", flags: "0oprtx", more: true,
		long:  []string{"--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars", "--process-slot-var"},
		plain: []string{"--null", "--no-run-if-empty", "--verbose", "--interactive", "--exit", "--open-tty"}},
	"parallel": {value: "jNnLlaIPSd", flags: "0kqtuvX", long: []string{"--jobs", "--arg-file", "--delay", "--joblog", "--timeout", "--results"},
		plain: []string{"--keep-order", "--null", "--dry-run", "--bar", "--halt"}},
	"watch": {value: "nqs", flags: "bcdegprtwxC", long: []string{"--interval", "--equexit"}, joined: true,
		plain: []string{"--beep", "--color", "--differences", "--errexit", "--chgexit", "--precise", "--no-title", "--exec"}},
	"eval": {joined: true},

	"setpriv": {long: []string{"--reuid", "--regid", "--ruid", "--euid", "--rgid", "--egid", "--groups", "--inh-caps", "--ambient-caps", "--bounding-set", "--securebits", "--pdeathsig",
		"--selinux-label", "--apparmor-profile", "--landlock-access", "--landlock-rule"}, plain: []string{"--clear-groups", "--keep-groups", "--init-groups", "--no-new-privs", "--nnp", "--reset-env"}},
	"prlimit":    {value: "po", flags: "cdefilmnqrstuvxy", long: []string{"--pid", "--output"}, plain: []string{"--nofile", "--nproc", "--core", "--cpu", "--as", "--data", "--fsize", "--stack", "--rss", "--verbose"}},
	"fakeroot":   {value: "lsib", flags: "uhv", long: []string{"--lib", "--faked"}, plain: []string{"--unknown-is-real"}},
	"fakechroot": {value: "lce", flags: "sv", long: []string{"--lib", "--config-dir", "--environment"}},
	"repeat":     {skip: 1}, // of zsh
	"loader":     {long: []string{"--library-path", "--preload", "--argv0", "--inhibit-rpath", "--audit", "--glibc-hwcaps-prepend", "--glibc-hwcaps-mask"}, plain: []string{"--inhibit-cache", "--verify", "--list"}},
}

// isLoader reports whether a program is the dynamic loader, which can be called with the name of a program.
func isLoader(name string) bool {
	return name == "ld.so" || strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || strings.HasPrefix(name, "ld-2.") || strings.HasPrefix(name, "ld64.so")
}

// start extracts from the command that c starts.
func (x *extractor) start(name string, c Command, in input, depth int) {
	if isLoader(name) {
		name = "loader"
	}
	w := starters[name]
	for _, a := range c[1:] {
		if set, value, ok := strings.Cut(a.Text, "="); ok && w.sets && !strings.HasPrefix(set, "-") {
			x.assigned(set, Word{Text: value, Fixed: a.Fixed}, depth)
		}
	}
	rest, script, ok := w.split(c[1:])
	if script != nil && name == "env" { // it is split into words, which the other words follow
		words, known := Split(script.Text)
		if !known || !script.Fixed {
			x.unresolved(script.Text)
			return
		}
		rest, script = append(Fixed(words...), rest...), nil
	}
	if script != nil {
		x.text(Command{*script}, syntax.LangBash, depth+1)
	}
	switch {
	case !ok:
		// An unknown option may have a value, so every word may be the beginning of the command.
		for i := range rest {
			x.command(rest[i:], in, depth+1)
		}
	case len(rest) == 0:
	case name == "parallel": // its operands are a script
		end := slices.IndexFunc(rest, func(w Word) bool { return strings.HasPrefix(w.Text, ":::") })
		if end < 0 {
			end = len(rest)
		}
		x.unresolved(strings.Join(rest.Argv(), " "))
		x.text(rest[:end], syntax.LangBash, depth+1)
	case w.joined:
		x.text(rest, syntax.LangBash, depth+1)
	case w.more:
		rest = replaced(c[1:len(c)-len(rest)], rest)
		x.command(append(slices.Clip(slices.Clone(rest)), Word{Text: "what " + name + " reads"}), in, depth+1)
	default:
		x.command(rest, in, depth+1)
	}
}

// split returns the words after a starter's own; ok is false if there is an unknown option, after which rest begins.
func (w starter) split(args Command) (rest Command, script *Word, ok bool) {
	skip := w.skip
	for len(args) > 0 {
		a := args[0]
		switch {
		case !a.Fixed:
			return args, script, false
		case a.Text == "--":
			args = args[1:]
			for skip > 0 && len(args) > 0 {
				args, skip = args[1:], skip-1
			}
			return args, script, true
		case strings.HasPrefix(a.Text, "--"):
			name, value, attached := strings.Cut(a.Text, "=")
			isScript, takes := slices.Contains(w.scripts, name), slices.Contains(w.long, name)
			switch {
			case !attached && !isScript && !takes && !slices.Contains(w.plain, name):
				return args[1:], script, false
			case isScript && attached:
				script = &Word{Text: value, Fixed: true}
			case isScript && len(args) > 1:
				script, args = &args[1], args[1:]
			case takes && !attached && len(args) > 1:
				args = args[1:]
			}
		case len(a.Text) > 1 && a.Text[0] == '-':
			used, s, ok := w.short(a.Text[1:], args)
			if s != nil {
				script = s
			}
			if !ok {
				return args[1:], script, false
			}
			if used < 0 {
				return nil, script, true
			}
			args = args[used:]
		case w.sets && strings.Contains(a.Text, "="):
		case skip > 0:
			skip--
		default:
			return args, script, true
		}
		args = args[1:]
	}
	return nil, script, true
}

// short parses a cluster of short options. used is the number of words after it that are values; -1: nothing is started.
func (w starter) short(letters string, args Command) (used int, script *Word, ok bool) {
	for i, l := range letters {
		rest := letters[i+len(string(l)):]
		switch {
		case strings.ContainsRune(w.quiet, l):
			return -1, nil, true
		case strings.ContainsRune(w.script, l):
			if rest != "" {
				return 0, &Word{Text: rest, Fixed: true}, true
			}
			if len(args) > 1 {
				return 1, &args[1], true
			}
			return 0, nil, true
		case strings.ContainsRune(w.value, l):
			if rest == "" && len(args) > 1 {
				return 1, nil, true
			}
			return 0, nil, true
		case !strings.ContainsRune(w.flags, l):
			return 0, nil, false
		}
	}
	return 0, nil, true
}

// trap extracts from the action, which is a script.
func (x *extractor) trap(c Command, depth int) {
	args := c[1:]
	if len(args) > 0 && args[0].Fixed && args[0].Text == "--" {
		args = args[1:]
	}
	if len(args) > 1 {
		x.text(args[:1], syntax.LangBash, depth+1)
	}
}

// find extracts from the words after -exec and similar options, up to ; or +.
func (x *extractor) find(c Command, depth int) {
	for i, w := range c {
		switch w.Text {
		case "-exec", "-execdir", "-ok", "-okdir":
			rest := c[i+1:]
			if end := slices.IndexFunc(rest, func(w Word) bool { return w.Fixed && (w.Text == ";" || w.Text == "+") }); end >= 0 {
				rest = rest[:end]
			}
			if !x.spend(len(rest)) {
				return
			}
			x.command(found(rest), noInput, depth+1)
		}
	}
}

// fd extracts from the words after -x and -X.
func (x *extractor) fd(c Command, depth int) {
	for i, w := range c {
		switch w.Text {
		case "-x", "-X", "--exec", "--exec-batch":
			if !x.spend(len(c) - i) {
				return
			}
			x.command(append(found(c[i+1:]), Word{Text: "{}"}), noInput, depth+1)
		}
	}
}

// found marks the words in which names of files are inserted.
func found(c Command) Command {
	out := slices.Clone(c)
	for i := range out {
		if strings.Contains(out[i].Text, "{}") {
			out[i].Fixed = false
		}
	}
	return out
}

// replaced marks the words in which xargs replaces a text by what it reads.
func replaced(options, c Command) Command {
	out := found(c)
	for i, o := range options {
		mark, ok := strings.CutPrefix(o.Text, "-I")
		if long, is := strings.CutPrefix(o.Text, "--replace="); is {
			mark, ok = long, true
		}
		if ok && mark == "" && i+1 < len(options) {
			mark = options[i+1].Text
		}
		for j := range out {
			if ok && mark != "" && strings.Contains(out[j].Text, mark) {
				out[j].Fixed = false
			}
		}
	}
	return out
}

// alias extracts from the values, which are beginnings of commands.
func (x *extractor) alias(c Command, depth int) {
	for _, w := range c[1:] {
		if !w.Fixed {
			x.unresolved(w.Text)
			continue
		}
		if _, text, ok := strings.Cut(w.Text, "="); ok {
			x.script(text+` "$@"`, syntax.LangBash, depth+1)
		}
	}
}
