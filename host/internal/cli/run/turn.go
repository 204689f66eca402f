package run

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// begun is what a command has started in a thread.
type begun struct {
	turn event.TurnID
	call event.CallID // of a command that runs concurrently with the turn; "": wait for the turn
}

// begin starts something in a thread.
type begin func(context.Context, *hub.Thread) (begun, error)

// submit starts a turn with a submission, or joins the running one.
func submit(sub hub.Submission) begin {
	return func(ctx context.Context, t *hub.Thread) (begun, error) {
		a, err := t.Submit(ctx, sub)
		if err != nil && t.Remote() && hub.ErrorOf(err).Code == hub.Closed && sub.Settings != (event.Settings{}) {
			err = hint.With(fmt.Errorf("%w: the change was waiting for the running turn, whose process has ended", err), "run the command again")
		}
		return begun{turn: a.Turn}, err
	}
}

// pursue gives the thread a goal, on which it begins to work.
func pursue(objective string, tokens int64) begin {
	return func(ctx context.Context, t *hub.Thread) (begun, error) {
		c := hub.GoalChange{Objective: &objective}
		if tokens != 0 {
			c.Budget = &tokens
		}
		_, err := t.ChangeGoal(ctx, c)
		return begun{}, err
	}
}

// reached says how the work on a goal has ended. It is an error if the goal is not complete.
func (a *app) reached(ctx context.Context, t *hub.Thread) error {
	g, err := t.Goal(ctx)
	if err != nil {
		return err
	}
	if g == nil { // somebody has cleared it
		return nil
	}
	fmt.Fprintln(a.Stderr, render.Goal(*g))
	if g.Status != hub.GoalComplete {
		return console.ErrTurn
	}
	return nil
}

// typed starts what a user typed: a command after an exclamation mark, otherwise a task.
func typed(line string) begin {
	command, ok := strings.CutPrefix(line, "!")
	if !ok {
		return submit(hub.Submission{Input: hub.Input{Parts: []llm.Part{&llm.Text{Text: line}}}})
	}
	return func(ctx context.Context, t *hub.Thread) (begun, error) {
		a, err := t.Shell(ctx, strings.TrimSpace(command), 0)
		b := begun{turn: a.Turn}
		if a.Concurrent {
			b.call = a.Call
		}
		return b, err
	}
}

// output is how a thread is shown.
type output struct {
	view render.View
	asks *asks // nil: questions are only shown
	goal bool  // show turns until the thread's goal is not active any more, or one does not complete
	all  bool  // of a thread in another process, show all events from the beginning, not only the turn that was started
}

// runTurn starts something in a thread and shows the thread until that, and any turn that replaced it here, has ended. If first is nil, it
// shows a thread of another process until the thread ends. It closes o.asks.
func (a *app) runTurn(ctx context.Context, t *hub.Thread, o output, first begin) (end event.TurnEnded, err error) {
	defer o.asks.close()
	var events *hub.Events
	follow := func(after uint64) error {
		if events, err = t.Follow(ctx, after, hub.Lossless); err != nil {
			return err
		}
		o.view.Started(t.ID())
		return nil
	}
	if !t.Remote() {
		// Follow before the turn starts, so that no transient event is missed.
		if err := follow(hub.FromNow); err != nil {
			return end, err
		}
		stop := a.interruptOnSignal(ctx, t)
		defer stop()
	}
	var mine begun
	if first != nil {
		mine, err = first(ctx, t)
	}
	if err == nil && t.Remote() {
		err = follow(0) // the turn may have begun long ago
	}
	if events != nil {
		defer events.Close()
	}
	if err != nil {
		return end, err
	}
	var replaced *event.TurnEnded
	for {
		e, err := events.Next(ctx)
		if err != nil {
			return end, leftBy(t, mine, err)
		}
		if t.Remote() && !o.all && e.Turn != mine.turn {
			continue
		}
		if err := o.view.Event(e, events.More()); err != nil {
			return end, fmt.Errorf("write the output: %w", err)
		}
		o.asks.event(e)
		switch b := e.Body.(type) {
		case event.ItemCompleted:
			if mine.call != "" && b.Item.Call == mine.call {
				return commandEnded(b.Item), nil
			}
		case event.TurnEnded:
			if o.goal {
				g, err := t.Goal(ctx)
				if err != nil {
					return end, err
				}
				if g != nil && g.Status == hub.GoalActive && b.Status == event.TurnCompleted {
					continue
				}
				return b, o.view.Ended(b)
			}
			switch {
			case replaced != nil:
				return *replaced, o.view.Ended(*replaced)
			case e.Turn != mine.turn || mine.call != "":
			case hub.Replaced(b) && !t.Remote():
				replaced = &b // this process must not end before another client's turn has
			default:
				return b, o.view.Ended(b)
			}
		}
	}
}

// commandEnded returns the result of a user's command as that of a turn.
func commandEnded(it event.Item) event.TurnEnded {
	if it.Status == event.StatusAborted {
		return event.TurnEnded{Status: event.TurnInterrupted}
	}
	return event.TurnEnded{Status: event.TurnCompleted}
}

// leftBy converts an error of following a thread. The end of a thread that is only watched is no error.
func leftBy(t *hub.Thread, mine begun, err error) error {
	switch {
	case !t.Remote() || hub.ErrorOf(err).Code != hub.Closed:
		return err
	case mine.turn == "":
		return nil
	}
	return hint.With(errors.New("the host that runs the thread is gone before the turn ended"), resumeWith(t.ID()))
}

// resumeWith returns the next step for a thread that no process runs.
func resumeWith(id event.ThreadID) string {
	return fmt.Sprintf("continue it with `gantry resume %s`", id)
}

// view returns the selected view. If asks is not nil, it asks questions on the same screen; otherwise they are only shown.
func (a *app) view(f execFlags, asks *asks) render.View {
	switch {
	case f.json:
		return render.JSONLines(a.Stdout)
	case f.events:
		return render.EventLines(a.Stdout)
	}
	h := render.NewHuman(a.Stderr, a.Colour(a.Stderr), f.verbose)
	if asks != nil {
		h.ShowOn(asks.screen, true)
	}
	return render.HumanView{Human: h, Last: a.LastMessage()}
}
