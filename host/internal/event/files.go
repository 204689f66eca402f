package event

// FileKind is what stands at a path.
type FileKind string

// The kinds. Other is what is neither a file nor a link: a folder, a pipe. Unread could not be looked at.
const (
	FileAbsent     FileKind = "absent"
	FileRegular    FileKind = "file"
	FileLink       FileKind = "link"
	FileOther      FileKind = "other"
	FileUnreadable FileKind = "unread"
)

// FileState is what stood at a path at one time.
type FileState struct {
	Kind FileKind `json:"kind"`
	// Mode has the permission bits of a file, as chmod takes them.
	Mode uint32 `json:"mode,omitempty"`
	Size int64  `json:"size,omitempty"`
	// SHA256 is the digest of the content; empty: it was not read.
	SHA256 string `json:"sha256,omitempty"`
	// Modified stands for the digest of content that was not read: when it was written, in ns since 1970.
	Modified int64  `json:"modified,omitempty"`
	Target   string `json:"target,omitempty"` // of a link
	Kept     bool   `json:"kept,omitempty"`   // the content is in the store
	Why      string `json:"why,omitempty"`    // it is not
}

// Same tells whether two states are the same, as far as they are known.
func (s FileState) Same(o FileState) bool {
	s.Kept, s.Why, o.Kept, o.Why = false, "", false, ""
	return s == o
}

// FilesKept is what stood at paths before they could be changed. It is committed with the start of the call, so that also a
// host that dies meanwhile leaves behind what is needed to go back. [FilesChanged] closes it.
type FilesKept struct {
	Call   CallID     `json:"call,omitempty"`   // empty: of an undo
	Undoes []TurnID   `json:"undoes,omitempty"` // of an undo: the turns, or other undos, that it takes back
	Files  []FileKept `json:"files"`
	// Skipped counts paths that were too many to be looked at.
	Skipped int `json:"left,omitempty"`
}

// FileKept is one path of [FilesKept].
type FileKept struct {
	Path   string    `json:"path"` // absolute; its folders are no links
	Before FileState `json:"before"`
	// Wanted is what is to become of it, where that was said before; its mode may be missing.
	Wanted *FileState `json:"wanted,omitempty"`
	// NewFolder is the first folder above it that was not there; empty: all were.
	NewFolder string `json:"newFolder,omitempty"`
}

// FilesChanged is what became of files by a call or an undo, as the host saw it afterwards; without changes, that nothing did.
type FilesChanged struct {
	Call    CallID        `json:"call,omitempty"`
	Undoes  []TurnID      `json:"undoes,omitempty"`
	Changes []ChangedFile `json:"changes,omitempty"`
}

// ChangedFile is one change.
type ChangedFile struct {
	Path      string    `json:"path"`
	MovedFrom string    `json:"movedFrom,omitempty"` // absolute
	Before    FileState `json:"before"`
	After     FileState `json:"after"`
	NewFolder string    `json:"newFolder,omitempty"` // as in [FileKept]
}

// TurnDiff is the net diff of a turn's file changes so far, as git writes it. Paths are relative to the work tree of the
// thread's folder, or to the folder itself. It comes after each change and once more before the turn's end. Transient: the log
// has what it is made of.
type TurnDiff struct {
	Diff  string       `json:"diff"`
	Files []DiffedFile `json:"files,omitempty"`
	// Omitted counts files whose part is not in Diff, since it would be too long.
	Omitted int `json:"omitted,omitempty"`
}

// DiffedFile is one file of a [TurnDiff].
type DiffedFile struct {
	Path      string `json:"path"` // as the diff has it
	Kind      string `json:"kind"` // "add", "update" or "delete"
	MovedFrom string `json:"movedFrom,omitempty"`
	Added     int    `json:"added"` // lines
	Removed   int    `json:"removed"`
	Binary    bool   `json:"binary,omitempty"`
}

func (FilesKept) Kind() string    { return "files.kept" }
func (FilesChanged) Kind() string { return "files.changed" }
func (TurnDiff) Kind() string     { return "turn.diff" }

func (FilesKept) durable() bool    { return true }
func (FilesChanged) durable() bool { return true }
func (TurnDiff) durable() bool     { return false }
