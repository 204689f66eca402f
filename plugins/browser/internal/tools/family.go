package tools

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/files"
	"github.com/gantry-agent/gantry/plugins/browser/internal/profile"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// family is a root thread with the threads of its agents, which share a browser.
type family struct {
	root string        // ID
	turn chan struct{} // has a token while the browser is started, or a thread begins to use it

	mu struct {
		sync.Mutex
		browser *hosted // nil: none runs
	}
}

func newFamily(root string) *family { return &family{root: root, turn: make(chan struct{}, 1)} }

// running returns the browser; nil: there is none, or it has ended without being asked.
func (f *family) running() *hosted {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.browser == nil || f.mu.browser.all.Lost() {
		return nil
	}
	return f.mu.browser
}

// hosted is the process of a browser, with the threads that use it.
type hosted struct {
	family  *family
	env     *tool.Env
	all     *target.Browser // the part of the root, or of the only script
	sites   *sites          // of that part
	id      string
	call    string // that has started it
	profile string // folder; empty: the browser was not started by gantry
	cmd     *process.Cmd
	proxied bool
	idle    *time.Timer

	mu struct {
		sync.Mutex
		members map[*thread]*running
	}
}

// members returns the threads that use the browser.
func (h *hosted) members() map[*thread]*running {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.mu.members)
}

// familyTime limits how long it may take the host to tell which threads belong together. Hosts that open no thread have no agents.
const familyTime = 5 * time.Second

// of returns the state of a thread, which is known to be that of an agent if it is.
func (p *browserPlugin) of(ctx context.Context, th *tool.Thread) (*thread, error) {
	t := p.thread(th.ID())
	if t.kin() == nil {
		waiting, cancel := context.WithTimeout(ctx, familyTime)
		_, root, err := th.Family(waiting)
		cancel()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			root = th.ID()
		}
		t.join(p.family(root))
		t.mu.Lock()
		t.mu.agent = th.Agent()
		t.mu.Unlock()
	}
	if r := t.running(); r != nil {
		t.resume(th, r)
	}
	return t, nil
}

// known calls an assessment once it is known whose agent the thread's is.
func known[A any](p *browserPlugin, f func(context.Context, *tool.AssessCall, A) (*contract.Assessment, error)) func(context.Context, *tool.AssessCall, A) (*contract.Assessment, error) {
	return func(ctx context.Context, c *tool.AssessCall, in A) (*contract.Assessment, error) {
		if _, err := p.of(ctx, c.Thread()); err != nil {
			return nil, err
		}
		return f(ctx, c, in)
	}
}

// family returns the threads of a root.
func (p *browserPlugin) family(root string) *family {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.mu.families[root]
	if f == nil {
		f = newFamily(root)
		p.mu.families[root] = f
	}
	return f
}

// join makes the thread one of a family, unless it is one of another already.
func (t *thread) join(f *family) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.family == nil {
		t.mu.family = f
	}
}

// kin returns the family of the thread; nil: it is not known yet.
func (t *thread) kin() *family {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.family
}

// root returns the thread that has the part with which the browser of a thread starts.
func (p *browserPlugin) root(t *thread) *thread {
	if t.first() {
		return t
	}
	return p.thread(t.kin().root)
}

// first reports whether the thread has the part with which a browser starts.
func (t *thread) first() bool { return t.alone || t.kin().root == t.id }

// agent is the path of the agent whose thread it is; empty: it is no agent's.
func (t *thread) agent() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.agent
}

// name is what other agents call the thread's.
func (t *thread) name() string {
	if t.first() {
		return mainName
	}
	if t.of != nil {
		return t.of.name()
	}
	return cmp.Or(t.agent(), t.id)
}

// mainName is what agents call the thread that they work for.
const mainName = "/root"

// shares reports whether there is a browser that the thread can use.
func (t *thread) shares() bool {
	f := t.kin()
	return f != nil && f.running() != nil
}

// enter makes the thread a user of a browser, in a part of its own. The caller has the token of the family.
func (p *browserPlugin) enter(ctx context.Context, t *thread, h *hosted) (_ *running, err error) {
	s, b := h.sites, h.all
	if !t.first() {
		s = &sites{policy: p.policy, restricted: t.check}
		own := !h.all.Attached() && (p.config.Contexts != sharedContexts || t.of != nil)
		b, err = h.all.Part(ctx, own, target.Options{Judge: s.judge, Parts: h.proxied, Name: t.name()})
		if err != nil {
			return nil, err
		}
	}
	r, err := p.use(ctx, t, h, b, s)
	if err != nil && !t.first() {
		err = errors.Join(err, b.End(ctx))
	}
	return r, err
}

// use makes a thread a user of a part of the browser.
func (p *browserPlugin) use(ctx context.Context, t *thread, h *hosted, b *target.Browser, s *sites) (_ *running, err error) {
	r := &running{Session: action.Session{Browser: b, Allowed: s.open, Decided: s.decided}, hosted: h, sites: s}
	if h.all.Attached() {
		r.downloads, err = files.Refuse(ctx, b)
	} else {
		r.downloads, err = files.Watch(ctx, b, h.profile)
	}
	if err != nil {
		return nil, err
	}
	r.keeper = newKeeper(h.env, p.config.Profile, r)
	h.mu.Lock()
	h.mu.members[t] = r
	h.mu.Unlock()
	t.mu.Lock()
	t.mu.browser = r
	t.mu.Unlock()
	return r, nil
}

// resume continues the session of a browser that has been adopted.
func (t *thread) resume(th *tool.Thread, r *running) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.session != nil:
	case r.id == r.hosted.id:
		r.session = th.ResumeSession(r.id, r.call, "Browser", 0)
	default: // the host keeps those of the call that has started the browser
		r.session = th.OpenSession(r.id, r.opened, "Browser")
	}
}

func browserID() string { return "browser-" + strings.ToLower(rand.Text()[:10]) }

// pass gives a script's part of the browser to its thread.
func (r *running) pass(ctx context.Context, from, to *thread) error {
	from.mu.Lock()
	from.mu.browser = nil
	from.mu.Unlock()
	r.hosted.mu.Lock()
	delete(r.hosted.mu.members, from)
	r.hosted.mu.members[to] = r
	r.hosted.mu.Unlock()
	to.mu.Lock()
	to.mu.browser, r.stored = r, nil
	to.mu.Unlock()
	r.remember(ctx)
	return r.env.State().Delete(ctx, memberKey(r.hosted.id, from.id))
}

// leave ends the thread's part of the browser, and the browser if it is the root's or nobody else's. why is for the model; empty: it knows.
func (t *thread) leave(ctx context.Context, r *running, why string) error {
	h := r.hosted
	h.mu.Lock()
	others := len(h.mu.members) > 1
	h.mu.Unlock()
	if t.of == nil && t.first() || !others {
		return h.stop(ctx, t, why)
	}
	t.forget(r, why)
	err := r.keeper.save(ctx)
	if failed := r.Browser.End(ctx); failed != nil { // it does not answer
		return errors.Join(err, failed, h.stop(ctx, t, why))
	}
	if s := t.session(r); s != nil {
		s.Exited(0)
	}
	return errors.Join(err, h.env.State().Delete(ctx, memberKey(h.id, t.id)))
}

// session returns the session of the thread's browser; nil: it has been adopted, and the thread has not used it since.
func (t *thread) session(r *running) *tool.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.session
}

// stop ends the browser for all threads. why is for the model of t; empty: it knows.
func (h *hosted) stop(ctx context.Context, t *thread, why string) error {
	var errs []error
	members := h.members()
	for x, r := range members {
		said := why
		if x != t {
			said = cmp.Or(why, "the agent "+mainName+" has ended it")
		}
		x.forget(r, said)
		errs = append(errs, r.keeper.save(ctx))
	}
	h.unlist()
	errs = append(errs, h.all.CloseTabs(ctx))
	h.all.Close()
	errs = append(errs, h.cmd.Kill())
	select {
	case <-h.cmd.Done():
		h.over(members)
		return errors.Join(append(errs, profile.Remove(ctx, h.profile), h.erase(ctx))...)
	case <-ctx.Done():
		return errors.Join(append(errs, context.Cause(ctx))...)
	}
}

// unused ends the browser if no call uses it, nor begins to meanwhile.
func (h *hosted) unused(idle time.Duration) {
	members := h.members()
	for t := range members {
		select {
		case t.using <- struct{}{}:
			defer func() { <-t.using }()
		default:
			return // the end of the call sets the timer again
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	for t := range members {
		_ = h.stop(ctx, t, fmt.Sprintf("it was not used for %v", idle)) // otherwise the host ends it with the thread
		return
	}
}

// watch waits for the end of the browser in the background.
func (h *hosted) watch(idle time.Duration) {
	h.idle = time.AfterFunc(idle, func() { h.unused(idle) })
	h.family.mu.Lock()
	h.family.mu.browser = h
	h.family.mu.Unlock()
	go h.guardMemory(h.env.Context(), h.env.Logger) // owned by the browser: it ends with it, or with this process
	go h.end()                                      // owned by the browser: it ends with it, or with this process
}

// end tells of the end of the browser, and removes what is left of it.
func (h *hosted) end() {
	select {
	case <-h.cmd.Done():
	case <-h.all.Done():
		select {
		case <-h.cmd.Done():
		case <-h.env.Context().Done():
			return
		}
	case <-h.env.Context().Done():
		return
	}
	members := h.members()
	for t, r := range members {
		t.forget(r, h.why())
	}
	h.over(members)
	h.unlist()
	h.all.Close()
	_ = h.cmd.Release()                                                // otherwise the next process of the plugin finds that it has ended
	ctx, cancel := context.WithTimeout(context.Background(), stopTime) // also when the plugin ends
	defer cancel()
	if err := errors.Join(profile.Remove(ctx, h.profile), h.erase(ctx)); err != nil {
		h.env.Logger.Warn("what a browser that has ended has left can't be removed", "err", err)
	}
}

// over tells that the sessions of threads have ended with the browser.
func (h *hosted) over(members map[*thread]*running) {
	for t, r := range members {
		s := t.session(r)
		if e, ok := h.cmd.Exit(); ok && s != nil {
			s.Exited(e.Code)
		} else if s != nil {
			s.Lost()
		}
	}
}

// unlist removes the browser from its family.
func (h *hosted) unlist() {
	h.idle.Stop()
	h.family.mu.Lock()
	defer h.family.mu.Unlock()
	if h.family.mu.browser == h {
		h.family.mu.browser = nil
	}
}

// why says how the browser has ended.
func (h *hosted) why() string {
	if e, ok := h.cmd.Exit(); ok {
		return ended(e)
	}
	return "it has ended"
}

// member describes a thread's use of a browser to the next process of the plugin.
type member struct {
	Thread   string               `json:"thread"`
	Agent    string               `json:"agent,omitempty"`
	Session  string               `json:"session"`
	Call     string               `json:"call"` // that has opened the session
	Contexts []string             `json:"contexts,omitempty"`
	Tabs     []string             `json:"tabs,omitempty"`     // that its contexts don't tell
	Sessions []string             `json:"sessions,omitempty"` // of the process, with its tabs
	Settings target.Configuration `json:"settings"`
	Records  []string             `json:"records,omitempty"`
	Script   bool                 `json:"script,omitempty"` // it ends with this process
}

// memberKeys is the beginning of the keys of the members of all browsers.
const memberKeys = "browser/"

func memberKey(browser, thread string) string { return memberKeys + browser + "/" + thread }

// remember stores what the next process of the plugin has to know of the browser's threads, as far as it has changed.
func (h *hosted) remember(ctx context.Context) {
	if h.all.Attached() { // the connection ends with this process
		return
	}
	for t, r := range h.members() {
		m := member{Thread: t.id, Agent: t.agent(), Session: r.id, Call: r.opened, Contexts: r.Browser.Contexts(), Tabs: r.Browser.Strays(), Sessions: r.Browser.Sessions(),
			Settings: r.Browser.Configuration(), Script: t.of != nil}
		if r.recorder != nil {
			m.Records = r.recorder.Kinds()
		}
		b, err := json.Marshal(m)
		t.mu.Lock()
		same := bytes.Equal(b, r.stored)
		t.mu.Unlock()
		if same || t.alone {
			continue
		}
		if err == nil {
			_, err = h.env.State().Put(ctx, memberKey(h.id, t.id), b)
		}
		if err != nil {
			h.env.Logger.Warn("a later process of the plugin will not know how the browser is used", "err", err)
			continue
		}
		t.mu.Lock()
		r.stored = b
		t.mu.Unlock()
	}
}

// erase removes what is stored of the browser's threads.
func (h *hosted) erase(ctx context.Context) error {
	keys, err := h.env.State().List(ctx, memberKeys+h.id+"/")
	errs := []error{err}
	for _, k := range keys {
		errs = append(errs, h.env.State().Delete(ctx, k))
	}
	return errors.Join(errs...)
}

// sweepMembers removes what is stored of the threads of browsers that are gone.
func sweepMembers(ctx context.Context, env *tool.Env) error {
	keys, err := env.State().List(ctx, memberKeys)
	errs := []error{err}
	for _, k := range keys {
		id, _, _ := strings.Cut(strings.TrimPrefix(k, memberKeys), "/")
		if _, err := os.Lstat(filepath.Join(profiles(env), id)); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, env.State().Delete(ctx, k))
		}
	}
	return errors.Join(errs...)
}

// recall makes the threads users of an adopted browser again, in the order in which a tab's opener comes before it.
func (p *browserPlugin) recall(ctx context.Context, h *hosted) error {
	keys, err := h.env.State().List(ctx, memberKeys+h.id+"/")
	errs := []error{err}
	var list []member
	for _, k := range keys {
		b, _, ok, err := h.env.State().Get(ctx, k)
		var m member
		if err == nil && ok {
			err = json.Unmarshal(b, &m)
		}
		if errs = append(errs, err); err == nil && ok {
			list = append(list, m)
		}
	}
	if !slices.ContainsFunc(list, func(m member) bool { return m.Thread == h.family.root }) && len(list) == 0 {
		list = append(list, member{Thread: h.family.root, Session: h.id, Call: h.call}) // nothing could be stored
	}
	for _, m := range list {
		if m.Script {
			errs = append(errs, h.all.Resume(m.Contexts, m.Tabs, target.Options{}).End(ctx), h.env.State().Delete(ctx, memberKey(h.id, m.Thread)))
			continue
		}
		errs = append(errs, p.again(ctx, h, m))
	}
	return errors.Join(errs...)
}

// again makes a thread a user of an adopted browser again.
func (p *browserPlugin) again(ctx context.Context, h *hosted, m member) error {
	t := p.thread(m.Thread)
	t.join(h.family)
	t.mu.Lock()
	t.mu.agent = m.Agent
	t.mu.Unlock()
	s, b := h.sites, h.all
	if !t.first() || len(m.Contexts) > 0 && m.Contexts[0] != "" { // the root may have that of a script
		s = &sites{policy: p.policy, restricted: t.check}
		b = h.all.Resume(m.Contexts, m.Tabs, target.Options{Judge: s.judge, Parts: h.proxied, Name: t.name()})
	} else if len(m.Contexts) > 0 {
		for _, c := range m.Contexts[1:] {
			b.Own(c)
		}
	}
	r, err := p.use(ctx, t, h, b, s)
	if err != nil {
		return err
	}
	if r.id, r.opened = m.Session, m.Call; m.Session != h.id {
		r.id = browserID() // the host has forgotten the session
	}
	if err = b.Configure(ctx, m.Settings, m.Sessions); err == nil {
		h.remember(ctx)
	}
	if len(m.Records) > 0 {
		r.interrupted = true
		err = errors.Join(err, p.startRecording(ctx, r, m.Records))
	}
	return err
}
