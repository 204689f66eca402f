package fspath

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mountpoint is a line of /proc/self/mountinfo: a device, the folder or file of it that is mounted, and where.
type mountpoint struct{ device, root, at string }

// OtherMounts returns the other paths at which paths, or parts of them, are visible because their file system is mounted more than
// once. What is hidden at the first path has to be hidden there as well.
func OtherMounts(paths []string) []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return otherPaths(parseMounts(b), paths, func(a, b string) bool {
		x, _, ok := Lstat(a)
		y, _, also := Lstat(b)
		return ok && also && x.Dev == y.Dev && x.Ino == y.Ino
	})
}

func parseMounts(b []byte) []mountpoint {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []mountpoint
	for line := range bytes.Lines(b) {
		if f := strings.Fields(string(line)); len(f) > 4 {
			out = append(out, mountpoint{f[2], unescape.Replace(f[3]), unescape.Replace(f[4])})
		}
	}
	return out
}

// otherPaths looks up paths in a list of mounts. same reports whether two paths are one file.
func otherPaths(mounts []mountpoint, paths []string, same func(a, b string) bool) []string {
	var out []string
	for _, p := range paths {
		own := -1 // the deepest mount that contains the path; of several at one place the last covers the others
		for i, m := range mounts {
			if (m.at == p || Below(p, m.at)) && (own < 0 || len(m.at) >= len(mounts[own].at)) {
				own = i
			}
		}
		if own < 0 {
			continue
		}
		inside := filepath.Join(mounts[own].root, strings.TrimPrefix(p, strings.TrimSuffix(mounts[own].at, "/")))
		for i, m := range mounts {
			other := ""
			switch {
			case i == own || m.device != mounts[own].device:
				continue
			case inside == m.root || Below(inside, m.root):
				other = filepath.Join(m.at, strings.TrimPrefix(inside, strings.TrimSuffix(m.root, "/")))
				if other == p || !same(p, other) {
					continue
				}
			case Below(m.root, inside) && m.at != p && !Below(m.at, p): // a part of the path is mounted elsewhere
				other = m.at
			default:
				continue
			}
			if !slices.Contains(out, other) && !slices.Contains(paths, other) {
				out = append(out, other)
			}
		}
	}
	return out
}
