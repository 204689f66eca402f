package checkpoint

import (
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Changes computes the net change of files: several edits of a file become one change, and a file that was added and deleted again
// is unchanged. The zero Changes is ready to use. It is not safe for concurrent use.
type Changes struct {
	files map[string]*File
}

// File is the net change of one file over several calls.
type File struct {
	Path          string
	From          string // absolute path of its content before, if it was moved
	Before, After event.FileState
	NewFolder     string // topmost folder of the path that did not exist before
	// ChangedOutside: something else changed it in between, a person for example. That is part of Before to After.
	ChangedOutside bool
	// Open: the end of the call that may have changed it was not recorded. After is the announced state, or unreadable.
	Open bool

	// If the file is open: the call that has to close it, the last known state, and the announced state, which may be nil.
	call   event.CallID
	sure   event.FileState
	wanted *event.FileState
}

// Matches reports whether a state is the wanted one. If the wanted mode is missing, any mode matches; a digest implies the size.
func Matches(wanted, is event.FileState) bool {
	if wanted.Mode == 0 {
		wanted.Mode = is.Mode
	}
	if wanted.SHA256 != "" {
		wanted.Size = is.Size
	}
	return wanted.Same(is)
}

// AddBefore adds the states of files before a call or an undo.
func (c *Changes) AddBefore(k event.FilesKept) {
	for _, kept := range k.Files {
		f := c.file(kept.Path, kept.Before, kept.NewFolder)
		switch {
		case f.Open: // this is the first known state after the previous call
			f.ChangedOutside = f.ChangedOutside || f.wanted != nil && !Matches(*f.wanted, kept.Before) && !f.sure.Same(kept.Before)
		case !f.After.Same(kept.Before):
			f.ChangedOutside = true
		}
		f.Open, f.call, f.sure, f.wanted = true, k.Call, kept.Before, kept.Wanted
		f.After = event.FileState{Kind: event.FileUnreadable, Why: "the end of the call was not recorded"}
		if kept.Wanted != nil {
			f.After = *kept.Wanted
		}
	}
}

// AddAfter adds the changes after a call or an undo.
func (c *Changes) AddAfter(m event.FilesChanged) {
	for _, f := range c.files {
		if f.Open && f.call == m.Call {
			f.Open, f.After = false, f.sure
		}
	}
	for _, ch := range m.Changes {
		f := c.file(ch.Path, ch.Before, ch.NewFolder)
		f.ChangedOutside = f.ChangedOutside || !f.After.Same(ch.Before)
		f.After = ch.After
		if ch.MovedFrom != "" {
			f.From = ch.MovedFrom
		}
	}
}

func (c *Changes) file(path string, before event.FileState, newFolder string) *File {
	if f := c.files[path]; f != nil {
		return f
	}
	if c.files == nil {
		c.files = map[string]*File{}
	}
	f := &File{Path: path, Before: before, After: before, NewFolder: newFolder}
	c.files[path] = f
	return f
}

// Append adds later changes to c.
func (c *Changes) Append(later *Changes) {
	for _, path := range slices.Sorted(maps.Keys(later.files)) {
		l := later.files[path]
		f := c.file(path, l.Before, l.NewFolder)
		f.ChangedOutside = f.ChangedOutside || l.ChangedOutside || !f.After.Same(l.Before)
		f.After, f.Open, f.call, f.sure, f.wanted = l.After, l.Open, l.call, l.sure, l.wanted
		if l.From != "" {
			f.From = l.From
		}
	}
}

// Net returns the files that have changed or may have changed, sorted by path.
func (c *Changes) Net() []File {
	var out []File
	taken := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(c.files)) {
		f := *c.files[path]
		if f.Before.Same(f.After) {
			continue
		}
		f.From = c.origin(&f, taken)
		out = append(out, f)
	}
	return out
}

// All returns all inspected files, sorted by path.
func (c *Changes) All() []File {
	var out []File
	for _, path := range slices.Sorted(maps.Keys(c.files)) {
		out = append(out, *c.files[path])
	}
	return out
}

// origin follows a chain of moves to the original path of the content. It returns "" if the net change is not a move: if the file
// replaced another one, if the original file exists again, or if it did not exist at first.
func (c *Changes) origin(f *File, taken map[string]bool) string {
	if f.From == "" || f.Before.Kind != event.FileAbsent || f.After.Kind == event.FileAbsent {
		return ""
	}
	from := f.From
	for range len(c.files) {
		src := c.files[from]
		if src == nil {
			return ""
		}
		if src.From == "" || src.Before.Kind != event.FileAbsent {
			break
		}
		from = src.From
	}
	src := c.files[from]
	if src == nil || src.Before.Kind != f.After.Kind || src.After.Kind != event.FileAbsent || taken[from] {
		return ""
	}
	taken[from] = true
	return from
}
