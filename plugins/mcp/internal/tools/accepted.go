package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	acceptTime = 10 * time.Second // for another process that writes what is accepted
	lookTime   = time.Second      // between looks whether another process has accepted a tool
)

// accepted are the definitions of a server's tools with which calls were allowed: those of a pinned server that were there at its first
// use, those that a person has accepted, and without a pin those of calls that were made. They are a file that all processes share.
type accepted struct {
	env   *tool.Env
	path  string // empty: the plugin has no folder
	lease string

	mu struct {
		sync.Mutex
		info  os.FileInfo // of the file that known was read from; nil: there was none
		known definitions
	}
}

// definitions is the content of the file.
type definitions struct {
	Complete bool                    `json:"complete"` // all tools of that time are among Tools, so that others are new
	Tools    map[string]catalog.Tool `json:"tools"`
}

// newAccepted returns what is accepted of the server of a block. A server with another address, program or arguments is another one.
func newAccepted(env *tool.Env, b Server) *accepted {
	form, _ := json.Marshal([]any{b.Name, b.URL, b.Command, b.Args}) // of strings
	sum := fmt.Sprintf("%x", sha256.Sum256(form))
	a := &accepted{env: env, lease: "accepted-" + sum[:32]}
	if env.DataDir != "" && env.DataDir != "/" {
		a.path = filepath.Join(env.DataDir, "accepted-"+sum[:32]+".json")
	}
	return a
}

// read returns the definitions. Its maps are shared and not to be changed.
func (a *accepted) read() (definitions, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.path == "" {
		return definitions{}, nil
	}
	info, err := os.Stat(a.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		a.mu.info, a.mu.known = nil, definitions{}
		return definitions{}, nil
	case err != nil:
		return definitions{}, err
	case a.mu.info != nil && os.SameFile(info, a.mu.info) && info.ModTime().Equal(a.mu.info.ModTime()) && info.Size() == a.mu.info.Size():
		return a.mu.known, nil
	}
	raw, err := os.ReadFile(a.path)
	var d definitions
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil {
		return definitions{}, fmt.Errorf("the accepted tools in %s can't be read: %w; next: remove the file, and look at the server's tools anew", a.path, err)
	}
	a.mu.info, a.mu.known = info, d
	return d, nil
}

// update changes the definitions in the file, while no other process does.
func (a *accepted) update(ctx context.Context, change func(*definitions)) error {
	if a.path == "" {
		return errors.New("the plugin has no folder for what is accepted of its servers")
	}
	l, err := a.env.Lease(ctx, a.lease, acceptTime)
	if err != nil {
		return err
	}
	defer l.Release()
	d, err := a.read()
	if err != nil {
		return err
	}
	next := definitions{Complete: d.Complete, Tools: map[string]catalog.Tool{}}
	for name, t := range d.Tools {
		next.Tools[name] = t
	}
	change(&next)
	raw, err := json.Marshal(next)
	if err != nil {
		return err
	}
	select {
	case <-l.Lost():
		return errors.New("another process has taken over")
	default:
	}
	return replace(a.path, raw)
}

// verdict is what is known about a tool's definition.
type verdict string

const (
	isAccepted verdict = "accepted"
	isChanged  verdict = "changed"
	isNew      verdict = "new"
	isUnknown  verdict = "unknown" // nothing is known of it, and nothing has to be
)

// pinned reports whether only accepted definitions of a tool may be used.
func (s *Server) pinned(name string) bool {
	for _, t := range s.Tool {
		if t.Name == name && t.Pin != nil {
			return *t.Pin
		}
	}
	return s.Pin
}

// judge compares a tool with what is accepted.
func (s *Server) judge(d definitions, t catalog.Tool) verdict {
	known, ok := d.Tools[t.Name]
	switch {
	case ok && known.Digest == t.Digest:
		return isAccepted
	case ok:
		return isChanged
	case s.Pin && d.Complete && s.pinned(t.Name):
		return isNew
	}
	return isUnknown
}

// offered returns which of a server's tools are used, by name why others are withheld, and what has changed in those that are used. The
// pinned tools of a server that is used for the first time become the accepted ones.
func (e *entry) offered(ctx context.Context, tools []catalog.Tool) (used []catalog.Tool, withheld map[string]verdict, changes map[string]string, err error) {
	withheld, changes = map[string]verdict{}, map[string]string{}
	d, err := e.accepted.read()
	first := err == nil && len(tools) > 0 && e.block.Pin && !d.Complete ||
		slices.ContainsFunc(tools, func(t catalog.Tool) bool { return e.block.pinned(t.Name) && e.block.judge(d, t) == isUnknown })
	if err == nil && first {
		err = e.accepted.update(ctx, func(d *definitions) {
			for _, t := range tools {
				if e.block.pinned(t.Name) && e.block.judge(*d, t) == isUnknown {
					d.Tools[t.Name] = t
				}
			}
			d.Complete = d.Complete || e.block.Pin
		})
		if err == nil {
			d, err = e.accepted.read()
		}
	}
	for _, t := range tools {
		v := e.block.judge(d, t)
		switch {
		case !e.block.pinned(t.Name):
			if v == isChanged {
				changes[t.Name] = catalog.Changes(d.Tools[t.Name], t)
			}
		case err != nil:
			withheld[t.Name] = isUnknown
			continue
		case v != isAccepted:
			withheld[t.Name] = v
			continue
		}
		used = append(used, t)
	}
	return used, withheld, changes, err
}

// withheldText says which tools are withheld, and what to do; "" if none is.
func withheldText(server string, withheld map[string]verdict, err error) string {
	switch {
	case len(withheld) == 0:
		return ""
	case err != nil:
		return fmt.Sprintf("its pinned tools are left out: %v", err)
	}
	var parts []string
	for _, v := range []verdict{isChanged, isNew} {
		var names []string
		for name, w := range withheld {
			if w == v {
				names = append(names, name)
			}
		}
		if slices.Sort(names); len(names) > 0 {
			more := ""
			if n := len(names) - maxNamed; n > 0 {
				names, more = names[:maxNamed], fmt.Sprintf(" and %d more", n)
			}
			parts = append(parts, fmt.Sprintf("%s: %s%s", v, catalog.Line(strings.Join(names, ", "), 300), more))
		}
	}
	return fmt.Sprintf("pinned tools are left out because they are not as they were accepted (%s); next: `gantry mcp accept %s`", strings.Join(parts, "; "), server)
}

// maxNamed is how many tools a message names.
const maxNamed = 10

// check returns an error if the definition of a tool is not the one that a call was decided on, or not an accepted one. It starts the
// server, since only then is it known what the tool is.
func (e *entry) check(ctx context.Context, decided catalog.Tool) error {
	if err := e.server.Start(ctx); err != nil {
		return err
	}
	tools := e.server.Status().Tools
	i := slices.IndexFunc(tools, func(t catalog.Tool) bool { return t.Name == decided.Name })
	if i < 0 {
		return fmt.Errorf("the server %q has no tool %q any more", e.block.Name, decided.Name)
	}
	d, err := e.accepted.read()
	switch pinned := e.block.pinned(decided.Name); {
	case pinned && err != nil:
		return err
	case pinned && e.block.judge(d, tools[i]) != isAccepted:
		return fmt.Errorf("the tool %q of the server %q has changed since it was accepted, and is pinned; next: a person has to look at it with `gantry mcp accept %s %s`",
			decided.Name, e.block.Name, e.block.Name, word(decided.Name))
	case tools[i].Digest != decided.Digest:
		return fmt.Errorf("the server %q has changed the tool %q since this call was decided on; it was not called. Its new declaration is offered from now on", e.block.Name, decided.Name)
	case !pinned && err == nil && e.accepted.path != "" && e.block.judge(d, tools[i]) != isAccepted:
		e.spawn(func() { e.remember(decided) })
	}
	return nil
}

// remember notes the definition of a tool that is called without a pin.
func (e *entry) remember(t catalog.Tool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.life), acceptTime) // the end of the plugin waits: the call may be its last one
	defer cancel()
	changed := false
	err := e.accepted.update(ctx, func(d *definitions) {
		_, changed = d.Tools[t.Name]
		d.Tools[t.Name] = t
	})
	switch {
	case err != nil:
		e.accepted.env.Logger.Warn("the definition of a tool can't be remembered", "server", e.block.Name, "tool", t.Name, "err", err)
	case err == nil && changed:
		_ = e.publish() // what has changed since the last call is nothing any more
	}
}

// await publishes the tools again once another process has accepted some that are withheld.
func (e *entry) await() {
	if !e.awaits.CompareAndSwap(false, true) {
		return
	}
	before, _ := os.Stat(e.accepted.path)
	e.spawn(func() { // ends with life
		t := time.NewTicker(lookTime)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-e.life.Done():
				return
			}
			now, err := os.Stat(e.accepted.path)
			if err != nil || before != nil && os.SameFile(now, before) && now.ModTime().Equal(before.ModTime()) {
				continue
			}
			e.awaits.Store(false)
			_ = e.publish() // which waits again if some are left
			return
		}
	})
}
