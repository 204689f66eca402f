package tools

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	acceptTime = 10 * time.Second // for another process that writes what is accepted
	lookTime   = time.Second      // between looks whether another process has accepted a tool
)

// accepted are the definitions of a server's tools with which calls were allowed: those of a pinned server that were there at its first
// use, those that a person has accepted, and without a pin those of calls that were made. They are a file that all processes share.
type accepted struct {
	env    *tool.Env
	server string // its name
	path   string // empty: the plugin has no folder
	lease  string

	mu struct {
		sync.Mutex
		info  os.FileInfo // of the file that known was read from; nil: there was none
		known definitions
	}
}

// definitions is the content of the file.
type definitions struct {
	Server       string                  `json:"server"`       // its name
	Complete     bool                    `json:"complete"`     // all tools of that time are among Tools, so that others are new
	Instructions *string                 `json:"instructions"` // nil: those of a server without a pin
	Tools        map[string]catalog.Tool `json:"tools"`
}

// newAccepted returns what is accepted of the server of a block. A server with another address, program or arguments has a file of its own,
// so that servers of the same name in several projects do not replace each other's, but begins with what was accepted of the others.
func newAccepted(env *tool.Env, b Server) *accepted {
	form, _ := json.Marshal([]any{b.Name, b.URL, b.Command, b.Args}) // of strings
	sum := fmt.Sprintf("%x", sha256.Sum256(form))
	a := &accepted{env: env, server: b.Name, lease: "accepted-" + sum[:32]}
	if env.DataDir != "" && env.DataDir != "/" {
		a.path = filepath.Join(env.DataDir, "accepted-"+sum[:32]+fileSuffix(b.Name)+".json")
	}
	return a
}

// maxSuffix limits the part of a file's name that says its server, in bytes: file systems have 255.
const maxSuffix = 150

// fileSuffix is how the name of a file says its server, whose name may be any text: serverOf reads it. A server whose name is too long has none.
func fileSuffix(server string) string {
	if s := url.QueryEscape(server); len(s) <= maxSuffix {
		return "-" + s
	}
	return ""
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
	d, err := readDefinitions(a.path)
	if err != nil {
		return definitions{}, err
	}
	a.mu.info, a.mu.known = info, d
	return d, nil
}

func readDefinitions(path string) (d definitions, err error) {
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil {
		return definitions{}, fmt.Errorf("the accepted tools in %s can't be read: %w; next: remove the file, and look at the server's tools anew", path, err)
	}
	return d, nil
}

// earlier returns what was accepted of servers of the same name with another address, program or arguments; nothing if there was none. Of
// two definitions of a tool the later one applies. A server without a pin, such as one of another project, does not end a pin.
func (a *accepted) earlier() (all definitions, err error) {
	if a.path == "" {
		return all, nil
	}
	dir := filepath.Dir(a.path)
	entries, err := os.ReadDir(dir) // no pattern: the folder's name may have the characters of one
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return all, err
	}
	type file struct {
		at time.Time
		definitions
	}
	var files []file
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !strings.HasPrefix(entry.Name(), "accepted-") || filepath.Ext(path) != ".json" || path == a.path {
			continue
		}
		if name := serverOf(path); name != "" && name != a.server {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return all, err
		}
		d, err := readDefinitions(path)
		if err != nil {
			if name := serverIn(path); name != "" && name != a.server {
				continue
			}
			return all, err
		}
		if d.Server == a.server {
			files = append(files, file{info.ModTime(), d})
		}
	}
	slices.SortFunc(files, func(x, y file) int { return x.at.Compare(y.at) })
	all.Tools = map[string]catalog.Tool{}
	for _, f := range files {
		all.Complete = all.Complete || f.Complete
		all.Instructions = cmp.Or(f.Instructions, all.Instructions)
		maps.Copy(all.Tools, f.Tools)
	}
	return all, nil
}

// serverOf returns the server to which a file belongs, without reading it, so that one that can't be read is a problem of that server only;
// "": only its content says it. An earlier gantry has written the file, or the name is too long.
func serverOf(path string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".json"), "-") // accepted-
	_, name, _ = strings.Cut(name, "-")                                              // the digest
	server, err := url.QueryUnescape(name)
	if err != nil {
		return ""
	}
	return server
}

// serverIn returns the server that a damaged file names where its content begins; "" if that is damaged as well.
func serverIn(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	d := json.NewDecoder(f)
	for _, want := range []json.Token{json.Delim('{'), "server"} {
		if got, err := d.Token(); err != nil || got != want {
			return ""
		}
	}
	name, _ := d.Token() // nil at an error
	server, _ := name.(string)
	return server
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
	next := d
	next.Server, next.Tools = a.server, map[string]catalog.Tool{}
	maps.Copy(next.Tools, d.Tools)
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

// offer is what of a server is used.
type offer struct {
	tools        []catalog.Tool
	instructions string
	withheld     map[string]verdict // why other tools are not used, by their names
	silenced     bool               // the instructions are not used, because they are not as they were accepted
	changes      map[string]string  // what has changed in tools that are used, by their names
	err          error              // why pinned tools and instructions can't be compared, and are withheld
}

// first accepts the pinned tools and instructions of a server of which nothing is accepted yet.
func (e *entry) first(ctx context.Context, st server.Status) (definitions, error) {
	d, err := e.accepted.read()
	is := len(st.Tools) > 0 && e.block.Pin && (!d.Complete || d.Instructions == nil) ||
		slices.ContainsFunc(st.Tools, func(t catalog.Tool) bool { return e.block.pinned(t.Name) && e.block.judge(d, t) == isUnknown })
	if err != nil || !is {
		return d, err
	}
	earlier, err := e.accepted.earlier()
	if err != nil {
		return d, err
	}
	err = e.accepted.update(ctx, func(d *definitions) {
		if !d.Complete && len(d.Tools) == 0 {
			d.Complete, d.Instructions = earlier.Complete, earlier.Instructions
			maps.Copy(d.Tools, earlier.Tools)
		}
		for _, t := range st.Tools {
			if e.block.pinned(t.Name) && e.block.judge(*d, t) == isUnknown {
				d.Tools[t.Name] = t
			}
		}
		d.Complete = d.Complete || e.block.Pin
		if e.block.Pin && d.Instructions == nil {
			d.Instructions = &st.Instructions
		}
	})
	if err != nil {
		return d, err
	}
	return e.accepted.read()
}

// offered returns what of a server is used. What is pinned of a server that is used for the first time becomes what is accepted.
func (e *entry) offered(ctx context.Context, st server.Status) offer {
	o := offer{withheld: map[string]verdict{}, changes: map[string]string{}, instructions: st.Instructions}
	var d definitions
	d, o.err = e.first(ctx, st)
	if e.block.Pin && (o.err != nil || !d.told(st.Instructions)) {
		o.instructions, o.silenced = "", st.Instructions != ""
	}
	for _, t := range st.Tools {
		v := e.block.judge(d, t)
		switch {
		case !e.block.pinned(t.Name):
			if v == isChanged {
				o.changes[t.Name] = catalog.Changes(d.Tools[t.Name], t)
			}
		case o.err != nil:
			o.withheld[t.Name] = isUnknown
			continue
		case v != isAccepted:
			o.withheld[t.Name] = v
			continue
		}
		o.tools = append(o.tools, t)
	}
	return o
}

// told reports whether instructions are as they were accepted, or nothing is known of them.
func (d definitions) told(instructions string) bool {
	return d.Instructions == nil || *d.Instructions == instructions
}

// problem says what is withheld, and what to do; "" if nothing is.
func (o offer) problem(server string) string {
	var texts []string
	switch {
	case len(o.withheld) > 0 && o.err != nil:
		return fmt.Sprintf("its pinned tools are left out: %v", o.err)
	case len(o.withheld) > 0:
		texts = append(texts, "pinned tools are left out because they are not as they were accepted ("+o.names()+")")
	}
	if o.silenced {
		texts = append(texts, "its instructions are left out because they are not as they were accepted")
	}
	if len(texts) == 0 {
		return ""
	}
	return strings.Join(texts, "; ") + fmt.Sprintf("; next: `gantry mcp accept %s`", server)
}

// names names the tools that are withheld.
func (o offer) names() string {
	var parts []string
	for _, v := range []verdict{isChanged, isNew} {
		var names []string
		for name, w := range o.withheld {
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
	return strings.Join(parts, "; ")
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
