package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/cli/run"
	"github.com/gantry-agent/gantry/host/internal/form"
	"github.com/gantry-agent/gantry/host/internal/install"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Short makes `gantry LABEL COMMAND` run a command of the plugin with that label, where gantry has no command of that name: neither
// LABEL, nor COMMAND if LABEL only groups commands of gantry's.
func Short(env *console.Env, root *cobra.Command) {
	a := &app{env}
	root.Flags().SetInterspersed(false) // what follows the label belongs to the plugin's command
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		m, err := a.commandsOf(cmd, args[0])
		switch {
		case err != nil:
			return err
		case m == nil:
			return console.UnknownCommand(cmd, args[0])
		}
		return a.runTree(cmd, root, m, args)
	}
	root.ValidArgsFunction = a.completeShort
	for _, group := range root.Commands() {
		if isGroup(group) {
			a.extend(root, group)
		}
	}
}

// isGroup reports whether a command of gantry's only groups others.
func isGroup(cmd *cobra.Command) bool { return cmd.HasSubCommands() && !cmd.Runnable() }

// extend adds the commands of the plugin of the same name to a group of gantry's commands.
func (a *app) extend(root, group *cobra.Command) {
	group.Annotations = map[string]string{console.PluginCommands: group.Name()}
	group.Flags().SetInterspersed(false)
	group.Args = cobra.ArbitraryArgs
	group.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		m, err := a.commandsOf(cmd, group.Name())
		switch {
		case err != nil:
			return err
		case m == nil || !slices.ContainsFunc(m.Commands, func(c contract.CommandSpec) bool { return c.Name == args[0] }):
			return a.unknownIn(cmd, args[0])
		}
		return a.runTree(cmd, root, m, append([]string{group.Name()}, args...))
	}
	group.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == group {
			cmd.SetContext(root.Context())
			if m, err := a.commandsOf(cmd, group.Name()); err == nil && m != nil { // otherwise the help is that of gantry's commands
				for _, spec := range m.Commands {
					if !owns(group, spec.Name) {
						group.AddCommand(a.short(group.Name(), spec))
					}
				}
			}
		}
		root.HelpFunc()(cmd, args)
	})
	group.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.completeShort(cmd, append([]string{group.Name()}, args...), begun)
	}
}

// unknownIn returns the error for an unknown command in a group of gantry's. It may be one of the built-in plugin of the group's name, if that
// has no block.
func (a *app) unknownIn(group *cobra.Command, given string) error {
	err := console.UnknownCommand(group, given)
	u, ok := errors.AsType[console.UsageError](err)
	name := group.Name()
	home, homeErr := a.Home()
	if !ok || homeErr != nil || a.Builtins["gantry-tool-"+name] == "" {
		return err
	}
	cfg, ds := a.ReadConfig(group.Context(), home, a.Dir)
	if ds.Err() != nil || cfg == nil {
		return err
	}
	if _, there := cfg.Plugin(name); there {
		return err
	}
	u.Text += fmt.Sprintf(": the plugin %q, which has further commands, is not configured", name)
	u.Next = fmt.Sprintf("`gantry plugin add builtin/%s` adds its block, plugin %q { source = \"builtin/%s\" }; %s", name, name, name, u.Next)
	return u
}

// runTree runs a command of a plugin. args begin with the plugin's label.
func (a *app) runTree(cmd, root *cobra.Command, m *contract.Manifest, args []string) error {
	tree := a.tree(root, args[0], m)
	tree.SetArgs(args)
	return tree.ExecuteContext(cmd.Context())
}

// commandsOf returns the manifest of the plugin with a label; nil: there is no such plugin.
func (a *app) commandsOf(cmd *cobra.Command, label string) (m *contract.Manifest, err error) {
	home, err := a.Home()
	if err != nil {
		return nil, err
	}
	cfg, _ := a.ReadConfig(cmd.Context(), home, a.Dir)
	if cfg == nil || !slices.ContainsFunc(cfg.Blocks(), func(b *config.PluginBlock) bool { return b.Label == label }) {
		return nil, nil
	}
	err = a.withPrograms(cmd, func(ctx context.Context, p *install.Programs) error {
		b, err := p.Block(label)
		if err != nil {
			return err
		}
		pr := p.Look(b)
		switch {
		case pr.Manifest != nil:
		case pr.Problem != nil:
			return pr.Problem
		default:
			if _, err := p.Describe(ctx, &pr, b.Kind); err != nil {
				return err
			}
		}
		m = pr.Manifest
		return nil
	})
	return m, err
}

// tree returns the commands of a plugin, with gantry's global flags.
func (a *app) tree(root *cobra.Command, label string, m *contract.Manifest) *cobra.Command {
	top := &cobra.Command{Use: root.Name(), SilenceErrors: true, SilenceUsage: true}
	top.CompletionOptions.DisableDefaultCmd = true
	top.SetOut(a.Stdout)
	top.SetErr(a.Stderr)
	top.SetFlagErrorFunc(console.FlagError)
	top.PersistentFlags().AddFlagSet(root.PersistentFlags())
	of := &cobra.Command{Use: label, Short: "Run a command of the plugin " + label, Long: render.Clean(m.Description)}
	for _, spec := range m.Commands {
		of.AddCommand(a.short(label, spec))
	}
	top.AddCommand(of)
	a.Strict(top)
	return top
}

// short returns a command of a plugin.
func (a *app) short(label string, spec contract.CommandSpec) *cobra.Command {
	in := inputOf(spec.InputSchema)
	var raw string
	var yes, project bool
	var c run.Call
	cmd := &cobra.Command{
		Use: strings.TrimSpace(spec.Name + " [flags] " + in.usage()), Short: render.OneLine(spec.Description, 200), Long: render.Clean(spec.Description),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			input, err := in.read(cmd, raw, args, a.fileText)
			if err != nil {
				return err
			}
			return a.runPlugin(ctx, label, pluginset.CommandRun{Name: spec.Name, Input: input, Asker: console.CommandAsker{Env: a.Env}, Confirmed: yes}, a.editing(label, project, yes), c)
		},
	}
	f := cmd.Flags()
	if spec.CallsTool {
		c.Define(f)
		c.DefineSession(f)
	} else {
		f.BoolVar(&c.JSON, "json", false, "print JSON")
	}
	f.StringVar(&raw, "input", "", "the whole input as a `JSON` object; flags and arguments change it")
	confirming(f, &yes, &project)
	in.define(f)
	return cmd
}

// completeShort completes labels, commands, flags and their values. It starts no plugin.
func (a *app) completeShort(cmd *cobra.Command, args []string, begun string) (out []string, _ cobra.ShellCompDirective) {
	home, err := a.Home()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cfg, ds := a.ReadConfig(cmd.Context(), home, a.Dir)
	if ds.Err() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	p, err := a.ProgramsOf(cfg, home)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer p.Close(cmd.Context())
	directive := cobra.ShellCompDirectiveNoFileComp
	var words []string
	for _, b := range p.Blocks() {
		if len(args) > 0 && b.Label != args[0] || len(args) == 0 && owns(cmd.Root(), b.Label) {
			continue
		}
		m := p.Look(b).Manifest
		if m == nil || len(m.Commands) == 0 {
			continue
		}
		if len(args) == 0 {
			words = append(words, b.Label+"\tcommands of the plugin")
			continue
		}
		if len(args) == 1 {
			for _, c := range m.Commands {
				words = append(words, c.Name+"\t"+render.OneLine(c.Description, 80))
			}
			continue
		}
		if i := slices.IndexFunc(m.Commands, func(c contract.CommandSpec) bool { return c.Name == args[1] }); i >= 0 {
			words, directive = inputOf(m.Commands[i].InputSchema).complete(args[len(args)-1], begun)
		}
	}
	for _, w := range words {
		if word, _, _ := strings.Cut(w, "\t"); strings.HasPrefix(word, begun) {
			out = append(out, w)
		}
	}
	return out, directive
}

// owns reports whether gantry has a command of that name, below another one.
func owns(root *cobra.Command, name string) bool {
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) })
}

// input is the input of a plugin's command, as the command line takes it.
type input struct{ fields []inputField }

// inputField is a property of the input.
type inputField struct {
	name, flag, doc string
	kind            inputKind
	item            string   // JSON type of the value, or of the values of a list or map
	values          []string // the permitted values; nil: any
	required        bool
	file            bool // the value is the content of the file that is named
}

type inputKind int

const (
	scalar  inputKind = iota
	list              // of scalars; the flag can be repeated
	mapping           // of names to texts; the flag is repeated with NAME=VALUE
	anyJSON           // anything else, as JSON
)

// inputOf reads the schema of a command's input. Properties that flags can't express take JSON.
func inputOf(schema json.RawMessage) (in input) {
	type property struct {
		Type, Format         string
		Description          string
		Enum                 []any
		Items                *property
		AdditionalProperties json.RawMessage
	}
	var s struct {
		Required   []string
		Properties json.RawMessage
	}
	if json.Unmarshal(schema, &s) != nil {
		return in
	}
	plain := func(t string) bool { return t == "string" || t == "integer" || t == "number" }
	names, schemas := form.Members(s.Properties)
	for i, name := range names {
		raw := schemas[i]
		var p property
		if json.Unmarshal(raw, &p) != nil { // the types of a property may be a list
			p = property{}
		}
		f := inputField{name: name, flag: strings.ReplaceAll(name, "_", "-"), doc: render.OneLine(p.Description, 200), kind: anyJSON, required: slices.Contains(s.Required, name)}
		var values property
		switch {
		case plain(p.Type) || p.Type == "boolean":
			f.kind, f.item = scalar, p.Type
		case p.Type == "array" && p.Items != nil && plain(p.Items.Type):
			f.kind, f.item, p.Enum = list, p.Items.Type, p.Items.Enum
		case p.Type == "object" && json.Unmarshal(p.AdditionalProperties, &values) == nil && values.Type == "string":
			f.kind, f.item = mapping, "string"
		}
		f.file = f.kind == scalar && p.Format == "file"
		for _, v := range p.Enum {
			f.values = append(f.values, render.OneLine(fmt.Sprint(v), 80))
		}
		in.fields = append(in.fields, f)
	}
	// Required properties come first, in their own order, as arguments do.
	slices.SortStableFunc(in.fields, func(a, b inputField) int { return order(s.Required, a) - order(s.Required, b) })
	return in
}

// order returns the place of a property among the arguments.
func order(required []string, f inputField) int {
	if i := slices.Index(required, f.name); i >= 0 {
		return i
	}
	return len(required)
}

// rest returns the list that takes the arguments behind those of required properties; nil: there is none.
func (in input) rest() *inputField {
	i := slices.IndexFunc(in.fields, func(f inputField) bool { return f.kind == list })
	if i < 0 {
		return nil
	}
	return &in.fields[i]
}

// usage returns the arguments of the command.
func (in input) usage() string {
	var words []string
	for _, f := range in.fields {
		if f.required && f.kind != list {
			words = append(words, strings.ToUpper(f.flag))
		}
	}
	if f := in.rest(); f != nil {
		words = append(words, "["+strings.ToUpper(f.flag)+"...]")
	}
	return strings.Join(words, " ")
}

// define adds a flag for each property. A name that gantry uses gets a prefix.
func (in input) define(f *pflag.FlagSet) {
	for i := range in.fields {
		x := &in.fields[i]
		if f.Lookup(x.flag) != nil || slices.Contains(globalFlags, x.flag) {
			x.flag = "input-" + x.flag
		}
		doc := x.doc
		if x.values != nil {
			doc = strings.TrimSpace(doc + " (" + strings.Join(x.values, ", ") + ")")
		}
		switch {
		case x.kind == list:
			f.StringArray(x.flag, nil, doc+" (can be repeated)")
		case x.kind == mapping:
			f.StringArray(x.flag, nil, strings.TrimSuffix(doc, ".")+", as NAME=VALUE (can be repeated)")
		case x.item == "boolean":
			f.Bool(x.flag, false, doc)
		default:
			f.String(x.flag, "", doc)
		}
	}
}

// globalFlags are gantry's own, and those of every command.
var globalFlags = []string{"config", "set", "profile", "home", "color", "ignore-user-config", "log", "help", "version"}

// maxFile bounds the size in bytes of a file whose content is part of the input.
const maxFile = 8 << 20

// fileText returns the content of a file; "-" is standard input.
func (a *app) fileText(path string) (string, error) {
	if path == "-" {
		return console.ReadText(a.Stdin, maxFile)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return console.ReadText(f, maxFile)
}

// read returns the input that flags and arguments make. open returns the content of a file.
func (in input) read(cmd *cobra.Command, raw string, args []string, open func(path string) (string, error)) (json.RawMessage, error) {
	object := map[string]json.RawMessage{}
	if raw != "" && (json.Unmarshal([]byte(raw), &object) != nil || object == nil) {
		return nil, console.UsageError{Text: fmt.Sprintf("--input is not a JSON object: %q", render.OneLine(raw, 80)), Next: `write it as in '{"name": "value"}'`}
	}
	f := cmd.Flags()
	for _, x := range in.fields {
		if !f.Changed(x.flag) {
			continue
		}
		var texts []string
		if x.kind == list || x.kind == mapping {
			texts, _ = f.GetStringArray(x.flag) // its type is known
		} else {
			texts = []string{f.Lookup(x.flag).Value.String()}
		}
		if err := x.set(object, texts, "--"+x.flag, open); err != nil {
			return nil, err
		}
	}
	for _, x := range in.fields {
		if _, there := object[x.name]; !x.required || x.kind == list || there || len(args) == 0 {
			continue
		}
		if err := x.set(object, args[:1], strings.ToUpper(x.flag), open); err != nil {
			return nil, err
		}
		args = args[1:]
	}
	if x := in.rest(); x != nil && len(args) > 0 && object[x.name] == nil {
		if err := x.set(object, args, strings.ToUpper(x.flag), open); err != nil {
			return nil, err
		}
		args = nil
	}
	if len(args) > 0 {
		return nil, console.UsageError{Text: fmt.Sprintf("unexpected argument %q for `%s`", args[0], cmd.CommandPath()), Next: fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
	}
	for _, x := range in.fields {
		if _, there := object[x.name]; x.required && !there {
			return nil, console.UsageError{Text: strings.ToUpper(x.flag) + " is missing", Next: fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
		}
	}
	return json.Marshal(object)
}

// set puts a property into the input. given is where the texts come from.
func (x inputField) set(object map[string]json.RawMessage, texts []string, given string, open func(path string) (string, error)) error {
	values := make([]json.RawMessage, len(texts))
	pairs := map[string]string{}
	for i, text := range texts {
		if x.file {
			content, err := open(text)
			if err != nil {
				return console.UsageError{Text: fmt.Sprintf("can't read %s %q: %v", given, render.OneLine(text, 80), console.PathReason(err)), Next: "name a file, or - for standard input"}
			}
			text = content
		}
		v, err := x.value(text)
		if err == nil && x.kind == mapping {
			name, value, ok := strings.Cut(text, "=")
			if !ok || name == "" {
				err = errors.New("write it as NAME=VALUE")
			}
			pairs[name] = value
		}
		if err != nil {
			return console.UsageError{Text: fmt.Sprintf("invalid value %q for %s: %v", render.OneLine(text, 80), given, err)}
		}
		values[i] = v
	}
	var err error
	switch x.kind {
	case list:
		object[x.name], err = json.Marshal(values)
	case mapping:
		object[x.name], err = json.Marshal(pairs)
	default:
		object[x.name] = values[0]
	}
	return err
}

// value converts the text of one value.
func (x inputField) value(text string) (json.RawMessage, error) {
	if x.values != nil && !slices.Contains(x.values, text) {
		return nil, fmt.Errorf("it must be one of %s", strings.Join(x.values, ", "))
	}
	switch {
	case x.kind == anyJSON:
		if !json.Valid([]byte(text)) {
			return nil, errors.New("it is not JSON")
		}
		return json.RawMessage(text), nil
	case x.item == "string":
		return json.Marshal(text)
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err == nil {
		switch n := v.(type) {
		case bool:
			if x.item == "boolean" {
				return json.RawMessage(text), nil
			}
		case float64:
			if x.item == "number" || x.item == "integer" && n == float64(int64(n)) {
				return json.RawMessage(text), nil
			}
		}
	}
	return nil, fmt.Errorf("it is not of the type %s", x.item)
}

// complete returns the flags, or the values of the flag before the word that is typed.
func (in input) complete(before, begun string) ([]string, cobra.ShellCompDirective) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	in.define(f)
	if name, ok := strings.CutPrefix(before, "--"); ok {
		if i := slices.IndexFunc(in.fields, func(x inputField) bool { return x.flag == name }); i >= 0 && in.fields[i].item != "boolean" {
			if in.fields[i].values == nil {
				return nil, cobra.ShellCompDirectiveDefault // perhaps a file
			}
			return in.fields[i].values, cobra.ShellCompDirectiveNoFileComp
		}
	}
	if !strings.HasPrefix(begun, "-") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words := []string{"--json\tprint JSON", "--input\tthe whole input as JSON"}
	for _, x := range in.fields {
		words = append(words, "--"+x.flag+"\t"+x.doc)
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
