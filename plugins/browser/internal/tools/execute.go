package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/script"
	"github.com/gantry-agent/gantry/plugins/browser/internal/session"
	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const executeDescription = "Runs plain JavaScript (top-level await, return, console.log) in a fresh process that drives the browser; the browser's state persists. " +
	"Longer scripts yield a run_id. page: goto_url(url), new_tab(url?), page_info(), js(code, ...args), state(), act(...browser_act actions), screenshot(full?), " +
	"click_at_xy(x,y), fill_input(selector,text), type_text, press_key, scroll(pages), wait(s), wait_for_load(s?), wait_for_element(selector,s?), " +
	"wait_for_network_idle(s?), list_tabs(), switch_tab(tab), emit_output(value,label?). " +
	"cdp: send(method,params?,{sessionId?,timeoutMs?}), attachToTarget(target_id) gives the sessionId for a page's commands, spec(words), closeSession(). " +
	"One call at a time. Return little data. Don't retry what the policy denies."

const (
	observeDescription = "Waits until a script of browser_execute says something new or ends. Prefer few waits of 30-120 s."
	cancelDescription  = "Ends a script. The browser is kept."
)

// The modes of a script's browser, as models name them.
const (
	reuse   = "reuse"
	oneShot = "one-shot"
	dynamic = "dynamic"
)

type executeArgs struct {
	Code    string `json:"code,omitempty"`
	Command string `json:"command,omitempty" jsonschema:"Instead of code: status or runs."`
	Session string `json:"session,omitempty" enum:"reuse,one-shot,dynamic" jsonschema:"one-shot: a browser for this script alone; dynamic: until cdp.startSession()."`
	Yield   int    `json:"yield_time_ms,omitempty" jsonschema:"Default 7000."`
	Timeout int    `json:"timeout_ms,omitempty" jsonschema:"Default and most: 300000."`
}

type observeArgs struct {
	RunID string `json:"run_id"`
	Wait  int    `json:"wait_ms,omitempty"`
}

type cancelArgs struct {
	RunID string `json:"run_id"`
}

func (p *browserPlugin) scriptTools() []tool.Tool {
	return []tool.Tool{
		tool.New("browser_execute", executeDescription, guarded(p, p.execute), tool.Assess(known(p, p.assessExecute)), tool.ParallelSafe(), tool.SerialGroup(group)),
		tool.New("browser_observe", observeDescription, guarded(p, p.observe), tool.Assess(known(p, p.assessObserve)), tool.ParallelSafe(), tool.SerialGroup(group)),
		// Not in the group: it ends what an observation waits for.
		tool.New("browser_cancel", cancelDescription, guarded(p, p.cancel), tool.Assess(known(p, p.assessCancel)), tool.ParallelSafe()),
	}
}

// modeOf returns how long the browser of a script lives.
func (p *browserPlugin) modeOf(in executeArgs) session.Mode {
	switch cmp.Or(in.Session, p.config.Session.Mode) {
	case oneShot:
		return session.OneShot
	case dynamic:
		return session.Dynamic
	}
	return session.Reuse
}

// planExecute returns what a script can touch: the browser that it starts, or the pages that are open. What it opens later is authorized then.
func (p *browserPlugin) planExecute(t *thread, cwd string, in executeArgs) (plan, error) {
	l := plan{Cwd: cwd}
	var err error
	if l.Actions, err = json.Marshal(in); err != nil {
		return l, err
	}
	r := t.running()
	if r == nil && p.needs(t) || p.modeOf(in) == session.OneShot {
		return l, l.begin(p)
	}
	if r == nil {
		return l, nil
	}
	for _, x := range r.Browser.Tabs() {
		if o := origin(x.Info().URL); o != "" {
			l.Origins = append(l.Origins, o)
		}
	}
	return l, nil
}

func (p *browserPlugin) assessExecute(_ context.Context, c *tool.AssessCall, in executeArgs) (*contract.Assessment, error) {
	if (in.Code == "") == (in.Command == "") {
		return &contract.Assessment{Early: tool.Errorf("browser_execute failed: give either code or command")}, nil
	}
	item := &contract.BrowserItem{Action: "script"}
	if in.Command != "" {
		return &contract.Assessment{ReadOnly: true, Summary: "Browser " + in.Command, Item: item}, nil
	}
	l, err := p.planExecute(p.thread(c.ThreadID()), c.Cwd(), in)
	if err != nil {
		return &contract.Assessment{Early: tool.Errorf("browser_execute failed: %v", err)}, nil
	}
	a := &contract.Assessment{Digest: l.digest(), Effects: l.effects(p), Summary: "Run a script in the browser", Item: item}
	return a, nil
}

func (p *browserPlugin) execute(ctx context.Context, c *tool.Call, in executeArgs) (*tool.Result, error) {
	const name = "browser_execute"
	if in.Command != "" {
		return p.answer(c, in.Command), nil
	}
	l, err := p.planExecute(p.thread(c.ThreadID()), c.Cwd(), in)
	if err != nil {
		return failed(name, err), nil
	}
	if d := c.AssessDigest(); d != "" && d != l.digest() {
		return failed(name, errors.New("the browser, or the page in it, has changed since the call was assessed; call it again")), nil
	}
	if err := c.Started(&contract.BrowserItem{Action: "script"}); err != nil {
		return nil, err
	}
	b := newBrowsers(p, p.thread(c.ThreadID()), script.NewID())
	b.mode = p.modeOf(in)
	m := session.New(session.Options[*script.Conn]{
		Browsers: b, Store: entries{c.State()}, Lease: leases(c.Env(), c.ThreadID()), Mode: b.mode, Keep: p.config.Idle, Adopt: b.existing, Promote: b.promote,
		Log: func(text string, err error) { c.Env().Logger.Warn(text, "err", err) },
	})
	detach := b.attach(ctx, c)
	p.scripts.Store(b.run, b)
	r, err := p.runs.Start(script.Options{
		Thread: c.ThreadID(), ID: b.run, Code: in.Code, Timeout: script.Timeout(in.Timeout), Browser: m.Execution(b.run), Ended: b.ended,
	})
	if err != nil {
		p.scripts.Delete(b.run)
		detach()
		return failed(name, err), nil
	}
	x := r.First(ctx, script.Yield(in.Yield))
	detach()
	return p.reported(ctx, c, r, x), nil
}

// answer answers one of the commands that need no script.
func (p *browserPlugin) answer(c *tool.Call, command string) *tool.Result {
	runs := []map[string]any{}
	for _, r := range p.runs.Of(c.ThreadID()) {
		runs = append(runs, map[string]any{"run_id": r.ID, "running": r.Active()})
	}
	var out any
	switch strings.TrimSuffix(strings.TrimSpace(command), " --json") {
	case "runs":
		out = map[string]any{"runs": runs}
	case "status":
		tabs := []map[string]any{}
		status := map[string]any{"mode": "none", "connection": "not-configured", "next_step": "browser_act, or a script, starts a browser"}
		if r := p.thread(c.ThreadID()).running(); r != nil {
			mode := "managed"
			if r.Browser.Attached() {
				mode = "attached"
			}
			for _, t := range r.Browser.Tabs() {
				i := t.Info()
				tabs = append(tabs, map[string]any{"target_id": t.ID, "tab": t.Name(), "url": i.URL, "title": i.Title})
			}
			status = map[string]any{"mode": mode, "connection": "connected", "session_id": r.id}
		}
		status["tabs"], status["runs"] = tabs, runs
		out = status
	default:
		return tool.Errorf("there is no command %q; the commands are status and runs", command)
	}
	res, err := tool.JSON(out)
	if err != nil {
		return failed("browser_execute", err)
	}
	return res
}

func (p *browserPlugin) assessObserve(_ context.Context, c *tool.AssessCall, in observeArgs) (*contract.Assessment, error) {
	return p.assessRun(c.ThreadID(), in.RunID, "Wait for a script in the browser")
}

func (p *browserPlugin) assessCancel(_ context.Context, c *tool.AssessCall, in cancelArgs) (*contract.Assessment, error) {
	return p.assessRun(c.ThreadID(), in.RunID, "End a script in the browser")
}

func (p *browserPlugin) assessRun(threadID, id, summary string) (*contract.Assessment, error) {
	if _, err := p.runs.Find(threadID, id); err != nil {
		return &contract.Assessment{Early: tool.Errorf("%v", err)}, nil
	}
	return &contract.Assessment{ReadOnly: true, Summary: summary, Item: &contract.BrowserItem{Action: "script"}}, nil
}

func (p *browserPlugin) observe(ctx context.Context, c *tool.Call, in observeArgs) (*tool.Result, error) {
	r, err := p.runs.Find(c.ThreadID(), in.RunID)
	if err != nil {
		return failed("browser_observe", err), nil
	}
	detach := func() {}
	if b, ok := p.scripts.Load(r.ID); ok {
		detach = b.(*browsers).attach(ctx, c)
	}
	x := r.Observe(ctx, script.Wait(in.Wait))
	detach()
	return p.reported(ctx, c, r, x), nil
}

func (p *browserPlugin) cancel(ctx context.Context, c *tool.Call, in cancelArgs) (*tool.Result, error) {
	r, err := p.runs.Find(c.ThreadID(), in.RunID)
	if err != nil {
		return failed("browser_cancel", err), nil
	}
	r.Cancel(ctx)
	res := p.reported(ctx, c, r, r.First(ctx, 0))
	res.IsError = false
	return res, nil
}

// reported returns what a run has said. A call that was cancelled ends its script.
func (p *browserPlugin) reported(ctx context.Context, c *tool.Call, r *script.Run, x script.Report) *tool.Result {
	if ctx.Err() != nil && r.Active() {
		r.Cancel(c.Hard())
		more := r.First(c.Hard(), 0)
		x.Text += more.Text
		x.Images, x.Outputs, x.BrowserEvents = append(x.Images, more.Images...), append(x.Outputs, more.Outputs...), append(x.BrowserEvents, more.BrowserEvents...)
		x.Status, x.Error, x.Diagnosis, x.ElapsedMS = more.Status, more.Error, more.Diagnosis, more.ElapsedMS
	}
	var b strings.Builder
	seconds := float64(x.ElapsedMS) / 1000
	switch x.Status {
	case script.Running:
		fmt.Fprintf(&b, "Run %s has been running for %.1f s. browser_observe waits for more, browser_cancel ends it.\n", x.RunID, seconds)
	case script.Finished:
		fmt.Fprintf(&b, "The script has finished after %.1f s.\n", seconds)
	case script.Cancelled:
		fmt.Fprintf(&b, "The script was cancelled after %.1f s. The browser is as it has left it.\n", seconds)
	default:
		fmt.Fprintf(&b, "The script has failed after %.1f s: %s\n", seconds, x.Error)
		if x.Diagnosis != nil {
			b.WriteString(x.Diagnosis.NextStep + "\n")
		}
	}
	b.WriteString(x.Text)
	for _, o := range x.Outputs {
		fmt.Fprintf(&b, "%s: %s\n", orDefault(o.Label, "output"), readable(o.Value))
	}
	if len(x.Data) > 0 && string(x.Data) != "null" {
		fmt.Fprintf(&b, "Result: %s\n", readable(x.Data))
	}
	res := &tool.Result{IsError: x.Status == script.Failed, Aborted: ctx.Err() != nil, Item: &contract.BrowserItem{Action: "script"}}
	res.Parts = parts(strings.TrimRight(b.String(), "\n"), x.Images, c)
	res.Parts[0].(*contract.TextPart).Fit = 0 // the host's
	if r := p.thread(c.ThreadID()).running(); r != nil {
		res.SessionID = r.id
	}
	if structured, err := json.Marshal(x); err == nil {
		res.Structured = structured
	}
	return res
}

func orDefault(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// readable returns a value for the model: without base64, and bounded.
func readable(v json.RawMessage) string {
	var value any
	if err := json.Unmarshal(v, &value); err != nil {
		return string(v)
	}
	if note, ok := codemode.ScreenshotNote(value); ok {
		return note
	}
	return codemode.SandboxResponseText(codemode.Redact(value))
}
