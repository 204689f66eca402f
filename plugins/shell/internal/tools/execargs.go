package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/plugins/shell/internal/shell"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Values of sandbox_permissions.
const (
	permissionsDefault   = "use_default"
	permissionsEscalated = "require_escalated"
	permissionsAdded     = "with_additional_permissions"
)

// execArgs are the arguments of exec_command. Optional ones may be null.
type execArgs struct {
	Cmd                string   `json:"cmd"`
	Workdir            string   `json:"workdir,omitempty"`
	TTY                bool     `json:"tty,omitempty"`
	YieldTimeMS        *uint64  `json:"yield_time_ms,omitempty"`
	MaxOutputTokens    *uint64  `json:"max_output_tokens,omitempty"`
	Shell              string   `json:"shell,omitempty"`
	Login              *bool    `json:"login,omitempty"`
	SandboxPermissions string   `json:"sandbox_permissions,omitempty"`
	Justification      string   `json:"justification,omitempty"`
	PrefixRule         []string `json:"prefix_rule,omitempty"`

	AdditionalPermissions *additional `json:"additional_permissions,omitempty"`
}

// additional contains single permissions beyond the sandbox.
type additional struct {
	Network *struct {
		Enabled bool `json:"enabled"`
	} `json:"network,omitempty"`
	FileSystem *struct {
		Read  []string `json:"read,omitempty"`
		Write []string `json:"write,omitempty"`
	} `json:"file_system,omitempty"`
}

// effects returns the requested permissions. Relative paths are resolved against cwd.
func (a *additional) effects(cwd string) []contract.Effect {
	var out []contract.Effect
	if a == nil {
		return nil
	}
	all := func(paths []string) []string {
		full := make([]string, len(paths))
		for i, p := range paths {
			full[i] = absolute(cwd, p)
		}
		return full
	}
	if f := a.FileSystem; f != nil {
		if len(f.Read) > 0 {
			out = append(out, contract.ReadEffect{Paths: all(f.Read)})
		}
		if len(f.Write) > 0 {
			out = append(out, contract.WriteEffect{Paths: all(f.Write)})
		}
	}
	if a.Network != nil && a.Network.Enabled {
		out = append(out, contract.NetworkEffect{Host: "*"})
	}
	return out
}

// property is a property of a hand-written schema. Names, types and order are fixed, because models are trained on them.
type property struct {
	name, kind, doc string
	enum            []string
	items           string
	properties      []property // of an object
}

// schema returns the schema of an object without additional properties.
func schema(required []string, properties ...property) json.RawMessage {
	if required == nil {
		required = []string{} // null is invalid in a schema
	}
	type node struct {
		Type        string          `json:"type"`
		Description string          `json:"description,omitempty"`
		Enum        []string        `json:"enum,omitempty"`
		Items       *node           `json:"items,omitempty"`
		Properties  map[string]node `json:"properties,omitempty"`
		Required    []string        `json:"required,omitzero"`
		Additional  *bool           `json:"additionalProperties,omitempty"` // of an object
	}
	var render func(properties []property) map[string]node
	render = func(properties []property) map[string]node {
		out := map[string]node{}
		for _, p := range properties {
			n := node{Type: p.kind, Description: p.doc, Enum: p.enum}
			if p.items != "" {
				n.Items = &node{Type: p.items}
			}
			if p.properties != nil {
				n.Properties, n.Additional = render(p.properties), new(false)
			}
			out[p.name] = n
		}
		return out
	}
	b, err := json.Marshal(node{Type: "object", Properties: render(properties), Required: required, Additional: new(false)})
	if err != nil { // impossible for strings and bools
		panic("tools: marshal schema: " + err.Error())
	}
	return b
}

func execSchema(c *Config) json.RawMessage {
	properties := []property{
		{name: "cmd", kind: "string", doc: "The command, as text for the shell."},
		{name: "workdir", kind: "string", doc: "Folder to run it in; relative paths start at the working directory, which is also the default."},
		{name: "yield_time_ms", kind: "number", doc: "How many milliseconds to wait for output before the call returns; 250 to 30000, default 10000. The command is not ended by it."},
		{name: "max_output_tokens", kind: "number", doc: "The most tokens of output to return, default 10000. Longer output loses its middle."},
		{name: "shell", kind: "string", doc: "Path of another shell to run it with; default is the user's."},
		{name: "sandbox_permissions", kind: "string", enum: []string{permissionsDefault, permissionsAdded, permissionsEscalated},
			doc: "require_escalated asks the user to run the command outside the sandbox, with_additional_permissions to give it what " +
				"additional_permissions names, inside. Default use_default."},
		{name: "additional_permissions", kind: "object", doc: "With with_additional_permissions only: what the command needs beyond the sandbox.", properties: []property{
			{name: "file_system", kind: "object", properties: []property{
				{name: "read", kind: "array", items: "string", doc: "Files and folders to read."},
				{name: "write", kind: "array", items: "string", doc: "Folders to write; they have to exist."},
			}},
			{name: "network", kind: "object", properties: []property{{name: "enabled", kind: "boolean"}}},
		}},
		{name: "justification", kind: "string", doc: "Unless use_default: one short question to the user that says why, such as \"Do you want to install the missing package?\""},
		{name: "prefix_rule", kind: "array", items: "string", doc: "With require_escalated only: the leading words of the command that the user may allow for later commands as well, for example [\"npm\", \"install\"]."},
	}
	if c.Terminal {
		properties = append(properties, property{name: "tty", kind: "boolean",
			doc: "Whether the command gets a terminal; needed to type into it later. Default false: no input, plain output."})
	}
	if c.Login {
		properties = append(properties, property{name: "login", kind: "boolean",
			doc: "Whether the shell reads the user's profile first. Default true; false is faster."})
	}
	return schema([]string{"cmd"}, properties...)
}

// command is the command that the arguments describe.
type command struct {
	text  string // as the model wrote it
	argv  []string
	cwd   string
	tty   bool
	login bool
	shell shell.Shell

	escalated     bool
	justification string
	prefixRule    []string
	additional    []contract.Effect
}

// command validates the arguments. The error's text is for the model.
func (f *shellPlugin) command(in execArgs, cwd string) (_ *command, err error) {
	c := &command{text: in.Cmd, cwd: cwd, tty: in.TTY, shell: f.shell, justification: in.Justification, prefixRule: in.PrefixRule}
	switch in.SandboxPermissions {
	case "", permissionsDefault:
		if in.Justification != "" {
			return nil, errors.New("`justification` requires an explicit `sandbox_permissions`; set it to `require_escalated`, " +
				"or leave `justification` out")
		}
		c.prefixRule = nil
	case permissionsEscalated:
		c.escalated = true
	case permissionsAdded:
		c.prefixRule = nil
	default:
		return nil, fmt.Errorf("failed to parse function arguments: field `sandbox_permissions`: unknown variant `%s`, expected `%s`, `%s` or `%s`",
			in.SandboxPermissions, permissionsDefault, permissionsAdded, permissionsEscalated)
	}
	login := f.config.Login
	if in.Login != nil {
		if *in.Login && !f.config.Login {
			//lint:ignore ST1005 codex answers with these words
			return nil, errors.New("login shell is disabled by config; omit `login` or set it to false.")
		}
		login = *in.Login
	}
	if in.TTY && !f.config.Terminal {
		//lint:ignore ST1005 codex answers with these words
		return nil, errors.New("TTY execution is disabled by config; omit `tty` or set it to false.")
	}
	if in.Shell != "" {
		c.shell = f.finder.Named(in.Shell)
	}
	if in.Workdir != "" {
		c.cwd = absolute(cwd, in.Workdir)
	}
	if c.additional, err = in.permissions(c.cwd); err != nil {
		return nil, err
	}
	c.argv, c.login = c.shell.Argv(in.Cmd, login), login
	return c, nil
}

// permissions returns the additional permissions, which require the corresponding mode.
func (in execArgs) permissions(cwd string) ([]contract.Effect, error) {
	if in.SandboxPermissions != permissionsAdded {
		if in.AdditionalPermissions != nil {
			return nil, errors.New("`additional_permissions` requires `sandbox_permissions` set to `" + permissionsAdded + "`; set it, or leave `additional_permissions` out")
		}
		return nil, nil
	}
	if in.AdditionalPermissions == nil {
		return nil, errors.New("missing `additional_permissions`; `sandbox_permissions` is `" + permissionsAdded + "`, so name what the command needs")
	}
	out := in.AdditionalPermissions.effects(cwd)
	if len(out) == 0 {
		return nil, errors.New("`additional_permissions` must name at least one permission: `network` or `file_system`")
	}
	return out, nil
}

func absolute(cwd, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(cwd, path)
}
