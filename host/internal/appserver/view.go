package appserver

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// views has the methods about sessions that people look at. What they do is subject to the rights of the client, not to the policy.
type views struct{ *Server }

// framesTimeout is how long a client may take to connect for the frames of a view.
const framesTimeout = 30 * time.Second

// lastFrame is how long a client may take to read its last frame after the end of a view.
const lastFrame = 2 * time.Second

// shown is a view that a client has opened.
type shown struct {
	client *client
	id     string
	view   hub.View
	// frames has the frame that is to be sent on the connection for frames; nil: frames are sent as notifications. It is closed at the
	// end.
	frames chan *contract.ViewFrame
}

func (s views) viewOpen(ctx context.Context, c *call, p protocol.GantryViewOpenParams) (out protocol.GantryViewOpenResponse, err error) {
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	o := contract.ViewOpen{SessionID: p.SessionID, Size: contract.ViewSize(p.Size)}
	for _, k := range p.Kinds {
		o.Kinds = append(o.Kinds, map[protocol.GantryViewKind]contract.ViewKind{
			protocol.ViewTerminal: contract.ViewTerminal, protocol.ViewScreen: contract.ViewScreen,
		}[k])
	}
	if len(o.Kinds) == 0 {
		return out, refusedView("kinds is empty", "name the kinds that the client can show: terminal, screen")
	}
	if p.MaxRate != nil {
		o.MaxRate = *p.MaxRate
	}
	if p.Quality != nil {
		o.Quality = *p.Quality
	}
	var plugin string
	if p.Plugin != nil {
		plugin = *p.Plugin
	}
	v, err := t.OpenView(ctx, plugin, o)
	if err != nil {
		return out, viewError(err)
	}
	sh := &shown{client: c.client, id: rand.Text(), view: v}
	opened := v.Opened()
	out = protocol.GantryViewOpenResponse{
		ViewID: sh.id, Kind: protocol.GantryViewKind(opened.Kind.String()), Size: protocol.GantryViewSize(opened.Size), Title: opened.Title,
		Targets: targets(opened.Targets), ReadOnly: opened.ReadOnly,
	}
	if s.cfg.FramePaths && !p.Inline {
		sh.frames = make(chan *contract.ViewFrame, 1)
		out.FramesPath = s.expect(sh)
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		if c.views == nil {
			c.views = map[string]*shown{}
		}
		c.views[sh.id] = sh
		responded := make(chan struct{})
		c.afterwards(func() { close(responded) })
		c.work.Go(func() { // ends with the view, which the end of the connection closes
			<-responded
			sh.pump()
		})
	}
	c.mu.Unlock()
	if closed {
		v.Close()
		return out, rpc.ErrClosed
	}
	return out, nil
}

// expect lets a client connect once for the frames of a view, and returns the path.
func (s *Server) expect(sh *shown) *string {
	token := rand.Text()
	s.mu.Lock()
	s.mu.frames[token] = sh
	s.mu.Unlock()
	forget := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, waiting := s.mu.frames[token]
		delete(s.mu.frames, token)
		return waiting
	}
	late := time.AfterFunc(framesTimeout, func() {
		if forget() {
			sh.view.Close()
		}
	})
	s.begin(func() { // ends with the view
		<-sh.view.Done()
		late.Stop()
		forget()
	})
	path := "/view/" + token
	return &path
}

// Frames returns what serves a client that connects for the frames of a view. The stream writes binary messages: a frame each, as
// [protocol.GantryViewFrame] describes. The client answers each with {"ack": NUMBER}. The end of the stream closes the view. A token is
// valid once; a process that the host has started sees nothing.
func (s *Server) Frames(token string, launched bool) (serve func(ctx context.Context, stream rpc.Stream), ok bool) {
	if launched {
		s.log.Warn("a process that this host has started was refused", "method", "view")
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, ok := s.mu.frames[token]
	delete(s.mu.frames, token)
	if !ok {
		return nil, false
	}
	return sh.serve, true
}

// serve sends frames until the view ends, or the client leaves.
func (sh *shown) serve(ctx context.Context, stream rpc.Stream) {
	var reading sync.WaitGroup
	reading.Go(func() { // ends with the stream
		defer sh.view.Close()
		for {
			b, err := stream.Read()
			if err != nil {
				return
			}
			var m struct{ Ack uint64 }
			if json.Unmarshal(b, &m) != nil {
				return
			}
			if err := sh.view.Ack(m.Ack); err != nil {
				return
			}
		}
	})
	served := make(chan struct{})
	reading.Go(func() { // ends with the view or with serve
		select {
		case <-sh.view.Done():
		case <-served:
			return
		}
		select {
		case <-time.After(lastFrame):
			_ = stream.Close()
		case <-served:
		}
	})
	defer reading.Wait()
	defer stream.Close()
	defer close(served)
	for {
		select {
		case f, more := <-sh.frames:
			if !more || stream.Write(binaryFrame(f)) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// pump passes on updates until the view ends.
func (sh *shown) pump() {
	c := sh.client
	defer func() {
		c.mu.Lock()
		delete(c.views, sh.id)
		c.mu.Unlock()
		if sh.frames != nil {
			close(sh.frames)
		}
	}()
	for {
		u, err := sh.view.Next(context.Background()) // ends with the view
		switch {
		case err != nil:
			return
		case u.State != nil:
			c.send(protocol.NotifyGantryViewState.Name, sh.state(*u.State))
		case u.Closed != nil:
			c.send(protocol.NotifyGantryViewClosed.Name, protocol.GantryViewClosedNotification{ViewID: sh.id, Reason: *u.Closed})
			return
		case sh.frames != nil:
			select {
			case sh.frames <- u.Frame: // has room: there is one frame at a time
			default: // the client has acknowledged one that it has not read
				select {
				case sh.frames <- u.Frame:
				case <-sh.view.Done():
				}
			}
		default:
			head, data := frameOf(u.Frame)
			c.send(protocol.NotifyGantryViewFrame.Name, protocol.GantryViewFrameNotification{
				ViewID: sh.id, GantryViewFrame: head, DataBase64: base64.StdEncoding.EncodeToString(data),
			})
		}
	}
}

// frameOf converts a frame.
func frameOf(f *contract.ViewFrame) (head protocol.GantryViewFrame, data []byte) {
	head.Number = f.Number
	if o := f.Output; o != nil {
		offset := uint64(max(o.Offset, 0))
		head.Offset = &offset
		return head, o.Data
	}
	p := f.Picture
	size, scale := protocol.GantryViewSize(p.Viewport), p.Scale
	if scale == 0 {
		scale = 1
	}
	head.MediaType, head.Viewport, head.Scale = &p.MediaType, &size, &scale
	return head, p.Data
}

// binaryFrame encodes a frame: the length of its head, the head, the data.
func binaryFrame(f *contract.ViewFrame) []byte {
	head, data := frameOf(f)
	b, err := json.Marshal(head)
	if err != nil { // impossible for numbers and strings, except a scale that is no number
		b = []byte(`{}`)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)+len(data)), uint32(len(b)))
	return append(append(out, b...), data...)
}

func targets(all []contract.ViewTarget) []protocol.GantryViewTarget {
	out := []protocol.GantryViewTarget{}
	for _, t := range all {
		out = append(out, protocol.GantryViewTarget(t))
	}
	return out
}

// state converts what a view shows.
func (sh *shown) state(st hub.ViewState) protocol.GantryViewStateNotification {
	n := protocol.GantryViewStateNotification{
		ViewID: sh.id, Title: st.Title, Address: orNull(st.Address), Targets: targets(st.Targets), Size: protocol.GantryViewSize(st.Size),
		Control: protocol.ControlAgent,
	}
	if d := st.Dialog; d != nil {
		n.Dialog = &protocol.GantryViewDialog{Kind: d.Kind, Message: d.Message}
	}
	switch st.Control {
	case hub.SelfControls:
		n.Control = protocol.ControlThisClient
	case hub.OtherControls:
		n.Control = protocol.ControlOtherClient
	}
	return n
}

// shownView returns a view of the client.
func (c *call) shownView(id string) (*shown, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sh := c.views[id]; sh != nil {
		return sh, nil
	}
	return nil, refusedView("view not found: "+id, "open it with gantry/view/open")
}

func refusedView(message, next string) error { return viewError(hint.New(message, next)) }

// viewError makes an error of a view an answer to the request.
func viewError(err error) error {
	e := rpc.Errorf(rpc.InvalidRequest, "%s", hub.ErrorOf(err).Message)
	e.Data = dataOf("view", err)
	return e
}

func (s views) viewInput(_ context.Context, c *call, p protocol.GantryViewInputParams) (out protocol.GantryViewInputResponse, err error) {
	sh, err := c.shownView(p.ViewID)
	if err != nil {
		return out, err
	}
	if r, ok := p.Input.Body.(protocol.ViewResizeInput); ok {
		err = sh.view.Resize(contract.ViewSize(r.Size))
	} else {
		var act contract.ViewAct
		if act, err = actOf(p.Input.Body); err == nil {
			err = sh.view.Input(act)
		}
	}
	if err != nil {
		return out, viewError(err)
	}
	return out, nil
}

// actOf converts what a person does.
func actOf(in protocol.ViewInput) (contract.ViewAct, error) {
	switch in := in.(type) {
	case protocol.ViewBytesInput:
		b, err := base64.StdEncoding.DecodeString(in.DataBase64)
		if err != nil {
			return nil, hint.New("dataBase64 is not base64: "+err.Error(), "use the standard alphabet with padding")
		}
		return contract.ViewBytes{Data: b}, nil
	case protocol.ViewPointerInput:
		return contract.ViewPointer{X: in.X, Y: in.Y, Button: in.Button, Modifiers: in.Modifiers, Action: map[protocol.ViewPointerAction]contract.ViewAction{
			protocol.PointerMove: contract.PointerMove, protocol.PointerDown: contract.PointerDown, protocol.PointerUp: contract.PointerUp,
		}[in.Action]}, nil
	case protocol.ViewWheelInput:
		return contract.ViewWheel(in), nil
	case protocol.ViewKeyInput:
		return contract.ViewKey(in), nil
	case protocol.ViewTextInput:
		return contract.ViewText(in), nil
	case protocol.ViewPasteInput:
		return contract.ViewPaste(in), nil
	case protocol.ViewFileInput:
		return contract.ViewFiles(in), nil
	case protocol.ViewNavigateInput:
		return contract.ViewNavigate(in), nil
	case protocol.ViewTargetInput:
		return contract.ViewSwitch(in), nil
	case protocol.ViewDialogInput:
		a := contract.ViewAnswer{Accept: in.Accept}
		if in.Text != nil {
			a.Text = *in.Text
		}
		return a, nil
	}
	return nil, hint.New("an unknown kind of input", "see the type GantryViewInput for the kinds")
}

func (s views) viewAck(_ context.Context, c *call, p protocol.GantryViewAckParams) (out protocol.GantryViewAckResponse, err error) {
	sh, err := c.shownView(p.ViewID)
	if err != nil {
		return out, err
	}
	return out, sh.view.Ack(p.Number)
}

func (s views) viewControl(_ context.Context, c *call, p protocol.GantryViewControlParams) (out protocol.GantryViewControlResponse, err error) {
	sh, err := c.shownView(p.ViewID)
	switch {
	case err != nil:
		return out, err
	case p.Take:
		err = sh.view.Take()
	default:
		err = sh.view.Release()
	}
	if err != nil {
		return out, viewError(err)
	}
	return out, nil
}

func (s views) viewClose(_ context.Context, c *call, p protocol.GantryViewCloseParams) (out protocol.GantryViewCloseResponse, err error) {
	sh, err := c.shownView(p.ViewID)
	if err != nil {
		return out, err
	}
	sh.view.Close()
	return out, nil
}

// terminals has the methods about commands whose process outlives their call.
type terminals struct{ *Server }

// openTerminal is a session with its command.
type openTerminal struct {
	event.SessionOpened
	command, cwd string
}

// openTerminals returns the open sessions of commands, in the order in which they were opened. Processes of reverted turns are among them,
// since a revert does not end them.
func (s terminals) openTerminals(ctx context.Context, id event.ThreadID) ([]openTerminal, error) {
	commands := map[event.CallID]event.Item{}
	var open []openTerminal
	for e, err := range s.cfg.Hub.Events(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
		switch b := e.Body.(type) {
		case event.ItemStarted:
			if b.Item.Type == event.ItemCommand {
				commands[b.Item.Call] = b.Item
			}
		case event.SessionOpened:
			if it, ok := commands[b.Call]; ok {
				open = append(open, openTerminal{b, it.Command, it.Cwd})
			}
		case event.SessionExited:
			open = slices.DeleteFunc(open, func(t openTerminal) bool { return t.Session == b.Session })
		}
	}
	return open, nil
}

func (s terminals) list(ctx context.Context, _ *call, p protocol.ThreadBackgroundTerminalsListParams) (out protocol.ThreadBackgroundTerminalsListResponse, err error) {
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	open, err := s.openTerminals(ctx, t.ID())
	if err != nil {
		return out, err
	}
	from, limit := 0, len(open)
	if cursor := deref(p.Cursor); cursor != "" {
		if from = slices.IndexFunc(open, func(o openTerminal) bool { return o.Session == cursor }) + 1; from == 0 {
			return out, rpc.Errorf(rpc.InvalidRequest, "invalid cursor: %s", cursor)
		}
	}
	if p.Limit != nil {
		limit = int(min(max(1, *p.Limit), 1<<20))
	}
	processes, err := t.Processes(ctx)
	if err != nil { // the thread runs in a process of an earlier version
		s.log.Debug("processes of terminals not known", "thread", t.ID(), "err", err)
	}
	out.Data = []protocol.ThreadBackgroundTerminal{}
	for _, o := range open[from:] {
		if len(out.Data) == limit {
			out.NextCursor = &out.Data[limit-1].ProcessID
			break
		}
		b := protocol.ThreadBackgroundTerminal{ItemID: string(o.Call), ProcessID: o.Session, Command: o.command, Cwd: o.cwd}
		i := slices.IndexFunc(processes, func(p hub.ThreadProcess) bool { return p.Plugin == o.Plugin && p.Call == o.Call })
		if i >= 0 {
			p := processes[i]
			b.OSPid, b.CPUPercent = new(uint32(p.PID)), p.CPUPercent
			if p.ResidentBytes != nil {
				b.RSSKb = new(uint64(*p.ResidentBytes) / 1024)
			}
		}
		out.Data = append(out.Data, b)
	}
	return out, nil
}

func (s terminals) terminate(ctx context.Context, c *call, p protocol.ThreadBackgroundTerminalsTerminateParams) (out protocol.ThreadBackgroundTerminalsTerminateResponse, err error) {
	n, err := s.stop(ctx, c, p.ThreadID, func(o openTerminal) bool { return o.Session == p.ProcessID })
	out.Terminated = n > 0
	return out, err
}

func (s terminals) clean(ctx context.Context, c *call, p protocol.ThreadBackgroundTerminalsCleanParams) (out protocol.ThreadBackgroundTerminalsCleanResponse, err error) {
	_, err = s.stop(ctx, c, p.ThreadID, func(openTerminal) bool { return true })
	return out, err
}

// stop ends sessions of a thread, and returns how many there were. Those that have ended meanwhile are no error. The notifications about
// them follow the response.
func (s terminals) stop(ctx context.Context, c *call, thread string, which func(openTerminal) bool) (n int, err error) {
	t, err := s.running(ctx, thread)
	if err != nil {
		return 0, err
	}
	c.afterwards(c.hold(t.ID()))
	open, err := s.openTerminals(ctx, t.ID())
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, o := range open {
		if !which(o) {
			continue
		}
		if err := s.end(ctx, t, o); err != nil {
			failed = append(failed, err)
			continue
		}
		n++
	}
	return n, errors.Join(failed...)
}

// end ends a session. If it has ended meanwhile, that is no error.
func (s terminals) end(ctx context.Context, t *hub.Thread, o openTerminal) error {
	err := t.StopSession(ctx, o.Plugin, o.Session)
	if err == nil {
		return nil
	}
	open, again := s.openTerminals(ctx, t.ID())
	if again == nil && !slices.ContainsFunc(open, func(is openTerminal) bool { return is.SessionOpened == o.SessionOpened }) {
		return nil
	}
	return err
}
