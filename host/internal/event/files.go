package event

// FileKind is the kind of a file at a path.
type FileKind string

// Kinds of files. FileOther is neither a regular file nor a symbolic link, but a folder or a pipe, for example. FileUnreadable could
// not be inspected.
const (
	FileAbsent     FileKind = "absent"
	FileRegular    FileKind = "file"
	FileLink       FileKind = "link"
	FileOther      FileKind = "other"
	FileUnreadable FileKind = "unread"
)

// FileState is the state of a path at one time.
type FileState struct {
	Kind FileKind `json:"kind"`
	// Mode has the permission bits of a file, as chmod takes them.
	Mode uint32 `json:"mode,omitempty"`
	Size int64  `json:"size,omitempty"`
	// SHA256 is the digest of the content; empty: it was not read.
	SHA256 string `json:"sha256,omitempty"`
	// Modified is the modification time, in nanoseconds since 1970. It replaces the digest of content that was not read.
	Modified int64  `json:"modified,omitempty"`
	Target   string `json:"target,omitempty"` // of a link
	Kept     bool   `json:"kept,omitempty"`   // the content is in the store
	Why      string `json:"why,omitempty"`    // why the content is not in the store
}

// Same reports whether two states are equal, as far as they are known.
func (s FileState) Same(o FileState) bool {
	s.Kept, s.Why, o.Kept, o.Why = false, "", false, ""
	return s == o
}

// FilesKept records the state of files before they can be changed. It is committed with the start of the call, so that the changes
// can be undone even if the host crashes. [FilesChanged] closes it.
type FilesKept struct {
	Call   CallID     `json:"call,omitempty"`   // empty for an undo
	Undoes []TurnID   `json:"undoes,omitempty"` // for an undo: the turns, or other undos, that it undoes
	Files  []FileKept `json:"files"`
	// Skipped is the number of paths beyond the limit, which were not inspected.
	Skipped int `json:"left,omitempty"`
}

// FileKept is one path of [FilesKept].
type FileKept struct {
	Path   string    `json:"path"` // absolute; none of its folders is a symbolic link
	Before FileState `json:"before"`
	// Wanted is the announced state after the call, if there is one; its mode may be missing.
	Wanted *FileState `json:"wanted,omitempty"`
	// NewFolder is the topmost folder of the path that did not exist; empty: all existed.
	NewFolder string `json:"newFolder,omitempty"`
}

// FilesChanged records the changes of files after a call or an undo. The list is empty if nothing has changed.
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

// TurnDiff is the net diff of a turn's file changes so far, in git's format. Paths are relative to the git work tree of the thread's
// folder, or to the folder itself. It is published after each change, and once more before the turn ends. It is transient, because it
// can be derived from the log.
type TurnDiff struct {
	Diff  string       `json:"diff"`
	Files []DiffedFile `json:"files,omitempty"`
	// Omitted is the number of files that Diff leaves out because it would be too long.
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
