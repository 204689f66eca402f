package contract

import "encoding/json"

// Effect is a side effect of a call: [ExecEffect], [WriteEffect], [ReadEffect], [NetworkEffect], [BrowserEffect],
// [SessionInputEffect], [ServiceEffect] or [OtherEffect].
type Effect interface{ isEffect() }

// ExecEffect runs a program in Cwd, which is absolute. For shells, ShellText is the command as the model wrote it.
type ExecEffect struct {
	Argv      []string `json:"argv"`
	Cwd       string   `json:"cwd,omitempty"`
	ShellText string   `json:"shellText,omitempty"`
	TTY       bool     `json:"tty,omitempty"`
}

// WriteEffect creates, changes or deletes files. Paths are absolute.
type WriteEffect struct {
	Paths []string `json:"paths"`
}

// ReadEffect reads files outside the workspace. Paths are absolute.
type ReadEffect struct {
	Paths []string `json:"paths"`
}

// NetworkEffect connects to a host. Port 0 means any port; an empty Method means any method, or not HTTP.
type NetworkEffect struct {
	Host   string `json:"host"`
	Port   uint32 `json:"port,omitempty"`
	Method string `json:"method,omitempty"`
}

// BrowserEffect acts on a web origin. Kind is "document", "frame" (any part of a page), "download", "upload" or "credential", or empty for
// anything. Page is the origin of the page that it comes from, if that is another one.
type BrowserEffect struct {
	Origin string `json:"origin"`
	Kind   string `json:"kind,omitempty"`
	Page   string `json:"page,omitempty"`
}

// SessionInputEffect sends input to a running session. Language is that of the text, for example "python": 1 to 32 lower-case
// letters, digits and "+#.-". The host shows such a text and asks about it as it is. If Language is empty, the session is a
// terminal in which a shell may run, so the host examines the text for commands.
type SessionInputEffect struct {
	SessionID string `json:"sessionId"`
	Text      string `json:"text"`
	Language  string `json:"language,omitempty"`
}

// ServiceEffect requests an action of a service that the sandbox does not confine, for example a call of a tool of an MCP server.
// The annotations are what the service says of the action; nil is unknown and counts as the worse. Approval is when the user is
// asked: "auto" or empty (depending on the annotations), "prompt", "writes" or "approve".
type ServiceEffect struct {
	Service     string `json:"service"` // 1 to 128 bytes
	Action      string `json:"action"`  // 1 to 256 bytes
	ReadOnly    *bool  `json:"readOnly,omitempty"`
	Destructive *bool  `json:"destructive,omitempty"`
	Idempotent  *bool  `json:"idempotent,omitempty"`
	OpenWorld   *bool  `json:"openWorld,omitempty"`
	Approval    string `json:"approval,omitempty"`
}

// OtherEffect is any other effect.
type OtherEffect struct {
	Label string `json:"label"`
}

func (ExecEffect) isEffect()         {}
func (WriteEffect) isEffect()        {}
func (ReadEffect) isEffect()         {}
func (NetworkEffect) isEffect()      {}
func (BrowserEffect) isEffect()      {}
func (SessionInputEffect) isEffect() {}
func (ServiceEffect) isEffect()      {}
func (OtherEffect) isEffect()        {}

// Item is how a call is displayed to the user: [CommandItem], [CodeItem], [FileChangeItem], [MCPCallItem], [WebSearchItem],
// [ImageItem], [BrowserItem] or [OtherItem].
type Item interface{ isItem() }

// CommandItem is a running or finished command. ExitCode is set once it has ended; for a signal n, it is 128+n.
type CommandItem struct {
	Command   string
	Cwd       string
	ExitCode  *int32
	SessionID string
}

// CodeItem is code that runs or has run. It ends with its call, even if its session continues.
type CodeItem struct {
	Language  string // as in [SessionInputEffect]; not empty
	Source    string
	SessionID string // of the session in which the code runs; may be empty
}

// FileChangeItem is a set of file changes.
type FileChangeItem struct{ Changes []FileChange }

// ChangeKind says what happens to a file.
type ChangeKind int

// The kinds of change.
const (
	ChangeUnknown ChangeKind = iota
	ChangeAdd
	ChangeUpdate
	ChangeDelete
)

var changeNames = [...]string{"unknown", "add", "update", "delete"}

// String returns the name used in JSON.
func (k ChangeKind) String() string { return nameOf(changeNames[:], int(k)) }

// nameOf returns the name of a value, or that of 0 if it has none.
func nameOf(names []string, value int) string {
	if value < 0 || value >= len(names) {
		return names[0]
	}
	return names[value]
}

// FileChange is the change of one file. Diff is a unified diff with one line of context.
type FileChange struct {
	Path      string // absolute; for a move the destination
	Kind      ChangeKind
	Diff      string
	MovedFrom string
	// SHA-256 of the content before and after the change, in lower-case hex; empty: unknown. In an assessment, AfterSHA256
	// announces the content to be written, so that the host can determine after a crash whether it was. The host stores the
	// content itself.
	BeforeSHA256 string
	AfterSHA256  string
}

// MCPCallItem is a call of an MCP server's tool.
type MCPCallItem struct {
	Server, Tool string
	Arguments    json.RawMessage
	// Result is the server's answer, a CallToolResult of MCP, of at most 64 KiB: clients see the output of the call instead of a
	// larger one. The data and blob of media are "gantry-artifact:" and the SHA-256 of a stored artifact; the host removes any
	// others. Nil: the server has not answered.
	Result   json.RawMessage
	Error    string // why the server has not answered; empty: it has, or the call is running
	ReadOnly bool   // the server says that the tool changes nothing
	Title    string // of the tool, for people
}

// WebSearchItem is a web search.
type WebSearchItem struct{ Query string }

// ImageItem is an image that was viewed or created.
type ImageItem struct{ Path, ArtifactSHA256 string }

// BrowserItem is a step in a browser.
type BrowserItem struct {
	Action, URL string
	Tab, Title  string      // name of the tab and title of its page; may be empty
	Picture     ArtifactRef // what the page looks like; zero: no picture was taken
}

// OtherItem is any other item.
type OtherItem struct{ Title string }

func (*CommandItem) isItem()    {}
func (*CodeItem) isItem()       {}
func (*FileChangeItem) isItem() {}
func (*MCPCallItem) isItem()    {}
func (*WebSearchItem) isItem()  {}
func (*ImageItem) isItem()      {}
func (*BrowserItem) isItem()    {}
func (*OtherItem) isItem()      {}

// Audience says for whom a part of a result is intended.
type Audience int

// The audiences; an unknown value means both.
const (
	AudienceUnknown Audience = iota
	AudienceModel
	AudienceUser
	AudienceBoth
)

// Fit says how the host may shorten text that is too long for the model.
type Fit int

// The fits; an unknown value means truncatable to the host's default budget.
const (
	FitUnknown Fit = iota
	FitVerbatim
	FitBounded
	FitTruncatable
)

// Part is one part of a result: [*TextPart], [*MediaPart], [*ArtifactPart], [*JSONPart] or [*SealedPart].
type Part interface{ isPart() }

// TextPart is text.
type TextPart struct {
	Audience           Audience
	Text               string
	Fit                Fit
	MaxTokens          *int64 // maximum number of tokens; nil: the host's default
	TotalBytes         int64  // size of the complete output; 0: nothing was dropped
	OmittedBytes       int64  // number of bytes that the plugin dropped from the middle
	AnnounceTruncation bool   // prefix truncated text with the original token count and line count
}

// MediaPart is an image or other binary content. Either Data or Artifact is set.
type MediaPart struct {
	Audience  Audience
	MediaType string
	Data      []byte
	Artifact  string
	Detail    string
}

// ArtifactPart refers to stored content.
type ArtifactPart struct {
	Audience Audience
	Artifact ArtifactRef
}

// JSONPart is structured content, which the model sees as compact JSON text.
type JSONPart struct {
	Audience Audience
	JSON     json.RawMessage
}

// SealedPart is content that only the models of one vendor can read. They get it unchanged; other models get a placeholder.
type SealedPart struct {
	Audience  Audience
	Namespace string // the vendor's metadata namespace, for example "openai"
	Data      string // in the form that the vendor expects back
}

func (*TextPart) isPart()     {}
func (*MediaPart) isPart()    {}
func (*ArtifactPart) isPart() {}
func (*JSONPart) isPart()     {}
func (*SealedPart) isPart()   {}

// ArtifactRef refers to content that is stored once, under its SHA-256 in lower-case hex.
type ArtifactRef struct {
	SHA256    string
	SizeBytes int64
	MediaType string
	Name      string
}

// Result is the result of a call.
type Result struct {
	Parts         []Part
	IsError       bool
	Item          Item // final item; nil: none
	SessionID     string
	SandboxDenied bool
	Structured    json.RawMessage
	Aborted       bool
}

// Text returns a result with one text part for the model and the user.
func Text(s string) *Result { return &Result{Parts: []Part{&TextPart{Text: s}}} }

// ErrorText returns an error result with one text part.
func ErrorText(s string) *Result { return &Result{Parts: []Part{&TextPart{Text: s}}, IsError: true} }

// Input is the input of a call: Arguments (JSON) or, if Freeform, Text.
type Input struct {
	Arguments json.RawMessage
	Text      string
	Freeform  bool
}

// Assessment describes what a call would do.
type Assessment struct {
	Early          *Result // the call does not need to run; all other fields are ignored
	Effects        []Effect
	Escalation     *Escalation
	ReadOnly       bool
	Summary        string
	Discriminators []string
	Item           Item
	Digest         string
}

// Escalation requests permissions beyond the grant.
type Escalation struct {
	Unsandboxed   bool
	Additional    []Effect
	Justification string
	PrefixRule    []string
}

// GrantFacts is information about the grant of a call.
type GrantFacts struct {
	SandboxMode   string // "full-access", "workspace-write", "read-only"
	WritableRoots []string
	Network       bool
	Digest        string
	Proxy         string // host and port of the proxy in a sandbox with a network of its own; empty: see HTTPS_PROXY
}

// AssessRequest asks what a call would do.
type AssessRequest struct {
	ThreadID, TurnID, CallID string
	Namespace, Tool          string
	Input                    Input
	Cwd                      string
	CallToken                string
	ToolsRevision            string
}

// CallStart begins a call.
type CallStart struct {
	ThreadID, TurnID, CallID string
	Namespace, Tool          string
	Input                    Input
	AssessDigest             string
	Grant                    GrantFacts
	Cwd                      string
	CallToken                string
	ToolsRevision            string
	Caps                     CallCaps
	Parents                  []string
	ModelTraits              []string
	Attempt                  uint32
	HistoryRevision          string // opaque; empty: no earlier result is there to be referred to
	KeepStream               bool   // the host may make another call on the same stream
}

// CallCaps are the limits of one call.
type CallCaps struct {
	MaxOutputBytes int64
	MaxInlineBytes int64
	MaxModelTokens int64
	DeadlineMS     int64 // 0: none
}

// CallEvent is an event that a call sends: [Started], [Output], [Progress], [ArtifactRef], [ItemUpdate], [Note] or
// [*Result].
type CallEvent interface{ isCallEvent() }

// Started is the first event of a call.
type Started struct {
	Item       Item
	KeepStream bool // the plugin accepts another call on the stream of this one
}

// Output is a piece of output, at an offset from the call's beginning.
type Output struct {
	Offset int64
	Data   []byte
}

// Progress is progress information for people. A Total of 0 means unknown.
type Progress struct {
	Message     string
	Done, Total float64
}

// ItemUpdate replaces the item.
type ItemUpdate struct{ Item Item }

// Note is a message of a nested step.
type Note struct{ Text string }

func (Started) isCallEvent()     {}
func (Output) isCallEvent()      {}
func (Progress) isCallEvent()    {}
func (ArtifactRef) isCallEvent() {}
func (ItemUpdate) isCallEvent()  {}
func (Note) isCallEvent()        {}
func (*Result) isCallEvent()     {}

// ThreadEvent is an event that Thread sends: [ContextText], [SessionOpened], [SessionOutput] or [SessionExited].
type ThreadEvent interface{ isThreadEvent() }

// ContextText is text for the model under a key; empty text removes it.
type ContextText struct{ Key, Text string }

// SessionOpened says that a session, which outlives its call, has been opened.
type SessionOpened struct {
	SessionID, CallID, Title string
	Resumed                  bool // an earlier process of the plugin opened it
}

// SessionOutput is a session's output at an offset from its beginning.
type SessionOutput struct {
	SessionID string
	Offset    int64
	Data      []byte
}

// SessionEnd says how a session ended.
type SessionEnd int

// The ways a session ends.
const (
	SessionEndUnknown SessionEnd = iota
	SessionEndExited
	SessionEndDenied
	SessionEndLost
)

// SessionExited says that a session has ended.
type SessionExited struct {
	SessionID string
	End       SessionEnd
	ExitCode  int32
}

func (ContextText) isThreadEvent()   {}
func (SessionOpened) isThreadEvent() {}
func (SessionOutput) isThreadEvent() {}
func (SessionExited) isThreadEvent() {}
