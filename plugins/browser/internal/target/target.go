// Package target is a browser and its tabs, as its events describe them.
//
// It owns: which tabs and frame processes there are, their addresses, what they load, their dialogs and crashes. It must not know: what is in
// a page, which tool asks.
//
// Start with [Open].
package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	protocol "github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
)

const (
	// maxNotes is the number of messages about a tab that are kept until they are taken.
	maxNotes = 20
	// maxNote is how much of a message, or of the text of a dialog, is kept, in bytes.
	maxNote = 4096
)

// ErrCrashed is the error of a tab whose process has crashed.
var ErrCrashed = errors.New("the tab has crashed; navigate or reload it")

// ErrClosed is the error of a tab that is gone.
var ErrClosed = errors.New("the tab is closed; call browser_state for the others")

// DialogError is the error of an operation that an open dialog holds up.
type DialogError struct{ Dialog }

// Error implements error.
func (e *DialogError) Error() string {
	return fmt.Sprintf("a %s dialog is open (%q); answer it with handle_dialog", e.Kind, e.Message)
}

// Dialog is a dialog of a page that waits for an answer.
type Dialog struct {
	Kind    string // "confirm" or "prompt"
	Message string
}

// Info describes a tab at one moment.
type Info struct {
	URL, Title string
	Document   string // changes with every document; not with a change of the address within one
	Loading    bool
	Crashed    bool
	Closed     bool
	Dialog     *Dialog // nil: none is open
	Opener     string  // ID of the tab that has opened this one; may be empty
}

// Options are the options of Open.
type Options struct {
	// Adopted: an earlier process has used the browser. Only for Open.
	Adopted bool
	// Name is what others call the user of the part.
	Name string
	// Judge decides about the documents that pages load, and about their web sockets. It calls answer once, at any time, with an error if the
	// request must not be sent. Optional. It must not block.
	Judge func(r Request, answer func(error))
	// Attached: the browser is not ours. Only tabs that are opened here, and popups of these, are followed, used and closed. Only for Open.
	Attached bool
	// Parts: Judge also decides about what is no document, such as images. Each of these requests waits for it, which costs time.
	Parts bool
}

// Browser is a browser, or the part of it that belongs to one of its users: see [Browser.Part]. It is safe for concurrent use.
type Browser struct {
	*shared
	o         Options
	observers observers

	// Guarded by mu.
	contexts []string  // IDs of those of its own; none: it uses the one with which the browser has started
	settings []Setting // of tabs to come
	mocks    []Mock
	dialogs  string // how those are answered that have something to decide; see AnswerDialogs
}

// shared is what the parts of a browser have in common.
type shared struct {
	conn    *cdp.Conn
	adopted bool
	strange bool          // the browser is not ours
	opening chan struct{} // has a token while a part opens a tab in a context that is not its own

	mu struct {
		sync.Mutex
		parts    []*Browser // the first one is that of Open; copied when it changes
		opens    *Browser   // has the token of opening; nil: none
		left     []string   // contexts of parts that have ended, with tabs that were handed over
		tabs     []*Tab
		sessions map[string]*Tab        // session ID → tab of which it is a part
		others   map[string]target.Info // session ID → what is no document: workers, of tabs or of none
		claimed  map[target.ID]bool     // tabs that were opened here in a browser that is not ours
		changed  chan struct{}          // closed and replaced with every change
	}
}

// Tab is a tab. It is safe for concurrent use.
type Tab struct {
	ID      string
	Session *cdp.Session

	all     *shared
	context string // ID
	casting casting
	// The rest is guarded by all.mu.
	of       *Browser // whose it is
	info     Info
	ready    bool // its events are reported
	dialogIn *cdp.Session
	frames   []Part
	requests map[string]request
	page     string // address of the last document that was allowed
	settings []Setting
	messages *[]Message            // of the console, while it is read
	answered func(url string) bool // see [Tab.Answered]
	recording
	notes []string
	inner map[string]bool // IDs of frames
}

// Part is a part of a tab that has a process of its own: a frame of another site.
type Part struct {
	Frame, Parent string // IDs of frames
	Session       *cdp.Session
}

// Request is a request that a page is about to send. A web socket is already being opened, because browsers let nobody hold it up: if it
// must not be, the page is left.
type Request struct {
	URL      string
	Page     string // address of the document in the tab
	Document bool   // what is loaded is a document, in the tab or in a frame
	Main     bool   // it is the document in the tab
	Socket   bool   // it opens a web socket
	Mocked   bool   // it is answered by a [Mock]
}

type request struct {
	begin time.Time
	url   string
}

// Open connects to a browser. Close the result.
func Open(ctx context.Context, r io.ReadCloser, w io.WriteCloser, o Options) (*Browser, error) {
	s := &shared{adopted: o.Adopted, strange: o.Attached, opening: make(chan struct{}, 1)}
	b := &Browser{shared: s, o: o}
	s.mu.parts, s.mu.sessions, s.mu.others, s.mu.changed = []*Browser{b}, map[string]*Tab{}, map[string]target.Info{}, make(chan struct{})
	s.mu.claimed = map[target.ID]bool{}
	s.conn = cdp.New(r, w, cdp.Options{Adopted: o.Adopted, OnEvent: s.event})
	if err := b.open(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Browser) open(ctx context.Context) error {
	root := b.conn.Root()
	if _, err := protocol.Call(ctx, root, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{Discover: true}); err != nil {
		return err
	}
	if _, err := protocol.Call(ctx, root, target.SetAutoAttach, attach); err != nil {
		return err
	}
	if !b.o.Adopted {
		return b.allReady(ctx)
	}
	// The earlier process was attached to these, so they are not reported again.
	all, err := protocol.Call(ctx, root, target.GetTargets, target.GetTargetsParams{})
	if err != nil {
		return err
	}
	slices.Reverse(all.TargetInfos) // the latest comes first
	for _, t := range all.TargetInfos {
		if slices.Contains([]string{"page", "shared_worker", "service_worker"}, t.Type) {
			if _, err := protocol.Call(ctx, root, target.AttachToTarget, target.AttachToTargetParams{TargetID: t.TargetID, Flatten: new(true)}); err != nil {
				return err
			}
		}
	}
	return b.allReady(ctx)
}

// Opened waits until tabs that pages have just opened can be used, for a second at most.
func (b *Browser) Opened(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = b.allReady(ctx) // one that is not ready yet is found by the next action
}

// allReady waits until the tabs that there are can be used.
func (b *Browser) allReady(ctx context.Context) error {
	return b.wait(ctx, func() bool {
		return !slices.ContainsFunc(b.mu.tabs, func(t *Tab) bool { return t.of == b && !t.ready })
	})
}

// attach has the browser attach to everything that starts, before it runs. What a filter excluded would wait for a debugger all the same.
var attach = target.SetAutoAttachParams{AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true)}

// Close ends the connection of all parts, not the browser.
func (b *Browser) Close() { b.conn.Close() }

// Done returns a channel that is closed when the connection has ended.
func (b *Browser) Done() <-chan struct{} { return b.conn.Done() }

// Lost reports whether the connection has ended without [Browser.Close].
func (b *Browser) Lost() bool {
	select {
	case <-b.Done():
		return b.conn.Err() != cdp.ErrClosed // itself: what wraps it has another cause
	default:
		return false
	}
}

// Tabs returns the open tabs, in the order in which they were opened.
func (b *Browser) Tabs() []*Tab {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.mu.tabs), func(t *Tab) bool { return t.of != b || !t.ready })
}

// NewTab opens a tab.
func (b *Browser) NewTab(ctx context.Context) (*Tab, error) {
	opened, err := b.Opening(ctx)
	if err != nil {
		return nil, err
	}
	defer opened()
	r, err := protocol.Call(ctx, b.conn.Root(), target.CreateTarget, target.CreateTargetParams{URL: "about:blank", BrowserContextID: protocol.BrowserContextID(b.Context())})
	if err != nil {
		return nil, err
	}
	var tab *Tab
	if err := b.claim(ctx, r.TargetID); err != nil {
		return nil, err
	}
	return tab, b.wait(ctx, func() bool { tab = b.tab(string(r.TargetID)); return tab != nil && tab.ready })
}

// tab returns the tab with an ID. The caller has locked a.mu.
func (a *shared) tab(id string) *Tab {
	if i := slices.IndexFunc(a.mu.tabs, func(t *Tab) bool { return t.ID == id }); i >= 0 {
		return a.mu.tabs[i]
	}
	return nil
}

// wait waits until ok returns true, which is called with a.mu locked.
func (a *shared) wait(ctx context.Context, ok func() bool) error {
	for {
		a.mu.Lock()
		yes, changed := ok(), a.mu.changed
		a.mu.Unlock()
		if yes {
			return nil
		}
		select {
		case <-changed:
		case <-a.conn.Done():
			return a.conn.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Info describes the tab now.
func (t *Tab) Info() Info {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return t.info
}

// Name is the short name of a tab: the last four characters of its ID.
func (t *Tab) Name() string { return strings.ToLower(t.ID[max(0, len(t.ID)-4):]) }

// Parts returns the frames of the tab that have processes of their own.
func (t *Tab) Parts() []Part {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return slices.Clone(t.frames)
}

// Pending returns the addresses of requests that were sent since a time and are not answered.
func (t *Tab) Pending(since time.Time) []string {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return t.pending(since)
}

func (t *Tab) pending(since time.Time) []string {
	var out []string
	for _, r := range t.requests {
		if !r.begin.Before(since) {
			out = append(out, r.url)
		}
	}
	slices.Sort(out)
	return out
}

// Wait waits until ok is true of the tab and of the requests sent since a time that are not answered.
func (t *Tab) Wait(ctx context.Context, since time.Time, ok func(i Info, pending int) bool) error {
	return t.all.wait(ctx, func() bool { return ok(t.info, len(t.pending(since))) })
}

// TakeNotes returns what has happened to the tab without being an answer to a command, once.
func (t *Tab) TakeNotes() []string {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	notes := t.notes
	t.notes = nil
	return notes
}

// Do runs f, a sequence of commands, until it ends or the tab can't answer: because a dialog opens, or the tab crashes or is closed.
func (t *Tab) Do(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() { // ends with ctx
		defer close(watched)
		var why error
		if t.all.wait(ctx, func() bool { why = t.info.err(); return why != nil }) == nil {
			cancel(why)
		}
	}()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-watched
	return err
}

// err is why a tab in this state can't answer.
func (i Info) err() error {
	switch {
	case i.Closed:
		return ErrClosed
	case i.Crashed:
		return ErrCrashed
	case i.Dialog != nil:
		return &DialogError{*i.Dialog}
	}
	return nil
}

// Answer answers the open dialog.
func (t *Tab) Answer(ctx context.Context, accept bool, text string) error {
	t.all.mu.Lock()
	d, in := t.info.Dialog, t.dialogIn
	t.all.mu.Unlock()
	if d == nil {
		return errors.New("no dialog is open")
	}
	_, err := protocol.Call(ctx, in, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: accept, PromptText: text})
	if err != nil {
		return err
	}
	return t.all.wait(ctx, func() bool { return t.info.Dialog != d })
}

// Close closes the tab.
func (t *Tab) Close(ctx context.Context) error {
	if _, err := protocol.Call(ctx, t.all.conn.Root(), target.CloseTarget, target.CloseTargetParams{TargetID: target.ID(t.ID)}); err != nil {
		return err
	}
	return t.all.wait(ctx, func() bool { return t.info.Closed })
}

// event follows the browser. It runs on the goroutine that reads, so it only posts commands.
func (a *shared) event(e cdp.Event) {
	a.observed(e)
	switch e.Method {
	case "Fetch.requestPaused":
		a.paused(e)
		return
	case "Network.webSocketCreated":
		a.socket(e)
		return
	case "Page.screencastFrame":
		a.picture(e)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.foreign(e.Session) {
		_ = a.conn.Root().Post(target.CommandDetachFromTarget, target.DetachFromTargetParams{SessionID: target.SessionID(e.Session)})
		return
	}
	if a.browserEvent(e) || a.tabEvent(a.mu.sessions[e.Session], e) {
		a.notify()
	}
}

// foreign reports whether a session is one that the earlier process of an adopted browser has left. Without an end to it, whatever it is
// attached to would wait for it. The caller has locked a.mu.
func (a *shared) foreign(session string) bool {
	_, other := a.mu.others[session]
	return a.adopted && session != "" && !other && a.mu.sessions[session] == nil
}

// notify wakes all who wait for a change. The caller has locked a.mu.
func (a *shared) notify() {
	close(a.mu.changed)
	a.mu.changed = make(chan struct{})
}

// paused lets a request be sent, or not.
func (a *shared) paused(e cdp.Event) {
	var p struct {
		RequestID fetch.RequestID      `json:"requestId"`
		FrameID   string               `json:"frameId"`
		Type      network.ResourceType `json:"resourceType"`
		Request   struct {
			URL string `json:"url"`
		} `json:"request"`
	}
	if e.Decode(&p) != nil {
		return
	}
	r := Request{URL: p.Request.URL, Document: p.Type == documents}
	a.mu.Lock()
	t := a.mu.sessions[e.Session]
	if t != nil && t.answered != nil && t.answered(r.URL) {
		a.mu.Unlock()
		return
	}
	var b *Browser
	if t != nil {
		b = t.of
		r.Main = r.Document && p.FrameID == t.ID
		r.Page = cmp.Or(t.page, t.info.URL)
	} else {
		b = a.users(a.mu.others[e.Session].BrowserContextID)[0]
		r.Page = a.mu.others[e.Session].URL
	}
	mock := b.mock(r.URL)
	r.Mocked = mock != nil
	a.mu.Unlock()
	s := a.conn.Session(e.Session)
	judge := b.o.Judge
	if judge == nil || !r.Document && !r.Mocked && !b.o.Parts {
		judge = func(_ Request, answer func(error)) { answer(nil) }
	}
	judge(r, func(err error) {
		a.mu.Lock()
		if t != nil && err != nil && r.Document {
			t.note(err.Error())
		}
		if t != nil && err == nil && r.Main {
			t.page = r.URL
		}
		a.mu.Unlock()
		if err != nil {
			_ = s.Post(fetch.CommandFailRequest, fetch.FailRequestParams{RequestID: p.RequestID, ErrorReason: network.ErrorReasonBlockedByClient})
			return
		}
		if mock != nil {
			_ = s.Post(fetch.CommandFulfillRequest, mock.answer(p.RequestID))
			return
		}
		_ = s.Post(fetch.CommandContinueRequest, fetch.ContinueRequestParams{RequestID: p.RequestID})
	})
}

func (a *shared) browserEvent(e cdp.Event) bool {
	switch e.Method {
	case "Target.attachedToTarget":
		var p struct {
			SessionID  string      `json:"sessionId"`
			TargetInfo target.Info `json:"targetInfo"`
		}
		if e.Decode(&p) != nil {
			return false
		}
		a.attached(e.Session, p.SessionID, p.TargetInfo)
	case "Target.detachedFromTarget":
		var p struct {
			SessionID string `json:"sessionId"`
			TargetID  string `json:"targetId"`
		}
		if e.Decode(&p) != nil {
			return false
		}
		if t := a.tab(p.TargetID); t != nil && a.foreign(p.SessionID) { // what it had set is reset now, also what has been set again
			for _, x := range t.settings {
				_ = t.Session.Post(x.Method, x.Params)
			}
		}
		if t := a.mu.sessions[p.SessionID]; t != nil {
			t.frames = slices.DeleteFunc(t.frames, func(f Part) bool { return f.Session.ID() == p.SessionID })
		}
		delete(a.mu.sessions, p.SessionID)
		delete(a.mu.others, p.SessionID)
	case "Target.targetInfoChanged":
		var p struct {
			TargetInfo target.Info `json:"targetInfo"`
		}
		if e.Decode(&p) != nil {
			return false
		}
		t := a.tab(string(p.TargetInfo.TargetID))
		if t == nil {
			return false
		}
		t.info.URL, t.info.Title = p.TargetInfo.URL, p.TargetInfo.Title
	case "Target.targetCrashed", "Target.targetDestroyed":
		var p struct {
			TargetID string `json:"targetId"`
		}
		if e.Decode(&p) != nil {
			return false
		}
		t := a.tab(p.TargetID)
		switch {
		case t == nil:
			return false
		case e.Method == "Target.targetCrashed":
			t.info.Crashed, t.info.Dialog, t.info.Loading = true, nil, false
			clear(t.requests)
		default:
			t.info.Closed = true
			a.mu.tabs = slices.DeleteFunc(a.mu.tabs, func(x *Tab) bool { return x == t })
			a.leave(t.context)
		}
	default:
		return false
	}
	return true
}

func (a *shared) attached(parent, session string, info target.Info) {
	s, t := a.conn.Session(session), a.mu.sessions[parent]
	if parent == "" && a.stranger(info) {
		a.release(session)
		return
	}
	switch info.Type {
	case "page":
		if parent != "" { // not a tab
			break
		}
		if a.tab(string(info.TargetID)) != nil { // somebody has attached to it once more
			a.mu.others[session] = info
			return
		}
		t = &Tab{ID: string(info.TargetID), Session: s, all: a, context: string(info.BrowserContextID), of: a.owner(info), requests: map[string]request{}}
		t.settings = slices.Clone(t.of.settings)
		a.mu.tabs = append(a.mu.tabs, t)
		for _, x := range t.settings {
			_ = s.Post(x.Method, x.Params)
		}
		t.info = Info{URL: info.URL, Title: info.Title, Opener: string(info.OpenerID)}
		_ = s.Post(emulation.CommandSetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	case "iframe":
		if t != nil {
			t.frames = append(t.frames, Part{Frame: string(info.TargetID), Parent: string(info.ParentFrameID), Session: s})
			post(s, t.settings)
		}
	}
	if t != nil {
		a.mu.sessions[session] = t
	}
	document := info.Type == "page" || info.Type == "iframe"
	if document {
		_ = s.Post(page.CommandEnable, page.EnableParams{})
	} else {
		a.mu.others[session] = info
	}
	_ = s.Post(network.CommandEnable, network.EnableParams{})
	if document || t == nil { // the requests of a dedicated worker are those of its page
		b := a.users(info.BrowserContextID)[0]
		if t != nil {
			b = t.of
		}
		if method, params := b.pausing(); method == fetch.CommandEnable {
			_ = s.Post(method, params)
		}
	}
	_ = s.Post(target.CommandSetAutoAttach, attach)
	// A navigation before the renderer has enabled all of this would lose it.
	_ = s.PostThen(runtime.CommandRunIfWaitingForDebugger, protocol.Empty{}, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if t := a.mu.sessions[session]; t != nil && t.Session == s {
			t.ready = true
			a.notify()
		}
	})
}

// socket judges a web socket.
func (a *shared) socket(e cdp.Event) {
	var p struct {
		URL string `json:"url"`
	}
	if e.Decode(&p) != nil {
		return
	}
	a.mu.Lock()
	t := a.mu.sessions[e.Session]
	worker := a.mu.others[e.Session]
	r := Request{URL: p.URL, Page: worker.URL, Socket: true}
	var judge func(Request, func(error))
	if t != nil {
		r.Page = cmp.Or(t.page, t.info.URL)
		judge = t.of.o.Judge
	} else {
		judge = a.users(worker.BrowserContextID)[0].o.Judge
	}
	a.mu.Unlock()
	if judge == nil {
		return
	}
	judge(r, func(err error) {
		if err == nil {
			return
		}
		if t == nil {
			_ = a.conn.Root().Post(target.CommandCloseTarget, target.CloseTargetParams{TargetID: worker.TargetID})
			return
		}
		a.mu.Lock()
		t.note("the page was left because it has opened a web socket: " + err.Error())
		a.mu.Unlock()
		_ = t.Session.Post(page.CommandNavigate, page.NavigateParams{URL: "about:blank"})
	})
}

// documents is the type of requests for pages and frames.
const documents = network.ResourceTypeDocument

func (t *Tab) note(text string) {
	if len(t.notes) < maxNotes {
		t.notes = append(t.notes, clip(text, maxNote))
	}
}

// counted are the types of requests that a page needs before it is complete.
var counted = []network.ResourceType{
	network.ResourceTypeDocument, network.ResourceTypeScript, network.ResourceTypeStylesheet, network.ResourceTypeXHR, network.ResourceTypeFetch,
}

func (a *shared) tabEvent(t *Tab, e cdp.Event) bool {
	if _, other := a.mu.others[e.Session]; t == nil || other {
		return false
	}
	t.recording.event(e, a.conn.Session(e.Session))
	t.message(e)
	main := e.Session == t.Session.ID()
	switch e.Method {
	case "Page.frameNavigated":
		var p struct {
			Frame struct {
				ID       string `json:"id"`
				LoaderID string `json:"loaderId"`
				URL      string `json:"url"`
				Fragment string `json:"urlFragment"`
			} `json:"frame"`
		}
		if e.Decode(&p) != nil || !main || p.Frame.ID != t.ID {
			return false
		}
		t.info.Document, t.info.URL, t.info.Crashed = p.Frame.LoaderID, p.Frame.URL+p.Frame.Fragment, false
	case "Page.frameAttached", "Page.frameDetached":
		var p struct {
			FrameID string `json:"frameId"`
			Reason  string `json:"reason"`
		}
		if e.Decode(&p) == nil {
			t.frame(p.FrameID, e.Method == "Page.frameAttached" || p.Reason == "swap")
		}
		return false
	case "Page.navigatedWithinDocument":
		var p struct {
			FrameID string `json:"frameId"`
			URL     string `json:"url"`
		}
		if e.Decode(&p) != nil || p.FrameID != t.ID {
			return false
		}
		t.info.URL = p.URL
	case "Page.frameStartedLoading", "Page.frameStoppedLoading":
		var p struct {
			FrameID string `json:"frameId"`
		}
		if e.Decode(&p) != nil || p.FrameID != t.ID {
			return false
		}
		t.info.Loading = e.Method == "Page.frameStartedLoading"
	case "Page.javascriptDialogOpening":
		var p struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		}
		if e.Decode(&p) != nil {
			return false
		}
		s := a.conn.Session(e.Session)
		if answer := t.of.dialogs; p.Type == "alert" || p.Type == "beforeunload" || answer == "accept" || answer == "dismiss" {
			_ = s.Post(page.CommandHandleJavaScriptDialog, page.HandleJavaScriptDialogParams{
				Accept: answer != "dismiss" || p.Type == "alert" || p.Type == "beforeunload", // there is nothing to decide
			})
			t.note(fmt.Sprintf("[%s] %s", p.Type, p.Message))
			return true
		}
		t.info.Dialog, t.dialogIn = &Dialog{p.Type, clip(p.Message, maxNote)}, s
	case "Page.javascriptDialogClosed":
		t.info.Dialog = nil
	case "Network.requestWillBeSent":
		var p struct {
			RequestID string               `json:"requestId"`
			LoaderID  string               `json:"loaderId"`
			Type      network.ResourceType `json:"type"`
			Request   struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		// What a worker loads has no loader, and its end is not told to the page.
		if e.Decode(&p) != nil || !slices.Contains(counted, p.Type) || p.LoaderID == "" || len(t.requests) >= 1000 {
			return false
		}
		t.requests[p.RequestID] = request{time.Now(), clip(p.Request.URL, maxURL)}
	case "Network.loadingFinished", "Network.loadingFailed":
		var p struct {
			RequestID string `json:"requestId"`
		}
		if e.Decode(&p) != nil {
			return false
		}
		delete(t.requests, p.RequestID)
	default:
		return false
	}
	return true
}
