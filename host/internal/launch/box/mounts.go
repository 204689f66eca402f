package box

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/deny"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/secrets"
	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// view is what sandboxed processes see of the file system. Its paths are resolved.
type view struct {
	full       bool          // everything is as outside, except for what is denied
	narrow     bool          // only the roots, what is read, and of the system what a program needs to run
	read       []string      // only this is visible; nil: everything
	shown      []string      // visible although it is hidden by default
	near       []string      // visible in /tmp, from the machine's
	keys       []secrets.Key // hidden by default
	roots      []string      // writable
	readOnly   []string      // read-only in roots
	kept       []deny.Entry  // read-only in folders that others may be moving
	partial    []string      // folders that would be read-only if nothing in them were opened
	opened     []string      // writable files and folders in what is read-only
	linkedKeys []deny.Entry  // files in roots that are keys under another name
	denied     []deny.Entry  // unreadable
	pinned     []string      // folders in roots that can't be renamed
	blank      string        // an unreadable file that is mounted over denied ones
	tmp        string        // mounted as /tmp; empty: the machine's
}

// mount is one mount and where it is.
type mount struct {
	path string
	args []string
}

// arguments returns bubblewrap's arguments. Mounts are ordered from shallow to deep, so that a deeper one is an exception from the
// one above. Of two on one path the later applies: denials come last, except for own, a plugin's program that is always visible; empty:
// none.
func (b *Sandbox) arguments(g launch.Grant, v view, own string) ([]string, error) {
	args := []string{"--die-with-parent", "--unshare-user", "--unshare-pid", "--cap-drop", "ALL"}
	if !v.full {
		args = append(args, "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
	}
	if !g.Network {
		args = append(args, "--unshare-net")
	}
	if v.narrow && root() { // browsers refuse to confine their parts as root
		args = append(args, "--uid", ordinary, "--gid", ordinary)
	}
	var m mounts
	switch {
	case v.full:
		args = append(args, "--dev-bind", "/", "/", "--proc", "/proc")
	case v.read != nil:
		args = append(args, "--tmpfs", "/")
		m.seal("/")
		m.system(v)
	default:
		args = append(args, "--ro-bind", "/", "/")
	}
	if !v.full {
		args = append(args, "--dev", "/dev")
		args = append(args, shared()...)
		m.seal("/dev")
		args = append(args, process()...)
		switch { // root owns the machine's files in /proc, and could change their modes for all users
		case root() && v.narrow: // and has to write the users of its namespaces there
			args = append(args, machineReadOnly()...)
		case root():
			m.seal("/proc")
		}
		b.hide(&m, v)
	}
	if len(v.roots) > 0 && !v.full {
		args = append(args, guard...)
	}
	if v.tmp != "" {
		m.bind(v.tmp, "/tmp")
	} else if v.read != nil {
		m.add("/tmp", "--tmpfs", "/tmp")
		if !v.narrow {
			m.seal("/tmp")
		}
	}
	for _, p := range slices.Concat(v.read, v.near, v.shown) {
		m.add(p, "--ro-bind", p, p)
	}
	for _, p := range v.pinned {
		if v.writes(p) && !v.hiddenByDenial(p) { // otherwise nothing can rename it
			m.bind(p, p)
		}
	}
	for _, p := range v.roots {
		m.bind(p, p)
	}
	for _, p := range v.readOnly {
		if !v.hiddenByDenial(p) {
			m.add(p, "--ro-bind", p, p)
		}
	}
	for _, p := range v.opened {
		m.bind(p, p)
	}
	for _, d := range v.linkedKeys {
		if v.hiddenByDenial(d.Path) {
			continue
		}
		m.add(d.Path, "--ro-bind", "/dev/null", d.Path)
	}
	for _, d := range v.denied {
		switch {
		case !v.visible(d.Path) || v.replaces(d.Path):
		case !d.Folder:
			m.add(d.Path, "--ro-bind", v.blank, d.Path)
		default:
			mode := "0000"
			if m.holds(d.Path) {
				mode = "0111"
			}
			m.add(d.Path, "--perms", mode, "--tmpfs", d.Path)
			m.seal(d.Path)
		}
	}
	if own != "" {
		m.add(own, "--ro-bind", own, own)
	}
	if err := m.lead(v); err != nil {
		return nil, err
	}
	return append(args, m.arguments()...), nil
}

// shownInRun are the paths below /run that sandboxes show, for resolving names and for the programs of NixOS.
var shownInRun = []string{"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/current-system"}

// ordinary is the user and the group that root is in a narrow sandbox.
const ordinary = "1000"

// root reports whether commands run as root, who owns the kernel's files and the devices.
func root() bool { return os.Geteuid() == 0 }

// shared returns the mounts for shared memory and message queues. In a sandbox that serves one command after another, its keeper
// finds what is left in them.
func shared() []string {
	args := []string{"--perms", "1777", "--tmpfs", "/dev/shm"}
	if fspath.IsDir("/proc/sys/fs/mqueue") { // the kernel supports message queues, mounted or not
		args = append(args, "--mqueue", "/dev/mqueue")
	}
	return args
}

// process returns the mounts for a /proc with only the sandbox's own processes and what programs need of the kernel.
func process() []string {
	args := []string{"--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"}
	for _, name := range []string{"sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"} {
		args = append(args, "--ro-bind-try", "/proc/"+name, "/proc/"+name)
	}
	for _, name := range []string{"keys", "key-users", "kcore", "kmsg", "timer_list", "sched_debug"} {
		if _, err := os.Lstat("/proc/" + name); err == nil {
			args = append(args, "--ro-bind", "/dev/null", "/proc/"+name)
		}
	}
	return args
}

// machineReadOnly returns read-only mounts of everything in /proc that is not about processes.
func machineReadOnly() (args []string) {
	list, err := os.ReadDir("/proc")
	if err != nil {
		return []string{"--remount-ro", "/proc"}
	}
	mounted := process()
	for _, e := range list {
		p := "/proc/" + e.Name()
		if _, err := strconv.Atoi(e.Name()); err == nil || e.Type()&os.ModeSymlink != 0 || slices.Contains(mounted, p) {
			continue
		}
		args = append(args, "--ro-bind", p, p)
	}
	return args
}

// hide covers what no command needs: sockets of services, gantry's own folder, keys.
func (b *Sandbox) hide(m *mounts, v view) {
	// Here are the sockets of services: containers, the desktop, agents that hold keys. Resolving names still works.
	m.add("/run", "--tmpfs", "/run")
	m.seal("/run")
	for _, keep := range shownInRun {
		if _, err := os.Stat(keep); err == nil {
			m.add(keep, "--ro-bind", keep, keep)
		}
	}
	if os.Geteuid() == 0 {
		for _, p := range secrets.MachineFiles { // other users can't read them anyway
			if fspath.Exists(p) {
				m.add(p, "--ro-bind", "/dev/null", p)
			}
		}
	}
	if fspath.IsDir(b.home) {
		m.add(b.home, "--tmpfs", b.home)
		m.seal(b.home)
		if plugins := filepath.Join(b.home, "plugins"); fspath.IsDir(plugins) {
			m.add(plugins, "--ro-bind", plugins, plugins)
		}
	}
	for _, k := range b.hidden(v) {
		if k.Folder {
			mode := "0000"
			if v.opensBelow(k.Path) {
				mode = "0111"
			}
			m.add(k.Path, "--perms", mode, "--tmpfs", k.Path)
			m.seal(k.Path)
		} else {
			m.add(k.Path, "--ro-bind", "/dev/null", k.Path)
		}
	}
}

// hidden returns the keys outside of the roots that a view hides. For keys in roots see keysIn.
func (b *Sandbox) hidden(v view) (list []secrets.Key) {
	covered := []string{"/run", "/dev", "/proc", b.home}
	for _, k := range v.keys {
		covered = append(covered, k.Path)
	}
	for _, k := range v.keys {
		switch p := k.Path; {
		case !k.Exists || !v.visible(p):
		case fspath.BelowAny(p, covered) || v.replaces(p): // it is invisible anyway
		case fspath.BelowAny(p, v.roots) || slices.Contains(v.roots, p):
		case slices.Contains(v.shown, p):
		case k.Folder || k.Regular:
			list = append(list, k)
		}
	}
	return list
}

// opensBelow reports whether something below a hidden folder is visible.
func (v view) opensBelow(folder string) bool {
	return slices.ContainsFunc(slices.Concat(v.shown, v.roots), func(s string) bool { return fspath.Below(s, folder) })
}

// replaces reports whether a path is in the machine's /tmp and not in what the view shows of it.
func (v view) replaces(path string) bool {
	return v.tmp != "" && fspath.Below(path, "/tmp") && fspath.Depth(fspath.Deepest(slices.Concat(v.read, v.near, v.roots), path)) < fspath.Depth("/tmp")
}

// visible reports whether a path is visible before anything is mounted over it.
func (v view) visible(path string) bool {
	shown := slices.Concat(v.read, v.roots, v.system())
	return v.read == nil || fspath.BelowAny(path, shown) || slices.Contains(shown, path)
}

// system returns the system's folders that are visible where reading is restricted.
func (v view) system() []string {
	if v.narrow {
		return narrowFolders
	}
	return systemFolders()
}

// hold makes entries read-only that others may be moving.
func (v *view) hold(list ...deny.Entry) {
	v.kept = append(v.kept, list...)
	for _, d := range list {
		v.readOnly = append(v.readOnly, d.Path)
	}
}

// writes reports whether a path is writable, by the deepest root or read-only folder that it is in.
func (v view) writes(path string) bool {
	return len(fspath.Deepest(v.roots, path)) > len(fspath.Deepest(v.readOnly, path))
}

// hiddenByDenial reports whether a path is in a denied folder, where nothing is visible except for roots inside it.
func (v view) hiddenByDenial(path string) bool {
	return slices.ContainsFunc(v.denied, func(o deny.Entry) bool {
		return o.Folder && fspath.Below(path, o.Path) && !slices.ContainsFunc(v.roots, func(r string) bool {
			return fspath.Below(r, o.Path) && (path == r || fspath.Below(path, r))
		})
	})
}

// covers returns what is verified inside the sandbox: denied or read-only paths in folders that others may be changing.
func (v view) covers() []control.Cover {
	var out []control.Cover
	inRoot := func(d deny.Entry) bool { return fspath.BelowAny(d.Path, v.roots) && !v.hiddenByDenial(d.Path) }
	for _, d := range slices.Concat(v.denied, v.linkedKeys) {
		if inRoot(d) {
			out = append(out, control.Cover{Path: d.Path, Dev: d.Parent.Dev, Ino: d.Parent.Ino, WasDev: d.ID.Dev, WasInode: d.ID.Ino})
		}
	}
	for _, d := range v.kept {
		if inRoot(d) {
			out = append(out, control.Cover{Path: d.Path, Dev: d.Parent.Dev, Ino: d.Parent.Ino})
		}
	}
	return out
}

// mounts collects mounts.
type mounts struct {
	list   []mount
	sealed []string // new folders, made read-only once everything is mounted
}

// guard makes the machine's files read-only for bubblewrap itself. While it creates mount points it has them at /oldroot, beside the sandbox,
// and it follows symbolic links: a command that runs could replace a folder on the way with a link just then. What is to be writable is
// mounted from a second place, whose name no command knows.
var guard = []string{"--bind", "/", control.Beside, "--ro-bind", "/", "/../oldroot"}

// bind mounts a folder or file of the machine so that it can be written.
func (m *mounts) bind(from, path string) {
	m.add(path, "--bind-try", control.Beside+from, path) // without -try, bubblewrap would look for the second place on the machine
}

func (m *mounts) add(path string, args ...string) { m.list = append(m.list, mount{path, args}) }

func (m *mounts) seal(path string) { m.sealed = append(m.sealed, path) }

// lead mounts what leads to other mounts in a /tmp that commands write. Bubblewrap creates what is missing of a mount's path and follows
// symbolic links, which could lead to any of the machine's files: a command must not be able to leave one there for the next sandbox.
func (m *mounts) lead(v view) error {
	for _, x := range m.list { // without those that are added here
		if v.tmp == "" || !fspath.Below(x.path, "/tmp") || slices.Contains(slices.Concat(v.read, v.roots), "/tmp") {
			continue
		}
		name := strings.Split(x.path, "/")[2]
		top := filepath.Join("/tmp", name)
		if !slices.ContainsFunc(m.list, func(o mount) bool { return o.path == top }) {
			m.add(top, "--tmpfs", top)
			m.seal(top)
		}
		// A command without this mount may have created a link.
		at := filepath.Join(v.tmp, name)
		if info, err := os.Lstat(at); err == nil && info.Mode()&os.ModeSymlink != 0 {
			if err := os.Remove(at); err != nil && !fspath.IsNotExist(err) {
				return fmt.Errorf("remove the symbolic link %s, which is where the sandbox shows %s: %w", at, x.path, err)
			}
		}
	}
	return nil
}

// holds reports whether something is mounted below a folder.
func (m *mounts) holds(folder string) bool {
	return slices.ContainsFunc(m.list, func(x mount) bool { return fspath.Below(x.path, folder) })
}

// system mounts the system's folders that are not in a denied one. Where one is a symbolic link, as /bin often is, the link is created.
func (m *mounts) system(v view) {
	for _, p := range v.system() {
		info, err := os.Lstat(p)
		switch {
		case err != nil || p == "/dev" || p == "/proc" || strings.HasPrefix(p, "/run/") || v.hiddenByDenial(p):
		case info.Mode()&os.ModeSymlink != 0:
			if to, err := os.Readlink(p); err == nil {
				m.add(p, "--symlink", to, p)
			}
		default:
			m.add(p, "--ro-bind", p, p)
		}
	}
}

func (m *mounts) arguments() []string {
	var args []string
	slices.SortStableFunc(m.list, func(a, b mount) int { return fspath.Depth(a.path) - fspath.Depth(b.path) })
	for _, x := range m.list {
		args = append(args, x.args...)
	}
	for _, p := range m.sealed { // last, since mounting below them creates folders
		args = append(args, "--remount-ro", p)
	}
	return args
}
