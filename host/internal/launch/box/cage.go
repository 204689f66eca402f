package box

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

// PluginConfig says what a plugin's process is confined to.
type PluginConfig struct {
	Home     string   // gantry's folder: hidden
	UserHome string   // the user's, whose credentials are hidden
	Hidden   []string // further folders and files
	// Denied are files and folders that it does not see whatever else is granted to it.
	Denied []string
	// Own are the plugin's folders, Read and Write what the user has granted; all absolute, and seen whatever is hidden.
	Own, Read, Write []string
	// Tmp is the folder that a confined process sees as /tmp, one of Own or in one. Near are folders that it sees although they lie in
	// the machine's /tmp: where its program is, and where the user works.
	Tmp  string
	Near []string
	// ShmBytes is what its shared memory may take; 0: shmBytes.
	ShmBytes int64
	// Confined: only Own and Write can be written, devices, temporary files and shared memory are its own, services' sockets are out of
	// reach, and there is no network without Network. Otherwise only what is hidden is kept from it: it carries the user's key to a
	// service and is trusted with it.
	Confined bool
	Network  bool
}

// shmBytes is what a plugin's shared memory may take where its block says nothing of memory.
const shmBytes = 64 << 20

// ofVendors are those credentials that vendors' own programs share with a provider.
var ofVendors = []string{".aws", ".azure", ".config/gcloud"}

// Denied are the files and folders that patterns stand for now.
func Denied(patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	var f finder
	found, _, err := f.find(patterns, nil)
	out := make([]string, 0, len(found))
	for _, d := range found {
		out = append(out, d.path)
	}
	return out, err
}

// PluginSandbox confines a plugin's process. Reading is kept from what is hidden alone: an interpreter may lie anywhere. On macOS a cage that
// can't be made has no helper.
func PluginSandbox(cfg PluginConfig) *control.Box {
	if !bySeatbelt {
		return cage(cfg)
	}
	profile, err := cagePolicy(cfg).Profile()
	if err != nil {
		return &control.Box{}
	}
	return &control.Box{Helper: seatbelt.Program, Args: profile.Args()}
}

// reals are paths without links.
func reals(paths ...[]string) (out []string) {
	for _, p := range slices.Concat(paths...) {
		out = append(out, fspath.Resolve(p))
	}
	return out
}

// hidden are what a plugin does not see.
func (cfg PluginConfig) hidden(keys, services []string) []string {
	hide := append([]string{cfg.Home}, cfg.Hidden...)
	if cfg.UserHome != "" {
		for _, name := range keys {
			if cfg.Confined || !slices.Contains(ofVendors, name) {
				hide = append(hide, filepath.Join(cfg.UserHome, name))
			}
		}
	}
	if cfg.Confined {
		hide = append(hide, services...)
		if os.Geteuid() == 0 { // others can't read them anyway
			hide = append(hide, ofTheMachine...)
		}
	}
	return slices.DeleteFunc(hide, func(p string) bool { return p == "" })
}

// cagePolicy is a cage in the words of macOS's sandbox.
func cagePolicy(cfg PluginConfig) seatbelt.Policy {
	p := seatbelt.Policy{Open: !cfg.Confined, Network: seatbelt.NetworkNone, Sockets: reals(cfg.Own)}
	if cfg.Network {
		p.Network = seatbelt.NetworkFull
	}
	show := seatbelt.AccessRead
	var list ruleList
	if cfg.Confined {
		list.add(seatbelt.AccessRead, "/")
		list.add(seatbelt.AccessRead, shownOnMacOS...)
	} else {
		show = seatbelt.AccessWrite // as it would be without a cage
	}
	shown := reals(cfg.Own, cfg.Read, cfg.Write, []string{filepath.Join(cfg.Home, "plugins")})
	for _, p := range reals(cfg.hidden(slices.Concat(credentials, credentialsOnMacOS), hiddenOnMacOS)) {
		if !fspath.BelowAny(p, shown) { // and if it is one of them, that comes later
			list.add(seatbelt.AccessNone, p)
		}
	}
	list.add(show, reals(cfg.Read, []string{filepath.Join(cfg.Home, "plugins")})...)
	list.add(seatbelt.AccessWrite, reals(cfg.Own, cfg.Write)...)
	list.add(seatbelt.AccessNone, reals(cfg.Denied)...)
	p.Files = list.sorted()
	return p
}

func cage(cfg PluginConfig) *control.Box {
	x := &control.Box{Filter: cageFilter(cfg.Confined, cfg.Network), Gate: cfg.Confined, Kernel: !cfg.Confined && os.Geteuid() == 0}
	own := reals(cfg.Own, cfg.Write)
	show := reals(cfg.Own, cfg.Read, cfg.Write, []string{filepath.Join(cfg.Home, "plugins")})
	hide := cfg.hidden(credentials, []string{"/run"})
	hide = append(hide, slices.DeleteFunc(fspath.OtherMounts(reals(hide, cfg.Denied)), func(p string) bool { return fspath.BelowAny(p, []string{"/run", "/proc", "/dev"}) })...)
	tmp := fspath.Resolve("/tmp")
	if cfg.Confined && cfg.Tmp != "" {
		hide = append(hide, tmp)
		for _, p := range reals(cfg.Near) {
			if fspath.Below(p, tmp) {
				show = append(show, p)
			}
		}
	}
	for _, p := range hide {
		if !fspath.Exists(p) {
			continue
		}
		if p = fspath.Resolve(p); !slices.Contains(show, p) && !fspath.BelowAny(p, show) && !slices.Contains(x.Hide, p) {
			x.Hide = append(x.Hide, p)
		}
	}
	byDepth := func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") }
	for _, p := range cfg.Denied {
		if p = fspath.Resolve(p); !slices.Contains(x.Hide, p) {
			x.Hide = append(x.Hide, p)
		}
	}
	denied := func(p string) bool { return slices.Contains(cfg.Denied, p) || fspath.BelowAny(p, cfg.Denied) }
	for _, p := range show {
		if (fspath.BelowAny(p, x.Hide) || cfg.Confined && slices.Contains(own, p)) && !slices.Contains(x.Show, p) && !denied(p) {
			x.Show = append(x.Show, p)
		}
	}
	slices.SortStableFunc(x.Show, byDepth)
	slices.SortStableFunc(x.Hide, byDepth)
	// What lies in something hidden is hidden with it, and could not be mounted over any more; unless it is shown again on the way.
	all := slices.Clone(x.Hide)
	x.Hide = slices.DeleteFunc(x.Hide, func(p string) bool {
		return slices.ContainsFunc(all, func(h string) bool {
			return fspath.Below(p, h) && !slices.ContainsFunc(x.Show, func(s string) bool { return fspath.Below(s, h) && (p == s || fspath.Below(p, s)) })
		})
	})
	if !cfg.Confined {
		return x
	}
	if slices.Contains(x.Hide, tmp) {
		x.Hide = slices.DeleteFunc(x.Hide, func(p string) bool { return p == tmp })
		x.Tmp = fspath.Resolve(cfg.Tmp)
	}
	// Who may write everything has nothing left that could be its own.
	x.Apart = !slices.Contains(own, "/")
	x.Write, x.ShmBytes = own, uint64(cmp.Or(cfg.ShmBytes, shmBytes))
	x.Handled, x.Scoped, x.Rules = cageRules(own)
	return x
}
