package snapshot

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var (
	// volatile matches variables that the shell itself sets, or that differ between shells.
	volatile = regexp.MustCompile(`^(_|BASH.*|COLUMNS|DIRSTACK|EPOCH.*|E?UID|FUNCNAME|GANTRY_.*|GROUPS|HISTCMD|LINENO|LINES|OLDPWD|PIPESTATUS|PPID|PWD|` +
		`RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM)$`)
	// secret matches variables that may contain secrets and should not be stored.
	secret = regexp.MustCompile(`(?i)KEY|SECRET|TOKEN|PASSW|CREDENTIAL`)
	// agents matches variables of agents, which end with the login that started them.
	agents = regexp.MustCompile(`^SSH_AGENT_PID$`)
)

// unrepeatableError is the reason why a profile can't have a snapshot.
type unrepeatableError string

func (e unrepeatableError) Error() string { return "the profile can't be repeated: " + string(e) }

// difference returns the script that changes the state before to after.
func difference(before, after view) (string, error) {
	if err := same(unrepeatable[:], before, after); err != nil {
		return "", err
	}
	var b strings.Builder
	// Options are first, because they affect how functions are parsed; aliases are last, because they would change other lines.
	newLines(&b, before["options"], after["options"], "login_shell", "restricted_shell")
	if err := newVariables(&b, before["variables"], after["variables"]); err != nil {
		return "", err
	}
	if err := newStatements(&b, before["functions"], after["functions"]); err != nil {
		return "", fmt.Errorf("read functions: %w", err)
	}
	for line := range strings.Lines(after["exported functions"]) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "declare -fx "); ok && !strings.Contains(before["exported functions"], line) {
			fmt.Fprintf(&b, "export -f -- %s\n", name)
		}
	}
	newLines(&b, before["mask"], after["mask"])
	newLines(&b, before["set"], after["set"])
	if err := newStatements(&b, before["aliases"], after["aliases"]); err != nil {
		return "", fmt.Errorf("read aliases: %w", err)
	}
	return b.String(), nil
}

// same returns an error if one of the sections, which a script can't reproduce, was changed.
func same(sections []string, before, after view) error {
	for _, name := range sections {
		if before[name] != after[name] {
			return unrepeatableError("it changes the " + name)
		}
	}
	return nil
}

// newLines writes the lines of after that are not in before, except those that end with one of the names.
func newLines(b *strings.Builder, before, after string, except ...string) {
	old := strings.Split(before, "\n")
	for line := range strings.SplitSeq(after, "\n") {
		named := slices.ContainsFunc(except, func(name string) bool { return strings.HasSuffix(line, " "+name) })
		if line != "" && !named && !slices.Contains(old, line) {
			b.WriteString(line + "\n")
		}
	}
}

// newStatements writes the statements of after that are not in before.
func newStatements(b *strings.Builder, before, after string) error {
	old, err := statements(before)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(old))
	for _, s := range old {
		known[s.text] = true
	}
	all, err := statements(after)
	if err != nil {
		return err
	}
	for _, s := range all {
		if !known[s.text] {
			b.WriteString(s.text + "\n")
		}
	}
	return nil
}

// declaration is the declaration of a variable.
type declaration struct {
	name, text string
	exported   bool
	value      string // without quotes
	plain      bool   // whether value is the variable's value
}

func declarations(text string) ([]declaration, error) {
	all, err := statements(text)
	if err != nil {
		return nil, fmt.Errorf("read variables: %w", err)
	}
	var out []declaration
	for _, s := range all {
		clause, ok := s.stmt.Cmd.(*syntax.DeclClause)
		if !ok || len(clause.Args) == 0 {
			return nil, fmt.Errorf("read variables: unknown statement %.40q", s.text)
		}
		last := clause.Args[len(clause.Args)-1]
		if last.Name == nil {
			return nil, fmt.Errorf("read variables: no name in %.40q", s.text)
		}
		d := declaration{name: last.Name.Value, text: s.text}
		for _, a := range clause.Args[:len(clause.Args)-1] {
			if a.Value != nil {
				d.exported = d.exported || strings.Contains(a.Value.Lit(), "x")
			}
		}
		if last.Value != nil {
			d.value, d.plain = literal(last.Value)
		}
		out = append(out, d)
	}
	return out, nil
}

// escaped removes the backslashes that are escapes in double quotes.
var escaped = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`")

// literal returns the value of a word in double quotes without expansions. It returns false for other words.
func literal(w *syntax.Word) (string, bool) {
	if len(w.Parts) != 1 {
		return "", false
	}
	quoted, ok := w.Parts[0].(*syntax.DblQuoted)
	if !ok || len(quoted.Parts) > 1 {
		return "", false
	}
	if len(quoted.Parts) == 0 {
		return "", true
	}
	lit, ok := quoted.Parts[0].(*syntax.Lit)
	if !ok {
		return "", false
	}
	return escaped.Replace(lit.Value), true
}

// newVariables writes the variables that were added or changed. Variables in the command's environment take precedence over exported ones.
func newVariables(b *strings.Builder, before, after string) error {
	old, err := declarations(before)
	if err != nil {
		return err
	}
	all, err := declarations(after)
	if err != nil {
		return err
	}
	was := make(map[string]declaration, len(old))
	for _, d := range old {
		was[d.name] = d
	}
	for _, d := range all {
		o, there := was[d.name]
		switch {
		case o.text == d.text || volatile.MatchString(d.name) || secret.MatchString(d.name):
		case agents.MatchString(d.name):
			return unrepeatableError("it starts an agent")
		case d.name == "PATH":
			if !d.plain || !o.plain {
				return unrepeatableError("it sets an unusual PATH")
			}
			writePath(b, o.value, d.value)
		case o.exported: // from the environment
		case d.exported && !there:
			fmt.Fprintf(b, "[ \"${%s+x}\" ] || %s\n", d.name, d.text)
		default:
			b.WriteString(d.text + "\n")
		}
	}
	return nil
}

// writePath writes the change of PATH. If the new value contains the folders of the old one in the same order, it is used as it is;
// otherwise its additional folders are appended to the old value. They are also appended if the command's PATH is a different one.
func writePath(b *strings.Builder, before, after string) {
	had, has := strings.Split(before, ":"), strings.Split(after, ":")
	var more []string
	for _, dir := range has {
		if !slices.Contains(had, dir) && !slices.Contains(more, dir) {
			more = append(more, dir)
		}
	}
	merged := after
	if !isSubsequence(had, has) {
		merged = strings.Join(append(had, more...), ":")
	}
	if merged == before {
		return
	}
	fmt.Fprintf(b, "case $PATH in\n%s) PATH=%s ;;\n*)\n", quote(before), quote(merged))
	for _, dir := range more {
		fmt.Fprintf(b, "case :$PATH: in *:%s:*) ;; *) PATH=$PATH:%[1]s ;; esac\n", quote(dir))
	}
	b.WriteString("esac\n")
}

// isSubsequence reports whether b contains the elements of a in the same order.
func isSubsequence(a, b []string) bool {
	for _, dir := range b {
		if len(a) > 0 && a[0] == dir {
			a = a[1:]
		}
	}
	return len(a) == 0
}

// quote quotes a value for the shell. Only NUL can't be quoted, which variables don't contain.
func quote(s string) string {
	q, err := syntax.Quote(s, syntax.LangBash)
	if err != nil {
		return "''"
	}
	return q
}
