package plugintest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkCapabilities checks that the manifest declares the capabilities of all host services that the plugin has used so far.
func checkLimits(_ context.Context, k *kit) verdict {
	if bad := k.host.invalidLimits(); bad != "" {
		return failed("use 0 for no limit", "it started a process with a negative limit: %s", bad)
	}
	return passed("no limit was negative")
}

func checkDeclared(_ context.Context, k *kit) verdict {
	if bad := k.host.invalidDeclared(); bad != "" {
		return failed("name a block of the configuration that has a command, and leave the rest to the block", "%s", bad)
	}
	return passed("no other process was named")
}

func checkCapabilities(_ context.Context, k *kit) verdict {
	used := k.host.usedCapabilities()
	var missing, calls []string
	for _, capability := range slices.Sorted(maps.Keys(used)) {
		if !slices.Contains(k.manifest.Capabilities, capability) {
			missing = append(missing, fmt.Sprintf("%q", capability))
			calls = append(calls, used[capability])
		}
	}
	if len(missing) > 0 {
		return failed("add "+strings.Join(missing, ", ")+" to the manifest's capabilities, or don't use it", "it called %s", strings.Join(calls, ", "))
	}
	if len(used) == 0 {
		return passed("it used no capabilities")
	}
	return passed("it used %s", strings.Join(slices.Sorted(maps.Keys(used)), ", "))
}
