// Package agentsfile reads what people write down for agents: AGENTS.md in the folders of a project, and in gantry's own
// folder for all projects.
//
// It owns: which files count, how much of them, and noticing that they changed. It must not know: how a model is told.
//
// Start with [New]. The files are other people's: whatever lies there costs a warning, never the turn.
package agentsfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Names of the files, codex-compatible. In each folder the first that is there counts.
const (
	overrideName = "AGENTS.override.md"
	name         = "AGENTS.md"
)

// separator stands between what holds everywhere and what the project says; codex-compatible.
const separator = "\n\n--- project-doc ---\n\n"

// maxHomeBytes bounds the file in gantry's own folder, which is not part of a project's budget.
const maxHomeBytes = 256 << 10

// Config says which files count.
type Config struct {
	Home        string   // gantry's own folder; empty: none
	MaxBytes    int64    // of all files of a project together; 0: they are not read
	RootMarkers []string // a project's top folder holds one of these; empty: the working folder is all there is
	Fallbacks   []string // names that count where a folder has no AGENTS.md
	// Denied says what of a project no model may read where dir is worked in. nil: nothing.
	Denied func(dir, path string) bool
}

// Warning is what a person should know of a file that was not taken as it is.
type Warning struct {
	Text, Next string
}

// Found is what the files say.
type Found struct {
	Text     string // empty: nothing
	Warnings []Warning
}

// Reader reads the files for a working folder and remembers what it saw. It belongs to one goroutine.
type Reader struct {
	cfg   Config
	dir   string
	seen  []sighting
	found Found
}

// New makes a reader. It touches no file yet.
func New(cfg Config) *Reader { return &Reader{cfg: cfg} }

// sighting is how something in the file system looked; no info: it was not there, or not to be seen.
type sighting struct {
	path string
	info fs.FileInfo
}

func (s sighting) still() bool {
	now, err := os.Stat(s.path)
	if err != nil || s.info == nil {
		return err != nil && s.info == nil
	}
	return os.SameFile(s.info, now) && s.info.Size() == now.Size() && s.info.ModTime().Equal(now.ModTime()) && s.info.Mode() == now.Mode()
}

// Read reads the files that hold in dir, which is absolute.
func (r *Reader) Read(dir string) Found {
	r.dir, r.seen, r.found = dir, nil, Found{}
	home := &reading{Reader: r, left: maxHomeBytes}
	if r.cfg.Home != "" {
		home.folder(r.cfg.Home, nil)
	}
	project := &reading{Reader: r, left: r.cfg.MaxBytes, budget: true}
	if r.cfg.MaxBytes > 0 {
		folders := r.folders(dir)
		project.root = folders[0]
		for _, folder := range folders {
			if folder != r.cfg.Home {
				project.folder(folder, r.cfg.Fallbacks)
			}
		}
		project.reportOmitted()
	}
	texts := slices.DeleteFunc([]string{strings.Join(home.texts, "\n\n"), strings.Join(project.texts, "\n\n")}, func(s string) bool { return s == "" })
	r.found.Text = strings.Join(texts, separator)
	return r.found
}

// Look is [Reader.Read] where something looks different since, and what was found else.
func (r *Reader) Look(dir string) Found {
	if dir != r.dir || slices.ContainsFunc(r.seen, func(s sighting) bool { return !s.still() }) {
		return r.Read(dir)
	}
	return r.found
}

func (r *Reader) stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	r.seen = append(r.seen, sighting{path, info})
	return info, err
}

// folders are those from the project's top down to dir.
func (r *Reader) folders(dir string) []string {
	var up []string
	for folder := filepath.Clean(dir); ; folder = filepath.Dir(folder) {
		up = append(up, folder)
		for _, marker := range r.cfg.RootMarkers {
			if _, err := r.stat(filepath.Join(folder, marker)); err == nil {
				slices.Reverse(up)
				return up
			}
		}
		if len(r.cfg.RootMarkers) == 0 || filepath.Dir(folder) == folder {
			return up[:1]
		}
	}
}

// reading is one pass over folders that share a budget.
type reading struct {
	*Reader
	root    string // links out of it don't count; empty: any do
	left    int64
	budget  bool
	texts   []string
	omitted []string
}

func (g *reading) warn(next, format string, args ...any) {
	g.found.Warnings = append(g.found.Warnings, Warning{fmt.Sprintf(format, args...), next})
}

// folder takes the file that counts in a folder.
func (g *reading) folder(dir string, fallbacks []string) {
	for _, n := range append([]string{overrideName, name}, fallbacks...) {
		path := filepath.Join(dir, n)
		info, err := g.stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			continue
		case err != nil:
			g.warn("Make it readable, or take it away.", "the instructions in %s are not used: %v", path, cause(err))
			continue
		case !info.Mode().IsRegular():
			g.warn("Put a file there, or take it away.", "the instructions in %s are not used: it is not a regular file", path)
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		switch {
		case err != nil: // it is gone meanwhile
			continue
		case !g.within(real):
			g.warn("Put a file there instead of the link.", "the instructions in %s are not used: the link leads out of the project", path)
			continue
		case g.foreign(dir, info):
			g.warn("Start gantry with a folder of yours, or have the file removed.", "the instructions in %s are not used: the file belongs to another user, and lies above the working folder", path)
			continue
		case g.denied(real):
			g.warn("Put another file there.", "the instructions in %s are not used: sandbox { deny_read } keeps %s from the model", path, filepath.Base(real))
			continue
		}
		if g.left <= 0 {
			g.omitted = append(g.omitted, path)
		} else if err := g.take(path, real); err != nil && !errors.Is(err, fs.ErrNotExist) {
			g.warn("Make it readable, or take it away.", "the instructions in %s are not used: %v", path, cause(err))
		}
		return
	}
}

// cause is an error without the path, which the sentence around it has.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// within tells, of a path without links, that a project does not pass off a file from elsewhere as its own: the model, and so its vendor, would read it.
func (g *reading) within(path string) bool {
	if g.root == "" {
		return true
	}
	rel, err := g.rel(path)
	return err == nil && filepath.IsLocal(rel)
}

// rel returns a path without links relative to the project's top folder.
func (g *reading) rel(path string) (string, error) {
	root, err := filepath.EvalSymlinks(g.root)
	if err != nil {
		return "", err
	}
	return filepath.Rel(root, path)
}

// denied tells, of a path without links within the project, that no model may read it, by whichever name the project's folder has.
func (g *reading) denied(path string) bool {
	if g.root == "" || g.cfg.Denied == nil {
		return false
	}
	rel, err := g.rel(path)
	return err != nil || g.cfg.Denied(g.dir, path) || g.cfg.Denied(g.dir, filepath.Join(g.root, rel))
}

// foreign reports whether a file in a folder above the working folder belongs to a user who has nothing to say there: neither this one
// nor root nor the owner of the working folder, which is another where a container works on files of its user.
func (g *reading) foreign(dir string, info fs.FileInfo) bool {
	if g.root == "" || dir == filepath.Clean(g.dir) {
		return false
	}
	uid, ok := ownerOf(info)
	if !ok || uid == 0 || uid == os.Getuid() {
		return false
	}
	here, err := os.Stat(g.dir)
	if err != nil {
		return true
	}
	of, _ := ownerOf(here)
	return of != uid
}

// take reads a file as far as the budget goes; real is its path without links. Something that is swapped for a pipe meanwhile can't
// make it wait, and something that is swapped for a link is not read.
func (g *reading) take(path, real string) error {
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no longer a regular file")
	}
	if now, err := os.Lstat(real); err != nil || !os.SameFile(info, now) {
		return errors.New("it was replaced by another file")
	}
	data, err := io.ReadAll(io.LimitReader(f, g.left+1))
	if err != nil {
		return err
	}
	cut := int64(len(data)) > g.left
	if cut {
		data = data[:g.left]
	}
	text := strings.ToValidUTF8(string(data), "\uFFFD")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if cut {
		next := "Make it shorter."
		if g.budget {
			next = "Make it shorter, or raise max_bytes in the instructions block."
		}
		g.warn(next, "the instructions in %s are cut: %d of %d bytes are used", path, len(data), max(info.Size(), int64(len(data))+1))
	}
	g.left -= int64(len(data))
	g.texts = append(g.texts, text)
	return nil
}

func (g *reading) reportOmitted() {
	if len(g.omitted) > 0 {
		g.warn("Make the files above them shorter, or raise max_bytes in the instructions block.",
			"there is no room for the instructions in %s", strings.Join(g.omitted, ", "))
	}
}
