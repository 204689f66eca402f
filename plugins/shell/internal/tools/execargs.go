package tools

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/plugins/shell/internal/shell"
)

// permissions that a model may ask for.
const (
	permissionsDefault   = "use_default"
	permissionsEscalated = "require_escalated"
)

// execArgs are the arguments of exec_command. What is optional may also be null.
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
}

// property is one property of a schema that is written by hand: the contract with models fixes names, types and order.
type property struct {
	name, kind, doc string
	enum            []string
	items           string
}

// schema renders an object schema that allows nothing else.
func schema(required []string, properties ...property) json.RawMessage {
	if required == nil {
		required = []string{} // null is no schema
	}
	type node struct {
		Type        string   `json:"type"`
		Description string   `json:"description,omitempty"`
		Enum        []string `json:"enum,omitempty"`
		Items       *node    `json:"items,omitempty"`
	}
	object := struct {
		Type                 string          `json:"type"`
		Properties           map[string]node `json:"properties"`
		Required             []string        `json:"required"`
		AdditionalProperties bool            `json:"additionalProperties"`
	}{Type: "object", Properties: map[string]node{}, Required: required}
	for _, p := range properties {
		n := node{Type: p.kind, Description: p.doc, Enum: p.enum}
		if p.items != "" {
			n.Items = &node{Type: p.items}
		}
		object.Properties[p.name] = n
	}
	b, err := json.Marshal(object)
	if err != nil { // strings and bools only
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
		{name: "sandbox_permissions", kind: "string", enum: []string{permissionsDefault, permissionsEscalated},
			doc: "require_escalated asks the user to run the command outside the sandbox. Default use_default."},
		{name: "justification", kind: "string", doc: "With require_escalated only: one short question to the user that says why, such as \"Do you want to install the missing package?\""},
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

// command is what the arguments come down to.
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
}

// refusal is why a call can't be made, as the model reads it.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// command checks the arguments. The error's text is for the model.
func (f *family) command(in execArgs, cwd string) (*command, error) {
	c := &command{text: in.Cmd, cwd: cwd, tty: in.TTY, shell: f.shell, justification: in.Justification, prefixRule: in.PrefixRule}
	switch in.SandboxPermissions {
	case "", permissionsDefault:
		if in.Justification != "" {
			return nil, refusal("`justification` requires an explicit `sandbox_permissions`; set it to `require_escalated`, " +
				"or leave `justification` out")
		}
		c.prefixRule = nil
	case permissionsEscalated:
		c.escalated = true
	default:
		return nil, fmt.Errorf("failed to parse function arguments: field `sandbox_permissions`: unknown variant `%s`, expected `%s` or `%s`",
			in.SandboxPermissions, permissionsDefault, permissionsEscalated)
	}
	login := f.config.Login
	if in.Login != nil {
		if *in.Login && !f.config.Login {
			return nil, refusal("login shell is disabled by config; omit `login` or set it to false.")
		}
		login = *in.Login
	}
	if in.TTY && !f.config.Terminal {
		return nil, refusal("TTY execution is disabled by config; omit `tty` or set it to false.")
	}
	if in.Shell != "" {
		c.shell = f.finder.Named(in.Shell)
	}
	if in.Workdir != "" {
		c.cwd = absolute(cwd, in.Workdir)
	}
	c.argv, c.login = c.shell.Argv(in.Cmd, login), login
	return c, nil
}

func absolute(cwd, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(cwd, path)
}
