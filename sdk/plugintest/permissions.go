package plugintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// A host confines the process of a tool plugin to what it asks for and is granted. These checks confine it to one kind of
// permission at a time, or watch it, and run the examples that answer again.

// capabilityNetwork is what a plugin declares that needs the network.
const capabilityNetwork = "network"

// hold is what a process is confined to.
type hold struct {
	offline  bool     // it neither connects to TCP ports nor listens on them
	readOnly bool     // it writes nothing
	writes   []string // but in these folders
}

// answersHeld runs the examples that answer in a process that is started with change, and says which of them failed.
// look is called before the process ends.
func (k *kit) answersHeld(ctx context.Context, change func(*spawn), look func(*process)) (answered int, err error) {
	p, err := k.fresh(ctx, change)
	if err != nil {
		return 0, err
	}
	defer p.kill()
	for _, i := range k.withBehaviour(Answers) {
		if before := k.examples[i]; before == nil || before.failure() != nil || before.result.GetIsError() {
			continue // it fails without this, too, which is for other checks
		}
		t, err := k.perform(ctx, p, k.cfg.Calls[i], nil)
		if err == nil {
			err = t.failure()
		}
		if err == nil && t.result.GetIsError() {
			err = fmt.Errorf("%s: it answered the error %s", t.what, says(t.result))
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
	if err := holdSupported(hold{offline: true}); err != nil {
		return skipped("", "%v", err)
	}
	n, err := k.answersHeld(ctx, func(s *spawn) { s.hold = &hold{offline: true} }, nil)
	if err != nil {
		return failed("add \"network\" to the manifest's capabilities and document permissions { network = [\"*\"] }, or do without", "without the network: %v", err)
	}
	return passed("%d examples answer without the network", n)
}

func checkWrites(ctx context.Context, k *kit) verdict {
	h := hold{readOnly: true, writes: append([]string{k.data, k.cache, k.tmp}, k.cfg.Writes...)}
	if err := holdSupported(h); err != nil {
		return skipped("", "%v", err)
	}
	n, err := k.answersHeld(ctx, func(s *spawn) { s.hold = &h }, nil)
	if err != nil {
		return failed("write to the data and cache folders of Configure and to TMPDIR, and have the host start what changes other files; tell the kit with writes what permissions { write } grants",
			"where it can write to its own folders only: %v", err)
	}
	return passed("%d examples answer", n)
}

// userKeys are files that hosts hide from plugins, in the user's home.
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
	n, err := k.answersHeld(ctx, func(s *spawn) { s.env = append(s.env, "HOME="+home) }, nil)
	names := opened()
	if len(names) > 0 {
		for i, name := range names {
			names[i] = "~" + strings.TrimPrefix(name, home)
		}
		return failed("do without: a host hides the user's keys; ask for what is needed as an attribute of the config block with sensitive set", "it opened %s", strings.Join(names, ", "))
	}
	if err != nil {
		return broken(fmt.Errorf("with a home: %w", err))
	}
	return passed("%d examples answer, and none of %d keys was opened", n, len(paths))
}

func checkExec(ctx context.Context, k *kit) verdict {
	if !treeSupported {
		return skipped("", "processes can't be found on this system")
	}
	started := false
	n, err := k.answersHeld(ctx, nil, func(p *process) { started = p.hasStarted() })
	if err != nil {
		return broken(err)
	}
	if started {
		return failed("start processes with HostService.Spawn and declare the capability \"spawn\"; in Go with Call.Command", "it has started a process by itself")
	}
	return passed("%d examples answer, and it has started nothing by itself", n)
}

func checkCommandEffects(ctx context.Context, k *kit) verdict {
	const next = "declare side_effects for the command: the host then runs it only when the user agrees"
	ran := 0
	for _, c := range k.manifest.Commands {
		if c.SideEffects {
			continue // which would be real
		}
		p, err := k.ready(ctx)
		if err != nil {
			return broken(err)
		}
		before := k.host.changes()
		limited, cancel := k.within(ctx, answerPatience)
		_, err = p.plugin().Command(limited, &gantryv1.CommandRequest{Name: c.Name, InputJson: json.RawMessage("{}"), CallToken: wire.NewToken()})
		cancel()
		if err := k.explain(ctx, p, err); err != nil && !errors.Is(limited.Err(), context.DeadlineExceeded) { // it may wait for a person
			return failed("answer with an error in the message, not with a status", "command %s: %v", c.Name, err)
		}
		if did := k.host.changes()[len(before):]; len(did) > 0 {
			return failed(next, "command %s called %s", c.Name, strings.Join(did, ", "))
		}
		ran++
	}
	if ran == 0 {
		return skipped("", "it has no command without side effects")
	}
	return passed("%d commands changed nothing", ran)
}
