package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/attach"
	"github.com/gantry-agent/gantry/plugins/browser/internal/browserproc"
	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium"
	"github.com/gantry-agent/gantry/plugins/browser/internal/files"
	"github.com/gantry-agent/gantry/plugins/browser/internal/policy"
	"github.com/gantry-agent/gantry/plugins/browser/internal/profile"
	"github.com/gantry-agent/gantry/plugins/browser/internal/record"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	// unlimited: the pipes of a browser are read as long as it exists.
	unlimited = 365 * 24 * time.Hour
	// startTime limits how long a browser may take to start.
	startTime = 30 * time.Second
	// stopTime limits the end of a browser that nobody waits for.
	stopTime = 15 * time.Second
)

// thread is a thread with its browser.
type thread struct {
	id    string
	using chan struct{} // has a token while a call uses the browser
	alone bool          // its browser belongs to one script, and ends with it
	of    *thread       // whose script has this part of the browser; nil: it is no script's

	mu struct {
		sync.Mutex
		family  *family      // nil: not known yet
		agent   string       // see [tool.Thread.Agent]
		browser *running     // nil: none
		lost    string       // why the last one ended, until the model knows
		script  string       // the run that uses the browser; empty: none
		only    *restriction // of the task that uses the browser; nil: none
	}
}

// restriction is which addresses a task may open, of those that the plugin's block allows.
type restriction struct {
	policy.Policy
	domains []string
}

// running is a browser, or a part of one, that a thread uses.
type running struct {
	action.Session
	*hosted
	sites       *sites
	downloads   *files.Downloads
	keeper      *keeper
	recorder    *record.Recorder // nil: nothing is recorded; only the call that uses the browser changes it
	walled      string           // document that the model knows to ask for a login
	told        string           // origin of the page whose secrets the model knows
	id          string           // of the session
	opened      string           // the call that has opened it
	session     *tool.Session    // see [thread.session]
	stored      []byte           // what is stored of it; guarded by the thread's mutex
	interrupted bool             // the recording has lost its beginning
	control     control
	reader      reader
	memory      memoryGuard
}

// note describes a browser to the next process of the plugin.
type note struct {
	ID      string `json:"id"`
	Proxied bool   `json:"proxied,omitempty"`
	Alone   bool   `json:"alone,omitempty"` // it belongs to one script
}

// running returns the thread's browser; nil: there is none.
func (t *thread) running() *running {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.browser
}

// use waits until no other call uses the browser, and no person. The caller calls the function that it returns.
func (t *thread) use(ctx context.Context) (done func(), err error) {
	if err := t.free(); err != nil {
		return nil, err
	}
	select {
	case t.using <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r := t.running()
	if r != nil && r.Browser.Lost() {
		err = t.bury(ctx, r)
	} else if r != nil {
		err = r.control.await(ctx)
	}
	if err != nil {
		<-t.using
		return nil, err
	}
	return func() { <-t.using }, nil
}

// bury ends what is left of a browser that has ended without being asked, so that a call finds it gone rather than half alive.
func (t *thread) bury(ctx context.Context, r *running) error {
	_ = r.cmd.Kill() // it may have ended by now
	select {
	case <-r.cmd.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	members := r.members()
	for x, member := range members {
		x.forget(member, r.why())
	}
	r.over(members)
	r.unlist()
	return nil
}

// restrict lets the thread's browser open only some addresses, until end is called.
func (t *thread) restrict(only *restriction) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.only = only
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.mu.only = nil
	}
}

// check returns an error if the thread's browser may not open an address at the moment.
func (t *thread) check(address string) error {
	if t.of != nil {
		return t.of.check(address)
	}
	t.mu.Lock()
	only := t.mu.only
	t.mu.Unlock()
	if only == nil || only.Check(address) == nil {
		return nil
	}
	return fmt.Errorf("the task may open only %s", strings.Join(only.domains, ", "))
}

// takeLost returns why the previous browser has ended, once.
func (t *thread) takeLost() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	why := t.mu.lost
	t.mu.lost = ""
	return why
}

// forget removes a browser that has ended or is about to. why is for the model; empty: it knows.
func (t *thread) forget(r *running, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.browser == r {
		t.mu.browser, t.mu.lost = nil, why
	}
	r.hosted.mu.Lock()
	defer r.hosted.mu.Unlock()
	delete(r.hosted.mu.members, t)
}

// stop ends the thread's browser if it has the given ID; empty: any.
func (t *thread) stop(ctx context.Context, id, why string) error {
	r := t.running()
	if r == nil || id != "" && r.id != id {
		return nil
	}
	return t.leave(ctx, r, why)
}

// argv returns the command line of the browser, with its folder and the host's proxy, which are different for each browser.
func (p *browserPlugin) argv(folder, proxy string) ([]string, error) {
	path, err := chromium.Find(p.config.Chromium)
	if err != nil {
		return nil, err
	}
	return chromium.Options{Executable: path, NoSandbox: !p.config.Sandbox, Profile: folder, Proxy: proxy}.Argv(), nil
}

// command prepares the browser's process, which gets nothing of the call's grant but the host's proxy, and a folder of its own.
func (p *browserPlugin) command(ctx context.Context, c *tool.Call, folder string) (*process.Cmd, error) {
	argv, err := p.argv(folder, c.Grant().Proxy)
	if err != nil {
		return nil, err
	}
	cmd := c.Command(ctx, browserproc.Argv(p.binary, folder, argv)...)
	cmd.Narrow, cmd.Folders, cmd.QuietNetwork, cmd.Dir = true, []string{folder}, true, folder
	cmd.Env = []string{"HOME=" + folder}
	return cmd, nil
}

// profiles is the folder with those of the browsers.
func profiles(env *tool.Env) string { return filepath.Join(env.DataDir, "profiles") }

// start makes the thread a user of its family's browser, which is started under the grant of a call, or attached to, unless it has been.
func (p *browserPlugin) start(ctx context.Context, c *tool.Call, t *thread) (*running, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("the browser was not ready within %v", startTime))
	defer cancel()
	f := t.kin()
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	h := f.running()
	if h == nil {
		var err error
		begin := p.launch
		if p.endpoint != nil {
			begin = p.attach
		}
		if h, err = begin(ctx, c, t); err != nil {
			return nil, err
		}
	}
	r, err := p.enter(ctx, t, h)
	if err != nil {
		if len(h.members()) == 0 {
			err = errors.Join(err, h.stop(context.WithoutCancel(ctx), t, ""))
		}
		return nil, err
	}
	r.id, r.opened = h.id, c.ID()
	if h.call != c.ID() { // whose session is that of the process
		r.id = browserID()
	}
	s := c.Thread().OpenSession(r.id, c.ID(), "Browser")
	t.mu.Lock()
	r.session = s
	t.mu.Unlock()
	h.remember(ctx)
	return r, nil
}

// attach connects to the browser that the block names, through a relay that reaches what the call's processes may.
func (p *browserPlugin) attach(ctx context.Context, c *tool.Call, t *thread) (*hosted, error) {
	greeting, err := p.endpoint.Greeting(c.Grant().Proxy)
	if err != nil {
		return nil, err
	}
	cmd := c.Command(ctx, attach.Argv(p.binary)...)
	cmd.Narrow, cmd.Session, cmd.OfRoot = true, true, !t.alone
	n := note{ID: browserID(), Alone: t.alone}
	printed := &tail{}
	h, err := p.connect(ctx, c.Env(), t.kin(), p.root(t).check, cmd, printed, n, target.Options{Attached: true}, greeting)
	if err != nil {
		if text := printed.String(); text != "" {
			err = errors.New(text)
		}
		return nil, fmt.Errorf("%w\nNext: start a browser that listens at %s (`--remote-debugging-port`), and name it in the network rules of the plugin's block", err, p.endpoint)
	}
	h.call = c.ID()
	h.watch(p.config.Idle)
	return h, nil
}

// launch starts the browser of the thread's family under the grant of a call.
func (p *browserPlugin) launch(ctx context.Context, c *tool.Call, t *thread) (_ *hosted, err error) {
	n := note{ID: browserID(), Proxied: c.Grant().Proxy != "", Alone: t.alone}
	b, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(profile.Sweep(profiles(c.Env())), sweepMembers(ctx, c.Env())); err != nil { // what was left when a host was killed
		return nil, err
	}
	folder, release, err := profile.Make(profiles(c.Env()), n.ID)
	if err != nil {
		return nil, fmt.Errorf("make a folder for the browser: %w", err)
	}
	defer func() {
		release()
		if err != nil {
			err = errors.Join(err, profile.Sweep(profiles(c.Env())))
		}
	}()
	if err := chromium.Prepare(folder); err != nil {
		return nil, err
	}
	cmd, err := p.command(ctx, c, folder)
	if err != nil {
		return nil, err
	}
	cmd.Session, cmd.Keep, cmd.OfRoot = true, &process.Keep{Note: b}, !t.alone
	printed := &tail{}
	h, err := p.connect(ctx, c.Env(), t.kin(), p.root(t).check, cmd, printed, n, target.Options{}, nil)
	if err != nil {
		if text := printed.String(); text != "" {
			err = fmt.Errorf("%w; it printed:\n%s", err, text)
		}
		if strings.Contains(printed.String(), "no-sandbox") || strings.Contains(printed.String(), "sandbox_linux") || strings.Contains(printed.String(), "chroot") {
			err = fmt.Errorf("%w\nNext: let programs create user namespaces on this machine, or set `sandbox = false` in the plugin's block, which leaves only gantry's sandbox", err)
		}
		return nil, err
	}
	h.call = c.ID()
	h.watch(p.config.Idle)
	return h, nil
}

// connect starts a command, sends it a greeting, and connects to the browser that it becomes. If that fails, it has ended.
func (p *browserPlugin) connect(ctx context.Context, env *tool.Env, f *family, check func(address string) error, cmd *process.Cmd, printed *tail, n note,
	o target.Options, greeting []byte) (*hosted, error) {
	cmd.WaitDelay, cmd.Stderr = unlimited, printed
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		if e, ok := errors.AsType[*process.StartError](err); ok {
			return nil, fmt.Errorf("it could not be started: %s", e.Message)
		}
		return nil, err
	}
	h := &hosted{family: f, env: env, id: n.ID, cmd: cmd, proxied: n.Proxied}
	if !o.Attached {
		h.profile = filepath.Join(profiles(env), n.ID)
	}
	h.mu.members = map[*thread]*running{}
	// A proxy lets nothing through to hosts that have not been authorized, so the parts of pages have to be known before they are asked for.
	h.sites = &sites{policy: p.policy, restricted: check}
	o.Judge, o.Parts, o.Name = h.sites.judge, n.Proxied, mainName
	w := browserproc.Lasting(in)
	_, err := w.Write(greeting)
	if err == nil {
		h.all, err = target.Open(ctx, out, w, o)
	}
	if err != nil {
		kill := cmd.Kill()
		<-cmd.Done()
		return nil, errors.Join(err, kill)
	}
	return h, nil
}

// ended says how a browser has ended.
func ended(e process.Exit) string {
	switch {
	case e.Limit != "":
		return fmt.Sprintf("it was ended by its %s limit", e.Limit)
	case e.Signal != 0:
		return fmt.Sprintf("it was ended by a signal (%v)", e.Signal)
	}
	return fmt.Sprintf("it exited with code %d", e.Code)
}

// adopt continues with the browsers of an earlier process.
func (p *browserPlugin) adopt(ctx context.Context, a *tool.Adoption) error {
	// A thread has one browser: the latest. Any other was about to be ended.
	slices.SortFunc(a.Processes, func(x, y process.Adopted) int { return y.Started.Compare(x.Started) })
	var errs []error
	for _, x := range a.Processes {
		if err := p.adoptOne(ctx, a, x); err != nil {
			errs = append(errs, fmt.Errorf("browser of call %s: %w", x.CallID, err))
		}
	}
	return errors.Join(append(errs, profile.Sweep(profiles(a.Env)))...)
}

func (p *browserPlugin) adoptOne(ctx context.Context, a *tool.Adoption, x process.Adopted) error {
	var n note
	if err := json.Unmarshal(x.Note, &n); err != nil {
		return err
	}
	f := p.family(a.Thread.ID())
	has := f.running()
	if has != nil && has.id == n.ID {
		return nil // as long as an earlier process runs, each request adopts again what this one has already
	}
	h, err := p.connect(ctx, a.Env, f, p.thread(f.root).check, x.Cmd, &tail{}, n, target.Options{Adopted: true}, nil)
	if err != nil {
		return err
	}
	if has != nil || n.Alone { // its script has ended with the earlier process
		h.all.Close()
		err := x.Cmd.Kill()
		<-x.Cmd.Done()
		return errors.Join(err, x.Cmd.Release(), profile.Remove(ctx, h.profile), h.erase(ctx))
	}
	h.call = x.CallID
	h.watch(p.config.Idle)
	err = p.recall(ctx, h)
	if t := p.thread(a.Thread.ID()); t.running() != nil {
		t.resume(a.Thread, t.running())
	}
	return err
}

// tail keeps the end of what a browser prints.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.text)), "")
}
