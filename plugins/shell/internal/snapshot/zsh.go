package snapshot

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// readZshRC is what a login shell leaves out because nobody types into it.
const readZshRC = `if [ -r "${ZDOTDIR:-$HOME}/.zshrc" ]; then . "${ZDOTDIR:-$HOME}/.zshrc"; fi >/dev/null 2>&1 </dev/null` + "\n"

// zshSections print the state as lines that can be run again, each on its own: zsh quotes line breaks. Options are printed as
// they are, and put aside for the rest, whatever they make of the language.
var zshSections = []section{
	{"options", `() { \builtin typeset k; for k in ${(ko)options}; do [[ ${options[$k]} == on ]] && \builtin print -r -- setopt $k || \builtin print -r -- unsetopt $k; done }`},
	{"modules", `\builtin zmodload -L`},
	{"variables", `() { \builtin emulate -L zsh; \builtin typeset -p }`},
	{"programs", `\builtin print -r -- "$PATH"`},
	{"function path", `\builtin print -r -- "$FPATH"`},
	{"functions", zshFunctions},
	// zsh writes down what it has read in other words than what it reads: after this the functions are what a script makes of them.
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

// zshFunctions prints each function as one line. Those of the completion that nobody has needed yet are left out: there are a
// thousand.
const zshFunctions = `() { \builtin emulate -L zsh; \builtin typeset k b; for k in ${(ko)functions}; do b=$functions[$k]
if [[ $b == *'builtin autoload -X'* ]]; then b=${${b##*-X}%%[^a-zA-Z]*}; [[ $k == _* ]] || \builtin print -r -- autoload ${b:+-$b} -- ${(qqqq)k}
else b="${(q)k} () {"$'\n'$b$'\n}'; \builtin print -r -- eval ${(qqqq)b}; fi; done }`

var zshUnrepeatable = append(slices.Clone(unrepeatable[:]), "disabled words")

var (
	// zshVolatile are variables that zsh sets by itself, or that only somebody at a terminal sees.
	zshVolatile = regexp.MustCompile(`^([^A-Za-z].*|argv|b|k|pipestatus|signals|status|E?[UG]ID|USERNAME|COLUMNS|LINES|EPOCH.*|HIST.*|SAVEHIST|LINENO|LISTMAX|OLDPWD|` +
		`PWD|PPID|RANDOM|SECONDS|SHLVL|TTY|TTYIDLE|TRY_BLOCK_.*|ZSH_(EXECUTION_STRING|EVAL_CONTEXT|SUBSHELL)|GANTRY_.*|` +
		`PS[1-4]|R?PS[12]|R?PROMPT[234]?|SPROMPT|prompt|psvar|PSVAR|zle_.*|comp(pre|post)funcs)$`)
	// zshFixed are options that say how the shell was started.
	zshFixed = []string{"exec", "globalrcs", "interactive", "login", "monitor", "privileged", "rcs", "restricted", "shinstdin", "singlecommand", "zle"}
	// zshLate are options that would change what the rest of the state comes to.
	zshLate = regexp.MustCompile(`(?m)^(?:un)?setopt (?:allexport|errexit|errreturn|unset|verbose|warncreateglobal|warnnestedvar|xtrace)\n`)
	// zshInteractive are modules for typing. What they hold is of no use to a command.
	zshInteractive = regexp.MustCompile(`(?m)^zmodload zsh/(comp.*|zle.*|deltochar|parameter|main)\n`)
	zshStyles      = regexp.MustCompile(`(?m)^zstyle (-e )?':completion.*\n`)

	zshDeclaration = regexp.MustCompile(`^(typeset|export)((?: -[a-zA-Z0-9]+)*) (\w+)( \w+)?(=.*)?$`)
)

// zshDifference is difference for zsh.
func zshDifference(before, after view) (string, error) {
	for _, name := range zshUnrepeatable {
		if before[name] != after[name] {
			return "", unrepeatableError("it changes the " + name)
		}
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
		return "", unrepeatableError("its PATH is an odd one")
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

// zshVariables writes the variables that are new. An exported one gives way to what the environment says.
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
		case old == line || secret.MatchString(name) || exported[name]: // the last one: given
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

// zshDeclarations calls each for every variable whose value is shown. Of a text and an array that are one variable in two
// forms that is the text.
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

// zshSpecial are parameters whose names are no names of variables.
var zshSpecial = regexp.MustCompile(`^(typeset|export)( -[a-zA-Z0-9]+)* [^A-Za-z_ ]+$`)
