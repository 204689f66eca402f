package box

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// CageConfig says what a plugin's process is confined to.
type CageConfig struct {
	Home     string   // gantry's folder: hidden
	UserHome string   // the user's, whose credentials are hidden
	Hidden   []string // further folders and files
	// Own are the plugin's folders, Read and Write what the user has granted; all absolute, and seen whatever is hidden.
	Own, Read, Write []string
	// Confined: only Own and Write can be written, services' sockets are hidden, and there is no network without Network.
	// Otherwise only what is hidden is kept from it: it carries the user's key to a service and is trusted with it.
	Confined bool
	Network  bool
}

// ofVendors are those credentials that vendors' own programs share with a provider.
var ofVendors = []string{".aws", ".azure", ".config/gcloud"}

// Cage confines a plugin's process. Reading is kept from what is hidden alone: an interpreter may lie anywhere.
func Cage(cfg CageConfig) *control.Box {
	x := &control.Box{Filter: cageFilter(cfg.Network || !cfg.Confined)}
	open := func(paths ...[]string) (out []string) {
		for _, list := range paths {
			for _, p := range list {
				out = append(out, real(p))
			}
		}
		return out
	}
	show := open(cfg.Own, cfg.Read, cfg.Write, []string{filepath.Join(cfg.Home, "plugins")})
	hide := append([]string{cfg.Home}, cfg.Hidden...)
	if cfg.UserHome != "" {
		for _, name := range credentials {
			if cfg.Confined || !slices.Contains(ofVendors, name) {
				hide = append(hide, filepath.Join(cfg.UserHome, name))
			}
		}
	}
	if cfg.Confined {
		hide = append(hide, "/run")
	}
	for _, p := range hide {
		if p == "" {
			continue
		}
		if p = real(p); !slices.Contains(show, p) && !insideAny(p, show) && !slices.Contains(x.Hide, p) {
			x.Hide = append(x.Hide, p)
		}
	}
	byDepth := func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") }
	slices.SortStableFunc(x.Hide, byDepth)
	// What lies in something hidden is hidden with it, and could not be mounted over any more.
	x.Hide = slices.DeleteFunc(x.Hide, func(p string) bool { return insideAny(p, x.Hide) })
	for _, p := range show {
		if insideAny(p, x.Hide) && !slices.Contains(x.Show, p) {
			x.Show = append(x.Show, p)
		}
	}
	slices.SortStableFunc(x.Show, byDepth)
	if cfg.Confined {
		x.Handled, x.Scoped, x.Rules = rules(open(cfg.Own, cfg.Write), false)
	}
	return x
}
