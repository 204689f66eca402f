package install

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// builtinSources returns the built-in sources of a kind: those pinned by gantry's build, and those next to it.
func builtinSources(bin string, pinned map[string]string, kind contract.Kind) []string {
	found := map[string]bool{}
	add := func(file string) {
		if name, ok := strings.CutPrefix(file, "gantry-"+kind.String()+"-"); ok {
			found["builtin/"+name] = true
		}
	}
	for file := range pinned {
		add(file)
	}
	entries, _ := os.ReadDir(bin) // an unreadable folder adds nothing
	for _, e := range entries {
		add(e.Name())
	}
	return slices.Sorted(maps.Keys(found))
}

// unknownBuiltin returns an error if a block names a built-in program that does not exist.
func unknownBuiltin(b *config.PluginBlock, bin string, pinned map[string]string) error {
	if b.Program.Kind != source.Builtin {
		return nil
	}
	there := builtinSources(bin, pinned, b.Kind)
	if slices.Contains(there, b.Source) {
		return nil
	}
	d := diag.Diagnostic{
		Severity: diag.Error, Summary: fmt.Sprintf("unknown built-in %s %q", BlockType(b.Kind), b.Program.Name),
		Next: diag.DidYouMean(b.Source, there, "use the path of a program"),
	}
	for _, kind := range []contract.Kind{contract.KindProvider, contract.KindTool} {
		if kind != b.Kind && slices.Contains(builtinSources(bin, pinned, kind), b.Source) {
			d.Next = fmt.Sprintf("it is a %s: use `%[1]s %q { ... }`", BlockType(kind), b.Label)
		}
	}
	return diag.Failure{Diagnostics: diag.Diagnostics{b.Place(d)}}
}

// BlockType returns the type of the block that configures a plugin of this kind.
func BlockType(k contract.Kind) string {
	if k == contract.KindProvider {
		return "provider"
	}
	return "plugin"
}
