// Package capture reads what is in a page, by a script in an isolated world of each frame.
//
// It owns: the script, the worlds, and putting the frames together. It must not know: numbers, text, or which action follows.
//
// Start with [Read].
package capture

import (
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/domdebugger"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
	"github.com/gantry-agent/gantry/plugins/browser/internal/state"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
)

//go:embed reader.js
var script string

const (
	worldName = "gantry"
	// maxFrames is the number of frames of a tab that are read.
	maxFrames = 100
	// maxListeners is the number of elements with listeners that are looked at; a page with more has them on everything.
	maxListeners = 200
)

// Page is what was read.
type Page struct {
	Frames []*Frame // the first is that of the page itself
	Tree   *state.Frame
}

// Frame is a frame of a page.
type Frame struct {
	ID      string
	Parent  *Frame // nil: the page itself
	Session *cdp.Session
	Owner   int                      // ID of the frame's element in the parent
	heard   []runtime.RemoteObjectID // elements with listeners for clicks
	world   runtime.ExecutionContextID
	owner   runtime.RemoteObjectID // of its element, in the parent's world
	parent  string
	top     float64 // of its content, in the parent
	height  float64 // of the parent's window
	tree    *state.Frame
}

// Main returns the frame of the page itself, without reading it.
func Main(ctx context.Context, t *target.Tab) (*Frame, error) {
	f := &Frame{ID: t.ID, Session: t.Session}
	return f, f.enter(ctx)
}

// Options are the options of Read.
type Options struct {
	// Links: with the addresses of links.
	Links bool
	// Selector or Element restrict what is read to an element, with all of its content, wherever the page is scrolled to.
	Selector string
	Element  state.Ref
}

// ErrScope is the error of a part of a page that there is not.
var ErrScope = errors.New("there is no such part of the page")

// Read reads a page. Frames that can't be read, because they are being loaded for example, are empty.
func Read(ctx context.Context, t *target.Tab, o Options) (*Page, error) {
	// Most pages have one frame, and each answer that the next question waits for costs half a millisecond.
	main := &Frame{ID: t.ID, Session: t.Session}
	var entered error
	var work sync.WaitGroup
	work.Go(func() { entered = main.prepare(ctx) })
	frames, err := list(ctx, t, main)
	work.Wait()
	if err := errors.Join(err, entered); err != nil {
		return nil, err
	}
	each(frames, func(*Frame) {}, func(f *Frame) { _ = f.prepare(ctx) })
	defer func() { // what is resolved would otherwise be kept as long as its document
		for _, f := range frames {
			_ = f.Session.Post(runtime.CommandReleaseObjectGroup, runtime.ReleaseObjectGroupParams{ObjectGroup: worldName})
		}
	}()
	each(frames, func(*Frame) {}, func(f *Frame) { f.findOwner(ctx) })
	scoped := frames[0]
	for _, f := range frames {
		if f.ID == o.Element.Frame {
			scoped = f
		}
	}
	var inner error
	each(frames, func(f *Frame) { err = f.read(ctx, frames, o.of(f, scoped)) }, func(f *Frame) {
		if e := f.read(ctx, frames, o.of(f, scoped)); f == scoped {
			inner = e
		}
	})
	if err := errors.Join(err, inner); err != nil {
		return nil, err
	}
	if scoped != frames[0] {
		frames[0].tree.Scope = scoped.tree
	}
	return &Page{frames, frames[0].tree}, nil
}

// reading is how the script reads a frame.
type reading struct {
	Frames int  `json:"frames"`
	Links  bool `json:"links"`
	Scope  any  `json:"scope"` // a selector, or the number of an element; nil: all
	// View is where the window of the page begins and ends in the frame; empty: it is the frame's own.
	View []float64 `json:"view,omitempty"`
}

func (o Options) of(f, scoped *Frame) reading {
	r := reading{Links: o.Links}
	if top, bottom, ok := f.view(); ok && o.Selector == "" && o.Element.ID == 0 {
		r.View = []float64{top, bottom}
	}
	switch {
	case f != scoped:
	case o.Selector != "":
		r.Scope = o.Selector
	case o.Element.ID != 0:
		r.Scope = o.Element.ID
	}
	return r
}

// each calls first with the first frame, and rest with each other one, concurrently.
func each(frames []*Frame, first, rest func(*Frame)) {
	var work sync.WaitGroup
	for _, f := range frames[1:] {
		work.Go(func() { rest(f) })
	}
	first(frames[0])
	work.Wait()
}

// list returns the frames of all processes of a tab, beginning with main; parents precede their children.
func list(ctx context.Context, t *target.Tab, main *Frame) ([]*Frame, error) {
	parts := append([]target.Part{{Frame: t.ID, Session: t.Session}}, t.Parts()...)
	trees := make([]*page.FrameTree, len(parts))
	errs := make([]error, len(parts))
	var work sync.WaitGroup
	for i, p := range parts {
		work.Go(func() {
			r, err := protocol.Call(ctx, p.Session, page.GetFrameTree, protocol.Empty{})
			trees[i], errs[i] = r.FrameTree, err
		})
	}
	work.Wait()
	if errs[0] != nil {
		return nil, errs[0]
	}
	var all []*Frame
	var add func(s *cdp.Session, parent string, tree *page.FrameTree)
	add = func(s *cdp.Session, parent string, tree *page.FrameTree) {
		if tree == nil || tree.Frame == nil {
			return
		}
		id := string(tree.Frame.ID)
		if len(all) == 0 {
			all = append(all, main)
		} else {
			all = append(all, &Frame{ID: id, Session: s, parent: parent})
		}
		for _, c := range tree.ChildFrames {
			add(s, id, c)
		}
	}
	for i, p := range parts {
		add(p.Session, p.Parent, trees[i])
	}
	if len(all) == 0 {
		return nil, ErrChanged
	}
	// In the order of the tree; a frame whose parent is unknown is left out, and so are its children.
	out := all[:1:1]
	for i := 0; i < len(out) && len(out) < maxFrames; i++ {
		for _, f := range all[1:] {
			if f.parent == out[i].ID && !slices.Contains(out, f) && len(out) < maxFrames {
				f.Parent = out[i]
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// prepare enters a frame, and asks what listens in it.
func (f *Frame) prepare(ctx context.Context) error {
	var inDocument []protocol.BackendNodeID
	var work sync.WaitGroup
	if f.Parent == nil || f.Parent.Session != f.Session { // otherwise the session's document is that of another frame
		// The listeners are those of the page's own world. Its document can't have another name there.
		work.Go(func() {
			inDocument = f.listenersOf(ctx, f.evaluate(ctx, runtime.EvaluateParams{Expression: "document"}))
		})
	}
	err := f.enter(ctx)
	var inRoots []protocol.BackendNodeID
	if err == nil {
		inRoots = f.rootListeners(ctx)
	}
	work.Wait()
	if err == nil {
		f.heard = f.elements(ctx, append(inDocument, inRoots...))
	}
	return err
}

// evaluate returns the object that an expression results in; empty: none.
func (f *Frame) evaluate(ctx context.Context, p runtime.EvaluateParams) runtime.RemoteObjectID {
	p.ObjectGroup = worldName
	r, err := protocol.Call(ctx, f.Session, runtime.Evaluate, p)
	if err != nil || r.Result == nil || r.ExceptionDetails != nil {
		return ""
	}
	return r.Result.ObjectID
}

func (f *Frame) enter(ctx context.Context) error {
	r, err := protocol.Call(ctx, f.Session, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: protocol.FrameID(f.ID), WorldName: worldName})
	f.world = r.ExecutionContextID
	return err
}

// findOwner finds the frame's element in its parent.
func (f *Frame) findOwner(ctx context.Context) {
	r, err := protocol.Call(ctx, f.Parent.Session, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: protocol.FrameID(f.ID)})
	if err != nil {
		return
	}
	f.owner, _ = f.Parent.resolve(ctx, r.BackendNodeID) // otherwise the frame is left out
	if f.owner == "" {
		return
	}
	const function = "function() { return [this.getBoundingClientRect().top + this.clientTop, innerHeight] }"
	p, err := protocol.Call(ctx, f.Parent.Session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: function, ObjectID: f.owner, ReturnByValue: new(true), Silent: new(true),
	})
	var at []float64
	if err == nil && p.Result != nil && json.Unmarshal(p.Result.Value, &at) == nil && len(at) == 2 {
		f.top, f.height = at[0], at[1]
	}
}

// view returns where the window of the page begins and ends in the frame; ok is false if that is unknown.
func (f *Frame) view() (top, bottom float64, ok bool) {
	switch {
	case f.Parent == nil || f.height == 0:
		return 0, 0, false
	case f.Parent.Parent == nil:
		return -f.top, f.height - f.top, true
	}
	top, bottom, ok = f.Parent.view()
	return top - f.top, bottom - f.top, ok
}

func (f *Frame) resolve(ctx context.Context, id protocol.BackendNodeID) (runtime.RemoteObjectID, error) {
	r, err := protocol.Call(ctx, f.Session, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: id, ExecutionContextID: f.world, ObjectGroup: worldName})
	if err != nil {
		return "", err
	}
	return r.Object.ObjectID, nil
}

// clicks are the events whose listeners make an element interactive.
var clicks = []string{"click", "mousedown", "mouseup", "pointerdown", "pointerup"}

// roots lists the document, unless it is left out, and its open shadow roots; null: there are none. Names of the page's own can't get in the way.
const roots = `((all) => {
	const whole = Document.prototype.querySelectorAll, part = DocumentFragment.prototype.querySelectorAll
	const root = Object.getOwnPropertyDescriptor(Element.prototype, 'shadowRoot').get
	const out = [document]
	for (let i = 0; i < out.length; i++)
		for (const e of (i ? part : whole).call(out[i], '*')) {
			const r = root.call(e)
			if (r && out.length < 200) out.push(r)
		}
	if (!all) out.shift()
	return out.length ? out : null
})`

// rootListeners returns the nodes that have listeners for clicks in the frame's shadow roots, and in its document if the session's is that of another frame. The
// browser is asked for each of them: asked for all at once it goes into frames of other sites too, and loses its tab while one of them is being refused.
func (f *Frame) rootListeners(ctx context.Context) (ids []protocol.BackendNodeID) {
	expression := roots + "(false)"
	if f.Parent != nil && f.Parent.Session == f.Session {
		expression = roots + "(true)"
	}
	array := f.evaluate(ctx, runtime.EvaluateParams{Expression: expression, ContextID: f.world})
	if array == "" {
		return nil
	}
	list, err := protocol.Call(ctx, f.Session, runtime.GetProperties, runtime.GetPropertiesParams{ObjectID: array, OwnProperties: new(true)})
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, p := range list.Result {
		if p.Value == nil || p.Value.ObjectID == "" {
			continue
		}
		work.Go(func() {
			found := f.listenersIn(ctx, p.Value.ObjectID)
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, found...)
		})
	}
	work.Wait()
	return ids
}

// elements returns nodes as objects; none if they are very many.
func (f *Frame) elements(ctx context.Context, ids []protocol.BackendNodeID) []runtime.RemoteObjectID {
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) > maxListeners {
		return nil
	}
	out := make([]runtime.RemoteObjectID, len(ids))
	var work sync.WaitGroup
	for i, id := range ids {
		work.Go(func() { out[i], _ = f.resolve(ctx, id) }) // it may be gone
	}
	work.Wait()
	return slices.DeleteFunc(out, func(o runtime.RemoteObjectID) bool { return o == "" })
}

// listenersIn returns the nodes below a document or a shadow root that have listeners of the page for clicks.
func (f *Frame) listenersIn(ctx context.Context, root runtime.RemoteObjectID) (ids []protocol.BackendNodeID) {
	node, err := protocol.Call(ctx, f.Session, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: root})
	if err != nil || node.Node == nil {
		return nil
	}
	// The listeners are those of the world that the object is of: the page's own.
	own, err := protocol.Call(ctx, f.Session, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node.Node.BackendNodeID, ObjectGroup: worldName})
	if err != nil || own.Object == nil {
		return nil
	}
	return f.listenersOf(ctx, own.Object.ObjectID)
}

// listenersOf is listenersIn for an object of the page's own world.
func (f *Frame) listenersOf(ctx context.Context, root runtime.RemoteObjectID) (ids []protocol.BackendNodeID) {
	if root == "" {
		return nil
	}
	r, err := protocol.Call(ctx, f.Session, domdebugger.GetEventListeners, domdebugger.GetEventListenersParams{ObjectID: root, Depth: new(int64(-1))})
	if err != nil {
		return nil
	}
	for _, l := range r.Listeners {
		if slices.Contains(clicks, l.Type) && l.BackendNodeID != 0 {
			ids = append(ids, l.BackendNodeID)
		}
	}
	return ids
}

func (f *Frame) read(ctx context.Context, frames []*Frame, how reading) error {
	var children []*Frame
	for _, c := range frames {
		if c.Parent == f && c.owner != "" {
			children = append(children, c)
		}
	}
	how.Frames = len(children)
	args := []any{how}
	for _, c := range children {
		args = append(args, c.owner)
	}
	for _, l := range f.heard {
		args = append(args, l)
	}
	var tree *result
	for range maxShadows {
		tree = &result{Frame: state.Frame{ID: f.ID}}
		if err := f.Call(ctx, "read", tree, args...); err != nil {
			return err
		}
		if tree.Error != "" {
			return fmt.Errorf("%w: %s", ErrScope, tree.Error)
		}
		// The script does not see closed shadow roots. Those that it is given it keeps; they may contain others.
		roots := f.closed(ctx, tree.Hosts)
		if len(roots) == 0 {
			break
		}
		for _, r := range roots {
			args = append(args, r)
			for _, l := range f.elements(ctx, f.listenersIn(ctx, r)) {
				args = append(args, l)
			}
		}
	}
	f.describe(ctx, tree)
	tree.Child = func(i int, element int) *state.Frame {
		if i < 1 || i > len(children) {
			return nil
		}
		children[i-1].Owner = element
		return children[i-1].tree
	}
	f.tree = &tree.Frame
	return nil
}

// ErrChanged is the error of a frame whose document was replaced.
var ErrChanged = errors.New("the page has changed; call browser_state")

// Call calls a function of the script, and parses what it returns into out. Arguments of the type runtime.RemoteObjectID are objects.
func (f *Frame) Call(ctx context.Context, name string, out any, args ...any) error {
	list := make([]*runtime.CallArgument, 1, len(args)+1)
	list[0] = &runtime.CallArgument{Value: quote(name)}
	for _, a := range args {
		if id, ok := a.(runtime.RemoteObjectID); ok {
			list = append(list, &runtime.CallArgument{ObjectID: id})
			continue
		}
		b, err := json.Marshal(a)
		if err != nil {
			return err
		}
		list = append(list, &runtime.CallArgument{Value: b})
	}
	const function = "async function(name, ...args) { return globalThis.gantry ? JSON.stringify(await gantry[name](...args)) : '' }"
	for range 2 {
		r, err := protocol.Call(ctx, f.Session, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: function, Arguments: list, ExecutionContextID: f.world, ReturnByValue: new(true), AwaitPromise: new(true), Silent: new(true),
		})
		if e, ok := errors.AsType[*cdp.Error](err); ok && e.Code == -32000 {
			return fmt.Errorf("%w (%s)", ErrChanged, e.Message)
		}
		if err != nil {
			return err
		}
		if r.ExceptionDetails != nil {
			return fmt.Errorf("%s: %s", name, Exception(r.ExceptionDetails))
		}
		var text string
		if err := jsonv2.Unmarshal(r.Result.Value, &text, jsonv2.AllowInvalidUTF8(true)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if text != "" {
			return json.Unmarshal([]byte(text), out)
		}
		if _, err := protocol.Call(ctx, f.Session, runtime.Evaluate, runtime.EvaluateParams{Expression: script + ";\n" + identity, ContextID: f.world, Silent: new(true)}); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: the script could not be installed", name)
}

func quote(s string) jsonv2.Value { return jsonv2.Value(fmt.Sprintf("%q", s)) }

// Exception returns the text of an exception.
func Exception(e *runtime.ExceptionDetails) string {
	if e.Exception != nil && e.Exception.Description != "" {
		return e.Exception.Description
	}
	return e.Text
}
