package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// State is the state of an agent.
type State string

// The states; codex-compatible.
const (
	Pending     State = "pending_init" // it has had no turn
	Running     State = "running"
	Interrupted State = "interrupted"
	Completed   State = "completed"
	Errored     State = "errored"
	NotFound    State = "not_found"
)

// Status is the state of an agent with its last words, or what went wrong.
type Status struct {
	State State
	Text  string
}

// MarshalJSON writes a state with a text as an object; codex-compatible.
func (s Status) MarshalJSON() ([]byte, error) {
	switch {
	case s.State == Completed && s.Text == "":
		return json.Marshal(map[State]any{s.State: nil})
	case s.State == Completed || s.State == Errored:
		return json.Marshal(map[State]string{s.State: s.Text})
	}
	return json.Marshal(s.State)
}

// Limits bound a tree.
type Limits struct {
	Threads int // agents at work at once, the root included; as many can be loaded
	Total   int // agents that a root spawns in its life
	Depth   int // agents above an agent, at most
	Hops    int // turns in a row that mail of agents has started, each by mail that was written in the one before
}

// member is an agent of a tree.
type member struct {
	path, nickname, role string
	thread, parent       event.ThreadID // parent is that of the agent above
	status               Status
	busy                 bool // it holds a place for a turn
	loaded               bool
	opening              bool                 // it is being loaded
	followed             *thread.Subscription // of a loaded one
	hops                 int                  // of its turn
	used                 int                  // when it was addressed last, in the order of the tree
	asking               int                  // questions to people that are open
}

// tree is who works for whom, and the decisions about it: no clock, no goroutines, no I/O. Its owner guards it.
type tree struct {
	limits  Limits
	members map[string]*member
	spawned int
	clock   int
}

func newTree(l Limits, root event.ThreadID) *tree {
	return &tree{limits: l, members: map[string]*member{Root: {path: Root, thread: root, loaded: true}}}
}

// all returns the agents below the root, by path.
func (t *tree) all() []*member {
	ms := slices.Collect(maps.Values(t.members))
	ms = slices.DeleteFunc(ms, func(m *member) bool { return m.path == Root })
	slices.SortFunc(ms, func(a, b *member) int { return cmp.Compare(a.path, b.path) })
	return ms
}

// byThread returns the agent of a thread; nil: there is none.
func (t *tree) byThread(id event.ThreadID) *member {
	for _, m := range t.members {
		if m.thread == id {
			return m
		}
	}
	return nil
}

// find returns the agent that a target names.
func (t *tree) find(caller, target string) (*member, error) {
	path, id, err := resolve(caller, target)
	switch {
	case err != nil:
		return nil, err
	case id != "":
		if m := t.byThread(id); m != nil {
			return m, nil
		}
		return nil, fmt.Errorf("agent with id %s not found", id)
	}
	if m := t.members[path]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("agent %s not found%s", path, t.known())
}

// known lists the agents that there are, for a message.
func (t *tree) known() string {
	var paths []string
	for _, m := range t.all() {
		paths = append(paths, m.path)
	}
	if len(paths) == 0 {
		return "; there are no agents yet"
	}
	return "; there are " + strings.Join(paths, ", ")
}

// spawn makes a place for a new agent, which is at work at once. evict is the agent to unload first; nil: none.
func (t *tree) spawn(parent *member, name string) (m, evict *member, err error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	path := join(parent.path, name)
	switch {
	case t.members[path] != nil:
		return nil, nil, fmt.Errorf("agent %s already exists; give it more work with followup_task, or use another name", path)
	case depthOf(path) > t.limits.Depth:
		return nil, nil, fmt.Errorf("agents can't be nested more than %d deep; do this yourself", t.limits.Depth)
	case t.spawned >= t.limits.Total:
		return nil, nil, fmt.Errorf("%d agents have been spawned, and there can't be more; give more work to those that there are with followup_task", t.spawned)
	}
	m = &member{path: path, parent: parent.thread, hops: parent.hops + 1, status: Status{State: Pending}}
	if evict, err = t.admit(m); err != nil {
		return nil, nil, fmt.Errorf("collab spawn failed: %w", err)
	}
	t.members[path] = m
	t.spawned++
	return m, evict, nil
}

// forget takes back a spawn that has failed.
func (t *tree) forget(m *member) {
	delete(t.members, m.path)
	t.spawned--
}

// admit gives an agent a place for a turn, and one to be loaded in.
func (t *tree) admit(m *member) (evict *member, err error) {
	if m.hops > t.limits.Hops {
		return nil, fmt.Errorf("agents have given each other work %d times in a row; the user has to say how to go on", t.limits.Hops)
	}
	if !m.busy {
		if err := t.full("agent thread limit reached", func(o *member) bool { return o.busy }); err != nil {
			return nil, err
		}
	}
	if evict, err = t.room(m); err != nil {
		return nil, err
	}
	m.busy = true
	return evict, nil
}

// room gives an agent a place to be loaded in.
func (t *tree) room(m *member) (evict *member, err error) {
	t.clock++
	m.used = t.clock
	if m.loaded || m.opening {
		return nil, nil
	}
	if full := t.full("agent thread limit reached", func(o *member) bool { return o.loaded || o.opening }); full != nil {
		if evict = t.idlest(); evict == nil {
			return nil, full
		}
		evict.loaded = false
	}
	m.opening = true
	return evict, nil
}

// full returns an error if as many agents as are allowed hold places.
func (t *tree) full(what string, holds func(*member) bool) error {
	var who []string
	for _, m := range t.all() {
		if holds(m) {
			who = append(who, fmt.Sprintf("%s (%s)", m.path, t.doing(m)))
		}
	}
	if most := t.limits.Threads - 1; len(who) >= most {
		return fmt.Errorf("%s: %d of %d are taken, by %s; wait for one with wait_agent, end one with interrupt_agent, or do this yourself",
			what, len(who), most, strings.Join(who, ", "))
	}
	return nil
}

func (t *tree) doing(m *member) string {
	switch {
	case m.asking > 0:
		return "waiting for approval"
	case m.busy:
		return string(Running)
	}
	return string(m.status.State)
}

// idlest returns the loaded agent that was addressed least recently, among those that do nothing and have nobody at work below them, to whom they
// would have to pass on an answer; nil: there is none.
func (t *tree) idlest() (out *member) {
	for _, m := range t.all() {
		if m.loaded && !m.busy && !m.opening && !t.worksBelow(m) && (out == nil || m.used < out.used) {
			out = m
		}
	}
	return out
}

func (t *tree) worksBelow(above *member) bool {
	for _, m := range t.members {
		if m != above && m.busy && isWithin(m.path, above.path) {
			return true
		}
	}
	return false
}

// quiet reports whether nobody but one agent is at work, so that nothing can arrive.
func (t *tree) quiet(but *member) bool {
	for _, m := range t.members {
		if m != but && m.busy {
			return false
		}
	}
	return true
}

// began notes a turn that somebody has started in an agent's thread. A person's word begins a new chain of hops.
func (t *tree) began(m *member, byMail bool) {
	m.busy, m.status = true, Status{State: Running}
	if !byMail {
		m.hops = 0
	}
}

// listed is an agent in a list.
type listed struct {
	Name   string `json:"agent_name"`
	Status Status `json:"agent_status"`
}

// list returns the agents within a path, the root first.
func (t *tree) list(prefix string) []listed {
	out := []listed{}
	for _, m := range append([]*member{t.members[Root]}, t.all()...) {
		if isWithin(m.path, prefix) {
			out = append(out, listed{m.path, t.statusOf(m)})
		}
	}
	return out
}

func (t *tree) statusOf(m *member) Status {
	switch {
	case m.busy:
		return Status{State: Running}
	case m.status.State == "":
		return Status{State: Pending}
	}
	return m.status
}

// below returns an agent and those below it, leaves first.
func (t *tree) below(path string) []*member {
	ms := slices.DeleteFunc(t.all(), func(m *member) bool { return !isWithin(m.path, path) })
	slices.SortStableFunc(ms, func(a, b *member) int { return cmp.Compare(depthOf(b.path), depthOf(a.path)) })
	return ms
}
