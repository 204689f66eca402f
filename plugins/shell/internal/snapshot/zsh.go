package snapshot

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// readZshRC reads the configuration for interactive shells, which a login shell without a terminal skips.
const readZshRC = `if [ -r "${ZDOTDIR:-$HOME}/.zshrc" ]; then . "${ZDOTDIR:-$HOME}/.zshrc"; fi >/dev/null 2>&1 </dev/null` + "\n"

// zshSections print the state as lines that are commands, because zsh quotes line breaks. Options are printed first; the other sections use
// default options, so that the user's options can't affect their output.
var zshSections = []section{
	{"options", `() { \builtin typeset k; for k in ${(ko)options}; do [[ ${options[$k]} == on ]] && \builtin print -r -- setopt $k || \builtin print -r -- unsetopt $k; done }`},
	{"modules", `\builtin zmodload -L`},
	{"variables", `() { \builtin emulate -L zsh; \builtin typeset -p }`},
	{"programs", `\builtin print -r -- "$PATH"`},
	{"function path", `\builtin print -r -- "$FPATH"`},
	{"functions", zshFunctions},
	// zsh prints functions in a normalized form. This section prints them as they are after being parsed once more.
	{reread, `() { \builtin setopt localoptions noaliases; \builtin typeset k; for k in ${(k)functions}; do
[[ ${functions[$k]} == *'builtin autoload -X'* ]] || functions[$k]=${functions[$k]}; done }; ` + zshFunctions},
	{"styles", `\builtin zstyle -L`},
	{"named folders", `\builtin hash -dL`},
	{"mask", `\builtin print -rn -- 'umask '; \builtin umask`},
	{"aliases", `() { \builtin emulate -L zsh; \builtin typeset k
for k in ${(ko)aliases}; do \builtin print -r -- alias -- ${(qqqq)k}=${(qqqq)aliases[$k]}; done
for k in ${(ko)galiases}; do \builtin print -r -- alias -g -- ${(qqqq)k}=${(qqqq)galiases[$k]}; done
for k in ${(ko)saliases}; do \builtin print -r -- alias -s -- ${(qqqq)k}=${(qqqq)saliases[$k]}; done }`},
	{"folder", `\builtin pwd -r`},
	{"traps", `\builtin trap`},
	{"limits", `\builtin ulimit -S -a; \builtin ulimit -H -a`},
	{"disabled words", `\builtin disable; \builtin disable -f; \builtin disable -r; \builtin disable -a`},
}

// zshFunctions prints each function on one line. It omits the completion functions that have not been loaded, of which there are about a
// thousand.
const zshFunctions = `() { \builtin emulate -L zsh; \builtin typeset k b; for k in ${(ko)functions}; do b=$functions[$k]
if [[ $b == *'builtin autoload -X'* ]]; then b=${${b##*-X}%%[^a-zA-Z]*}; [[ $k == _* ]] || \builtin print -r -- autoload ${b:+-$b} -- ${(qqqq)k}
else b="${(q)k} () {"$'\n'$b$'\n}'; \builtin print -r -- eval ${(qqqq)b}; fi; done }`

var zshUnrepeatable = append(slices.Clone(unrepeatable[:]), "disabled words")

var (
	// zshVolatile matches variables that zsh itself sets, or that matter only at a terminal.
	zshVolatile = regexp.MustCompile(`^([^A-Za-z].*|argv|b|k|pipestatus|signals|status|E?[UG]ID|USERNAME|COLUMNS|LINES|EPOCH.*|HIST.*|SAVEHIST|LINENO|LISTMAX|OLDPWD|` +
		`PWD|PPID|RANDOM|SECONDS|SHLVL|TTY|TTYIDLE|TRY_BLOCK_.*|ZSH_(EXECUTION_STRING|EVAL_CONTEXT|SUBSHELL)|GANTRY_.*|` +
		`PS[1-4]|R?PS[12]|R?PROMPT[234]?|SPROMPT|prompt|psvar|PSVAR|zle_.*|comp(pre|post)funcs)$`)
	// zshFixed contains options that depend on how the shell was started.
	zshFixed = []string{"exec", "globalrcs", "interactive", "login", "monitor", "privileged", "rcs", "restricted", "shinstdin", "singlecommand", "zle"}
	// zshLate matches options that would affect the restoring of the state. They are set last.
	zshLate = regexp.MustCompile(`(?m)^(?:un)?setopt (?:allexport|errexit|errreturn|unset|verbose|warncreateglobal|warnnestedvar|xtrace)\n`)
	// zshInteractive matches modules for interactive use, which commands don't need.
	zshInteractive = regexp.MustCompile(`(?m)^zmodload zsh/(comp.*|zle.*|deltochar|parameter|main)\n`)
	zshStyles      = regexp.MustCompile(`(?m)^zstyle (-e )?':completion.*\n`)

	zshDeclaration = regexp.MustCompile(`^(typeset|export)((?: -[a-zA-Z0-9]+)*) (\w+)( \w+)?(=.*)?$`)
)

// zshDifference is the equivalent of difference for zsh.
func zshDifference(before, after view) (string, error) {
	if err := same(zshUnrepeatable, before, after); err != nil {
		return "", err
	}
	section := func(name string) string {
		var b strings.Builder
		newLines(&b, before[name], after[name])
		return b.String()
	}
	var b, options strings.Builder
	newLines(&options, before["options"], after["options"], zshFixed...)
	b.WriteString(zshLate.ReplaceAllString(options.String(), ""))
	b.WriteString(zshInteractive.ReplaceAllString(section("modules"), ""))
	had, has := strings.TrimSuffix(before["programs"], "\n"), strings.TrimSuffix(after["programs"], "\n")
	if strings.Contains(had+has, "\n") {
		return "", unrepeatableError("it sets an unusual PATH")
	}
	writePath(&b, had, has)
	if folders := strings.TrimSuffix(after["function path"], "\n"); folders != strings.TrimSuffix(before["function path"], "\n") {
		fmt.Fprintf(&b, "FPATH=%s\n", quote(folders))
	}
	if err := zshVariables(&b, before["variables"], after["variables"]); err != nil {
		return "", err
	}
	b.WriteString(section("functions"))
	b.WriteString(zshStyles.ReplaceAllString(section("styles"), ""))
	b.WriteString(section("named folders"))
	b.WriteString(section("mask"))
	b.WriteString(section("aliases"))
	for _, late := range zshLate.FindAllString(options.String(), -1) {
		b.WriteString(late)
	}
	return b.String(), nil
}

// zshVariables writes the variables that were added or changed. Variables in the command's environment take precedence over exported ones.
func zshVariables(b *strings.Builder, before, after string) error {
	was, exported := map[string]string{}, map[string]bool{}
	err := zshDeclarations(before, func(name, line string, export bool) error {
		was[name], exported[name] = line, export
		return nil
	})
	if err != nil {
		return err
	}
	return zshDeclarations(after, func(name, line string, export bool) error {
		old, there := was[name]
		switch {
		case old == line || secret.MatchString(name) || exported[name]: // the last: from the environment
		case agents.MatchString(name):
			return unrepeatableError("it starts an agent")
		case export && !there:
			fmt.Fprintf(b, "(( ${+%s} )) || %s\n", name, line)
		default:
			b.WriteString(line + "\n")
		}
		return nil
	})
}

// zshDeclarations calls each for all variables with a value. For a string and an array that are tied to each other, it calls it only for
// the string.
func zshDeclarations(text string, each func(name, line string, exported bool) error) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		m := zshDeclaration.FindStringSubmatch(line)
		if m == nil {
			if line == "" || strings.HasPrefix(line, "typeset ") && !strings.Contains(line, "=") {
				continue
			}
			if name, _, _ := strings.Cut(line, "="); zshSpecial.MatchString(name) {
				continue
			}
			return fmt.Errorf("read variables: unknown line %.40q", line)
		}
		word, flags, name, tied, value := m[1], m[2], m[3], m[4] != "", m[5]
		if value == "" || zshVolatile.MatchString(name) || name == "PATH" || name == "FPATH" || tied && strings.Contains(flags, "a") {
			continue
		}
		if err := each(name, line, word == "export" || strings.Contains(flags, "x")); err != nil {
			return err
		}
	}
	return nil
}

// zshSpecial matches special parameters.
var zshSpecial = regexp.MustCompile(`^(typeset|export)( -[a-zA-Z0-9]+)* [^A-Za-z_ ]+$`)
