package host

import (
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/network"
	"github.com/gantry-agent/gantry/host/internal/rulebook"
)

// The hosts that plugins open are bounded, nothing is kept for those that they only ask about, and nothing after the thread.
func TestOpenHostsAreBounded(t *testing.T) {
	cfg, ds := config.Load(t.Context(), config.Options{Home: t.TempDir(), Dir: t.TempDir(), System: "-"})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	n := &networkProxy{host: &Host{rules: rulebook.New(cfg)}}
	owner := launch.Owner{Plugin: "p", Thread: "t", Call: "c"}
	of := func(i int) network.Request {
		return network.Request{Protocol: network.HTTPS, Host: fmt.Sprintf("10.0.%d.%d", i/256, i%256), Port: 443} // which are never resolved
	}
	for i := range 100 {
		n.judge(t.Context(), launch.Owner{Plugin: "p", Thread: fmt.Sprint(i)}, of(i))
		n.isOpen(launch.Owner{Plugin: "p", Thread: fmt.Sprint(i)}, of(i))
	}
	if len(n.opened) != 0 {
		t.Errorf("%d threads are remembered that have opened nothing", len(n.opened))
	}
	for i := range 2 * maxOpened {
		n.open(owner, of(i))
		if !n.isOpen(owner, of(i)) {
			t.Fatalf("host %d was not opened", i)
		}
	}
	if got := len(n.at(owner).hosts); got != maxOpened {
		t.Errorf("%d hosts are open", got)
	}
	leave := n.enter(owner, n.rulesOf("p"))
	n.forget("t")
	if len(n.opened) != 0 {
		t.Error("hosts are open for a thread that has ended")
	}
	leave() // the tree ends after its thread
	leave = n.enter(owner, n.rulesOf("p"))
	n.open(owner, of(1))
	if leave(); len(n.opened) != 0 {
		t.Error("hosts are open although the last tree has ended")
	}
}
