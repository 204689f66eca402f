package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	// DefaultSteps is how many steps a task may take if nothing is said about it.
	DefaultSteps = 100
	// MaxSteps is how many steps a task may take.
	MaxSteps = 500

	maxFailures = 5 // steps in a row, after which the model may only answer
	maxActions  = 5 // of a step
)

// Task is what is to be done.
type Task struct {
	Task     string
	StartURL string
	MaxSteps int
	Vision   bool            // a picture in each step
	Schema   json.RawMessage // of the answer; nil: text
	Answer   *jsonschema.Resolved
	Judge    bool
	Domains  []string
	Secrets  []string // their names
	Actions  string   // of the browser, see [Catalogue]
	Fallback string   // model that is asked when the first one fails; empty: none
	Earlier  []byte   // the plan of an earlier run, see [Report]; nil: none
	// Save stores a checkpoint. Optional.
	Save func(ctx context.Context, checkpoint []byte) error
	// Now returns the time.
	Now func() time.Time
}

// Report is what has become of a task.
type Report struct {
	Done       bool            `json:"done"`    // the model has finished it
	Success    bool            `json:"success"` // so says the model
	Text       string          `json:"text,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Steps      int             `json:"steps"`
	Stopped    string          `json:"stopped,omitempty"` // why it is not done
	Judgement  *Judgement      `json:"judgement,omitempty"`
	Resumed    int             `json:"resumed_at,omitempty"` // step
	ModelCalls int             `json:"model_calls"`
	Known      int             `json:"known_steps,omitempty"` // that an earlier run has had, and for which no model was asked
	Usage      Usage           `json:"usage"`
	Fallback   string          `json:"fallback,omitempty"` // the model that has taken over

	History *history.History `json:"-"`
	// Plan is what another run for the same task may take over, as long as the pages show the same; nil: nothing.
	Plan json.RawMessage `json:"-"`
}

// Usage is what the model calls have used, in tokens.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// checkpoint is the state of a run between two actions.
type checkpoint struct {
	Step     int              `json:"step"`
	Failures int              `json:"failures,omitempty"` // steps in a row
	Plan     plan             `json:"plan,omitzero"`
	Repeats  repeats          `json:"repeats,omitzero"`
	Summary  string           `json:"summary,omitempty"`
	Summed   int              `json:"summed,omitempty"` // steps that the summary is about
	Read     string           `json:"read,omitempty"`   // what the next step is shown once
	Started  bool             `json:"started,omitempty"`
	Pending  *history.Action  `json:"pending,omitempty"` // is being carried out
	History  *history.History `json:"history"`
	Used     Usage            `json:"usage"`
	Calls    int              `json:"calls,omitempty"`
	Fell     bool             `json:"fell,omitempty"` // the fallback has taken over, for good
}

type run struct {
	Task
	checkpoint
	browser Browser
	sample  Sample
	image   *llm.Media // that an action has made, for the next step
	earlier []known    // steps of an earlier run that are still to come
	learned []known    // steps for another run

	passwords passwords
}

// Run carries out a task. saved is the checkpoint of an earlier call for the same task; nil: there is none. An error means that the run can't
// go on; the report is then about what was done until then.
func Run(ctx context.Context, t Task, b Browser, s Sample, saved []byte) (*Report, error) {
	r := &run{Task: t, browser: b, sample: s}
	report := &Report{}
	if saved != nil && json.Unmarshal(saved, &r.checkpoint) == nil && r.History != nil {
		report.Resumed = r.Step + 1
		r.interrupted()
	} else {
		r.checkpoint = checkpoint{History: &history.History{Items: []history.Item{}}}
		if t.Earlier != nil && json.Unmarshal(t.Earlier, &r.earlier) != nil {
			r.earlier = nil // another version has written it
		}
	}
	err := r.loop(ctx, report)
	report.Steps, report.History, report.Usage, report.ModelCalls = r.Step, r.History, r.Used, r.Calls
	if r.Fell {
		report.Fallback = r.Fallback
	}
	if report.Resumed == 0 {
		report.Plan = r.plan()
	}
	if len(r.passwords.values) > 0 {
		if failed := r.History.Redact(r.passwords.text); failed != nil {
			return report, errors.Join(err, failed)
		}
	}
	return report, err
}

// interrupted tells the model of an action whose outcome is not known. It is not carried out again.
func (r *run) interrupted() {
	if r.Pending == nil {
		return
	}
	a := *r.Pending
	r.Pending = nil
	r.History.Items = append(r.History.Items, history.Item{
		Output:  &history.Output{NextGoal: "(interrupted)", Actions: []history.Action{a}},
		Results: []history.Result{{Error: "the run was interrupted during this action: it may or may not have happened. Look at the page before you repeat it."}},
		State:   history.State{Interacted: []*history.Element{nil}, Tabs: []history.Tab{}},
	})
}

func (r *run) save(ctx context.Context) error {
	if r.Save == nil {
		return nil
	}
	b, err := json.Marshal(r.checkpoint)
	if err == nil {
		b, err = r.passwords.json(b)
	}
	if err != nil {
		return err
	}
	return r.Save(ctx, b)
}

// start opens the page on which the task begins.
func (r *run) start(ctx context.Context) error {
	if r.Started || r.StartURL == "" {
		return nil
	}
	args, err := json.Marshal(map[string]string{"url": r.StartURL})
	if err != nil {
		return err
	}
	out := &history.Output{NextGoal: "Open the page on which the task begins.", Actions: []history.Action{{Name: "navigate", Args: args}}}
	_, err = r.step(ctx, Page{}, out)
	r.Started = true
	return err
}

func (r *run) loop(ctx context.Context, report *Report) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	for {
		if r.Failures > maxFailures {
			report.Stopped = fmt.Sprintf("%d steps in a row have failed, also the one that was left to answer", r.Failures)
			return nil
		}
		if r.Step >= r.MaxSteps {
			report.Stopped = fmt.Sprintf("the task is not finished after %d steps", r.Step)
			return nil
		}
		if err := r.save(ctx); err != nil {
			return err
		}
		if err := r.summarize(ctx); err != nil {
			return err
		}
		page, err := r.browser.Look(ctx, r.Vision)
		if err != nil {
			return err
		}
		if page.Picture == nil {
			page.Picture = r.image
		}
		r.image = nil
		r.Repeats.page(page)
		last := ""
		switch {
		case r.Failures >= maxFailures:
			last = fmt.Sprintf("The last %d steps have failed. This is your last step: call done with what you have, and success=false unless all of the task is done.", r.Failures)
		case r.Step == r.MaxSteps-1:
			last = "This is your last step: call done with what you have, and success=false unless all of the task is done."
		}
		var out *history.Output
		if last == "" {
			out = r.fromEarlier(ctx, page)
		}
		if out != nil {
			report.Known++
		} else {
			out, err = r.decide(ctx, r.prompt(page, last))
		}
		if err != nil {
			var answer *answerError
			if !errors.As(err, &answer) {
				return err
			}
			r.failed(page, answer.Error())
			continue
		}
		r.Read = ""
		if last != "" {
			out.Actions = slices.DeleteFunc(out.Actions, func(a history.Action) bool { return a.Name != "done" })
			if len(out.Actions) == 0 {
				r.failed(page, "only done was possible in this step")
				continue
			}
		}
		done, err := r.step(ctx, page, out)
		if err != nil {
			return err
		}
		if done != nil {
			report.Done, report.Success, report.Text, report.Data = true, done.Success, done.Text, done.Data
			if r.Judge {
				report.Judgement = r.judge(ctx, report)
			}
			return nil
		}
	}
}

// failed takes note of a step without actions.
func (r *run) failed(p Page, why string) {
	r.Step++
	r.Failures++
	r.History.Items = append(r.History.Items, history.Item{Results: []history.Result{{Error: why}}, State: stateOf(p)})
}

func stateOf(p Page) history.State {
	s := history.State{URL: p.URL, Title: p.Title, Tabs: p.Tabs, Interacted: []*history.Element{}}
	if s.Tabs == nil {
		s.Tabs = []history.Tab{}
	}
	return s
}

// answerError says that the model's answer can't be used.
type answerError struct{ text string }

// Error implements error.
func (e *answerError) Error() string { return e.text }

// noAction is the answer of a model that has none.
const noAction = "No next action returned by LLM!"

// passing are the errors of a model after which another request may succeed.
var passing = []llm.ErrorCode{llm.ErrRateLimit, llm.ErrProviderInternal, llm.ErrTransport, llm.ErrInvalidOutput, llm.ErrIncompleteStream, llm.ErrOverloaded, llm.ErrContentPolicy}

// lasting are the errors of a model that another model may not have.
var lasting = []llm.ErrorCode{llm.ErrAuthentication, llm.ErrQuotaExceeded, llm.ErrRateLimit, llm.ErrProviderInternal, llm.ErrOverloaded, llm.ErrIncompleteStream}

// ask asks the model, and the fallback from its first lasting error on.
func (r *run) ask(ctx context.Context, req *llm.Request) (string, error) {
	if r.Fell {
		req.Model = r.Fallback
	}
	text, used, err := r.sample(ctx, req)
	r.Calls++
	if used.Input != nil {
		r.Used.Input += *used.Input
	}
	if used.Output != nil {
		r.Used.Output += *used.Output
	}
	e, failed := errors.AsType[*llm.Error](err)
	if failed && r.Fallback != "" && !r.Fell && slices.Contains(lasting, e.Code) && ctx.Err() == nil {
		r.Fell = true
		return r.ask(ctx, req)
	}
	if failed && slices.Contains(passing, e.Code) && ctx.Err() == nil {
		return "", &answerError{"the model did not answer: " + e.Error()}
	}
	return text, err
}

// decide asks the model what to do, and again if its answer can't be used.
func (r *run) decide(ctx context.Context, req *llm.Request) (*history.Output, error) {
	var problem string
	for attempt := range 2 {
		text, err := r.ask(ctx, req)
		if err != nil {
			return nil, err
		}
		out, err := parse(text)
		if err == nil && len(out.Actions) > 0 {
			return out, nil
		}
		if err == nil && attempt > 0 {
			return &history.Output{Actions: []history.Action{{Name: "done", Args: json.RawMessage(`{"text":"` + noAction + `","success":false}`)}}}, nil
		}
		if problem = "the list action is empty; give at least one action, or done"; err != nil {
			problem = err.Error()
		}
		if strings.TrimSpace(text) == "" {
			text = "(nothing)"
		}
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{&llm.Text{Text: text}}},
			llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: "Your answer can't be used: " + problem + ". Answer with the JSON object that was described, and nothing else."}}})
	}
	return nil, &answerError{"the model's answer could not be used: " + problem}
}

// parse reads what a model wants to do.
func parse(text string) (*history.Output, error) {
	b, ok := object(text)
	if !ok {
		return nil, errors.New("it contains no JSON object")
	}
	var out history.Output
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// done is the end of a task, as the model says it.
type done struct {
	Text    string          `json:"text"`
	Success bool            `json:"success"`
	Data    json.RawMessage `json:"data"`
}

// step carries out the actions of a step. It returns how the task has ended; nil: it has not.
func (r *run) step(ctx context.Context, page Page, out *history.Output) (end *done, err error) {
	r.Plan.update(out)
	out.Actions = out.Actions[:min(len(out.Actions), maxActions)]
	item := history.Item{Output: out, State: stateOf(page)}
	begin := r.Now()
	failed := false
	for i, a := range out.Actions {
		if a.Name == "done" && i > 0 { // what comes before it may change the answer
			break
		}
		e := r.element(ctx, a)
		r.typed(ctx, a, e)
		r.Repeats.action(r.without(a))
		item.State.Interacted = append(item.State.Interacted, e)
		if a.Name == "done" {
			res, d := r.finish(a)
			item.Results = append(item.Results, res)
			failed, end = res.Error != "", d
			break
		}
		r.Pending = &a
		if err := r.save(ctx); err != nil {
			return nil, err
		}
		o, err := r.browser.Act(ctx, a)
		if err != nil {
			return nil, err // the action stays pending
		}
		r.Pending = nil
		item.Results = append(item.Results, r.result(a, o))
		if failed = o.Failed; failed || o.Changed || slices.Contains(ending, a.Name) {
			break
		}
	}
	// A history has an element for each action, and results only for those that were carried out.
	for len(item.State.Interacted) < len(out.Actions) {
		item.State.Interacted = append(item.State.Interacted, nil)
	}
	r.Step++
	if r.Failures++; !failed {
		r.Failures = 0
	}
	at := r.Now()
	seconds := func(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
	item.Metadata = &history.Metadata{Start: seconds(begin), End: seconds(at), Number: r.Step}
	r.History.Items = append(r.History.Items, item)
	r.learn(page, &item)
	if failed {
		r.earlier = nil
	}
	return end, nil
}

// element returns what the element of an action is recognized by; nil: there is none.
func (r *run) element(ctx context.Context, a history.Action) *history.Element {
	if a.Index() == 0 {
		return nil
	}
	found, err := r.browser.Elements(ctx, a.Index())
	if err != nil || len(found) != 1 {
		return nil // the action says what is wrong
	}
	return found[0].Element()
}

const (
	maxMemory = 1000   // bytes of an outcome that stay in the history
	maxRead   = 20_000 // bytes of an outcome that are shown once
)

// result returns the result of an action for the history, and keeps what the next step is shown.
func (r *run) result(a history.Action, o Outcome) history.Result {
	if o.Picture != nil {
		r.image = o.Picture
	}
	if o.Failed {
		return history.Result{Error: clip(o.Text, maxRead)}
	}
	res := history.Result{Content: clip(o.Text, maxRead), Memory: clip(o.Text, maxMemory)}
	if a.Name == "extract" || len(o.Text) > maxMemory {
		r.Read = strings.TrimSpace(r.Read + "\n" + clip(o.Text, maxRead))
		res.Memory, res.Once = oneLine(o.Text, 300), true
	}
	return res
}

// finish checks how the task has ended. A wrong answer is an error, and the run goes on.
func (r *run) finish(a history.Action) (history.Result, *done) {
	var d done
	if err := json.Unmarshal(a.Args, &d); err != nil {
		return history.Result{Error: "done: " + err.Error()}, nil
	}
	if r.Answer != nil && (d.Success || len(d.Data) > 0) {
		var v any
		if err := json.Unmarshal(d.Data, &v); err != nil {
			return history.Result{Error: "done: data is missing, an object that fits the schema"}, nil
		}
		if err := r.Answer.Validate(v); err != nil {
			return history.Result{Error: "done: data does not fit the schema: " + err.Error()}, nil
		}
	}
	text := d.Text
	if len(d.Data) > 0 && text == "" {
		text = string(d.Data)
	}
	memory := fmt.Sprintf("Task completed: %v - %s", d.Success, firstOf(text, 100))
	return history.Result{Done: true, Success: &d.Success, Content: text, Memory: memory}, &d
}

// firstOf returns the beginning of a text, and how much follows.
func firstOf(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return fmt.Sprintf("%s - %d more characters", string(runes[:most]), len(runes)-most)
}
