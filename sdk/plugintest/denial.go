package plugintest

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// denials are the effects that plugins were denied while the host denies everything.
type denials struct {
	active  bool
	effects []*gantryv1.Effect
	// The state of each path of a denied write before it.
	files map[string]string
	// How many processes had been started and hosts been connected to before the first denial.
	spawned, connected int
}

// deny makes the host deny everything, and returns what it has denied. release grants everything again.
func (h *host) deny() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.denials = denials{active: true}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.mu.denials = denials{}
	}
}

// Authorize implements HostService.
func (h *host) Authorize(_ context.Context, r *gantryv1.AuthorizeRequest) (*gantryv1.AuthorizeResponse, error) {
	spawned, connected := len(h.Spawned()), len(h.Connected())
	h.mu.Lock()
	defer h.mu.Unlock()
	d := &h.mu.denials
	if !d.active {
		return &gantryv1.AuthorizeResponse{Granted: true, Scope: "once"}, nil
	}
	if len(d.effects) == 0 {
		d.files, d.spawned, d.connected = map[string]string{}, spawned, connected
	}
	for _, e := range r.GetEffects() {
		d.effects = append(d.effects, e)
		for _, path := range e.GetWrite().GetPaths() {
			d.files[path] = stateOf(path)
		}
	}
	return &gantryv1.AuthorizeResponse{Denial: "not allowed by the conformance kit"}, nil
}

// denied returns how many effects were denied, and what was done in spite of that; empty: nothing.
func (h *host) denied() (n int, did string) {
	spawned, connected := h.Spawned(), h.Connected()
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.mu.denials
	for _, e := range d.effects {
		if argv := e.GetExec().GetArgv(); len(argv) > 0 {
			for _, s := range spawned[d.spawned:] {
				if slices.Equal(s.GetArgv(), argv) {
					return len(d.effects), fmt.Sprintf("started %q", argv)
				}
			}
		}
		if to := e.GetNetwork(); to != nil {
			for _, address := range connected[d.connected:] {
				host, port, err := net.SplitHostPort(address)
				if err == nil && strings.EqualFold(host, to.GetHost()) && (to.GetPort() == 0 || port == strconv.Itoa(int(to.GetPort()))) {
					return len(d.effects), "connected to " + address
				}
			}
		}
		for _, path := range e.GetWrite().GetPaths() {
			if stateOf(path) != d.files[path] {
				return len(d.effects), "wrote " + path
			}
		}
	}
	return len(d.effects), ""
}

// stateOf returns what changes when a file is written.
func stateOf(path string) string {
	fi, err := os.Lstat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(fi.Mode(), fi.Size(), fi.ModTime().Format(time.RFC3339Nano))
}

// checkDenied runs the examples that answer again, and denies what they ask for.
func checkDenied(ctx context.Context, k *kit) verdict {
	p, err := k.ready(ctx)
	if err != nil {
		return broken(err)
	}
	defer k.host.deny()()
	before, asked := 0, 0
	for _, i := range k.withBehaviour(Answers) {
		t, err := k.perform(ctx, p, k.cfg.Calls[i], nil)
		n, did := k.host.denied()
		if n == before {
			continue // other checks report what is wrong without a denial
		}
		before = n
		asked++
		if err == nil {
			err = t.failure()
		}
		if err != nil {
			return failed("return an error result with the text of the denial, which is for the model", "after a denial: %v", err)
		}
		if did != "" {
			return failed("don't go on with what Authorize has denied", "%s: it was denied an effect, and %s", t.what, did)
		}
	}
	if asked == 0 {
		return skipped("", "no example asks for permission during its call")
	}
	return passed("%d examples were denied what they asked for", asked)
}
