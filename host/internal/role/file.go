package role

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"go.yaml.in/yaml/v3"
)

// parseFile reads a role file. A file with an error is a role that can't be used, so that naming it says why.
func parseFile(f config.RoleFile) Role {
	r := Role{Name: strings.TrimSuffix(filepath.Base(f.Path), filepath.Ext(f.Path)), Source: f.Path}
	read := readMarkdown
	if filepath.Ext(f.Path) == ".toml" {
		read = readTOML
	}
	if err := read(&r, f.Text); err != nil {
		r.Problem = fmt.Errorf("%s: %w", f.Path, err)
	}
	for i, n := range r.Notes {
		r.Notes[i] = f.Path + ": " + n
	}
	return r
}

// fields are the settings of a role file that have not been read yet.
type fields map[string]any

// text reads a string.
func (f fields) text(name string) (string, error) {
	v, ok := f[name]
	delete(f, name)
	s, is := v.(string)
	if ok && v != nil && !is {
		return "", fmt.Errorf("%s is not a text", name)
	}
	return strings.TrimSpace(s), nil
}

// texts reads a list of strings, or a string with commas between them; nil: it is not set.
func (f fields) texts(name string) ([]string, error) {
	v, ok := f[name]
	delete(f, name)
	switch v := v.(type) {
	case string:
		return strings.Split(v, ","), nil
	case []any:
		out := []string{}
		for _, e := range v {
			s, is := e.(string)
			if !is {
				return nil, fmt.Errorf("%s contains something other than texts", name)
			}
			out = append(out, s)
		}
		return out, nil
	case nil:
		return nil, nil
	}
	if ok {
		return nil, fmt.Errorf("%s is not a list of texts", name)
	}
	return nil, nil
}

// number reads a positive whole number; 0: it is not set.
func (f fields) number(name string) (int, error) {
	v, ok := f[name]
	delete(f, name)
	n, is := v.(int)
	if ok && (!is || n < 1) {
		return 0, fmt.Errorf("%s is not a positive whole number", name)
	}
	return n, nil
}

// rest returns notes about the settings that were not read.
func (f fields) rest() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		out = append(out, fmt.Sprintf("%q has no effect in gantry", name))
	}
	return out
}

// identify reads the name and the description.
func (f fields) identify(r *Role) error {
	name, err := f.text("name")
	if err != nil {
		return err
	}
	if name != "" {
		if strings.ContainsFunc(name, func(c rune) bool { return c < ' ' }) || len(name) > 64 {
			return errors.New("the name is longer than 64 bytes or has control characters")
		}
		r.Name = name
	}
	r.Description, err = f.text("description")
	return err
}

// readMarkdown reads a Markdown file with frontmatter, as Claude Code has it: the text is the instructions.
func readMarkdown(r *Role, text string) error {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	head, body, ok := strings.Cut(strings.TrimPrefix(text, "---\n"), "\n---")
	rest, ends := strings.CutPrefix(body, "\n")
	if !strings.HasPrefix(text, "---\n") || !ok || !ends && body != "" {
		return errors.New("it does not begin with settings between two lines of ---")
	}
	f := fields{}
	if err := yaml.Unmarshal([]byte(head), (*map[string]any)(&f)); err != nil {
		return err
	}
	r.Instructions = strings.TrimSpace(rest)
	if err := f.identify(r); err != nil {
		return err
	}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	model, err := f.text("model")
	keep(err)
	if model != "inherit" {
		r.Model = model
	}
	tools, err := f.texts("tools")
	keep(err)
	without, err := f.texts("disallowedTools")
	keep(err)
	turns, err := f.number("maxTurns")
	keep(err)
	mode, err := f.text("permissionMode")
	keep(err)
	isolation, err := f.text("isolation")
	keep(err)
	if isolation != "" && isolation != "shared" {
		keep(fmt.Errorf("isolation %q is not supported", isolation))
	}
	r.Bounds = event.Bounds{Samplings: turns}
	if tools != nil {
		// A tool of which only some calls are allowed is left out, because the others can't be told apart.
		names, _ := toolNames(slices.DeleteFunc(slices.Clone(tools), func(n string) bool { return strings.Contains(n, "(") }))
		if _, parts := toolNames(tools); len(parts) > 0 {
			r.Notes = append(r.Notes, "left out, because a tool is allowed as a whole or not at all: "+strings.Join(parts, ", "))
		}
		if !slices.Contains(names, "*") {
			r.Bounds.Tools = [][]string{names}
		}
	}
	denied, parts := toolNames(without)
	if len(parts) > 0 {
		r.Notes = append(r.Notes, "denied as a whole: "+strings.Join(parts, ", "))
	}
	r.Bounds.Without = denied
	switch mode {
	case "", "default":
	case "plan":
		r.Bounds.Sandbox = readOnly
	default:
		r.Notes = append(r.Notes, fmt.Sprintf("permissionMode %q has no effect: an agent has at most the rights of the one that spawns it", mode))
	}
	r.Notes = append(r.Notes, f.rest()...)
	return errors.Join(errs...)
}

// readTOML reads a TOML file, as codex has it.
func readTOML(r *Role, text string) error {
	f := fields{}
	if _, err := toml.Decode(text, (*map[string]any)(&f)); err != nil {
		return err
	}
	if err := f.identify(r); err != nil {
		return err
	}
	var errs []error
	keep := func(s string, err error) string {
		errs = append(errs, err)
		return s
	}
	r.Instructions = keep(f.text("developer_instructions"))
	r.Model, r.Effort = keep(f.text("model")), keep(f.text("model_reasoning_effort"))
	if provider := keep(f.text("model_provider")); provider != "" && r.Model != "" {
		r.Model = provider + "/" + r.Model
	}
	switch mode := keep(f.text("sandbox_mode")); mode {
	case "", readOnly, workspaceWrite:
		r.Bounds.Sandbox = mode
	case "danger-full-access":
	default:
		errs = append(errs, fmt.Errorf("there is no sandbox_mode %q", mode))
	}
	names, err := f.texts("nickname_candidates")
	errs = append(errs, err, checkNicknames(names))
	r.Nicknames = names
	if r.Instructions == "" {
		errs = append(errs, errors.New("it has no developer_instructions"))
	}
	r.Notes = append(r.Notes, f.rest()...)
	return errors.Join(errs...)
}

// checkNicknames checks candidates for nicknames; codex-compatible.
func checkNicknames(names []string) error {
	for i, n := range names {
		switch {
		case strings.TrimSpace(n) == "":
			return errors.New("nickname_candidates contains an empty name")
		case slices.Contains(names[:i], n):
			return fmt.Errorf("nickname_candidates contains %q twice", n)
		case strings.Trim(n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_") != "":
			return fmt.Errorf("the nickname %q has characters other than letters, digits, blanks, dashes and underscores", n)
		}
	}
	return nil
}
