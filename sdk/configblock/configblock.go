// Package configblock derives the schema of a plugin's config block from a Go struct, and fills the struct from the JSON into
// which the host converts the user's block.
//
// It owns: the struct tags, the mapping between Go types and schema types, defaults, checks with attribute paths, and
// [Secret]. It must not know: HCL, gRPC, which kind of plugin asks.
//
// The tags of an exported field:
//
//	json:"units"            name in the block, lower_snake; default: the field's name in lower_snake; "-": not configured
//	doc:"…"                 one sentence for people
//	default:"metric"        value if absent: plain text for strings, numbers, bools and durations, otherwise JSON
//	required:"true"         must be present; for a nested block: at least one
//	enum:"metric,imperial"  the allowed values; strings only
//	sensitive:"true"        never shown; the field's type must be [Secret]
//	path:"true"             a path on this machine; strings only. The value is absolute: a relative path is resolved against
//	                        the folder of the file that contains it
//	endpoint:"true"         the URL of a service that the plugin reaches through the host (tool.Env.HTTPClient), which lets it
//	                        connect to the URL's host; strings, and slices and maps of strings, without default
//	deprecated:"…"          what to use instead
//	label:"name"            inside a nested block: the field is the block's label
//
// The type of a field determines the type of the attribute: strings, bools, numbers, [time.Duration] (text such as "30s"),
// [encoding.TextUnmarshaler] (text), [Secret], slices (lists), maps with string keys, pointers (nil when absent),
// json.RawMessage and any (any value). A struct is a nested block that appears at most once, a slice of structs
// is a nested block that appears any number of times, and structs inside maps are objects. A nested block whose struct embeds
// [Process] can declare a process that the host starts for the plugin.
//
// Start with [Schema] and [Decode].
package configblock

import (
	"fmt"
	"reflect"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Schema derives the schema of the struct that ptr points to. A nil ptr results in an empty block. An error means that the
// struct itself is invalid, for example because a default is not among the allowed values; the plugin's author has to fix
// it.
func Schema(ptr any) (contract.ConfigBlock, error) {
	if ptr == nil {
		return contract.ConfigBlock{}, nil
	}
	b, err := blockOf(ptr)
	if err != nil {
		return contract.ConfigBlock{}, err
	}
	return b.schema()
}

// Decode fills the struct that ptr points to from the JSON of a block: an object whose attributes may be missing or null,
// with single nested blocks as objects and others as lists of objects. Diagnostics contain the path of the problem. If any
// of them is an error, the struct is unchanged; otherwise all its configured fields have been set, to the zero value if
// there is neither a value nor a default. A nil ptr accepts only an empty object.
func Decode(data []byte, ptr any) []contract.Diagnostic {
	if ptr == nil {
		ptr = &struct{}{}
	}
	b, err := blockOf(ptr)
	if err == nil {
		// The schema checks the defaults, and the plugin may not have created one.
		_, err = b.schema()
	}
	if err != nil {
		return []contract.Diagnostic{{Severity: contract.SeverityError, Summary: "invalid configuration type in the plugin", Detail: err.Error() + "."}}
	}
	target := reflect.ValueOf(ptr).Elem()
	fresh := reflect.New(target.Type()).Elem()
	d := decoder{}
	d.block(b, data, fresh, nil)
	if !d.failed {
		b.copy(target, fresh)
	}
	return d.diags
}

func blockOf(ptr any) (*block, error) {
	t := reflect.TypeOf(ptr)
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("configuration must be a pointer to a struct, not %s", t)
	}
	if reflect.ValueOf(ptr).IsNil() {
		return nil, fmt.Errorf("configuration is a nil %s", t)
	}
	b, err := newBlock(t.Elem(), nil)
	if err != nil {
		return nil, err
	}
	if b.process {
		return nil, fmt.Errorf("%s: only a nested block can declare a process", t)
	}
	for _, f := range b.fields {
		if f.label {
			return nil, fmt.Errorf("%s: field %q is a label, but the config block itself has none", t, f.name)
		}
	}
	return b, nil
}

// Process is embedded in the struct of a nested block that can declare a process. The host reads command, args, env, cwd, sandbox and
// limits in such a block, and starts the process when the plugin asks for it by the block's name and label, for example
// "server.github". The plugin sees what is started, but neither the values of its variables nor its sandbox. The block must have one
// label, or appear at most once, and the manifest needs the capability "spawn".
type Process struct {
	Command string   `json:"command"` // a path, or a name that is searched for in PATH; empty: the block declares no process
	Args    []string `json:"args"`
	Env     []string `json:"env"` // sorted names of the variables that the block sets
	Cwd     string   `json:"cwd"` // absolute; empty: the folder in which gantry works
}
