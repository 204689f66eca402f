package box

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/secrets"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

// Each mount of Linux is a rule on macOS, in the same order: from shallow to deep, denials last. A mount covers what was there when
// it was made; a rule applies to names, also to those of files that are created later. So the names must not change: the folders
// above a path in a rule can't be renamed.

// macOSFolders are the folders without which programs do not run, visible even where reading is restricted.
var macOSFolders = []string{
	"/bin", "/sbin", "/usr", "/System", "/Library", "/private/etc", "/private/var/db/dyld", "/private/var/db/timezone", "/private/var/db/xcode_select_link",
	"/private/var/select", "/Applications/Xcode.app", "/nix/store", "/run/current-system/sw",
}

// machineTmp is where the machine's /tmp leads.
const machineTmp = "/private/tmp"

// policy returns a grant's sandbox in the terms of macOS. extra are programs that are readable wherever they are.
func (b *Sandbox) policy(g launch.Grant, v view, opened, extra []string) (seatbelt.Policy, error) {
	p := seatbelt.Policy{Open: v.full, Network: seatbelt.NetworkNone}
	switch {
	case g.Proxied:
		p.Network = seatbelt.NetworkProxy
	case g.Network:
		p.Network = seatbelt.NetworkFull
	}
	var list seatbelt.Rules
	switch {
	case v.full:
	case v.read != nil:
		list.Add(seatbelt.AccessRead, macOSFolders...)
	default:
		list.Add(seatbelt.AccessRead, "/")
	}
	if !v.full {
		list.Add(seatbelt.AccessNone, secrets.HiddenOnMacOS...)
		list.Add(seatbelt.AccessRead, secrets.ShownOnMacOS...)
		b.hideRules(&list, v)
		if v.tmp != "" {
			list.Add(seatbelt.AccessNone, machineTmp)
			list.Add(seatbelt.AccessWrite, fspath.Resolve(v.tmp))
		}
		list.Add(seatbelt.AccessRead, v.read...)
		list.Add(seatbelt.AccessRead, v.shown...)
		list.Add(seatbelt.AccessWrite, v.roots...)
		for _, e := range extra {
			list.Add(seatbelt.AccessRead, fspath.Resolve(e))
		}
	}
	list.Add(seatbelt.AccessKept, v.readOnly...)
	open := inRoots(opened, v.roots)
	list.Add(seatbelt.AccessWrite, open...)
	for _, d := range v.linkedKeys {
		list.Add(seatbelt.AccessNone, d.Path)
	}
	patterns, err := parsed(g.DenyRead)
	if err != nil {
		return p, err
	}
	for _, d := range v.denied {
		// What a pattern matches by name has a rule of its own. This is for targets of symbolic links, and for other names of a
		// file.
		if !slices.ContainsFunc(patterns, func(p glob.Pattern) bool { return p.Match(d.Path) != "" }) {
			list.Add(seatbelt.AccessNone, d.Path)
		}
	}
	p.Files = list.Sorted()
	if !v.full {
		p.Files = append(p.Files, protectedRules(v, open)...)
		kept, err := parsed(g.DenyWrite)
		if err != nil {
			return p, err
		}
		for _, x := range kept {
			p.Files = append(p.Files, patternRules(x, seatbelt.AccessKept, v.roots, open)...)
		}
	}
	for _, x := range patterns {
		var inside []string // folders to work in, inside what is denied
		if !v.full {
			inside = slices.Concat(v.roots, v.read)
		}
		p.Files = append(p.Files, patternRules(x, seatbelt.AccessNone, inside, nil)...)
	}
	p.Files = append(p.Files, fixedRules(v)...)
	return p, nil
}

// hideRules denies reading gantry's folder and the user's keys.
func (b *Sandbox) hideRules(list *seatbelt.Rules, v view) {
	if fspath.IsDir(b.home) {
		list.Add(seatbelt.AccessNone, b.home)
		list.Add(seatbelt.AccessRead, filepath.Join(b.home, "plugins"))
	}
	for _, p := range b.locator.Paths() {
		p = fspath.Resolve(p)
		if !fspath.BelowAny(p, v.roots) && !slices.Contains(v.roots, p) { // for those in roots see keysIn
			list.Add(seatbelt.AccessNone, p)
		}
	}
}

func parsed(patterns []string) ([]glob.Pattern, error) {
	var out []glob.Pattern
	for _, text := range patterns {
		p, err := glob.Parse(text)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// protectedRules make the protected names of each root read-only, existing or not, in every spelling.
func protectedRules(v view, opened []string) []seatbelt.Rule {
	var out []seatbelt.Rule
	for _, root := range v.roots {
		for _, name := range Protected {
			path := filepath.Join(root, name)
			r := seatbelt.Rule{Access: seatbelt.AccessKept, Match: seatbelt.Named(root, name)}
			for _, other := range v.roots { // asked for by name
				if other == path || fspath.Below(other, path) {
					r.Except = append(r.Except, other)
				}
			}
			for _, o := range opened {
				if (o == path || fspath.Below(o, path)) && !slices.Contains(r.Except, o) {
					r.Except = append(r.Except, o)
				}
			}
			out = append(out, r)
		}
	}
	return out
}

// inRoots returns the opened paths in roots, or the folders that have to be created for them.
func inRoots(opened, roots []string) []string {
	var out []string
	for _, o := range opened {
		if m := made(o); fspath.BelowAny(m, roots) && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// patternRules returns the rules for what a pattern denies. In the folders in inside the earlier rules stay in force, except for
// what the pattern matches there. Paths in open are not affected.
func patternRules(p glob.Pattern, a seatbelt.Access, inside, open []string) []seatbelt.Rule {
	all := seatbelt.Rule{Access: a, Match: seatbelt.Regexp(p), Except: slices.Clone(open)}
	var more []seatbelt.Rule
	for _, dir := range inside {
		m := p.Match(dir)
		if m == "" || m == dir || slices.Contains(all.Except, dir) {
			continue
		}
		all.Except = append(all.Except, dir)
		for _, w := range seatbelt.Within(p, dir) {
			more = append(more, seatbelt.Rule{Access: a, Match: w, Except: open})
		}
	}
	return append([]seatbelt.Rule{all}, more...)
}

// fixedRules keep the names of the folders above what a rule about a path protects, and of roots inside roots: no rule is about
// what is moved elsewhere.
func fixedRules(v view) []seatbelt.Rule {
	seen := map[string]bool{}
	var out []seatbelt.Rule
	above := func(path string, roots []string) {
		for at := filepath.Dir(path); fspath.BelowAny(at, roots) && !seen[at]; at = filepath.Dir(at) {
			seen[at] = true
			out = append(out, seatbelt.Rule{Access: seatbelt.AccessFixed, Path: at})
		}
	}
	for _, p := range v.readOnly {
		above(p, v.roots)
	}
	for _, d := range v.linkedKeys {
		above(d.Path, v.roots)
	}
	for _, d := range v.denied {
		if v.full {
			above(d.Path, []string{"/"})
		} else {
			above(d.Path, v.roots)
		}
	}
	for _, r := range v.roots {
		above(filepath.Join(r, "x"), v.roots) // the root itself if it is inside another
	}
	return out
}

// confineMacOS puts a process into macOS's sandbox.
func (b *Sandbox) confineMacOS(g launch.Grant, v view, opened []string, helper string, c *launch.Confinement) (err error) {
	extra := []string{c.Launcher}
	if b.programs != nil && len(c.Argv) > 0 && slices.Contains(b.programs(), c.Argv[0]) {
		extra = append(extra, c.Argv[0])
	}
	p, err := b.policy(g, v, opened, extra)
	if err != nil {
		return err
	}
	if g.Proxied {
		// A process has no network of its own here. Another process that connects to the port gets what the grant gives, and no
		// more.
		if c.Listener, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			return fmt.Errorf("listen for the sandbox's proxy: %w", err)
		}
		p.Port = c.Listener.Addr().(*net.TCPAddr).Port
	}
	profile, err := p.Profile()
	if err != nil {
		if c.Listener != nil {
			err = errors.Join(err, c.Listener.Close())
		}
		return fmt.Errorf("write the sandbox profile: %w", err)
	}
	c.Box = &control.Box{Helper: helper, Args: profile.Args()}
	b.environment(g, v, c, p.Port)
	return nil
}
