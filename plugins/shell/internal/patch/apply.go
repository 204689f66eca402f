package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Outcome is the result of Apply. Failure is empty if all changes were made.
type Outcome struct {
	Done    int    `json:"done"` // number of changes that were made
	Failure string `json:"failure,omitempty"`
	Stale   bool   `json:"stale,omitempty"`  // a file has changed since Verify, so no change was made
	Denied  bool   `json:"denied,omitempty"` // the operating system refused
}

// Apply makes the changes in the order of the patch. Before the first, it checks that each file has the same content as in Verify, or
// already has the new content, so that an interrupted plan can be applied again. After a failure, earlier changes remain.
func (p *Plan) Apply() Outcome {
	for i := range p.Changes {
		if path, ok := p.Changes[i].matchesDisk(); !ok {
			return Outcome{Stale: true, Failure: fmt.Sprintf(
				"%s has changed since it was checked. Read it again before you change it", path)}
		}
	}
	for i := range p.Changes {
		if err := p.Changes[i].apply(); err != nil {
			return Outcome{Done: i, Failure: err.Error(), Denied: denied(err)}
		}
	}
	return Outcome{Done: len(p.Changes)}
}

// matchesDisk reports whether the files are as the change expects them. If not, it returns the path of the one that differs.
func (c *Change) matchesDisk() (string, bool) {
	now, _ := read(c.Path)
	source := c.Before.same(now) || c.Before.Presence == PresenceUnknown
	if c.MoveTo != "" {
		source = source || now.Presence == PresenceAbsent // moved by an earlier attempt; the destination is checked below
	} else if c.Kind == KindDelete {
		source = source || now.Presence == PresenceAbsent
	} else {
		source = source || c.hasContent(now)
	}
	if !source {
		return c.Path, false
	}
	if c.MoveTo == "" {
		return "", true
	}
	there, _ := read(c.MoveTo)
	if c.hasContent(there) {
		return "", true
	}
	if now.Presence == PresenceAbsent {
		return c.Path, false
	}
	free := there.Presence == PresenceAbsent || c.Destination == nil || c.Destination.Presence == PresenceUnknown
	if !free && !c.Destination.same(there) {
		return c.MoveTo, false
	}
	return "", true
}

// hasContent reports whether s is a file with the change's new content.
func (c *Change) hasContent(s State) bool { return stateOf(c.After).same(s) }

func (s State) same(o State) bool { return s.Presence == o.Presence && s.SHA256 == o.SHA256 }

// writeError reports the step that failed. Its text is for the model.
type writeError struct {
	step, path string
	err        error
}

func (e *writeError) Error() string {
	return fmt.Sprintf("%s %s: %s", e.step, e.path, OSText(e.err))
}

func (e *writeError) Unwrap() error { return e.err }

func (c *Change) apply() error {
	switch {
	case c.Kind == KindDelete:
		return remove("Failed to delete file", c.Path)
	case c.Kind == KindAdd:
		return create(c.Path, c.After, 0o666)
	case c.MoveTo != "":
		return c.move()
	case c.hasContent(c.Before):
		return nil // the patch contains only context lines
	}
	if err := write(c.Path, c.After, os.O_RDWR, 0); err != nil {
		return &writeError{"Failed to write file", c.Path, err}
	}
	return nil
}

func (c *Change) move() error {
	mode := fs.FileMode(0o666)
	if info, err := os.Stat(c.Path); err == nil {
		mode = info.Mode().Perm()
	}
	if err := create(c.MoveTo, c.After, mode); err != nil {
		return err
	}
	return remove("Failed to remove original", c.Path)
}

func remove(step, path string) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return &writeError{step, path, fmt.Errorf("path `%s` is not a file", path)}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &writeError{step, path, err}
	}
	return nil
}

// create writes a file, creating it and its parent folders if necessary.
func create(path string, data []byte, mode fs.FileMode) error {
	err := write(path, data, os.O_RDWR|os.O_CREATE, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return &writeError{"Failed to create parent directories for", path, err}
		}
		err = write(path, data, os.O_RDWR|os.O_CREATE, mode)
	}
	if err != nil {
		return &writeError{"Failed to write file", path, err}
	}
	return nil
}

// write writes a file in place, so that hard links and modes are kept. If it fails, for example because the disk is full, it restores
// the old content if possible.
func write(path string, data []byte, flags int, mode fs.FileMode) error {
	f, err := os.OpenFile(path, flags, mode)
	if errors.Is(err, fs.ErrPermission) { // the file is write-only
		f, err = os.OpenFile(path, flags&^os.O_RDWR|os.O_WRONLY, mode)
	}
	if err != nil {
		return err
	}
	old, _ := read(path)
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err != nil && old.Whole() {
		if _, undo := f.WriteAt(old.Data, 0); undo == nil {
			err = errors.Join(err, f.Truncate(int64(len(old.Data))))
		}
	}
	return errors.Join(err, f.Close())
}

// Summary returns the text for the model after Apply, which took the given number of seconds.
func (p *Plan) Summary(o Outcome, seconds float64) string {
	var b strings.Builder
	code := 0
	if o.Failure != "" {
		code = 1
	}
	fmt.Fprintf(&b, "Exit code: %d\nWall time: %s seconds\nOutput:\n", code, shortSeconds(seconds))
	switch {
	case o.Failure == "":
		b.WriteString("Success. Updated the following files:\n")
	case o.Done == 0:
		b.WriteString(o.Failure + "\n")
	default:
		b.WriteString(o.Failure + "\nThe changes before it were made:\n")
	}
	for _, letter := range []struct {
		kind Kind
		name string
	}{{KindAdd, "A"}, {KindUpdate, "M"}, {KindDelete, "D"}} {
		for _, c := range p.Changes[:o.Done] {
			if c.Kind == letter.kind {
				fmt.Fprintf(&b, "%s %s\n", letter.name, c.Spelled)
			}
		}
	}
	return b.String()
}

// shortSeconds formats seconds with at most one decimal.
func shortSeconds(s float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", s), ".0")
}
