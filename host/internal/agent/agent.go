// Package agent lets the agents of a host spawn others, which work in threads of their own, and talk with them.
//
// It owns: who works for whom, names and places, the mail between agents and its delivery over a restart, and the tools by which models
// do all this. It must not know: how a thread is made, which rights it has, who is shown what.
//
// Start with [Agents] and tree, which decides.
package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/role"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/hashicorp/go-hclog"
)

// Config has what agents need of their host.
type Config struct {
	Limits Limits
	// Wait is how long a call waits for agents by default, at least and at most.
	Wait, WaitMin, WaitMax time.Duration
	// Open starts the thread of a new agent.
	Open func(context.Context, Spec) (*thread.Thread, error)
	// Choose returns the model of a new agent and its reasoning effort, or an error if they can't be used. It starts nothing else instead.
	Choose func(ctx context.Context, parent *thread.Thread, wanted Choice) (Choice, error)
	Roles  role.Set
	// Load continues the stored thread of an agent.
	Load func(context.Context, event.ThreadID) (*thread.Thread, error)
	// Unload ends a thread and returns when it has ended.
	Unload func(id event.ThreadID, cause error)
	// Thread finds a thread that runs in this host.
	Thread func(event.ThreadID) (*thread.Thread, bool)
	// Ends returns how the turns of a stored thread have ended, in order; a turn that has not is the last and has no end.
	Ends func(context.Context, event.ThreadID) ([]End, error)
	// Keep stores a text that is too long for mail where the commands of a thread can read it, and returns its path.
	Keep func(t *thread.Thread, text string) (string, error)
	// Go runs a goroutine that the host waits for when it closes; false: it is closing.
	Go     func(func()) bool
	Logger hclog.Logger
}

// Spec describes the thread of a new agent.
type Spec struct {
	ID     event.ThreadID
	Parent *thread.Thread
	Agent  event.Agent
	Choice
	Instructions string // of its role; empty: none
	Inherited    *event.Inherited
	History      []llm.Message // what Inherited stands for
}

// Choice is a model with a reasoning effort. What is empty in a wish is not set; an empty effort is the model's own.
type Choice struct{ Model, Effort string }

// End is how a turn has ended.
type End struct {
	Turn event.TurnID
	End  *event.TurnEnded // nil: it has not
}

// Agents are the trees of agents of a host. It is safe for concurrent use.
type Agents struct {
	cfg   Config
	table hosttool.Table
	mu    struct {
		sync.Mutex
		teams map[event.ThreadID]*team // by the root's thread
	}
}

// New returns the agents of a host that has none yet.
func New(cfg Config) *Agents {
	a := &Agents{cfg: cfg}
	a.mu.teams = map[event.ThreadID]*team{}
	a.table = a.tools()
	return a
}

// Table returns the tools of agents.
func (a *Agents) Table() hosttool.Table { return a.table }

// team is the tree of one root, with its threads.
type team struct {
	*Agents
	root *thread.Thread
	mu   struct {
		sync.Mutex
		tree    *tree
		closing bool
		waits   map[*waiting]struct{}
	}
}

// waiting is a call that waits for agents.
type waiting struct {
	who *member
	end func() // nobody is at work any more
}

var (
	errNoRoot  = errors.New("the agent at the root of this one does not run; resume its thread first")
	errClosing = errors.New("the agents are being ended")
)

// of returns the team of a thread, and the agent that it is.
func (a *Agents) of(id event.ThreadID) (*team, *member, error) {
	t, ok := a.cfg.Thread(id)
	if !ok {
		return nil, nil, thread.ErrClosed
	}
	if as := t.Started().Agent; as != nil && as.Root != id {
		if t, ok = a.cfg.Thread(as.Root); !ok {
			return nil, nil, errNoRoot
		}
	}
	team := a.team(t)
	team.mu.Lock()
	defer team.mu.Unlock()
	m := team.mu.tree.byThread(id)
	if m == nil {
		return nil, nil, errNoRoot
	}
	m.busy = true // it makes a call
	return team, m, nil
}

// team returns the team of a root.
func (a *Agents) team(root *thread.Thread) *team {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.mu.teams[root.ID()]; t != nil {
		return t
	}
	t := &team{Agents: a, root: root}
	t.mu.tree, t.mu.waits = newTree(a.cfg.Limits, root.ID()), map[*waiting]struct{}{}
	for _, e := range rosterOf(root.Feature(FeatureID)).Agents {
		m := &member{path: e.Path, nickname: e.Nickname, role: e.Role, thread: e.Thread, parent: e.Parent, status: Status{e.State, e.Text}}
		if m.status.State == Running { // in a host that has ended
			m.status = Status{State: Interrupted}
		}
		t.mu.tree.members[e.Path] = m
		t.mu.tree.spawned++
	}
	a.mu.teams[root.ID()] = t
	return t
}

// Began notes the beginning of a root's turn, and Ended its end: agents that wait know whether the root may still write to them.
func (a *Agents) Began(root event.ThreadID) { a.atWork(root, true) }

// Ended is the counterpart of [Agents.Began].
func (a *Agents) Ended(root event.ThreadID) { a.atWork(root, false) }

func (a *Agents) atWork(root event.ThreadID, busy bool) {
	a.mu.Lock()
	t := a.mu.teams[root]
	a.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.mu.tree.members[Root]
	m.busy, m.status = busy, Status{State: Completed}
	t.tellWaitingLocked()
}

// End ends the agents of a root that has ended, leaves first. What they were doing is interrupted.
func (a *Agents) End(root event.ThreadID) {
	a.mu.Lock()
	t := a.mu.teams[root]
	delete(a.mu.teams, root)
	a.mu.Unlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	t.mu.closing = true
	ms := t.mu.tree.below(Root)
	t.mu.Unlock()
	for _, m := range ms {
		if m.thread != "" {
			a.cfg.Unload(m.thread, orchestrate.ErrShutdown)
		}
	}
}

// Reverted ends the agents whose spawns have been reverted.
func (a *Agents) Reverted(root *thread.Thread) {
	a.mu.Lock()
	t := a.mu.teams[root.ID()]
	a.mu.Unlock()
	if t == nil {
		return
	}
	known := rosterOf(root.Feature(FeatureID)).Agents
	t.mu.Lock()
	gone := slices.DeleteFunc(t.mu.tree.below(Root), func(m *member) bool {
		return slices.ContainsFunc(known, func(e entry) bool { return e.Thread == m.thread })
	})
	for _, m := range gone {
		t.mu.tree.forget(m)
	}
	t.tellWaitingLocked()
	t.mu.Unlock()
	for _, m := range gone {
		a.cfg.Unload(m.thread, thread.ErrClosed)
	}
}

// Busy returns the paths of the agents of a root that are at work.
func (a *Agents) Busy(root event.ThreadID) (paths []string) {
	a.mu.Lock()
	t := a.mu.teams[root]
	a.mu.Unlock()
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.mu.tree.all() {
		if m.busy {
			paths = append(paths, m.path)
		}
	}
	return paths
}

// AwaitQuiet returns when none of the agents of a root is at work any more, or the root's turn has something to read.
func (a *Agents) AwaitQuiet(ctx context.Context, root *thread.Thread) error {
	t := a.team(root)
	t.mu.Lock()
	m := t.mu.tree.members[Root]
	t.mu.Unlock()
	_, err := t.arrival(ctx, root.Signal(), m)
	if errors.Is(err, errQuiet) {
		return nil
	}
	return err
}

// spawnTime bounds a spawn: a provider that does not start must not keep the model waiting.
const spawnTime = 30 * time.Second

// task is what a new agent is to do.
type task struct {
	name, text string
	role       role.Role
	wanted     Choice
	turns      int // of the conversation that it inherits; 0: all
	fresh      bool
}

// spawn starts an agent below another one.
func (t *team) spawn(ctx context.Context, c *orchestrate.HostCall, caller *member, w task) (*member, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, spawnTime, fmt.Errorf("the agent was not started within %v", spawnTime))
	defer cancel()
	parent, ok := t.cfg.Thread(caller.thread)
	if !ok {
		return nil, thread.ErrClosed
	}
	chosen, err := t.cfg.Choose(ctx, parent, w.wanted)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	if t.mu.closing {
		t.mu.Unlock()
		return nil, errClosing
	}
	m, evict, err := t.mu.tree.spawn(caller, w.name)
	if err != nil {
		t.mu.Unlock()
		return nil, err
	}
	used := map[string]bool{}
	for _, o := range t.mu.tree.members {
		used[o.nickname] = true
	}
	names := pool
	if len(w.role.Nicknames) > 0 {
		names = w.role.Nicknames
	}
	m.nickname, m.thread = nickname(names, used, rand.IntN), event.NewThreadID()
	if w.role.Name != role.Default {
		m.role = w.role.Name
	}
	t.mu.Unlock()
	t.unload(evict)
	if err := t.start(ctx, c, parent, m, w, chosen); err != nil {
		t.mu.Lock()
		t.mu.tree.forget(m)
		t.tellWaitingLocked()
		t.mu.Unlock()
		t.note(change{Failed: m.path})
		return nil, err
	}
	return m, nil
}

// start records a new agent, starts its thread and gives it its task.
func (t *team) start(ctx context.Context, c *orchestrate.HostCall, parent *thread.Thread, m *member, w task, chosen Choice) error {
	e := entry{Path: m.path, Thread: m.thread, Parent: m.parent, Nickname: m.nickname, Role: m.role, State: Running}
	if _, err := t.root.Publish(ctx, "", changed(change{Spawned: &e})); err != nil {
		return err
	}
	bounds := w.role.Bounds
	if above := parent.Started().Agent; above != nil {
		bounds = role.Meet(above.Bounds, bounds)
	}
	started := activity(c.ID, event.AgentStarted, m)
	shown := started.Item.Agent
	shown.Model, shown.Effort, shown.Bounds, shown.Budget = chosen.Model, chosen.Effort, bounds, w.role.Budget
	seq, err := parent.Publish(ctx, c.Turn, started)
	if err != nil {
		return err
	}
	// The agent's own log must not be there without what it refers to.
	if err := errors.Join(t.root.Flush(ctx), parent.Barrier(ctx, seq)); err != nil {
		return err
	}
	s := Spec{ID: m.thread, Parent: parent, Choice: chosen, Instructions: w.role.Instructions, Agent: event.Agent{
		Root: t.root.ID(), Path: m.path, Nickname: m.nickname, Role: m.role, Depth: depthOf(m.path), Bounds: bounds, Budget: w.role.Budget,
	}}
	if !w.fresh {
		s.Inherited = &event.Inherited{From: parent.ID(), Through: seq, Messages: len(c.History), Turns: w.turns}
		s.History = history.Inherit(c.History, w.turns)
	}
	child, err := t.cfg.Open(ctx, s)
	if err != nil {
		return err
	}
	if err := t.follow(ctx, m, child); err != nil {
		t.cfg.Unload(m.thread, thread.ErrClosed)
		return err
	}
	if _, err = child.Post(ctx, mail(parentOf(m.path), m.path, event.MailTask, w.text, c.Turn)); err != nil {
		t.cfg.Unload(m.thread, thread.ErrClosed)
	}
	return err
}

func mail(from, to string, as event.MailType, text string, turn event.TurnID) event.Mail {
	return event.Mail{Author: from, Recipient: to, Type: as, Text: text, TriggerTurn: as == event.MailTask, AuthorTurn: turn}
}

// activity is what people see of what an agent does with another one.
func activity(id event.CallID, kind event.AgentActivityKind, m *member) event.ItemCompleted {
	return event.ItemCompleted{Item: event.Item{
		ID: event.NewItemID(), Type: event.ItemAgentActivity, Status: event.StatusCompleted, Text: string(kind) + " " + m.path, Call: id,
		Agent: &event.AgentActivity{Kind: kind, Thread: m.thread, Path: m.path, Nickname: m.nickname, Role: m.role},
	}}
}

// note records a change of the tree. What is not recorded because the root ends is found when it is resumed.
func (t *team) note(c change) {
	if _, err := t.root.Publish(context.Background(), "", changed(c)); err != nil && !errors.Is(err, thread.ErrClosed) {
		t.cfg.Logger.Warn("change of an agent not recorded", "thread", t.root.ID(), "err", err)
	}
}

// unload ends the thread of an agent that has given up its place; nil: none.
func (t *team) unload(m *member) {
	if m != nil {
		t.cfg.Unload(m.thread, thread.ErrClosed)
	}
}

// give gives an agent more work, for which it gets a place.
func (t *team) give(ctx context.Context, c *orchestrate.HostCall, caller *member, target, text string) (*member, error) {
	t.mu.Lock()
	m, err := t.mu.tree.find(caller.path, target)
	if err != nil {
		t.mu.Unlock()
		return nil, err
	}
	if m.path == Root {
		t.mu.Unlock()
		return nil, fmt.Errorf("%s is not a spawned agent: write to it with send_message", Root)
	}
	was, hops := m.busy, m.hops
	m.hops = max(caller.hops+1, m.hops)
	if !was {
		m.hops = caller.hops + 1
	}
	evict, err := t.mu.tree.admit(m)
	if err != nil {
		m.hops = hops
	}
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !was {
		t.note(change{Path: m.path, State: Running})
	}
	err = t.post(ctx, m, evict, mail(caller.path, m.path, event.MailTask, text, c.Turn))
	if err != nil && !was {
		t.rests(m, m.status)
	}
	return m, err
}

// write sends an agent a message that starts nothing.
func (t *team) write(ctx context.Context, c *orchestrate.HostCall, caller *member, target, text string) (*member, error) {
	t.mu.Lock()
	m, err := t.mu.tree.find(caller.path, target)
	var evict *member
	if err == nil {
		evict, err = t.mu.tree.room(m)
	}
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return m, t.post(ctx, m, evict, mail(caller.path, m.path, event.MailMessage, text, c.Turn))
}

// post delivers mail to an agent that has a place to be loaded in. evict is unloaded for it.
func (t *team) post(ctx context.Context, m, evict *member, letter event.Mail) error {
	t.unload(evict)
	to, err := t.running(ctx, m)
	if err != nil {
		return err
	}
	_, err = to.Post(ctx, letter)
	return err
}

// running returns the thread of an agent, which it loads.
func (t *team) running(ctx context.Context, m *member) (*thread.Thread, error) {
	t.mu.Lock()
	followed := m.loaded
	t.mu.Unlock()
	to, ok := t.cfg.Thread(m.thread)
	if ok && followed {
		return to, nil
	}
	if !ok {
		var err error
		if to, err = t.cfg.Load(ctx, m.thread); err != nil {
			t.opened(m, nil)
			return nil, fmt.Errorf("agent %s can't be loaded: %w", m.path, err)
		}
	}
	return to, t.follow(ctx, m, to)
}

// opened notes that an agent is loaded and followed now; nil: it could not be.
func (t *team) opened(m *member, followed *thread.Subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.opening, m.loaded, m.followed = false, followed != nil, followed
}

// interrupt ends what an agent does.
func (t *team) interrupt(ctx context.Context, caller *member, target string, unload bool) (*member, Status, error) {
	t.mu.Lock()
	m, err := t.mu.tree.find(caller.path, target)
	if err != nil {
		t.mu.Unlock()
		return nil, Status{}, err
	}
	was := t.mu.tree.statusOf(m)
	t.mu.Unlock()
	switch {
	case m.path == Root:
		return nil, was, fmt.Errorf("%s is not a spawned agent", Root)
	case m == caller:
		return nil, was, errors.New("an agent can't interrupt itself; end your turn instead")
	}
	if to, ok := t.cfg.Thread(m.thread); ok {
		// It returns when the turn has ended, so that what follows is not taken for a part of it.
		if err := to.InterruptTurn(ctx, "", orchestrate.ErrInterrupted); err != nil && !errors.Is(err, thread.ErrIdle) && !errors.Is(err, thread.ErrClosed) {
			return nil, was, err
		}
		if unload {
			t.cfg.Unload(m.thread, thread.ErrClosed)
		}
	}
	return m, was, nil
}

// rests notes that an agent is not at work any more.
func (t *team) rests(m *member, is Status) {
	t.mu.Lock()
	closing := t.mu.closing
	t.mu.Unlock()
	if !closing {
		t.note(change{Path: m.path, State: is.State, Text: short(is.Text)})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m.busy, m.status, m.asking = false, is, 0
	t.tellWaitingLocked()
}

// tellWaitingLocked ends the calls that wait although nothing can arrive any more.
func (t *team) tellWaitingLocked() {
	for w := range t.mu.waits {
		if t.mu.tree.quiet(w.who) {
			w.end()
		}
	}
}

// maxShort bounds the text of a status, in bytes.
const maxShort = 4 << 10

func short(text string) string {
	return history.Truncate(text, history.Policy{Bytes: true, Limit: maxShort})
}

// follow follows what an agent does until its thread ends.
func (t *team) follow(ctx context.Context, m *member, of *thread.Thread) error {
	events, err := of.Subscribe(ctx, thread.Lossless)
	t.opened(m, events)
	if err != nil {
		return err
	}
	if !t.cfg.Go(func() { // owned by the host; ends with the thread
		defer events.Close()
		t.watch(m, events)
	}) {
		events.Close()
		return thread.ErrClosed
	}
	return nil
}

func (t *team) watch(m *member, events *thread.Subscription) {
	for {
		e, err := events.Next(context.Background())
		if err != nil {
			break
		}
		switch b := e.Body.(type) {
		case event.TurnStarted:
			t.mu.Lock()
			t.mu.tree.began(m, b.ByMail)
			t.mu.Unlock()
		case event.QuestionAsked:
			t.ask(m, 1)
		case event.QuestionResolved:
			t.ask(m, -1)
		case event.TurnEnded:
			t.ended(m, e.Turn, b)
		}
	}
	t.mu.Lock()
	lost := m.followed == events && m.busy && !t.mu.closing
	if m.followed == events { // otherwise it has been loaded again
		m.loaded, m.followed = false, nil
	}
	t.mu.Unlock()
	if lost {
		t.rests(m, Status{State: Interrupted})
	}
}

func (t *team) ask(m *member, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.asking = max(m.asking+by, 0)
}

// ended passes on the answer of a turn that has ended.
func (t *team) ended(m *member, turn event.TurnID, end event.TurnEnded) {
	is := statusOf(end)
	if end.Status == event.TurnInterrupted && end.Reason == orchestrate.ErrShutdown.Error() {
		// The host ends. For the roster the agent is still at work, so that a resumed root tells its model.
		t.mu.Lock()
		t.mu.closing = true
		t.mu.Unlock()
	}
	if is.State != Interrupted {
		if err := t.answer(m, turn, is); err != nil { // it is passed on when the root is resumed
			t.cfg.Logger.Warn("answer of an agent not delivered", "agent", m.path, "thread", m.thread, "err", err)
		}
	}
	t.rests(m, is)
}

func statusOf(end event.TurnEnded) Status {
	switch end.Status {
	case event.TurnCompleted:
		return Status{Completed, end.LastMessage}
	case event.TurnInterrupted:
		return Status{State: Interrupted}
	}
	text := "the turn failed"
	if end.Error != nil {
		text = end.Error.Message
	}
	return Status{Errored, text}
}

// answer posts the answer of a turn to the agent above, once.
func (t *team) answer(m *member, turn event.TurnID, is Status) error {
	ctx := context.Background()
	t.mu.Lock()
	above := t.mu.tree.byThread(m.parent)
	t.mu.Unlock()
	if above == nil {
		return fmt.Errorf("agent %s has nobody above it", m.path)
	}
	to, err := t.running(ctx, above)
	if err != nil {
		return err
	}
	item := event.AnswerItem(turn)
	if rosterOf(to.Feature(FeatureID)).Answers[m.path] == item {
		return nil
	}
	letter := mail(m.path, above.path, event.MailAnswer, t.payload(to, is), turn)
	letter.Item = item
	_, err = to.Post(ctx, letter)
	if err == nil {
		done := activity("", event.AgentCompleted, m)
		done.Item.ID = event.ItemID("subagent-completed-" + turn)
		_, err = to.Publish(ctx, "", done)
	}
	return err
}

// The limits of an answer: what mail holds, and the tokens of an error.
const (
	maxAnswer      = 60 << 10
	maxErrorTokens = 900
)

// payload returns the text of an answer to an agent.
func (t *team) payload(to *thread.Thread, is Status) string {
	if is.State == Errored {
		return "The agent failed: " + history.Truncate(is.Text, history.Policy{Limit: maxErrorTokens}) +
			"\nGive it the task again with followup_task if that may help, or go on without it."
	}
	if len(is.Text) <= maxAnswer {
		return is.Text
	}
	cut := history.Truncate(is.Text, history.Policy{Bytes: true, Limit: maxAnswer})
	if path, err := t.cfg.Keep(to, is.Text); err == nil {
		cut += "\n(The whole answer is in " + path + ".)"
	}
	return cut
}

// Resume finds out what became of the agents of a root that was resumed, and starts nobody. Answers that were not delivered are; of agents
// that were at work, the root's model is told by [Agents.TakeNotes].
func (a *Agents) Resume(ctx context.Context, root *thread.Thread) {
	r := rosterOf(root.Feature(FeatureID))
	if !slices.ContainsFunc(r.Agents, func(e entry) bool { return e.State == Running }) {
		return
	}
	t := a.team(root)
	for _, e := range r.Agents {
		if e.State != Running {
			continue
		}
		t.mu.Lock()
		m := t.mu.tree.members[e.Path]
		t.mu.Unlock()
		if m == nil {
			continue
		}
		is, err := t.deliver(ctx, m)
		if err != nil {
			a.cfg.Logger.Warn("an agent's last turn can't be read", "agent", e.Path, "thread", e.Thread, "err", err)
		}
		t.mu.Lock()
		m.status = is
		t.mu.Unlock()
		t.note(change{Path: m.path, State: is.State, Text: short(is.Text), Stopped: is.State == Interrupted})
	}
}

// deliver posts the answers that the agent above has not got, and returns the agent's status.
func (t *team) deliver(ctx context.Context, m *member) (Status, error) {
	stopped := Status{State: Interrupted}
	ends, err := t.cfg.Ends(ctx, m.thread)
	if err != nil {
		return stopped, err
	}
	answered := rosterOf(t.root.Feature(FeatureID)).Answers[m.path]
	if m.parent != t.root.ID() {
		above, err := t.running(ctx, t.above(m))
		if err != nil {
			return stopped, err
		}
		defer t.cfg.Unload(above.ID(), thread.ErrClosed)
		answered = rosterOf(above.Feature(FeatureID)).Answers[m.path]
	}
	for i := range ends {
		if event.AnswerItem(ends[i].Turn) == answered {
			ends = ends[i+1:]
			break
		}
	}
	is := stopped
	for _, e := range ends {
		is = stopped
		if e.End == nil {
			continue
		}
		if is = statusOf(*e.End); is.State == Interrupted {
			continue
		}
		if err := t.answer(m, e.Turn, is); err != nil {
			return stopped, err
		}
	}
	return is, nil
}

func (t *team) above(m *member) *member {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.tree.members[parentOf(m.path)]
}
