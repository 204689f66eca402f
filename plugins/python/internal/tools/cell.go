package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/python/internal/kernel"
	"github.com/gantry-agent/gantry/plugins/python/internal/worker"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const cellDescription = "Executes Python code in a kernel that keeps variables and imports from call to call. Output, the value of the last " +
	"expression, figures of matplotlib, images and tracebacks are returned; top-level await works; input() doesn't, nor do IPython's magics. " +
	"`gantry.tools.NAME(**arguments)` calls another tool, or raises gantry.ToolError; `await gantry.tools.aio.NAME(...)` does so concurrently. " +
	"`gantry.artifact(path_or_bytes, name)` gives the user a file, `gantry.show(value)` shows a value, `gantry.progress(done, total)` shows progress. " +
	"Code that exceeds its timeout is interrupted; the variables are kept if that is possible."

// language is the name of what a cell is written in.
const language = "python"

const resetDescription = "Ends the Python kernel. The next call of python starts a new one without the variables of the old one."

func (p *pythonPlugin) cellTool() tool.Tool {
	return tool.New("python", cellDescription, p.run, tool.Assess(p.assessCell), tool.AbortReadsAsCommand())
}

func (p *pythonPlugin) resetTool() tool.Tool {
	return tool.New("python_reset", resetDescription, p.reset, tool.Assess(p.assessReset))
}

// early answers a call with an error without running it.
func early(err error) *contract.Assessment {
	return &contract.Assessment{Early: contract.ErrorText("python failed: " + err.Error())}
}

// plan is what a call is going to do: run code in a session, in a kernel that it starts if python is not empty.
type plan struct {
	Session   string
	Python    string
	Cwd       string
	Code      string
	Escalated bool
}

func (l plan) effects() []contract.Effect {
	var out []contract.Effect
	if l.Python != "" {
		out = append(out, contract.ExecEffect{Argv: worker.Argv(l.Python), Cwd: l.Cwd})
	}
	if l.Code != "" {
		out = append(out, contract.SessionInputEffect{SessionID: l.Session, Text: l.Code, Language: language})
	}
	return out
}

// digest identifies everything that determines what the call does.
func (l plan) digest() string {
	b, err := json.Marshal(l)
	if err != nil { // impossible for strings and bools
		panic("tools: marshal plan: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return "p1:" + hex.EncodeToString(sum[:])
}

func (p *pythonPlugin) planCell(threadID, cwd, code string) (plan, error) {
	t := p.thread(threadID)
	if r := t.running(); r != nil && !r.Ended() {
		return plan{Session: r.ID, Cwd: cwd, Code: code}, nil
	}
	python, err := p.python(cwd)
	return plan{Session: t.nextID(), Python: python, Cwd: cwd, Code: code}, err
}

func (p *pythonPlugin) assessCell(_ context.Context, c *tool.AssessCall, in cellArgs) (*contract.Assessment, error) {
	if strings.TrimSpace(in.Code) == "" {
		return early(errors.New("code is empty")), nil
	}
	if _, err := p.timeout(in); err != nil {
		return early(err), nil
	}
	l, err := p.planCell(c.ThreadID(), c.Cwd(), in.Code)
	if err != nil {
		return early(err), nil
	}
	return &contract.Assessment{Effects: l.effects(), Summary: oneLine(in.Code), Item: l.item(), Digest: l.digest()}, nil
}

func (l plan) item() *contract.CodeItem {
	return &contract.CodeItem{Language: language, Source: l.Code, SessionID: l.Session}
}

func (p *pythonPlugin) run(ctx context.Context, c *tool.Call, in cellArgs) (*tool.Result, error) {
	begin := time.Now()
	t := p.thread(c.ThreadID())
	if r := t.running(); r != nil && r.Busy() && len(c.Parents()) > 0 {
		return tool.Errorf("python failed: the kernel is running the code that makes this call"), nil
	}
	l, err := p.planCell(c.ThreadID(), c.Cwd(), in.Code)
	if err != nil {
		return tool.Errorf("python failed: %v", err), nil
	}
	if d := c.AssessDigest(); d != "" && d != l.digest() {
		return tool.Errorf("python failed: the kernel has ended since the call was assessed; call it again"), nil
	}
	timeout, err := p.timeout(in)
	if err != nil {
		return tool.Errorf("python failed: %v", err), nil
	}
	if err := c.Started(l.item()); err != nil {
		return nil, err
	}
	a := answer{call: c, item: l.item(), memory: p.config.Memory}
	r := t.running()
	if l.Python != "" {
		earlier := t.recall(c)
		if r, err = p.start(ctx, c, t, note{ID: l.Session, Python: l.Python, Digest: c.Grant().Digest}); err != nil {
			if ctx.Err() != nil {
				return aborted(begin), nil
			}
			return startError(l.Python, err), nil
		}
		if a.lost = t.takeLost(); a.lost == "" {
			a.lost = <-earlier
		}
		defer t.record(c, r.ID)()
	} else if r == nil {
		return tool.Errorf("python failed: %v; call it again", kernel.ErrOver), nil
	}
	a.changed = !r.Escalated && r.Digest != c.Grant().Digest && !r.warned.Swap(true)
	timer := c.Clock().NewTimer(timeout)
	defer timer.Stop()
	h := &handler{call: c}
	o, err := r.Run(ctx, in.Code, timer.C, h)
	if err != nil {
		if ctx.Err() != nil {
			return aborted(begin), nil
		}
		if errors.Is(err, kernel.ErrOver) { // a cell that could not be interrupted has cost it
			return tool.Errorf("python failed: %v; call it again", err), nil
		}
		return tool.Errorf("python failed: %v", err), nil
	}
	a.wall, a.timeout = time.Since(begin), timeout
	a.artifacts, a.events = h.kept()
	if o.Lost() {
		if c.Env().Context().Err() == nil {
			a.exit = "it has ended"
			if e, ok := r.Exit(); ok {
				a.exit = ended(e)
			}
			t.forget(r, a.exit)
			if ctx.Err() == nil { // otherwise the host no longer waits for this result, which says so
				t.takeLost()
				t.told(c)
			}
		}
	} else {
		a.session = r.ID
		r.idle.Reset(p.config.Idle)
	}
	res := a.result(o)
	res.Aborted = ctx.Err() != nil
	return res, nil
}

func aborted(begin time.Time) *tool.Result {
	r := tool.Errorf("Wall time: %.1f seconds\naborted by user", time.Since(begin).Seconds())
	r.Aborted = true
	return r
}

func (p *pythonPlugin) planReset(c interface {
	ThreadID() string
	Cwd() string
}, in resetArgs) (plan, error) {
	if !in.escalated() {
		return plan{Cwd: c.Cwd()}, nil
	}
	if strings.TrimSpace(in.Justification) == "" {
		return plan{}, errors.New("require_escalated needs a justification")
	}
	python, err := p.python(c.Cwd())
	return plan{Session: p.thread(c.ThreadID()).nextID(), Python: python, Cwd: c.Cwd(), Escalated: true}, err
}

func (p *pythonPlugin) assessReset(_ context.Context, c *tool.AssessCall, in resetArgs) (*contract.Assessment, error) {
	l, err := p.planReset(c, in)
	if err != nil {
		return early(err), nil
	}
	a := &contract.Assessment{
		Effects: l.effects(), ReadOnly: !l.Escalated, Summary: "End the Python kernel", Item: &contract.OtherItem{Title: "End the Python kernel"},
		Digest: l.digest(),
	}
	if l.Escalated {
		a.Summary = "Start a Python kernel outside of the sandbox"
		a.Item = &contract.OtherItem{Title: a.Summary}
		a.Escalation = &contract.Escalation{Unsandboxed: true, Justification: in.Justification}
		a.Discriminators = []string{"sandbox_permissions=" + in.SandboxPermissions}
	}
	return a, nil
}

func (p *pythonPlugin) reset(ctx context.Context, c *tool.Call, in resetArgs) (*tool.Result, error) {
	t := p.thread(c.ThreadID())
	if r := t.running(); r != nil && r.Busy() && len(c.Parents()) > 0 {
		return tool.Errorf("python_reset failed: the kernel is running the code that makes this call"), nil
	}
	l, err := p.planReset(c, in)
	if err != nil {
		return tool.Errorf("python_reset failed: %v", err), nil
	}
	if d := c.AssessDigest(); d != "" && d != l.digest() {
		return tool.Errorf("python_reset failed: a kernel was started since the call was assessed; call it again"), nil
	}
	had := t.running() != nil
	if err := t.stop(ctx, "", ""); err != nil {
		return tool.Errorf("python_reset failed: the kernel did not end: %v", err), nil
	}
	t.takeLost()
	t.told(c)
	if l.Escalated {
		r, err := p.start(ctx, c, t, note{ID: l.Session, Python: l.Python, Digest: c.Grant().Digest, Escalated: true})
		if err != nil {
			return startError(l.Python, err), nil
		}
		t.record(c, r.ID)()
		res := tool.Text("A new kernel was started outside of the sandbox. It has no variables yet.")
		res.SessionID = r.ID
		return res, nil
	}
	if !had {
		return tool.Text("There was no kernel. The next call of python starts one."), nil
	}
	return tool.Text("The kernel has ended. The next call of python starts a new one, without variables."), nil
}

// handler answers what a cell requests, by its call.
type handler struct {
	call *tool.Call
	list func() ([]contract.Descriptor, error)
	once sync.Once

	mu     sync.Mutex
	stored []contract.ArtifactRef
	events []json.RawMessage // of browsers
}

// maxEvents is the maximum number of steps in a browser that a structured result contains.
const maxEvents = 1000

func (h *handler) Output(p []byte) { _ = h.call.Output(p) }

func (h *handler) Progress(message string, done, total float64) {
	_ = h.call.Progress(message, done, total)
}

// tools returns the thread's tools, which it asks for once.
func (h *handler) tools(ctx context.Context) ([]contract.Descriptor, error) {
	h.once.Do(func() {
		h.list = sync.OnceValues(func() ([]contract.Descriptor, error) { return h.call.ListTools(ctx) })
	})
	return h.list()
}

// callable returns the name by which code calls a tool.
func callable(d contract.Descriptor) string {
	if d.Namespace == "" {
		return d.Name
	}
	return d.Namespace + "__" + d.Name
}

func (h *handler) Tools(ctx context.Context) ([]string, error) {
	all, err := h.tools(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, d := range all {
		names = append(names, callable(d))
	}
	return names, nil
}

func (h *handler) Call(ctx context.Context, name string, args json.RawMessage, text *string) (json.RawMessage, error) {
	all, err := h.tools(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(d contract.Descriptor) bool { return callable(d) == name })
	if i < 0 {
		var names []string
		for _, d := range all {
			names = append(names, callable(d))
		}
		if near := configblock.Nearest(name, names); near != "" {
			return nil, fmt.Errorf("there is no tool %q; did you mean %q?", name, near)
		}
		return nil, fmt.Errorf("there is no tool %q; dir(gantry.tools) lists the tools", name)
	}
	var in any = args
	if text != nil {
		in = tool.RawText(*text)
	}
	r, err := h.call.CallTool(ctx, all[i].Namespace, all[i].Name, in)
	if err != nil {
		return nil, err
	}
	h.browsed(r.Structured)
	var b strings.Builder
	for _, p := range r.Parts {
		switch p := p.(type) {
		case *contract.TextPart:
			b.WriteString(p.Text)
		case *contract.JSONPart:
			b.Write(p.JSON)
		}
	}
	if r.IsError {
		return nil, errors.New(b.String())
	}
	if len(r.Structured) > 0 {
		return r.Structured, nil
	}
	return json.Marshal(b.String())
}

func (h *handler) Artifact(ctx context.Context, name, mediaType string, from io.Reader) (json.RawMessage, error) {
	ref, err := h.call.Artifact(ctx, name, mediaType, from)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.stored = append(h.stored, ref)
	h.mu.Unlock()
	return json.Marshal(artifactOf(ref))
}

// browsed keeps the steps in a browser that the result of a tool reports.
func (h *handler) browsed(result json.RawMessage) {
	var reported struct {
		BrowserEvents []json.RawMessage `json:"browser_events"`
	}
	if json.Unmarshal(result, &reported) != nil { // it is not an object, or there are none
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, reported.BrowserEvents[:min(len(reported.BrowserEvents), maxEvents-len(h.events))]...)
}

// kept returns the artifacts that the cell has stored, and the steps in browsers that its calls have reported.
func (h *handler) kept() ([]contract.ArtifactRef, []json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.stored), slices.Clone(h.events)
}
