package plugintest

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

func checkLimits(_ context.Context, k *kit) verdict {
	if bad := k.host.invalidLimits(); bad != "" {
		return failed("use 0 for no limit", "it started a process with a negative limit: %s", bad)
	}
	return passed("no limit was negative")
}

func checkFolders(_ context.Context, k *kit) verdict {
	for _, r := range k.host.Spawned() {
		if len(r.GetFolders()) > 0 && !r.GetNarrow() {
			return failed("set `narrow` as well, or no folders", "it asked for folders of a process that is not narrow: %q", r.GetFolders())
		}
		for _, f := range r.GetFolders() {
			if !below(f, k.data) && !below(f, k.cache) {
				return failed("use a folder below ConfigureRequest.data_dir or cache_dir", "it asked for the folder %q", f)
			}
		}
	}
	return passed("no other folder was asked for")
}

// below reports whether an absolute path is inside a folder.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return filepath.IsAbs(path) && err == nil && rel != "." && filepath.IsLocal(rel)
}

func checkOwner(_ context.Context, k *kit) verdict {
	for _, r := range k.host.Spawned() {
		if r.GetOwner() == gantryv1.ProcessOwner_PROCESS_OWNER_ROOT && !r.GetSession() {
			return failed("set `session`, or leave the owner out", "it asked for a process of the root thread that is not a session: %q", r.GetArgv())
		}
	}
	return passed("no other process was to belong to the root thread")
}

func checkDeclared(_ context.Context, k *kit) verdict {
	if bad := k.host.invalidDeclared(); bad != "" {
		return failed("name a block of the configuration that has a command, and leave the rest to the block", "%s", bad)
	}
	return passed("no other process was named")
}

// checkCapabilities checks that the manifest declares the capabilities of all host services that the plugin has used so far.
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
