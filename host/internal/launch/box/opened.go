package box

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/deny"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// A person may approve writing one file in a folder that is read-only. To create or remove the file its folder has to be writable,
// so everything else in it is made read-only one by one. If that is impossible, an existing file is mounted by itself: then it can
// be written but not removed.

// maxBeside bounds the mounts for the other files in a folder: a tenth of a second, after a question to a person.
const maxBeside = 256

// open makes what was not opened in partial folders read-only.
func (v *view) open(opened []string) error {
	var folders []string // writable for the sake of a file in them
	for _, o := range opened {
		dir := fspath.ExistingParent(o)
		kept := fspath.Deepest(v.partial, dir)
		switch {
		case kept == "" || len(fspath.Deepest(v.roots, dir)) > len(kept): // it is writable in any case
		case slices.ContainsFunc(v.denied, func(d deny.Entry) bool { return o == d.Path || fspath.Below(o, d.Path) }):
			return fmt.Errorf("%s can't be opened: it is denied, and no approval overrides that", o)
		case !slices.Contains(folders, dir):
			folders = append(folders, dir)
		}
	}
	var alone []string
	for _, dir := range folders {
		var names []string
		for _, o := range opened {
			if fspath.ExistingParent(o) == dir {
				names = append(names, o)
			}
		}
		beside, err := holdable(dir, opened, folders)
		switch {
		case err == nil:
			v.readOnly = append(v.readOnly, beside...)
			if !slices.Contains(v.roots, dir) {
				v.opened = append(v.opened, dir)
			}
		case slices.ContainsFunc(names, func(p string) bool { return !fspath.IsRegular(p) }):
			return fmt.Errorf("%s can't be opened by itself: %w", names[0], err)
		default:
			alone = append(alone, dir)
			v.opened = append(v.opened, names...)
		}
	}
	for _, p := range slices.Concat(v.partial, alone) {
		if (slices.Contains(alone, p) || !slices.Contains(folders, p)) && !slices.Contains(v.readOnly, p) {
			v.readOnly = append(v.readOnly, p)
		}
	}
	return nil
}

// made returns what has to be created for a path first: its first missing element, or path itself.
func made(path string) string {
	dir := fspath.ExistingParent(path)
	first, _, _ := strings.Cut(strings.TrimPrefix(path, strings.TrimSuffix(dir, "/")+"/"), "/")
	return filepath.Join(dir, first)
}

// holdable returns the paths in a folder that were not opened. open are folders that are handled on their own.
func holdable(dir string, opened, open []string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		switch {
		case slices.Contains(opened, p) || slices.Contains(open, p):
		case e.Type()&fs.ModeSymlink != 0:
			return nil, fmt.Errorf("its folder contains %s, a symbolic link that could be replaced then", p)
		default:
			out = append(out, p)
		}
	}
	if len(out) > maxBeside {
		return nil, fmt.Errorf("its folder contains %d other files and folders, and the sandbox can protect at most %d", len(out), maxBeside)
	}
	return out, nil
}
