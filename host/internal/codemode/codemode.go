// Package codemode lets models call tools in scripts: with exec, a model runs JavaScript that calls the thread's tools, and with wait it
// waits for a script that goes on.
//
// It owns: the two tools, the scripts of a thread (cells), what they output and store, and the guide to the tools that scripts can call.
// It must not know: how a script is run and confined, how its calls are decided on, or who is asked.
//
// Start with [New].
package codemode

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/sdk/codemode"
	"github.com/gantry-agent/gantry/sdk/codemode/frame"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Config configures the scripts of threads.
type Config struct {
	Command []string // the program that runs a script
	Limits  codemode.Limits
	Yield   time.Duration // default time after which exec answers
	// Ended reports whether a session of a plugin has ended.
	Ended func(plugin, session string) bool
}

// Constants of codex.
const (
	waitYield  = 10 * time.Second // default of wait
	longYield  = 10 * time.Second // from here on, a yield time gets slack
	yieldSlack = time.Second
)

// turnGrace is how long the calls of scripts may go on after the turn.
const turnGrace = 2 * time.Second

// maxCells bounds the scripts of a thread that run at the same time.
const maxCells = 16

// maxValues bounds what the scripts of a thread store, in characters of JSON: it is part of each checkpoint.
const maxValues = 256 << 10

// Thread runs the scripts of a thread. Its methods may be called concurrently.
type Thread struct {
	cfg   Config
	state func() json.RawMessage // of [Feature]
	ctx   context.Context
	end   context.CancelFunc
	table hosttool.Table

	work sync.WaitGroup // of OnRequest

	mu        sync.Mutex
	last      int
	cells     map[string]*cell  // that run, or whose end the model has not read
	spare     *codemode.Process // waits for the next script; nil: none does
	notes     []string          // that the model has not read
	noted     int               // bytes of notes
	extended  extended
	described described
}

// extended is a catalogue with the tools, which is the same as long as the others are.
type extended struct {
	others, all *registry.Snapshot
	only        bool
}

// described is the description of exec for models with these traits.
type described struct {
	others *registry.Snapshot
	traits []string
	text   string
}

// New returns the scripts of a thread, of which none runs. state returns the thread's state of [Feature].
func New(cfg Config, state func() json.RawMessage) *Thread {
	t := &Thread{cfg: cfg, state: state, cells: map[string]*cell{}}
	t.ctx, t.end = context.WithCancel(context.Background())
	t.table = table(t)
	return t
}

// Reserve reserves the names of the tools.
func Reserve(r *registry.Registry) { table(nil).Reserve(r) }

// Extend returns the catalogue with the tools. Models that call tools only in scripts are not offered the others.
func (t *Thread) Extend(others *registry.Snapshot, c hosttool.Conditions, only bool) *registry.Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.extended; x.others != nil && x.only == only && slices.Equal(x.others.Entries(), others.Entries()) && slices.Equal(x.others.Collisions, others.Collisions) {
		return x.all
	}
	all := others
	if only {
		all = others.CodeOnly()
	}
	all = t.table.Extend(all, c) // which always offers both tools
	t.extended = extended{others, all, only}
	return all
}

// describe returns the description of exec. It is the same as long as the tools are, and made once.
func (t *Thread) describe(others *registry.Snapshot, row llm.ModelRow) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	traits := row.Traits()
	if d := t.described; d.others != others || !slices.Equal(d.traits, traits) {
		t.described = described{others, traits, describe(others, traits)}
	}
	return t.described.text
}

// Tool finds the implementation of the tool with a label.
func (t *Thread) Tool(label string) (orchestrate.HostTool, bool) { return t.table.Tool(label) }

// OnRequest implements turn.RequestListener: while the model thinks, a process starts that waits for its next script.
func (t *Thread) OnRequest(tools *registry.Snapshot) {
	if e, ok := tools.Lookup("", execTool); ok && e.HostTool == execLabel {
		t.work.Go(t.prepare) // ends when the process has started; [Thread.drop] waits for it
	}
}

func (t *Thread) prepare() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() == nil && t.spare == nil {
		t.spare = codemode.Prepare(t.cfg.Command, t.cfg.Limits)
	}
}

// drop ends the process that waits for a script.
func (t *Thread) drop() {
	t.work.Wait()
	t.mu.Lock()
	spare := t.spare
	t.spare = nil
	t.mu.Unlock()
	if spare != nil {
		spare.End()
	}
}

// OnInterrupt implements turn.InterruptListener: who interrupts a turn wants its scripts to end, also those that nothing waits for.
func (t *Thread) OnInterrupt() {
	t.each(func(c *cell) { c.stop(errInterrupted) })
}

// OnEnd implements turn.EndListener: nothing of a script acts after the turn. Scripts that still run can be observed in a later turn.
func (t *Thread) OnEnd(context.Context) []event.Body {
	t.drop()
	t.each(func(c *cell) { c.calls.EndTurn(turnGrace) })
	return nil
}

// End ends all scripts.
func (t *Thread) End() {
	t.end()
	t.drop()
	t.each(func(c *cell) { c.stop(errThreadEnded) })
}

// each calls f for all cells at once, and waits.
func (t *Thread) each(f func(c *cell)) {
	var all sync.WaitGroup
	for _, c := range t.running() {
		all.Go(func() { f(c) })
	}
	all.Wait()
}

// TakeNotes implements turn.NoteSource.
func (t *Thread) TakeNotes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	notes := t.notes
	t.notes, t.noted = nil, 0
	return notes
}

// note keeps a note of a script for the model's next request. false: there are too many.
func (t *Thread) note(id, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.noted+itemBytes+len(text) > maxNotes {
		return false
	}
	t.noted += itemBytes + len(text)
	t.notes = append(t.notes, fmt.Sprintf("Note of the script in exec cell %s: %s", id, text))
	return true
}

var (
	errInterrupted = errors.New("the turn was interrupted")
	errThreadEnded = errors.New("the thread has ended")
	errOver        = errors.New("the script has ended")
	errTerminated  = errors.New("the script was terminated")
)

func (t *Thread) running() []*cell {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.cells))
}

// stop ends the script and its calls.
func (c *cell) stop(cause error) {
	c.calls.End(cause)
	c.session.Stop()
}

//go:embed prelude.js
var prelude string

// begin starts a script in a thread with this state. lost are the IDs of earlier scripts that this process does not have.
func (t *Thread) begin(call *orchestrate.HostCall, code string, s state) (c *cell, lost []int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.cells) >= maxCells {
		return nil, nil, fmt.Errorf("%d scripts run or have not been waited for, which is the maximum; use wait, if need be with terminate, for the cells %s",
			len(t.cells), strings.Join(slices.Sorted(maps.Keys(t.cells)), ", "))
	}
	t.last = max(t.last, s.Last) + 1
	c = &cell{thread: t, id: strconv.Itoa(t.last), calls: orchestrate.NewCell(), yields: make(chan struct{}, 1), tools: catalogueOf(call.Tools, call.Traits)}
	namespaces, err := namespaces(c.tools, s.Values)
	if err != nil {
		return nil, nil, err
	}
	script := codemode.Script{Code: code, Form: frame.Module, Limits: t.cfg.Limits, Namespaces: namespaces}
	if t.spare != nil {
		c.session = t.spare.Run(t.ctx, script, c)
		t.spare = nil
	} else {
		c.session = codemode.Start(t.ctx, t.cfg.Command, script, c)
	}
	t.cells[c.id] = c
	for _, id := range s.Running {
		if t.cells[strconv.Itoa(id)] == nil {
			lost = append(lost, id)
		}
	}
	return c, lost, nil
}

// namespaces are the globals of a script.
func namespaces(tools catalogue, values map[string]json.RawMessage) ([]frame.Namespace, error) {
	type entry struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	all := make([]entry, 0, len(tools.names))
	for _, name := range tools.names {
		all = append(all, entry{name, tools.byName[name].Description})
	}
	names, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	stored, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf("const names = %s, values = %s, limit = %d\n", quoted(names), quoted(stored), maxValues)
	return []frame.Namespace{{Name: "tools", Prelude: head + prelude}, {Name: guideNamespace}}, nil
}

// quoted returns JSON as a JavaScript string.
func quoted(raw []byte) string {
	b, err := json.Marshal(string(raw))
	if err != nil { // a string can be marshalled
		panic("codemode: " + err.Error())
	}
	return string(b)
}

// observe waits until the script has ended, asks for an answer, or yield is over, and returns the answer.
func (t *Thread) observe(ctx context.Context, call *orchestrate.HostCall, c *cell, a answer, began time.Time, yield time.Duration) (*contract.Result, error) {
	release, err := call.Observe(c.calls)
	if err != nil {
		return nil, fmt.Errorf("exec cell %s: %w", c.id, err)
	}
	defer release()
	tools := catalogueOf(call.Tools, call.Traits)
	c.observed(&observer{release, call.Progress}, tools)
	defer c.observed(nil, tools)
	if yield >= longYield {
		yield += yieldSlack
	}
	timer := time.NewTimer(yield)
	defer timer.Stop()
	ended := false
	select {
	case <-c.session.Ended():
		ended = true
	case <-c.yields:
	case <-timer.C:
	case <-ctx.Done():
		c.stop(context.Cause(ctx))
		release()
		if err := t.forget(ctx, call, c, errors.New("interrupted")); err != nil {
			return nil, err
		}
		return &contract.Result{Aborted: true, IsError: true}, nil
	}
	release()
	if !ended {
		a.state = stateRunning(c.id)
		if err := t.remember(ctx, call, c); err != nil {
			return nil, err
		}
		return t.answer(c, a, began), nil
	}
	c.calls.End(errOver)
	a.state = stateCompleted
	var why error
	switch e := c.session.Wait().Error; {
	case e != nil && e.Cause == frame.Cancelled: // since nothing observed it
		a.state, why = stateTerminated, errInterrupted
		a.notes = append(a.notes, "The script was ended because the user interrupted the turn.")
	case e != nil:
		a.state, a.problem = stateFailed, problemText(*e)
	}
	if err := t.forget(ctx, call, c, why); err != nil {
		return nil, err
	}
	return t.answer(c, a, began), nil
}

// problemText is the stack of an error as V8 writes it, in which the script has the name that codex gives it; or the error's message.
func problemText(e frame.Error) string {
	stack := strings.TrimRight(e.Stack, "\n")
	if stack == "" {
		return e.Message
	}
	return unnamedFrame.ReplaceAllString(strings.ReplaceAll(stack, "<eval>", "exec_main.mjs"), "    at $1")
}

// unnamedFrame is a line of a stack for code outside of functions, or in one without a name.
var unnamedFrame = regexp.MustCompile(`(?m)^    at <anonymous> \((exec_main\.mjs:\d+:\d+)\)$`)

// answer completes an answer with what the script has output.
func (t *Thread) answer(c *cell, a answer, began time.Time) *contract.Result {
	if a.state != stateRunning(c.id) {
		a.notes = append(a.notes, c.sessionsLeft(t.cfg.Ended)...)
	}
	a.items, a.took = c.take(), time.Since(began)
	return a.result()
}

// remember records that the model knows the cell, so that it learns if the cell is lost.
func (t *Thread) remember(ctx context.Context, call *orchestrate.HostCall, c *cell) error {
	if c.known {
		return nil
	}
	c.known = true
	id, _ := strconv.Atoi(c.id)
	return t.publish(ctx, call, change{Begun: id})
}

// forget removes a cell that has ended, and keeps what it has stored unless it was stopped (why).
func (t *Thread) forget(ctx context.Context, call *orchestrate.HostCall, c *cell, why error) error {
	t.mu.Lock()
	delete(t.cells, c.id)
	t.mu.Unlock()
	var ch change
	if c.known {
		ch.Ended, _ = strconv.Atoi(c.id)
	}
	if why == nil {
		c.mu.Lock()
		for key, v := range c.stored {
			if v == nil {
				ch.Deleted = append(ch.Deleted, key)
				continue
			}
			if ch.Stored == nil {
				ch.Stored = map[string]json.RawMessage{}
			}
			ch.Stored[key] = v
		}
		c.mu.Unlock()
		slices.Sort(ch.Deleted)
	}
	if ch.Ended == 0 && ch.Stored == nil && ch.Deleted == nil {
		return nil
	}
	return t.publish(ctx, call, ch)
}

func (t *Thread) publish(ctx context.Context, call *orchestrate.HostCall, ch change) error {
	data, err := json.Marshal(ch)
	if err != nil {
		return err
	}
	return call.Publish(ctx, event.FeatureChanged{Feature: FeatureID, Data: data})
}

// exec runs a script.
func (t *Thread) exec(ctx context.Context, call *orchestrate.HostCall, in contract.Input) (*contract.Result, error) {
	began := time.Now()
	src, err := parseSource(in.Text)
	if err != nil {
		return nil, err
	}
	s := stateOf(t.state())
	c, lost, err := t.begin(call, src.code, s)
	if err != nil {
		return nil, err
	}
	a, yield := answer{tokens: defaultTokens}, t.cfg.Yield
	if src.most != nil {
		a.tokens = *src.most
	}
	if src.yield != nil {
		yield = *src.yield
	}
	for _, id := range lost {
		a.notes = append(a.notes, s.lostText(id))
		if err := t.publish(ctx, call, change{Ended: id}); err != nil {
			return nil, err
		}
	}
	return t.observe(ctx, call, c, a, began, yield)
}

// lostText says that this process does not have a script: it ended with its process, or the thread is a copy.
func (s state) lostText(id int) string {
	if id <= s.Copied {
		return fmt.Sprintf("exec cell %d belongs to the conversation that this one was copied from, and does not run here. Stored values are kept.", id)
	}
	return fmt.Sprintf("exec cell %d was lost when gantry ended; it is not known what its calls have done after the last answer. Stored values are kept.", id)
}

// waitArguments are the arguments of wait.
type waitArguments struct {
	CellID    string   `json:"cell_id"`
	Yield     *float64 `json:"yield_time_ms"`
	Most      *float64 `json:"max_tokens"`
	Terminate bool     `json:"terminate"`
}

// wait waits for a script.
func (t *Thread) wait(ctx context.Context, call *orchestrate.HostCall, in contract.Input) (*contract.Result, error) {
	began := time.Now()
	var args waitArguments
	if err := json.Unmarshal(in.Arguments, &args); err != nil {
		return nil, registry.ArgumentsError(err)
	}
	a, yield := answer{tokens: defaultTokens}, waitYield
	if args.Most != nil {
		a.tokens = int64(min(max(*args.Most, 0), maxSafeInteger))
	}
	if args.Yield != nil {
		yield = milliseconds(int64(min(max(*args.Yield, 0), maxSafeInteger)))
	}
	t.mu.Lock()
	c := t.cells[args.CellID]
	t.mu.Unlock()
	if c == nil {
		a.state, a.problem, a.took = stateFailed, "exec cell "+args.CellID+" not found", time.Since(began)
		s := stateOf(t.state())
		if id, err := strconv.Atoi(args.CellID); err == nil && slices.Contains(s.Running, id) {
			a.problem = s.lostText(id)
			if err := t.publish(ctx, call, change{Ended: id}); err != nil {
				return nil, err
			}
		}
		return a.result(), nil
	}
	if !args.Terminate {
		return t.observe(ctx, call, c, a, began, yield)
	}
	release, err := call.Observe(c.calls) // so that no other call waits for it
	if err != nil {
		return nil, fmt.Errorf("exec cell %s: %w", c.id, err)
	}
	c.stop(errTerminated)
	release()
	a.state = stateTerminated
	if err := t.forget(ctx, call, c, errTerminated); err != nil {
		return nil, err
	}
	return t.answer(c, a, began), nil
}
