package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/glob"
)

// denied reads file patterns. Patterns that begin with "./" or "~/" become absolute. Other relative patterns are parsed below an
// arbitrary folder, only to find out whether they are valid.
func (b block) denied(name, home string) []string {
	items := b.list(name)
	if items == nil {
		return nil
	}
	base := b.n.attrs[name].from.scope.Base()
	out := make([]string, 0, len(items))
	for _, i := range items {
		text := i.text
		rest, here := strings.CutPrefix(text, "./")
		switch {
		case !b.inHome(text, i.at, home):
			continue
		case here:
			text = glob.Below(base, rest)
		case strings.HasPrefix(text, "~/"):
			text = glob.Below(home, text[2:])
		}
		if err := checkDenied(text, i.text); err != nil {
			b.errorAt(i.at, fmt.Sprintf("invalid value for %q", name), capital(err.Error())+".", deniedExample)
			continue
		}
		out = append(out, text)
	}
	return out
}

// checkDenied checks a pattern, which messages show as written.
func checkDenied(pattern, written string) error {
	const some = "/some/folder"
	if pattern != "" && !filepath.IsAbs(pattern) {
		pattern = glob.Below(some, pattern)
	}
	p, err := glob.Parse(pattern)
	if err == nil && p.Match(some) != "" {
		err = fmt.Errorf("pattern %q matches everything", written)
	}
	return err
}

const deniedExample = `write a path or a pattern, "~/private" or "**/*.pem" for example`

// union adds the entries of the machine's file to a list of denied patterns, so that no other layer can remove them.
func (l *loader) union(list []string, merged, machine block, name string) []string {
	if !machine.has(name) || merged.n.attrs[name].from.layer == LayerSystem {
		return list
	}
	for _, text := range machine.denied(name, l.sources.Home) {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}
