package plugintest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A host restricts the process of a tool plugin to its permissions. These checks restrict or watch one kind of permission at a
// time, and run the examples that answer again.

// capabilityNetwork is the capability for network access.
const capabilityNetwork = "network"

// restriction restricts a process.
type restriction struct {
	offline  bool     // it can neither connect to TCP ports nor listen on them
	readOnly bool     // it can't write
	writes   []string // except in these folders
}

// rerunExamples runs the examples that answer in a process that is started with change, and returns the first error. look is
// called before the process is ended.
func (k *kit) rerunExamples(ctx context.Context, change func(*spawn), look func(*process)) (answered int, err error) {
	p, err := k.fresh(ctx, change)
	if err != nil {
		return 0, err
	}
	defer p.kill()
	for _, i := range k.withBehaviour(Answers) {
		if before := k.examples[i]; before == nil || before.failure() != nil || before.result.GetIsError() {
			continue // it fails without the change as well, which other checks report
		}
		t, err := k.perform(ctx, p, k.cfg.Calls[i], nil)
		if err == nil {
			err = t.failure()
		}
		if err == nil && t.result.GetIsError() {
			err = fmt.Errorf("%s: it returned the error %s", t.what, says(t.result))
		}
		if err != nil {
			return answered, err
		}
		answered++
	}
	if look != nil {
		look(p)
	}
	return answered, nil
}

func checkNetwork(ctx context.Context, k *kit) verdict {
	if slices.Contains(k.manifest.Capabilities, capabilityNetwork) {
		return skipped("", "it declares the capability %q", capabilityNetwork)
	}
	if err := restrictionSupported(restriction{offline: true}); err != nil {
		return skipped("", "%v", err)
	}
	n, err := k.rerunExamples(ctx, func(s *spawn) { s.restriction = &restriction{offline: true} }, nil)
	if err != nil {
		return failed("add \"network\" to the manifest's capabilities and document permissions { network = [\"*\"] }, or don't use the network", "without network access: %v", err)
	}
	return passed("%d examples succeed without network access", n)
}

func checkWrites(ctx context.Context, k *kit) verdict {
	h := restriction{readOnly: true, writes: append([]string{k.data, k.cache, k.tmp}, k.cfg.Writes...)}
	if err := restrictionSupported(h); err != nil {
		return skipped("", "%v", err)
	}
	n, err := k.rerunExamples(ctx, func(s *spawn) { s.restriction = &h }, nil)
	if err != nil {
		return failed("write only to the data and cache folders of Configure and to TMPDIR, and let the host start programs that change other files; if permissions { write } grants more, list it in the kit's writes",
			"when it can write only to its own folders: %v", err)
	}
	return passed("%d examples succeed", n)
}

// userKeys are files in the user's home that hosts hide from plugins.
var userKeys = []string{".ssh/id_ed25519", ".gnupg/private-keys-v1.d/key", ".aws/credentials", ".kube/config"}

func checkReads(ctx context.Context, k *kit) verdict {
	home := filepath.Join(k.dir, "decoy")
	var paths []string
	for _, name := range userKeys {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return broken(err)
		}
		if err := os.WriteFile(path, []byte("not a key"), 0o600); err != nil {
			return broken(err)
		}
		paths = append(paths, path)
	}
	opened, err := watchOpens(paths)
	if err != nil {
		return skipped("", "%v", err)
	}
	n, err := k.rerunExamples(ctx, func(s *spawn) { s.env = append(s.env, "HOME="+home) }, nil)
	names := opened()
	if len(names) > 0 {
		for i, name := range names {
			names[i] = "~" + strings.TrimPrefix(name, home)
		}
		return failed("don't read the user's keys, which a host hides; declare a sensitive attribute in the config block instead", "it opened %s", strings.Join(names, ", "))
	}
	if err != nil {
		return broken(fmt.Errorf("with a home: %w", err))
	}
	return passed("%d examples succeed, and none of %d keys was opened", n, len(paths))
}

func checkExec(ctx context.Context, k *kit) verdict {
	if !treeSupported {
		return skipped("", "processes can't be listed on this system")
	}
	started := false
	n, err := k.rerunExamples(ctx, nil, func(p *process) { started = p.hasStarted() })
	if err != nil {
		return broken(err)
	}
	if started {
		return failed("start processes with HostService.Spawn (in Go: Call.Command) and declare the capability \"spawn\"", "it started a process itself")
	}
	return passed("%d examples succeed, and it started no process itself", n)
}
