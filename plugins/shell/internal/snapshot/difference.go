package snapshot

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var (
	// volatile are variables that the shell sets by itself, or that differ from one to the next.
	volatile = regexp.MustCompile(`^(_|BASH.*|COLUMNS|DIRSTACK|EPOCH.*|E?UID|FUNCNAME|GANTRY_.*|GROUPS|HISTCMD|LINENO|LINES|OLDPWD|PIPESTATUS|PPID|PWD|` +
		`RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM)$`)
	// secret are names of what should not be handed on because a profile has it lying about.
	secret = regexp.MustCompile(`(?i)KEY|SECRET|TOKEN|PASSW|CREDENTIAL`)
	// agents live as long as the login that started them: what another one says of them is not true.
	agents = regexp.MustCompile(`^SSH_AGENT_PID$`)
)

// unrepeatableError says why there can be no snapshot.
type unrepeatableError string

func (e unrepeatableError) Error() string { return "the profile can't be repeated: " + string(e) }

// difference returns the script that makes after out of before.
func difference(before, after view) (string, error) {
	for _, name := range unrepeatable {
		if before[name] != after[name] {
			return "", unrepeatableError("it changes the " + name)
		}
	}
	var b strings.Builder
	// Options first, they decide how functions are read; aliases last, they would change what follows.
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

// newLines writes the lines that are new, except those about the named options.
func newLines(b *strings.Builder, before, after string, except ...string) {
	old := strings.Split(before, "\n")
	for line := range strings.SplitSeq(after, "\n") {
		named := slices.ContainsFunc(except, func(name string) bool { return strings.HasSuffix(line, " "+name) })
		if line != "" && !named && !slices.Contains(old, line) {
			b.WriteString(line + "\n")
		}
	}
}

// newStatements writes the statements that are new.
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

// declaration is one variable.
type declaration struct {
	name, text string
	exported   bool
	value      string // without quotes
	plain      bool   // value is what the variable holds
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

// escaped are the characters that a backslash stands before in double quotes.
var escaped = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`")

// literal returns the value of a word in double quotes; false for any other.
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

// newVariables writes the variables that are new. An exported one gives way to what the environment says.
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
				return unrepeatableError("its PATH is an odd one")
			}
			writePath(b, o.value, d.value)
		case o.exported: // given
		case d.exported && !there:
			fmt.Fprintf(b, "[ \"${%s+x}\" ] || %s\n", d.name, d.text)
		default:
			b.WriteString(d.text + "\n")
		}
	}
	return nil
}

// writePath writes how PATH changes. Where the profile keeps what was there, its own order holds; where it begins anew,
// what was there comes first and the rest behind it. So does a PATH that was another one from the start.
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

// isSubsequence reports whether all of a is in b, in the same order.
func isSubsequence(a, b []string) bool {
	for _, dir := range b {
		if len(a) > 0 && a[0] == dir {
			a = a[1:]
		}
	}
	return len(a) == 0
}

// quote writes a value so that the shell takes it as it is. Variables hold no NUL, which is all that can't be quoted.
func quote(s string) string {
	q, err := syntax.Quote(s, syntax.LangBash)
	if err != nil {
		return "''"
	}
	return q
}
