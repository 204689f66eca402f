package protocol

import "encoding/json"

// The methods whose names begin with gantry/ are additions: codex's app server does not have them.

// GantryThreadEventsParams are the parameters of gantry/thread/events, which reads the log of a thread as it is stored, with reverted
// turns. The default limit is 100, the maximum 1,000.
type GantryThreadEventsParams struct {
	ThreadID string `json:"threadId"`
	Page
	SortDirection *SortDirection `json:"sortDirection,omitempty"` // default: asc, and desc with BeforeSeq
	AfterSeq      *uint64        `json:"afterSeq,omitempty"`      // instead of a cursor: begin with the event after this one
	BeforeSeq     *uint64        `json:"beforeSeq,omitempty"`     // instead of a cursor: go back from the event before this one
}

// GantryThreadEventsResponse is the result of gantry/thread/events.
type GantryThreadEventsResponse struct {
	Data            []GantryThreadEvent `json:"data"`
	NextCursor      *string             `json:"nextCursor"`
	BackwardsCursor *string             `json:"backwardsCursor"`
}

// GantryThreadEvent is an event as it is stored.
type GantryThreadEvent struct {
	Seq    uint64          `json:"seq"`
	TurnID *string         `json:"turnId"`
	Time   string          `json:"time"` // RFC 3339
	Kind   string          `json:"kind"`
	Body   json.RawMessage `json:"body"` // depends on Kind
}

// GantryTurnUndoParams are the parameters of gantry/turn/undo, which restores the files that a turn changed.
type GantryTurnUndoParams struct {
	ThreadID string  `json:"threadId"`
	TurnID   *string `json:"turnId,omitempty"` // a turn or an undo; absent: the last turn with changes that were not undone
	Redo     bool    `json:"redo,omitempty"`   // instead of a turn: undo the last undo
	Force    bool    `json:"force,omitempty"`  // even if that loses later changes
	DryRun   bool    `json:"dryRun,omitempty"` // report only
}

// GantryTurnUndoResponse is the result of gantry/turn/undo.
type GantryTurnUndoResponse struct {
	UndoID   *string          `json:"undoId"` // with which it can be undone; null: nothing was changed
	TurnIDs  []string         `json:"turnIds"`
	Files    []GantryUndoFile `json:"files"` // sorted by path
	Refused  bool             `json:"refused"`
	Commands uint32           `json:"commands"` // that may have changed files which are not known
	Skipped  uint32           `json:"skipped"`  // files that were too many to be kept
}

// GantryUndoFile is what an undo did with a file, or would do.
type GantryUndoFile struct {
	Path     string  `json:"path"` // absolute
	Action   string  `json:"action"`
	Obstacle *string `json:"obstacle"` // null: none
	Reason   *string `json:"reason"`   // of the obstacle
}

// GantryPluginListParams are the parameters of gantry/plugin/list.
type GantryPluginListParams struct {
	ThreadID *string `json:"threadId,omitempty"` // plugins of the process that runs it
	Cwd      *string `json:"cwd,omitempty"`      // instead of a thread: plugins that are configured for the folder; default: the server's
}

// GantryPluginListResponse is the result of gantry/plugin/list.
type GantryPluginListResponse struct {
	Data []GantryPlugin `json:"data"`
}

// GantryPlugin is a plugin of gantry.
type GantryPlugin struct {
	Label    string                `json:"label"` // of its block in the configuration
	Kind     string                `json:"kind"`  // "tool" or "provider"
	Source   string                `json:"source"`
	Version  *string               `json:"version"`
	State    GantryPluginState     `json:"state"`
	PID      *uint32               `json:"pid"`     // null: it is not running
	Problem  *string               `json:"problem"` // why it can't be used
	Commands []GantryPluginCommand `json:"commands"`
}

// GantryPluginState is the state of a plugin's process.
type GantryPluginState string

// States of plugins.
const (
	PluginStopped  GantryPluginState = "stopped" // the next call starts it
	PluginStarting GantryPluginState = "starting"
	PluginReady    GantryPluginState = "ready"
	PluginDraining GantryPluginState = "draining" // it finishes its calls and stops
	PluginCrashed  GantryPluginState = "crashed"  // the next call starts it again
	PluginBroken   GantryPluginState = "broken"   // it crashed too often
)

func (GantryPluginState) values() []string {
	return names(PluginStopped, PluginStarting, PluginReady, PluginDraining, PluginCrashed, PluginBroken)
}

// GantryPluginCommand is a command that a plugin offers to people.
type GantryPluginCommand struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"` // null: it has no input
	SideEffects bool            `json:"sideEffects"` // it runs only if the user confirms
}

// GantryPluginCommandParams are the parameters of gantry/plugin/command, which runs a command of a plugin.
type GantryPluginCommandParams struct {
	ThreadID  *string         `json:"threadId,omitempty"` // the command runs in the process that runs the thread
	Cwd       *string         `json:"cwd,omitempty"`      // instead of a thread; default: the server's folder
	Plugin    string          `json:"plugin"`             // label
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input,omitempty"`     // an object; default: an empty one
	Confirmed bool            `json:"confirmed,omitempty"` // the user agrees to side effects; otherwise such a command is refused
}

// GantryPluginCommandResponse is the result of gantry/plugin/command.
type GantryPluginCommandResponse struct {
	Output json.RawMessage `json:"output"`
}

// GantryViewOpenParams are the parameters of gantry/view/open, which shows a session of a plugin, such as a terminal, to the client.
type GantryViewOpenParams struct {
	ThreadID  string           `json:"threadId"`
	SessionID string           `json:"sessionId"`
	Plugin    *string          `json:"plugin,omitempty"` // whose session it is; needed only if two plugins have a session with this ID
	Kinds     []GantryViewKind `json:"kinds"`            // that the client can show
	Size      GantryViewSize   `json:"size"`
	MaxRate   *float64         `json:"maxRate,omitempty"` // frames per second
	Quality   *uint32          `json:"quality,omitempty"` // of pictures, 1 to 100
	// Inline: frames come as notifications instead of on a connection of their own. On stdio they always do.
	Inline bool `json:"inline,omitempty"`
}

// GantryViewKind is a kind of view.
type GantryViewKind string

// Kinds of views.
const (
	ViewTerminal GantryViewKind = "terminal" // bytes
	ViewScreen   GantryViewKind = "screen"   // pictures
)

func (GantryViewKind) values() []string { return names(ViewTerminal, ViewScreen) }

// GantryViewSize is the size of a view: characters of a terminal, pixels of a screen.
type GantryViewSize struct {
	Width  uint32 `json:"width"`
	Height uint32 `json:"height"`
}

// GantryViewOpenResponse is the result of gantry/view/open.
type GantryViewOpenResponse struct {
	ViewID   string             `json:"viewId"`
	Kind     GantryViewKind     `json:"kind"`
	Size     GantryViewSize     `json:"size"` // of the session
	Title    string             `json:"title"`
	Targets  []GantryViewTarget `json:"targets"`
	ReadOnly bool               `json:"readOnly"` // the session takes no input
	// FramesPath is the path at which the client connects for the frames, once and within 30 s, at the address of this connection; null:
	// they come as notifications gantry/view/frame.
	FramesPath *string `json:"framesPath"`
}

// GantryViewTarget is one of several things that a session shows, such as a tab.
type GantryViewTarget struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Active bool   `json:"active"`
}

// GantryViewInputParams are the parameters of gantry/view/input: what a person does in a view.
type GantryViewInputParams struct {
	ViewID string          `json:"viewId"`
	Input  GantryViewInput `json:"input"`
}

// GantryViewInput is an input of a person.
type GantryViewInput struct{ Body ViewInput }

// ViewInput is one of the types whose names begin with View and end with Input.
type ViewInput interface{ variant }

func (i GantryViewInput) MarshalJSON() ([]byte, error)  { return Marshal(i) }
func (i *GantryViewInput) UnmarshalJSON(b []byte) error { return unmarshal(b, i) }
func (GantryViewInput) variants() variants              { return viewInputs }

var viewInputs = variantsOf(ViewBytesInput{}, ViewPointerInput{}, ViewWheelInput{}, ViewKeyInput{}, ViewTextInput{}, ViewPasteInput{},
	ViewFileInput{}, ViewNavigateInput{}, ViewTargetInput{}, ViewDialogInput{}, ViewResizeInput{})

// ViewBytesInput is input of a terminal.
type ViewBytesInput struct {
	DataBase64 string `json:"dataBase64"`
}

func (ViewBytesInput) kind() string { return "bytes" }

// ViewPointerInput is a movement or a button of the pointer, in pixels of the view.
type ViewPointerInput struct {
	X         float64           `json:"x"`
	Y         float64           `json:"y"`
	Action    ViewPointerAction `json:"action"`
	Button    uint32            `json:"button,omitempty"` // 0: the main one, 1: the middle one, 2: the secondary one
	Modifiers []string          `json:"modifiers,omitempty"`
}

func (ViewPointerInput) kind() string { return "pointer" }

// ViewPointerAction is what a pointer does.
type ViewPointerAction string

// Actions of pointers.
const (
	PointerMove ViewPointerAction = "move"
	PointerDown ViewPointerAction = "down"
	PointerUp   ViewPointerAction = "up"
)

func (ViewPointerAction) values() []string { return names(PointerMove, PointerDown, PointerUp) }

// ViewWheelInput is a turn of the wheel, in pixels.
type ViewWheelInput struct {
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	DeltaX float64 `json:"deltaX"`
	DeltaY float64 `json:"deltaY"`
}

func (ViewWheelInput) kind() string { return "wheel" }

// ViewKeyInput is a key.
type ViewKeyInput struct {
	Key       string   `json:"key"` // as in the key property of a browser's KeyboardEvent
	Down      bool     `json:"down"`
	Modifiers []string `json:"modifiers,omitempty"`
}

func (ViewKeyInput) kind() string { return "key" }

// ViewTextInput is typed text.
type ViewTextInput struct {
	Text string `json:"text"`
}

func (ViewTextInput) kind() string { return "text" }

// ViewPasteInput is pasted text.
type ViewPasteInput struct {
	Text string `json:"text"`
}

func (ViewPasteInput) kind() string { return "paste" }

// ViewFileInput are files for the file chooser that is open.
type ViewFileInput struct {
	Paths []string `json:"paths"`
}

func (ViewFileInput) kind() string { return "file" }

// ViewNavigateInput opens an address.
type ViewNavigateInput struct {
	Address string `json:"address"`
}

func (ViewNavigateInput) kind() string { return "navigate" }

// ViewTargetInput switches to a target.
type ViewTargetInput struct {
	TargetID string `json:"targetId"`
}

func (ViewTargetInput) kind() string { return "target" }

// ViewDialogInput answers the dialog that is open.
type ViewDialogInput struct {
	Accept bool    `json:"accept"`
	Text   *string `json:"text,omitempty"`
}

func (ViewDialogInput) kind() string { return "dialog" }

// ViewResizeInput changes the size of the view.
type ViewResizeInput struct {
	Size GantryViewSize `json:"size"`
}

func (ViewResizeInput) kind() string { return "resize" }

// GantryViewInputResponse is the result of gantry/view/input.
type GantryViewInputResponse struct{}

// GantryViewAckParams are the parameters of gantry/view/ack, which says that a frame was shown. The next one comes after that.
type GantryViewAckParams struct {
	ViewID string `json:"viewId"`
	Number uint64 `json:"number"`
}

// GantryViewAckResponse is the result of gantry/view/ack.
type GantryViewAckResponse struct{}

// GantryViewControlParams are the parameters of gantry/view/control. While a person has control, the agent's calls wait.
type GantryViewControlParams struct {
	ViewID string `json:"viewId"`
	Take   bool   `json:"take"` // false: give it back
}

// GantryViewControlResponse is the result of gantry/view/control.
type GantryViewControlResponse struct{}

// GantryViewCloseParams are the parameters of gantry/view/close.
type GantryViewCloseParams struct {
	ViewID string `json:"viewId"`
}

// GantryViewCloseResponse is the result of gantry/view/close.
type GantryViewCloseResponse struct{}

// GantryViewFrameNotification is a frame of a view that is shown inline.
type GantryViewFrameNotification struct {
	ViewID string `json:"viewId"`
	GantryViewFrame
	DataBase64 string `json:"dataBase64"`
}

// GantryViewFrame describes a frame. On a connection for frames, it is the head of a binary message: 4 bytes with its length, most
// significant first, this object as JSON, and the data.
type GantryViewFrame struct {
	Number    uint64          `json:"number"`
	Offset    *uint64         `json:"offset"`    // of a terminal: bytes of output before this frame, which may be empty; a gap means that output was dropped
	MediaType *string         `json:"mediaType"` // of a picture
	Viewport  *GantryViewSize `json:"viewport"`  // what the picture shows; pointers are in its pixels
	Scale     *float64        `json:"scale"`     // pixels of the picture for each pixel of the viewport
}

// GantryViewControlledNotification announces that a person has taken control of a session, or has given it back.
type GantryViewControlledNotification struct {
	ThreadID  string `json:"threadId"`
	SessionID string `json:"sessionId"`
	Plugin    string `json:"plugin"`
	Person    bool   `json:"person"` // a person has control; false: the agent
}

// GantryViewStateNotification announces what a view shows.
type GantryViewStateNotification struct {
	ViewID  string             `json:"viewId"`
	Title   string             `json:"title"`
	Address *string            `json:"address"`
	Targets []GantryViewTarget `json:"targets"`
	Dialog  *GantryViewDialog  `json:"dialog"` // null: none is open
	Control GantryViewControl  `json:"control"`
	Size    GantryViewSize     `json:"size"` // of the session
}

// GantryViewDialog is a dialog that waits for an answer.
type GantryViewDialog struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// GantryViewControl is who controls a session.
type GantryViewControl string

// Who controls a session.
const (
	ControlAgent       GantryViewControl = "agent"
	ControlThisClient  GantryViewControl = "client"
	ControlOtherClient GantryViewControl = "otherClient"
)

func (GantryViewControl) values() []string {
	return names(ControlAgent, ControlThisClient, ControlOtherClient)
}

// GantryViewClosedNotification announces that a view has ended.
type GantryViewClosedNotification struct {
	ViewID string `json:"viewId"`
	Reason string `json:"reason"`
}
