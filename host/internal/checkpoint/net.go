package checkpoint

import (
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Changes adds up what became of files: many edits of one are one, and what was added and deleted again is nothing. The zero
// Changes is ready. It belongs to one goroutine.
type Changes struct {
	files map[string]*File
}

// File is what became of one file over some calls.
type File struct {
	Path          string
	From          string // absolute; where its content was before, if it was moved
	Before, After event.FileState
	NewFolder     string // first folder above it that was not there before
	// ChangedOutside: something else changed it in between, a person for example. That is part of Before to After.
	ChangedOutside bool
	// Open: the end of the call that was to change it was not recorded. After is what the call was to make of it, or unread.
	Open bool

	// While it is open: the call that is to close it, the last state that was seen, and what was to become of it; nil: that was
	// not said.
	call   event.CallID
	sure   event.FileState
	wanted *event.FileState
}

// Matches tells whether a state is the wanted one. Where no mode was said, any will do; a digest says the size.
func Matches(wanted, is event.FileState) bool {
	if wanted.Mode == 0 {
		wanted.Mode = is.Mode
	}
	if wanted.SHA256 != "" {
		wanted.Size = is.Size
	}
	return wanted.Same(is)
}

// AddBefore notes what stood at paths before a call or an undo.
func (c *Changes) AddBefore(k event.FilesKept) {
	for _, kept := range k.Files {
		f := c.file(kept.Path, kept.Before, kept.NewFolder)
		switch {
		case f.Open: // of the call before, this is the first that is known
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

// AddAfter notes what became of them.
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

// Append adds what came after c.
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

// Net returns the files that are others than before, or may be, sorted by path.
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

// All returns all files that were looked at, sorted by path.
func (c *Changes) All() []File {
	var out []File
	for _, path := range slices.Sorted(maps.Keys(c.files)) {
		out = append(out, *c.files[path])
	}
	return out
}

// origin follows a chain of moves to where the content was at first. A move that took the place of another file is no move
// here: the one went, the other changed. Neither is one of a file that is back, or was not there at first.
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
