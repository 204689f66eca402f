// Package agentsfile reads the instructions that users write for agents: AGENTS.md in the folders of a project, and in gantry's
// own folder for all projects.
//
// It owns: which files are read, how much of them, and noticing that they changed. It must not know: how a model gets the text.
//
// Start with [New]. The files belong to other people: a problem with one of them causes a warning and never fails the turn.
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

// Names of the files; codex-compatible. In each folder the first existing one is used.
const (
	overrideName = "AGENTS.override.md"
	name         = "AGENTS.md"
)

// separator separates the instructions for all projects from those of the project; codex-compatible.
const separator = "\n\n--- project-doc ---\n\n"

// maxHomeBytes limits the file in gantry's own folder, which does not count as the project's.
const maxHomeBytes = 256 << 10

// Config selects the files.
type Config struct {
	Home        string   // gantry's own folder; empty: none
	MaxBytes    int64    // limit for all files of a project together; 0: they are not read
	RootMarkers []string // a project's top folder contains one of these; empty: only the working folder is read
	Fallbacks   []string // names that are used in folders without an AGENTS.md
	// Denied reports whether models may not read a path when dir is the working folder; nil: they may read everything.
	Denied func(dir, path string) bool
}

// Warning is a notice to people about a file that was not used as it is.
type Warning struct {
	Text, Next string
}

// Found is the content of the files.
type Found struct {
	Text     string // empty: none
	Warnings []Warning
}

// Reader reads the files for a working folder and remembers their state. It is for one goroutine.
type Reader struct {
	cfg   Config
	dir   string
	seen  []fileState
	found Found
}

// New returns a reader. It reads nothing yet.
func New(cfg Config) *Reader { return &Reader{cfg: cfg} }

// fileState is the state of a path in the file system; info is nil if it did not exist or was not accessible.
type fileState struct {
	path string
	info fs.FileInfo
}

func (s fileState) unchanged() bool {
	now, err := os.Stat(s.path)
	if err != nil || s.info == nil {
		return err != nil && s.info == nil
	}
	return os.SameFile(s.info, now) && s.info.Size() == now.Size() && s.info.ModTime().Equal(now.ModTime()) && s.info.Mode() == now.Mode()
}

// Read reads the files that apply in dir, which is absolute.
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

// Look is [Reader.Read] if a file has changed since the last call; otherwise it returns the last result.
func (r *Reader) Look(dir string) Found {
	if dir != r.dir || slices.ContainsFunc(r.seen, func(s fileState) bool { return !s.unchanged() }) {
		return r.Read(dir)
	}
	return r.found
}

func (r *Reader) stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	r.seen = append(r.seen, fileState{path, info})
	return info, err
}

// folders returns the folders from the project's top down to dir.
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

// reading is one pass over folders that share a limit.
type reading struct {
	*Reader
	root    string // links must not lead out of it; empty: they may
	left    int64
	budget  bool
	texts   []string
	omitted []string
}

func (g *reading) warn(next, format string, args ...any) {
	g.found.Warnings = append(g.found.Warnings, Warning{fmt.Sprintf(format, args...), next})
}

// folder reads the file of a folder.
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
		case err != nil: // it was removed in the meantime
			continue
		case !g.isInProject(real):
			g.warn("Put a file there instead of the link.", "the instructions in %s are not used: the link leads out of the project", path)
			continue
		case g.ownedByOther(dir, info):
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

// cause returns an error without the path, which the message around it has.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// isInProject reports whether a path without links is inside the project. A project must not make the model, and so its vendor, read
// other files through a link.
func (g *reading) isInProject(path string) bool {
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

// denied reports whether models may not read a path without links, under any name of the project's folder.
func (g *reading) denied(path string) bool {
	if g.root == "" || g.cfg.Denied == nil {
		return false
	}
	rel, err := g.rel(path)
	return err != nil || g.cfg.Denied(g.dir, path) || g.cfg.Denied(g.dir, filepath.Join(g.root, rel))
}

// ownedByOther reports whether a file in a folder above the working folder belongs to an unrelated user: not this one, not root, and
// not the owner of the working folder, who is a different user if a container works on its user's files.
func (g *reading) ownedByOther(dir string, info fs.FileInfo) bool {
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

// take reads a file up to the limit; real is its path without links. A file that has been replaced by a pipe can't block it, and
// one that has been replaced by a link is not read.
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
