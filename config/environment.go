package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/schema"
)

// environment reads which variables the processes of tools get.
func (b block) environment(set block) Environment {
	return Environment{
		Inherit: cmp.Or(b.text("inherit"), schema.InheritAll), DefaultExcludes: b.flag("default_excludes", true),
		Exclude: b.patterns("exclude"), IncludeOnly: b.patterns("include_only"), Set: set.variables(nil),
	}
}

// patterns reads patterns for names of variables.
func (b block) patterns(name string) []string {
	items := b.list(name)
	for _, i := range items {
		if i.text == "" || strings.ContainsAny(i.text, "= \t\n\x00[]{}") {
			b.errorAt(i.at, fmt.Sprintf("invalid value for %q", name), fmt.Sprintf("%q is not a valid pattern for the name of a variable.", i.text),
				`write a name in which * stands for any characters and ? for one, for example "AWS_*"`)
		}
	}
	return texts(items)
}

// variables reads a block whose arguments are environment variables. refuse may report a name that is not allowed in the block.
func (b block) variables(refuse func(name string) (refused bool)) map[string]string {
	var out map[string]string
	for _, name := range slices.Sorted(maps.Keys(b.n.attrs)) {
		at := b.n.attrs[name].at
		if reservedEnv(name) {
			b.errorAt(at, fmt.Sprintf("environment variable %q is reserved for gantry", name),
				"The host sets variables whose names start with GANTRY_ or PLUGIN_.", "remove it, or choose another name")
			continue
		}
		if refuse != nil && refuse(name) {
			continue
		}
		v, ok := b.string(name)
		if !ok {
			continue
		}
		if strings.ContainsRune(v, 0) {
			b.errorAt(at, fmt.Sprintf("invalid value for %q", name), "It contains a zero byte.", "remove the byte")
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[name] = v
	}
	return out
}
