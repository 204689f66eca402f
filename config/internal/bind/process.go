package bind

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Process is a process that a block declares. See [contract.ConfigNestedBlock.Process].
type Process struct {
	Name            string          // see [contract.ProcessName]
	Path            []contract.Step // of the block
	Argv            []string        // the program as written, or its absolute path, and its arguments
	Cwd             string          // absolute; empty: not set
	Env             map[string]Secret
	Sandbox, Limits map[string]any // values by name, as in JSON; nil: there is no such block
	Disabled        bool           // its `enabled`, an attribute of the plugin's, is false
	Files           []string       // the configuration files that contain a part of the block, lowest layer first
}

// SandboxModes are the allowed values of mode in the sandbox block of a process.
var SandboxModes = []string{"read-only", "full-access"}

// processBlock returns the schema of what the host reads in a block that declares a process.
func processBlock() contract.ConfigBlock {
	text, number, list := json.RawMessage(`"string"`), json.RawMessage(`"number"`), json.RawMessage(`["list","string"]`)
	return contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{
			{Name: "command", Type: text, Description: "The program that gantry starts: a path, or a name that is searched for in PATH."},
			{Name: "args", Type: list, Description: "Its arguments."},
			{Name: "env", Type: json.RawMessage(`["map","string"]`), Sensitive: true,
				Description: "Variables of its environment, in addition to those of commands. The plugin does not see the values."},
			{Name: "cwd", Type: text, Path: true, Description: "Its folder. By default, the folder in which gantry works."},
		},
		Blocks: []contract.ConfigNestedBlock{
			{Name: "sandbox", MaxItems: 1, Block: contract.ConfigBlock{
				Description: "What the program may do. By default, it can read what commands can read, and neither write nor use the network.",
				Attributes: []contract.ConfigAttribute{
					{Name: "mode", Type: text, Allowed: SandboxModes, Description: "`full-access` runs it without a sandbox."},
					{Name: "network", Type: list, Description: "Hosts that it can reach, as in `network.allow`. It reaches them through gantry's proxy."},
					{Name: "writable_roots", Type: list, Path: true, Description: "Folders in which it can write, in addition to a private /tmp."},
					{Name: "readable_roots", Type: list, Path: true, Description: "If there are any, it can read only these, its folder, `writable_roots` and the system's programs."},
					{Name: "deny_read", Type: list, Description: "Patterns of files and folders that it can neither read nor write, as in the top-level `sandbox` block, whose patterns apply too. Relative ones apply below its folder and its roots."},
				},
			}},
			{Name: "limits", MaxItems: 1, Block: contract.ConfigBlock{
				Description: "Limits of the program and its descendants. Omitted ones are those of the top-level `limits` block, except `cpu_time`.",
				Attributes: []contract.ConfigAttribute{
					{Name: "memory", Type: text}, {Name: "pids", Type: number}, {Name: "cpu_time", Type: text}, {Name: "open_files", Type: number},
					{Name: "file_size", Type: text},
				},
			}},
		},
	}
}

// WithProcess returns the schema of a block that declares a process, including what the host reads.
func WithProcess(b contract.ConfigBlock) contract.ConfigBlock {
	p := processBlock()
	b.Attributes = append(slices.Clip(b.Attributes), p.Attributes...)
	b.Blocks = append(slices.Clip(b.Blocks), p.Blocks...)
	return b
}

// process takes what the host reads out of the value of a block, and leaves what the plugin gets.
func (d *decoder) process(n contract.ConfigNestedBlock, labels []string, pieces []piece, v map[string]any) {
	p := Process{Name: contract.ProcessName(n.Name, labels...), Path: []contract.Step{contract.Name(n.Name)}}
	for _, l := range labels {
		p.Path = append(p.Path, contract.Key(l))
	}
	for _, piece := range pieces {
		p.Files = append(p.Files, piece.header.Filename)
	}
	p.Sandbox, _ = v["sandbox"].(map[string]any)
	p.Limits, _ = v["limits"].(map[string]any)
	delete(v, "sandbox")
	delete(v, "limits")
	p.Cwd, _ = v["cwd"].(string)
	enabled, says := v["enabled"].(bool)
	p.Disabled = says && !enabled
	env, hasEnv := v["env"].(map[string]any)
	if hasEnv {
		v["env"] = d.variables(&p, env)
	}
	for _, name := range []string{"command", "cwd"} {
		d.public(&p, v[name], contract.Name(name))
	}
	command, _ := v["command"].(string)
	args, hasArgs := v["args"].([]any)
	p.Argv = []string{command}
	for i, a := range args {
		d.public(&p, a, contract.Name("args"), contract.Index(int64(i)))
		text, _ := a.(string)
		p.Argv = append(p.Argv, text)
	}
	if v["command"] != nil {
		d.command(&p, pieces)
		v["command"] = p.Argv[0]
		d.processes = append(d.processes, p)
		return
	}
	for name, set := range map[string]bool{"args": hasArgs, "env": hasEnv, "cwd": v["cwd"] != nil, "sandbox": p.Sandbox != nil, "limits": p.Limits != nil} {
		if set {
			d.wrong(&p, fmt.Sprintf("%q without a command", name), "It says something about a process, but the block starts none.",
				"add `command = \"PROGRAM\"`, or remove it", contract.Name(name))
		}
	}
}

// command makes the path of the program absolute: a relative one starts in the folder of the file that contains it.
func (d *decoder) command(p *Process, pieces []piece) {
	if p.Argv[0] == "" {
		d.wrong(p, `invalid value for "command"`, "It is empty.", "write a path, or a name that is searched for in PATH", contract.Name("command"))
	}
	if !strings.Contains(p.Argv[0], "/") {
		return
	}
	for _, piece := range slices.Backward(pieces) {
		if piece.scope == nil || !piece.has("command") {
			continue
		}
		path, err := piece.scope.Path(p.Argv[0])
		if err != nil {
			d.wrong(p, `invalid value for "command"`, err.Error()+".", "use an absolute path", contract.Name("command"))
			return
		}
		p.Argv[0] = path
		return
	}
}

// has reports whether a piece sets an attribute.
func (p piece) has(name string) bool {
	if p.body == nil {
		return len(p.rest) > 0 && p.rest[0] == name
	}
	attrs, _ := p.body.JustAttributes()
	return attrs[name] != nil
}

// variables takes the values of the variables, and returns their names for the plugin.
func (d *decoder) variables(p *Process, env map[string]any) []string {
	names := slices.Sorted(maps.Keys(env))
	p.Env = make(map[string]Secret, len(env))
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			d.wrong(p, fmt.Sprintf("invalid name of a variable: %q", name), "", "use letters, digits and underscores", contract.Name("env"))
		}
		handle, _ := env[name].(map[string]any)
		key, ok := handle["$secret"].(string)
		if !ok { // null
			names = slices.DeleteFunc(names, func(n string) bool { return n == name })
			continue
		}
		p.Env[name] = d.secrets[key]
		delete(d.secrets, key)
	}
	return names
}

// public reports a secret in a setting that everybody on the machine can see.
func (d *decoder) public(p *Process, v any, at ...contract.Step) {
	if _, secret := v.(map[string]any); secret {
		d.wrong(p, "a secret on a command line", "Other users of this machine can read the command lines of processes.",
			"pass it in `env`, or let the program read it itself", at...)
	}
}

// wrong reports an error in a block that declares a process.
func (d *decoder) wrong(p *Process, summary, detail, next string, at ...contract.Step) {
	d.ds = append(d.ds, d.Diagnose([]contract.Diagnostic{{
		Severity: contract.SeverityError, Summary: summary, Detail: detail, Next: next, Path: append(slices.Clip(p.Path), at...),
	}})...)
}

// DecodeProcesses is like Decode, and returns the processes that the block declares as well, in the order of the schema and the files.
func (b Block) DecodeProcesses(s contract.ConfigBlock, mode Mode) (jsonText []byte, secrets map[string]Secret, ps []Process, ds diag.Diagnostics) {
	d := &decoder{Block: b, mode: mode, secrets: make(map[string]Secret)}
	jsonText = d.decode(s)
	if jsonText == nil {
		return nil, nil, nil, d.ds
	}
	return jsonText, d.secrets, d.processes, d.ds
}

// Declares reports whether the block contains a nested block with a command. It needs no schema: in JSON, any object may be a block.
func (b Block) Declares() (found bool) {
	b.named(func(names []string, x hcl.Expression, f Fragment) {
		_, native := f.Body.(*hclsyntax.Body)
		_, notObject := hcl.ExprMap(x)
		found = found || len(names) > 1 && names[len(names)-1] == "command" || f.Body != nil && !native && !notObject.HasErrors()
	})
	return found
}
