package contract

// ViewRequest is a message to a view: [ViewOpen], [ViewAck], [ViewResize], [ViewInput], [ViewControl] or [ViewClose].
type ViewRequest interface{ isViewRequest() }

// ViewKind is what a view consists of.
type ViewKind int

// The kinds of views.
const (
	ViewUnknown  ViewKind = iota
	ViewTerminal          // output of a terminal, as bytes
	ViewScreen            // pictures
)

var viewKindNames = [...]string{"unknown", "terminal", "screen"}

// String returns the name of the kind.
func (k ViewKind) String() string { return nameOf(viewKindNames[:], int(k)) }

// ViewOpen opens a view of a session. It is the first message.
type ViewOpen struct {
	ThreadID, SessionID string
	Kinds               []ViewKind // that can be shown
	Size                ViewSize   // of the place where the view is shown
	MaxRate             float64    // frames per second; 0: no limit
	Quality             uint32     // of pictures, 1 to 100; 0: the plugin's choice
}

// ViewSize is a size: in characters for a terminal, in pixels for a screen.
type ViewSize struct{ Width, Height uint32 }

// ViewAck says that a frame has been shown, so that the next one may be sent.
type ViewAck struct{ Number uint64 }

// ViewResize changes the size of the session.
type ViewResize struct{ Size ViewSize }

// ViewControl says that a person has taken control of the session, or has given it back.
type ViewControl struct{ Take bool }

// ViewClose ends a view. The session continues.
type ViewClose struct{}

// ViewInput is what a person does in a view. Act is nil if the plugin does not know it.
type ViewInput struct{ Act ViewAct }

// ViewAct is an act of a person: [ViewBytes], [ViewPointer], [ViewWheel], [ViewKey], [ViewText], [ViewPaste], [ViewFiles],
// [ViewNavigate], [ViewSwitch] or [ViewAnswer].
type ViewAct interface{ isViewAct() }

// ViewBytes is input of a terminal.
type ViewBytes struct{ Data []byte }

// ViewAction is what a pointer does.
type ViewAction int

// The actions of a pointer; an unknown one is a movement.
const (
	PointerUnknown ViewAction = iota
	PointerMove
	PointerDown
	PointerUp
)

// ViewPointer is a movement or a button of the pointer, in pixels of the viewport.
type ViewPointer struct {
	X, Y      float64
	Action    ViewAction
	Button    uint32   // 0: the main one; 1: the middle one; 2: the secondary one
	Modifiers []string // "Alt", "Control", "Meta" or "Shift"
}

// ViewWheel is a turn of the wheel, in pixels of the viewport.
type ViewWheel struct{ X, Y, DeltaX, DeltaY float64 }

// ViewKey is a key that is pressed (Down) or released. Key is as in the key property of a browser's KeyboardEvent.
type ViewKey struct {
	Key       string
	Down      bool
	Modifiers []string // "Alt", "Control", "Meta" or "Shift"
}

// ViewText is typed text.
type ViewText struct{ Text string }

// ViewPaste is pasted text.
type ViewPaste struct{ Text string }

// ViewFiles are files for the file chooser that is open. Paths are absolute.
type ViewFiles struct{ Paths []string }

// ViewNavigate opens an address.
type ViewNavigate struct{ Address string }

// ViewSwitch shows another target.
type ViewSwitch struct{ TargetID string }

// ViewAnswer answers the dialog that is open.
type ViewAnswer struct {
	Accept bool
	Text   string // for a dialog that asks for text
}

func (ViewOpen) isViewRequest()    {}
func (ViewAck) isViewRequest()     {}
func (ViewResize) isViewRequest()  {}
func (ViewInput) isViewRequest()   {}
func (ViewControl) isViewRequest() {}
func (ViewClose) isViewRequest()   {}

func (ViewBytes) isViewAct()    {}
func (ViewPointer) isViewAct()  {}
func (ViewWheel) isViewAct()    {}
func (ViewKey) isViewAct()      {}
func (ViewText) isViewAct()     {}
func (ViewPaste) isViewAct()    {}
func (ViewFiles) isViewAct()    {}
func (ViewNavigate) isViewAct() {}
func (ViewSwitch) isViewAct()   {}
func (ViewAnswer) isViewAct()   {}

// ViewEvent is a message of a view: [ViewOpened], [ViewFrame], [ViewState] or [ViewClosed].
type ViewEvent interface{ isViewEvent() }

// ViewOpened says that a view is open.
type ViewOpened struct {
	Kind     ViewKind
	Size     ViewSize // of the session
	Title    string
	Targets  []ViewTarget
	ReadOnly bool // the session takes no input
}

// ViewTarget is one of several things that a session shows, such as a tab. Active is the one that is shown.
type ViewTarget struct {
	ID, Title string
	Active    bool
}

// MaxViewOutput is the largest size in bytes of [ViewOutput.Data].
const MaxViewOutput = 64 << 10

// ViewFrame is new content, either Output or Picture. Numbers begin with 1 and have no gaps.
type ViewFrame struct {
	Number  uint64
	Output  *ViewOutput
	Picture *ViewPicture
}

// ViewOutput is output of a terminal. Offset is the number of bytes before it; a gap means that output was dropped.
type ViewOutput struct {
	Offset int64
	Data   []byte
}

// ViewPicture is a complete picture.
type ViewPicture struct {
	MediaType string
	Data      []byte
	Viewport  ViewSize // what the picture shows; pointers are in its pixels
	Scale     float64  // pixels of the picture for each pixel of the viewport; 0: 1
}

// ViewState says what a session shows. It replaces the previous state.
type ViewState struct {
	Title, Address string
	Targets        []ViewTarget
	Dialog         *ViewDialog // nil: none is open
	Size           ViewSize    // of the session
}

// ViewDialog is a dialog that waits for an answer. Kind is "alert", "confirm", "prompt", "beforeunload", "file" or another
// word.
type ViewDialog struct{ Kind, Message string }

// ViewClosed says that a view has ended. Reason is for people.
type ViewClosed struct{ Reason string }

func (ViewOpened) isViewEvent() {}
func (ViewFrame) isViewEvent()  {}
func (ViewState) isViewEvent()  {}
func (ViewClosed) isViewEvent() {}
