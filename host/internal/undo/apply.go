package undo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/checkpoint"
	"github.com/gantry-agent/gantry/host/internal/crashpoint"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// tempPrefix is the prefix of temporary files next to the files to restore. An undo that was killed leaves some of them; the next
// one removes them.
const tempPrefix = ".gantry-undo-"

// op is a step that is being executed. All file operations are relative to root, which was verified after opening. So nothing outside
// of it is changed, even if folders are replaced meanwhile.
type op struct {
	*Step
	root  *os.Root
	rel   string // of the file, below root
	fresh string // name of the temporary file with the new content; "": the file is to be deleted
	back  string // name of the temporary copy of the current file; "": there is no current file
	made  string // topmost folder that was created for it, relative to root; "": none
	begun bool   // the file itself may have been changed
}

// apply executes all steps or none. It first writes temporary files with the new and the current content, so that only renames
// remain, forward or back: each file is complete at any time.
func apply(id string, steps []Step) (err error) {
	ops := make([]*op, 0, len(steps))
	defer func() {
		done, synced := err == nil, map[string]bool{}
		for _, o := range ops {
			err = errors.Join(err, o.close(done, synced))
		}
	}()
	for i := range steps {
		o := &op{Step: &steps[i]}
		ops = append(ops, o)
		if err := o.stage(fmt.Sprintf("%s%s-%d", tempPrefix, id, i)); err != nil {
			return fmt.Errorf("restore %s: %w; no file was changed", o.Path, err)
		}
	}
	crashpoint.At(crashpoint.FilesStaged, "")
	// Deletions come first: a folder may have to be replaced by a file.
	for _, goes := range []bool{true, false} {
		for _, o := range ops {
			if goes != (o.Want.Kind == event.FileAbsent) {
				continue
			}
			if err := o.swap(); err != nil {
				err = fmt.Errorf("restore %s: %w", o.Path, err)
				if failed := rollBack(ops); failed != nil {
					return fmt.Errorf("%w; files that had already been restored could not be changed back: %w", err, failed)
				}
				return fmt.Errorf("%w; no file was changed", err)
			}
			crashpoint.At(crashpoint.FileSwapped, "")
		}
	}
	return nil
}

func rollBack(ops []*op) error {
	var errs []error
	for i := len(ops) - 1; i >= 0; i-- {
		if o := ops[i]; o.begun {
			if err := o.unswap(); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", o.Path, err))
				continue
			}
			o.begun = false
		}
	}
	return errors.Join(errs...)
}

// stage writes the temporary files with the new content and with a copy of the current content.
func (o *op) stage(name string) error {
	dir := filepath.Dir(o.Path)
	if o.newFolder != "" && o.Want.Kind == event.FileAbsent {
		dir = filepath.Dir(o.newFolder) // its own folder is to be removed as well
	}
	for { // find the lowest existing folder; the others are created below it
		_, err := os.Lstat(dir)
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	o.root = root
	if err := sameFolder(root, dir); err != nil {
		return err
	}
	if o.rel, err = filepath.Rel(dir, o.Path); err != nil {
		return err
	}
	if o.Want.Kind != event.FileAbsent {
		if parent := filepath.Dir(o.rel); parent != "." {
			first, _, _ := strings.Cut(o.rel, string(filepath.Separator))
			o.made = first
			if err := root.MkdirAll(parent, 0o777); err != nil {
				return err
			}
		}
		if err := o.write(name+"-new", o.Want, o.data, &o.fresh); err != nil {
			return err
		}
	}
	if o.Now.Kind != event.FileAbsent {
		return o.write(name+"-old", o.Now, o.now.Data, &o.back)
	}
	return nil
}

// sameFolder checks that root is the folder dir, and that no part of dir is a symbolic link.
func sameFolder(root *os.Root, dir string) error {
	if at, _ := checkpoint.Resolve(filepath.Join(dir, "x")); filepath.Dir(at) != dir {
		return fmt.Errorf("its folder is now %s", filepath.Dir(at))
	}
	opened, err := root.Stat(".")
	if err != nil {
		return err
	}
	named, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !os.SameFile(opened, named) {
		return errors.New("its folder was replaced in the meantime")
	}
	return nil
}

// write creates a file or a symbolic link with a state. It sets note to the name as soon as there may be something to remove.
func (o *op) write(name string, s event.FileState, data []byte, note *string) error {
	if s.Kind == event.FileLink {
		*note = name
		return o.root.Symlink(s.Target, name)
	}
	f, err := o.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	*note = name
	_, err = f.Write(data)
	if err == nil && o.now.Info != nil {
		copyOwner(f, o.now.Info)
	}
	if err == nil { // after the change of owner, which clears bits
		err = f.Chmod(mode(s.Mode))
	}
	if err == nil && note == &o.fresh { // the copy in o.back need not survive a crash
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// mode converts permission bits in the form of chmod to Go's form.
func mode(bits uint32) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	for bit, special := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			m |= special
		}
	}
	return m
}

// swap replaces the file with the prepared one, if it has not changed since it was inspected.
func (o *op) swap() error {
	if !o.unchanged() {
		if checkpoint.Matches(o.Want, checkpoint.Inspect(o.Path).FileState) {
			return nil // another name of the same file was restored before
		}
		return errors.New("it is being changed right now")
	}
	o.begun = true
	if o.Want.Kind == event.FileAbsent {
		if err := o.root.Remove(o.rel); err != nil {
			return err
		}
		o.tidy()
		return nil
	}
	if linkCount(o.now.Info) > 1 && o.Want.Kind == event.FileRegular {
		return o.overwrite(o.Want, o.data)
	}
	if err := o.root.Rename(o.fresh, o.rel); err != nil {
		o.begun = false
		return err
	}
	o.fresh = ""
	return nil
}

func (o *op) unchanged() bool {
	info, err := o.root.Lstat(o.rel)
	if o.now.Info == nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && os.SameFile(info, o.now.Info) && info.Mode() == o.now.Info.Mode() && info.Size() == o.now.Info.Size() &&
		info.ModTime().Equal(o.now.Info.ModTime())
}

// unswap reverses a swap.
func (o *op) unswap() error {
	switch {
	case o.back == "":
		return ignoreMissing(o.root.Remove(o.rel))
	case linkCount(o.now.Info) > 1 && o.Want.Kind == event.FileRegular:
		return o.overwrite(o.Now, o.now.Data)
	}
	if err := o.root.MkdirAll(filepath.Dir(o.rel), 0o777); err != nil { // tidy may have removed it
		return err
	}
	if err := o.root.Rename(o.back, o.rel); err != nil {
		return err
	}
	o.back = ""
	return nil
}

// overwrite writes into the file itself, which has several hard links that must remain one file. This is the only case in which a
// file is incomplete for a moment; its content is in the store.
func (o *op) overwrite(s event.FileState, data []byte) error {
	f, err := o.root.OpenFile(o.rel, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Chmod(mode(s.Mode))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// tidy removes the empty folders that the turn created for the file.
func (o *op) tidy() {
	if o.newFolder == "" {
		return
	}
	for dir := filepath.Dir(o.rel); dir != "."; dir = filepath.Dir(dir) {
		if o.root.Remove(dir) != nil { // not empty: it contains other files
			return
		}
	}
}

// close removes the temporary files. After a failure, the copy of a file that could not be restored is left.
func (o *op) close(done bool, synced map[string]bool) error {
	if o.root == nil {
		return nil
	}
	var errs []error
	for _, name := range []string{o.fresh, o.back} {
		if name != "" && (done || !o.begun) {
			errs = append(errs, ignoreMissing(o.root.Remove(name)))
		}
	}
	if !done && !o.begun && o.made != "" {
		for dir := filepath.Dir(o.rel); dir != "." && o.root.Remove(dir) == nil; {
			dir = filepath.Dir(dir)
		}
	}
	if !synced[o.root.Name()] {
		synced[o.root.Name()] = true
		if dir, err := o.root.Open("."); err == nil {
			_ = dir.Sync() // not supported by every file system
			_ = dir.Close()
		}
	}
	return errors.Join(append(errs, o.root.Close())...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeTemporary removes the temporary files of interrupted undos.
func removeTemporary(cut []checkpoint.Record) {
	for _, r := range cut {
		for _, f := range r.Changes.All() {
			dirs := []string{filepath.Dir(f.Path)}
			if f.NewFolder != "" {
				dirs = append(dirs, filepath.Dir(f.NewFolder))
			}
			for _, dir := range dirs {
				entries, err := os.ReadDir(dir)
				if err != nil {
					continue
				}
				for _, e := range entries {
					if strings.HasPrefix(e.Name(), tempPrefix+string(r.ID)+"-") && !e.IsDir() {
						_ = os.Remove(filepath.Join(dir, e.Name())) // if it fails, the next undo tries again
					}
				}
			}
		}
	}
}
