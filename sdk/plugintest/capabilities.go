package plugintest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkCapabilities looks at what the plugin has asked the host for so far, and at whether its manifest says so.
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
		return failed("add "+strings.Join(missing, ", ")+" to the manifest's capabilities, or do without", "it called %s", strings.Join(calls, ", "))
	}
	if len(used) == 0 {
		return passed("it asked for nothing")
	}
	return passed("it asked for %s", strings.Join(slices.Sorted(maps.Keys(used)), ", "))
}
