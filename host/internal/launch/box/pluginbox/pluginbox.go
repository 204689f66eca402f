// Package pluginbox makes the sandbox of a plugin's own process, as opposed to the one for the commands that plugins run.
//
// It owns: what a plugin's process sees, writes and connects to, in the terms of gantry-launch on Linux and of macOS's sandbox.
// It must not know: which plugins there are, what was granted to them and why.
//
// Start with [New].
package pluginbox

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/deny"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/kernel"
	"github.com/gantry-agent/gantry/host/internal/launch/box/secrets"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
	"github.com/gantry-agent/gantry/host/internal/launch/seatbelt"
)

// Config says what a plugin's process may do.
type Config struct {
	Home     string   // gantry's folder, which is hidden
	UserHome string   // the user's home folder, whose credentials are hidden
	Hidden   []string // further hidden files and folders
	// Denied are files and folders that are hidden whatever else is granted.
	Denied []string
	// Own are the plugin's folders; Read and Write are what the user has granted. Paths are absolute, and visible whatever is
	// hidden.
	Own, Read, Write []string
	// Tmp is the folder that a confined process sees as /tmp; it is in Own. Near are folders in the machine's /tmp that it sees
	// all the same: where its program is, and where the user works.
	Tmp  string
	Near []string
	// ShmBytes limits its shared memory; 0: shmBytes.
	ShmBytes int64
	// Confined processes write only to Own and Write, have devices, temporary files and shared memory of their own, reach no
	// services, and no network without Network. For others only what is hidden is out of reach: they carry the user's key to a
	// service and are trusted with it.
	Confined bool
	Network  bool
}

// shmBytes is the limit of shared memory if the plugin's block does not limit memory.
const shmBytes = 64 << 20

// Denied returns the files and folders that patterns match now.
func Denied(patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	var f deny.Finder
	found, _, err := f.Find(patterns, nil)
	out := make([]string, 0, len(found))
	for _, d := range found {
		out = append(out, d.Path)
	}
	return out, err
}

// New returns the sandbox of a plugin's process. Everything but what is hidden can be read, since an interpreter may be anywhere.
// On macOS the result has no Helper if the sandbox can't be made.
func New(cfg Config) *control.Box {
	if !seatbelt.Native {
		return forLinux(cfg)
	}
	profile, err := Policy(cfg).Profile()
	if err != nil {
		return &control.Box{}
	}
	return &control.Box{Helper: seatbelt.Program, Args: profile.Args()}
}

// reals resolves paths.
func reals(paths ...[]string) (out []string) {
	for _, p := range slices.Concat(paths...) {
		out = append(out, fspath.Resolve(p))
	}
	return out
}

// hidden returns the paths that a plugin must not see.
func (cfg Config) hidden(keys, services []string) []string {
	hide := append([]string{cfg.Home}, cfg.Hidden...)
	if cfg.UserHome != "" {
		for _, name := range keys {
			if cfg.Confined || !slices.Contains(secrets.VendorCredentials, name) {
				hide = append(hide, filepath.Join(cfg.UserHome, name))
			}
		}
	}
	if cfg.Confined {
		hide = append(hide, services...)
		if os.Geteuid() == 0 { // other users can't read them anyway
			hide = append(hide, secrets.MachineFiles...)
		}
	}
	return slices.DeleteFunc(hide, func(p string) bool { return p == "" })
}

// Policy returns the sandbox as a policy for macOS.
func Policy(cfg Config) seatbelt.Policy {
	p := seatbelt.Policy{Open: !cfg.Confined, Network: seatbelt.NetworkNone, Sockets: reals(cfg.Own)}
	if cfg.Network {
		p.Network = seatbelt.NetworkFull
	}
	show := seatbelt.AccessRead
	var list seatbelt.Rules
	if cfg.Confined {
		list.Add(seatbelt.AccessRead, "/")
		list.Add(seatbelt.AccessRead, secrets.ShownOnMacOS...)
	} else {
		show = seatbelt.AccessWrite // as it would be without a sandbox
	}
	shown := reals(cfg.Own, cfg.Read, cfg.Write, []string{filepath.Join(cfg.Home, "plugins")})
	for _, p := range reals(cfg.hidden(slices.Concat(secrets.UserCredentials, secrets.UserCredentialsOnMacOS), secrets.HiddenOnMacOS)) {
		if !fspath.BelowAny(p, shown) { // shown paths are added below
			list.Add(seatbelt.AccessNone, p)
		}
	}
	list.Add(show, reals(cfg.Read, []string{filepath.Join(cfg.Home, "plugins")})...)
	list.Add(seatbelt.AccessWrite, reals(cfg.Own, cfg.Write)...)
	list.Add(seatbelt.AccessNone, reals(cfg.Denied)...)
	p.Files = list.Sorted()
	return p
}

func forLinux(cfg Config) *control.Box {
	x := &control.Box{Filter: kernel.PluginFilter(cfg.Confined, cfg.Network), Gate: cfg.Confined, KernelReadOnly: !cfg.Confined && os.Geteuid() == 0}
	own := reals(cfg.Own, cfg.Write)
	show := reals(cfg.Own, cfg.Read, cfg.Write, []string{filepath.Join(cfg.Home, "plugins")})
	hide := cfg.hidden(secrets.UserCredentials, []string{"/run"})
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
	// Whatever is below a hidden path is hidden with it and can't be mounted over, unless it is shown again in between.
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
	// A process that may write everywhere has nothing that could be its own.
	x.Isolated = !slices.Contains(own, "/")
	x.Write, x.ShmBytes = own, uint64(cmp.Or(cfg.ShmBytes, shmBytes))
	x.Handled, x.Scoped, x.Rules = kernel.PluginLandlockRules(own)
	return x
}
