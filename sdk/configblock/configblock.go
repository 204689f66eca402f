// Package configblock turns a Go struct into the schema of a plugin's config block and fills the struct from the JSON
// that the host makes of the user's block.
//
// It owns: the struct tags, the mapping between Go types and schema types, defaults, checks with attribute paths, and
// [Secret]. It must not know: HCL, gRPC, which kind of plugin asks.
//
// The tags of an exported field:
//
//	json:"units"            name in the block, lower_snake; default: the field's name in lower_snake; "-": not configured
//	doc:"…"                 one sentence for people
//	default:"metric"        value when absent: plain text for strings, numbers, bools and durations, else JSON
//	required:"true"         must be there; for a nested block: at least one
//	enum:"metric,imperial"  the only values allowed; strings only
//	sensitive:"true"        shown nowhere; the field's type must be [Secret]
//	path:"true"             a path on this machine; strings only. It arrives absolute: a relative one starts in the folder of
//	                        the file that it is written in
//	deprecated:"…"          what to use instead
//	label:"name"            inside a nested block: the field is the block's label
//
// A field's type decides what the attribute holds: strings, bools, numbers, [time.Duration] (text such as "30s"),
// [encoding.TextUnmarshaler] (text), [Secret], slices (lists), maps with string keys, pointers (nil when absent),
// json.RawMessage and any (whatever there is). A struct is a nested block that appears at most once, a slice of structs
// is a nested block that appears any number of times, and structs inside maps are objects.
//
// Start with [Schema] and [Decode].
package configblock

import (
	"fmt"
	"reflect"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Schema derives the schema of the struct that ptr points to. A nil ptr gives an empty block. An error means that the
// struct itself is wrong, for example a default that is not among the allowed values; it is the author's to fix.
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

// Decode fills the struct that ptr points to from the JSON of a block: an object in which attributes may be missing or
// null, single nested blocks are objects and others lists of objects. Diagnostics carry the path of what they are about.
// When an error is among them the struct is left as it was; else all its configured fields have been set, to the zero
// value where there is neither a value nor a default. A nil ptr accepts an empty object only.
func Decode(data []byte, ptr any) []contract.Diagnostic {
	if ptr == nil {
		ptr = &struct{}{}
	}
	b, err := blockOf(ptr)
	if err == nil {
		// Defaults are checked where the schema is made; a plugin that skipped this must not run on half of them.
		_, err = b.schema()
	}
	if err != nil {
		return []contract.Diagnostic{{Severity: contract.SeverityError, Summary: "the plugin's configuration type is wrong", Detail: err.Error() + "."}}
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
	for _, f := range b.fields {
		if f.label {
			return nil, fmt.Errorf("%s: field %q is a label, but the config block itself has none", t, f.name)
		}
	}
	return b, nil
}
