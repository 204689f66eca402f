package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/role"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// namespace is that of the tools; codex-compatible.
const namespace = "collaboration"

// handler runs a call of an agent.
type handler[In any] func(ctx context.Context, t *team, c *orchestrate.HostCall, caller *member, in In) (string, error)

// toolOf makes a tool. Its arguments are those of In. It only acts within gantry, so that no person is asked about it: what agents do is
// asked about when they do it.
func toolOf[In any](a *Agents, name, description, properties string, offer hosttool.Offer, run handler[In]) hosttool.Tool {
	f := func(ctx context.Context, c *orchestrate.HostCall, input contract.Input) (*contract.Result, error) {
		in, err := argumentsOf[In](input.Arguments)
		if err != nil {
			return nil, registry.ArgumentsError(err)
		}
		t, caller, err := a.of(c.Thread)
		if err != nil {
			return nil, err
		}
		text, err := run(ctx, t, c, caller, in)
		if err != nil {
			return nil, err
		}
		return &contract.Result{Parts: []contract.Part{&contract.TextPart{Text: text, Fit: contract.FitBounded}}}, nil
	}
	return hosttool.Tool{
		Label: hosttool.LabelPrefix + "agents:" + name,
		Descriptor: contract.Descriptor{
			Name: name, Namespace: namespace, Description: description, ReadOnly: true, Nesting: contract.NestingNever, UncheckedArguments: true,
			HookName:    name,
			InputSchema: json.RawMessage(`{"additionalProperties":false,"properties":{` + properties + `},"required":[` + required[In]() + `],"type":"object"}`),
		},
		Offer: func(c hosttool.Conditions) hosttool.Offer {
			if c.Unattended {
				return hosttool.Absent
			}
			return offer
		},
		HostTool: orchestrate.HostTool{Backend: hosttool.Func(f).Backend},
	}
}

// required lists the arguments that are no pointers.
func required[In any]() string {
	var out []string
	for f := range reflect.TypeFor[In]().Fields() {
		if f.Type.Kind() != reflect.Pointer {
			out = append(out, strconv.Quote(f.Tag.Get("json")))
		}
	}
	return strings.Join(out, ",")
}

// argumentsOf decodes the arguments of a call. A field that there is not is an error that lists those that there are.
func argumentsOf[In any](raw json.RawMessage) (in In, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		field, unknown := strings.CutPrefix(err.Error(), "json: unknown field ")
		switch {
		case unknown && field == `"fork_context"`:
			return in, errors.New(`fork_context is not supported; use fork_turns: "all", "none", or a number of turns`)
		case unknown:
			return in, fmt.Errorf("unknown field %s, expected one of %s", field, strings.Join(fieldsOf[In](), ", "))
		}
		return in, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	v := reflect.ValueOf(in)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("json"); v.Field(i).Kind() == reflect.String && strings.TrimSpace(v.Field(i).String()) == "" {
			return in, fmt.Errorf("%s must not be empty", name)
		}
	}
	return in, nil
}

func fieldsOf[In any]() (out []string) {
	for f := range reflect.TypeFor[In]().Fields() {
		out = append(out, "`"+f.Tag.Get("json")+"`")
	}
	return out
}

type spawnArgs struct {
	TaskName  string  `json:"task_name"`
	Message   string  `json:"message"`
	AgentType *string `json:"agent_type"`
	Model     *string `json:"model"`
	Effort    *string `json:"reasoning_effort"`
	ForkTurns *string `json:"fork_turns"`
}

type messageArgs struct {
	Target  string `json:"target"`
	Message string `json:"message"`
}

type waitArgs struct {
	TimeoutMS *int64 `json:"timeout_ms"`
}

type targetArgs struct {
	Target string `json:"target"`
}

type listArgs struct {
	PathPrefix *string `json:"path_prefix"`
}

const (
	targetProperty  = `"target":{"description":"The agent: its path, such as /root/helper, or its name below you.","type":"string"}`
	messageProperty = `"message":{"description":"What it reads. It does not know what you know unless it is said here or it inherited it.","type":"string"}`
)

// tools returns the tools of agents, in the order in which models are offered them.
func (a *Agents) tools() hosttool.Table {
	spawn := fmt.Sprintf("Starts an agent that works on a task on its own, in the same folder, while you go on. Its last message is delivered to you as mail. "+
		"At most %d agents are at work at once, including you. Give it a task that stands on its own and does not need the files that others are changing; "+
		"do not wait for it before you need its answer. Its role is one of these; use default unless another one fits:%s", a.cfg.Limits.Threads, a.cfg.Roles.Describe())
	wait := fmt.Sprintf("Waits until mail of an agent or new input of the user arrives. It returns no content: what has arrived follows. "+
		"Wait long rather than often: the default is %d ms, the most %d ms.", a.cfg.Wait.Milliseconds(), a.cfg.WaitMax.Milliseconds())
	return hosttool.New(
		toolOf(a, "spawn_agent", spawn, `"task_name":{"description":"Its name below you: lowercase letters, digits and underscores.","type":"string"},`+
			`"message":{"description":"Its task.","type":"string"},`+
			`"agent_type":{"description":"Its role; left out: default.","type":"string"},`+
			`"model":{"description":"Another model than yours; only if the user asks for it.","type":"string"},`+
			`"reasoning_effort":{"description":"Another effort than yours; only if the user asks for it.","type":"string"},`+
			`"fork_turns":{"description":"What it knows of this conversation: all (the default), none, or the number of the last turns, without what was done in them.","type":"string"}`,
			hosttool.Offered, spawnAgent),
		toolOf(a, "send_message", "Writes to an agent without giving it work: it reads the message with its next request, if it has one.",
			targetProperty+","+messageProperty, hosttool.Offered, sendMessage),
		toolOf(a, "followup_task", "Gives an agent more work: a new turn begins, or it reads the message in the turn that runs.",
			targetProperty+","+messageProperty, hosttool.Offered, followUp),
		toolOf(a, "wait_agent", wait, `"timeout_ms":{"description":"How long to wait.","type":"integer"}`, hosttool.Offered, waitAgent),
		toolOf(a, "interrupt_agent", "Stops what an agent does. It stays there for further work.", targetProperty, hosttool.Offered, interrupting(false)),
		toolOf(a, "close_agent", "Stops what an agent does, and unloads it.", targetProperty, hosttool.Hidden, interrupting(true)),
		toolOf(a, "list_agents", "Lists the agents with their states.", `"path_prefix":{"description":"Only this agent and those below it.","type":"string"}`, hosttool.Offered, listAgents),
	)
}

func spawnAgent(ctx context.Context, t *team, c *orchestrate.HostCall, caller *member, in spawnArgs) (string, error) {
	w := task{name: in.TaskName, text: in.Message}
	var err error
	if w.turns, w.fresh, err = forkTurns(in.ForkTurns); err != nil {
		return "", err
	}
	if w.role, err = t.cfg.Roles.Find(cmp.Or(trimmed(in.AgentType), role.Default)); err != nil {
		return "", err
	}
	// A model that the call names is used with its own effort, not with one that was chosen for the role's model.
	w.wanted = Choice{Model: trimmed(in.Model), Effort: trimmed(in.Effort)}
	if w.wanted.Model == "" {
		w.wanted = Choice{Model: w.role.Model, Effort: cmp.Or(w.wanted.Effort, w.role.Effort)}
	}
	m, err := t.spawn(ctx, c, caller, w)
	if err != nil {
		return "", err
	}
	return encode(struct {
		TaskName string `json:"task_name"`
	}{m.path})
}

// trimmed returns an argument that may be left out.
func trimmed(arg *string) string {
	if arg == nil {
		return ""
	}
	return strings.TrimSpace(*arg)
}

// forkTurns reads how much of the conversation a new agent inherits.
func forkTurns(arg *string) (turns int, fresh bool, err error) {
	if arg == nil {
		return 0, false, nil
	}
	switch s := strings.ToLower(strings.TrimSpace(*arg)); s {
	case "", "all":
		return 0, false, nil
	case "none":
		return 0, true, nil
	default:
		if n, err := strconv.Atoi(s); err == nil && n > 0 {
			return n, false, nil
		}
	}
	return 0, false, fmt.Errorf("invalid fork_turns %q: use \"all\", \"none\", or a positive number of turns", *arg)
}

func sendMessage(ctx context.Context, t *team, c *orchestrate.HostCall, caller *member, in messageArgs) (string, error) {
	m, err := t.write(ctx, c, caller, in.Target, in.Message)
	return "", interacted(ctx, c, event.AgentInteracted, m, err)
}

func followUp(ctx context.Context, t *team, c *orchestrate.HostCall, caller *member, in messageArgs) (string, error) {
	m, err := t.give(ctx, c, caller, in.Target, in.Message)
	return "", interacted(ctx, c, event.AgentInteracted, m, err)
}

// interacted shows people what was done with an agent, unless it failed.
func interacted(ctx context.Context, c *orchestrate.HostCall, kind event.AgentActivityKind, m *member, err error) error {
	if err != nil || m.path == Root {
		return err
	}
	return c.Publish(ctx, activity(c.ID, kind, m))
}

func interrupting(unload bool) handler[targetArgs] {
	return func(ctx context.Context, t *team, c *orchestrate.HostCall, caller *member, in targetArgs) (string, error) {
		m, was, err := t.interrupt(ctx, caller, in.Target, unload)
		if err := interacted(ctx, c, event.AgentInterrupted, m, err); err != nil {
			return "", err
		}
		return encode(struct {
			Previous Status `json:"previous_status"`
		}{was})
	}
}

func listAgents(_ context.Context, t *team, _ *orchestrate.HostCall, caller *member, in listArgs) (string, error) {
	prefix := Root
	if in.PathPrefix != nil && strings.TrimSpace(*in.PathPrefix) != "" {
		path, id, err := resolve(caller.path, *in.PathPrefix)
		if err != nil {
			return "", err
		}
		if id != "" {
			return "", errors.New("path_prefix must be a path")
		}
		prefix = path
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return encode(struct {
		Agents []listed `json:"agents"`
	}{t.mu.tree.list(prefix)})
}

// What a call that waits returns; codex-compatible.
const (
	waitCompleted   = "Wait completed."
	waitTimedOut    = "Wait timed out."
	waitInterrupted = "Wait interrupted by new input."
	// Where nothing can arrive, waiting would only cost time.
	waitUseless = "No agent is at work: nothing can arrive."
)

var (
	errWaited = errors.New("the time is over")
	errQuiet  = errors.New("nobody is at work")
)

func waitAgent(ctx context.Context, t *team, c *orchestrate.HostCall, caller *member, in waitArgs) (string, error) {
	wait, note := t.cfg.Wait, ""
	if in.TimeoutMS != nil {
		least, most := t.cfg.WaitMin.Milliseconds(), t.cfg.WaitMax.Milliseconds()
		if *in.TimeoutMS > most {
			return "", fmt.Errorf("timeout_ms must be at most %d", most)
		}
		if wait = time.Duration(*in.TimeoutMS) * time.Millisecond; *in.TimeoutMS < least {
			wait = t.cfg.WaitMin
			note = fmt.Sprintf("\n\nThe timeout of %d ms is below the minimum; %d ms were used.", *in.TimeoutMS, least)
		}
	}
	message, late, err := t.wait(ctx, c.Signal, caller, wait)
	if err != nil {
		return "", err
	}
	return encode(struct {
		Message  string `json:"message"`
		TimedOut bool   `json:"timed_out"`
	}{message + note, late})
}

// wait waits until the turn of an agent has something to read, or nothing can arrive.
func (t *team) wait(ctx context.Context, s orchestrate.Signal, who *member, limit time.Duration) (message string, late bool, err error) {
	if s == nil {
		return "", false, errors.New("only an agent's own turn can wait")
	}
	waits, cancel := context.WithTimeoutCause(ctx, limit, errWaited)
	defer cancel()
	arrived, err := t.arrival(waits, s, who)
	switch {
	case ctx.Err() != nil:
		return "", false, context.Cause(ctx)
	case errors.Is(err, errQuiet):
		return waitUseless, false, nil
	case err != nil:
		return waitTimedOut, true, nil
	case arrived == orchestrate.InputArrival:
		return waitInterrupted, false, nil
	}
	return waitCompleted, false, nil
}

// arrival waits until the turn of an agent has something to read. The error is errQuiet if nothing can arrive, or the cause of the end of ctx.
func (t *team) arrival(ctx context.Context, s orchestrate.Signal, who *member) (orchestrate.Arrival, error) {
	waits, end := context.WithCancelCause(ctx)
	defer end(nil)
	w := &waiting{who, func() { end(errQuiet) }}
	t.mu.Lock()
	t.mu.waits[w] = struct{}{}
	if t.mu.tree.quiet(who) {
		w.end()
	}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.mu.waits, w)
	}()
	arrived, err := s.Wait(waits)
	if err != nil { // something may have come just before the end
		if what, again := s.Wait(waits); again == nil {
			return what, nil
		}
	}
	return arrived, err
}

func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}
