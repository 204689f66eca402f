package protocol

// CommandExecParams are the parameters of command/exec. SandboxPolicy and PermissionProfile exclude each other; without either the
// configuration applies.
type CommandExecParams struct {
	Command            []string           `json:"command"`
	ProcessID          *string            `json:"processId,omitempty"` // required for terminals and streaming; unique per connection
	Tty                bool               `json:"tty,omitempty"`
	StreamStdin        bool               `json:"streamStdin,omitempty"`
	StreamStdoutStderr bool               `json:"streamStdoutStderr,omitempty"`
	OutputBytesCap     *uint64            `json:"outputBytesCap,omitempty"` // per stream; default 1 MiB
	DisableOutputCap   bool               `json:"disableOutputCap,omitempty"`
	TimeoutMs          *int64             `json:"timeoutMs,omitempty"` // default 10 s
	DisableTimeout     bool               `json:"disableTimeout,omitempty"`
	Cwd                *string            `json:"cwd,omitempty"`
	Env                map[string]*string `json:"env,omitempty"` // null removes a variable
	Size               *TerminalSize      `json:"size,omitempty"`
	SandboxPolicy      *SandboxPolicy     `json:"sandboxPolicy,omitempty"`
	PermissionProfile  *string            `json:"permissionProfile,omitempty" experimental:"true"`
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// CommandExecResponse is the result of command/exec. It does not repeat output that was streamed.
type CommandExecResponse struct {
	ExitCode int    `json:"exitCode"` // 124 after a timeout
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// CommandExecWriteParams are the parameters of command/exec/write.
type CommandExecWriteParams struct {
	ProcessID   string  `json:"processId"`
	DeltaBase64 *string `json:"deltaBase64,omitempty"`
	CloseStdin  bool    `json:"closeStdin,omitempty"`
}

// CommandExecWriteResponse is the result of command/exec/write.
type CommandExecWriteResponse struct{}

// CommandExecResizeParams are the parameters of command/exec/resize.
type CommandExecResizeParams struct {
	ProcessID string       `json:"processId"`
	Size      TerminalSize `json:"size"`
}

// CommandExecResizeResponse is the result of command/exec/resize.
type CommandExecResizeResponse struct{}

// CommandExecTerminateParams are the parameters of command/exec/terminate.
type CommandExecTerminateParams struct {
	ProcessID string `json:"processId"`
}

// CommandExecTerminateResponse is the result of command/exec/terminate.
type CommandExecTerminateResponse struct{}

// OutputStream names a stream of output.
type OutputStream string

// Streams of output. What a terminal prints is stdout.
const (
	StdoutStream OutputStream = "stdout"
	StderrStream OutputStream = "stderr"
)

func (OutputStream) values() []string { return names(StdoutStream, StderrStream) }

// CommandExecOutputDeltaNotification is output of a command, at most 64 KiB.
type CommandExecOutputDeltaNotification struct {
	ProcessID   string       `json:"processId"`
	Stream      OutputStream `json:"stream"`
	DeltaBase64 string       `json:"deltaBase64"`
	CapReached  bool         `json:"capReached"` // the rest of the stream is dropped
}

// ProcessSpawnParams are the parameters of process/spawn.
type ProcessSpawnParams struct {
	Command            []string           `json:"command"`
	ProcessHandle      string             `json:"processHandle"` // unique per connection while the process runs
	Cwd                string             `json:"cwd"`           // absolute
	Tty                bool               `json:"tty,omitempty"`
	StreamStdin        bool               `json:"streamStdin,omitempty"`
	StreamStdoutStderr bool               `json:"streamStdoutStderr,omitempty"`
	OutputBytesCap     *uint64            `json:"outputBytesCap,omitempty"` // per stream; default 1 MiB
	TimeoutMs          *int64             `json:"timeoutMs,omitempty"`      // default: none
	Env                map[string]*string `json:"env,omitempty"`            // null removes a variable
	Size               *TerminalSize      `json:"size,omitempty"`
}

// ProcessSpawnResponse is the result of process/spawn. process/exited follows.
type ProcessSpawnResponse struct{}

// ProcessWriteStdinParams are the parameters of process/writeStdin.
type ProcessWriteStdinParams struct {
	ProcessHandle string  `json:"processHandle"`
	DeltaBase64   *string `json:"deltaBase64,omitempty"`
	CloseStdin    bool    `json:"closeStdin,omitempty"`
}

// ProcessWriteStdinResponse is the result of process/writeStdin.
type ProcessWriteStdinResponse struct{}

// ProcessKillParams are the parameters of process/kill.
type ProcessKillParams struct {
	ProcessHandle string `json:"processHandle"`
}

// ProcessKillResponse is the result of process/kill.
type ProcessKillResponse struct{}

// ProcessResizePtyParams are the parameters of process/resizePty.
type ProcessResizePtyParams struct {
	ProcessHandle string       `json:"processHandle"`
	Size          TerminalSize `json:"size"`
}

// ProcessResizePtyResponse is the result of process/resizePty.
type ProcessResizePtyResponse struct{}

// ProcessOutputDeltaNotification is output of a process, at most 64 KiB.
type ProcessOutputDeltaNotification struct {
	ProcessHandle string       `json:"processHandle"`
	Stream        OutputStream `json:"stream"`
	DeltaBase64   string       `json:"deltaBase64"`
	CapReached    bool         `json:"capReached"` // the rest of the stream is dropped
}

// ProcessExitedNotification says how a process ended. It does not repeat output that was streamed.
type ProcessExitedNotification struct {
	ProcessHandle      string `json:"processHandle"`
	ExitCode           int    `json:"exitCode"` // 124 after a timeout
	OutputDrainTimeout bool   `json:"outputDrainTimedOut"`
	Stdout             string `json:"stdout"`
	StdoutCapReached   bool   `json:"stdoutCapReached"`
	Stderr             string `json:"stderr"`
	StderrCapReached   bool   `json:"stderrCapReached"`
}

// FsReadFileParams are the parameters of fs/readFile. Paths of all fs methods are absolute.
type FsReadFileParams struct {
	Path string `json:"path"`
}

// FsReadFileResponse is the result of fs/readFile.
type FsReadFileResponse struct {
	DataBase64 string `json:"dataBase64"`
}

// FsWriteFileParams are the parameters of fs/writeFile, which creates or replaces a file.
type FsWriteFileParams struct {
	Path       string `json:"path"`
	DataBase64 string `json:"dataBase64"`
}

// FsWriteFileResponse is the result of fs/writeFile.
type FsWriteFileResponse struct{}

// FsCreateDirectoryParams are the parameters of fs/createDirectory.
type FsCreateDirectoryParams struct {
	Path      string `json:"path"`
	Recursive *bool  `json:"recursive,omitempty"` // default true
}

// FsCreateDirectoryResponse is the result of fs/createDirectory.
type FsCreateDirectoryResponse struct{}

// FsGetMetadataParams are the parameters of fs/getMetadata.
type FsGetMetadataParams struct {
	Path string `json:"path"`
}

// FsGetMetadataResponse is the result of fs/getMetadata. IsDirectory and IsFile describe the target of a symbolic link.
type FsGetMetadataResponse struct {
	IsDirectory  bool  `json:"isDirectory"`
	IsFile       bool  `json:"isFile"`
	IsSymlink    bool  `json:"isSymlink"`
	CreatedAtMs  int64 `json:"createdAtMs"` // 0: unknown
	ModifiedAtMs int64 `json:"modifiedAtMs"`
}

// FsReadDirectoryParams are the parameters of fs/readDirectory.
type FsReadDirectoryParams struct {
	Path string `json:"path"`
}

// FsReadDirectoryResponse is the result of fs/readDirectory, sorted by name.
type FsReadDirectoryResponse struct {
	Entries []FsReadDirectoryEntry `json:"entries"`
}

// FsReadDirectoryEntry is a file in a folder. IsDirectory and IsFile describe the target of a symbolic link.
type FsReadDirectoryEntry struct {
	FileName    string `json:"fileName"`
	IsDirectory bool   `json:"isDirectory"`
	IsFile      bool   `json:"isFile"`
}

// FsRemoveParams are the parameters of fs/remove.
type FsRemoveParams struct {
	Path      string `json:"path"`
	Recursive *bool  `json:"recursive,omitempty"` // default true
	Force     *bool  `json:"force,omitempty"`     // a missing file is no error; default true
}

// FsRemoveResponse is the result of fs/remove.
type FsRemoveResponse struct{}

// FsCopyParams are the parameters of fs/copy. A folder needs Recursive.
type FsCopyParams struct {
	SourcePath      string `json:"sourcePath"`
	DestinationPath string `json:"destinationPath"`
	Recursive       bool   `json:"recursive,omitempty"`
}

// FsCopyResponse is the result of fs/copy.
type FsCopyResponse struct{}

// FsWatchParams are the parameters of fs/watch.
type FsWatchParams struct {
	WatchID string `json:"watchId"` // unique per connection
	Path    string `json:"path"`    // a file, or a folder whose entries are watched
}

// FsWatchResponse is the result of fs/watch.
type FsWatchResponse struct {
	Path string `json:"path"` // the path that is watched
}

// FsUnwatchParams are the parameters of fs/unwatch.
type FsUnwatchParams struct {
	WatchID string `json:"watchId"`
}

// FsUnwatchResponse is the result of fs/unwatch.
type FsUnwatchResponse struct{}

// FsChangedNotification lists what has changed under a watch, at most every 200 ms.
type FsChangedNotification struct {
	WatchID      string   `json:"watchId"`
	ChangedPaths []string `json:"changedPaths"`
}

// FuzzyFileSearchParams are the parameters of fuzzyFileSearch.
type FuzzyFileSearchParams struct {
	Query             string   `json:"query"`
	Roots             []string `json:"roots"`                       // absolute
	CancellationToken *string  `json:"cancellationToken,omitempty"` // a new search with the same token cancels the old one
}

// FuzzyFileSearchResponse is the result of fuzzyFileSearch, best match first.
type FuzzyFileSearchResponse struct {
	Files []FuzzyFileSearchResult `json:"files"`
}

// FuzzyFileSearchResult is a file or folder whose path matches. Its names on the wire have underscores, as in codex.
type FuzzyFileSearchResult struct {
	Root      string                   `json:"root"`
	Path      string                   `json:"path"` // relative to Root
	MatchType FuzzyFileSearchMatchType `json:"match_type"`
	FileName  string                   `json:"file_name"`
	Score     uint32                   `json:"score"`
	Indices   []uint32                 `json:"indices" nullable:"true"` // of the characters of Path that match; null: unknown
}

// FuzzyFileSearchMatchType says what was found.
type FuzzyFileSearchMatchType string

// What a search finds.
const (
	FuzzyFile      FuzzyFileSearchMatchType = "file"
	FuzzyDirectory FuzzyFileSearchMatchType = "directory"
)

func (FuzzyFileSearchMatchType) values() []string { return names(FuzzyFile, FuzzyDirectory) }

// FuzzyFileSearchSessionStartParams are the parameters of fuzzyFileSearch/sessionStart.
type FuzzyFileSearchSessionStartParams struct {
	SessionID string   `json:"sessionId"`
	Roots     []string `json:"roots"` // absolute
}

// FuzzyFileSearchSessionStartResponse is the result of fuzzyFileSearch/sessionStart.
type FuzzyFileSearchSessionStartResponse struct{}

// FuzzyFileSearchSessionUpdateParams are the parameters of fuzzyFileSearch/sessionUpdate.
type FuzzyFileSearchSessionUpdateParams struct {
	SessionID string `json:"sessionId"`
	Query     string `json:"query"`
}

// FuzzyFileSearchSessionUpdateResponse is the result of fuzzyFileSearch/sessionUpdate.
type FuzzyFileSearchSessionUpdateResponse struct{}

// FuzzyFileSearchSessionStopParams are the parameters of fuzzyFileSearch/sessionStop.
type FuzzyFileSearchSessionStopParams struct {
	SessionID string `json:"sessionId"`
}

// FuzzyFileSearchSessionStopResponse is the result of fuzzyFileSearch/sessionStop.
type FuzzyFileSearchSessionStopResponse struct{}

// FuzzyFileSearchSessionUpdatedNotification has the matches of a session's query.
type FuzzyFileSearchSessionUpdatedNotification struct {
	SessionID string                  `json:"sessionId"`
	Query     string                  `json:"query"`
	Files     []FuzzyFileSearchResult `json:"files"`
}

// FuzzyFileSearchSessionCompletedNotification: the matches of a session's query are complete.
type FuzzyFileSearchSessionCompletedNotification struct {
	SessionID string `json:"sessionId"`
}
