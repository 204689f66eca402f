package thread

import (
	"context"
	"runtime/debug"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Task is what a turn may do in the place of the loop of model and calls. A turn with a task takes no input: what is said
// meanwhile waits for its end.
type Task struct {
	// Name says in a word what it is, for logs.
	Name string
	// Replaces: a turn that runs is stopped for it, and loses nothing that was said to it. Concurrent: where a turn runs, it is done
	// beside it. Neither: it waits for the end of the turn that runs.
	Replaces, Concurrent bool
	// Work does it, and returns when ctx ends at the latest. What it leaves is recorded also then.
	Work func(ctx context.Context, w Worker) turn.Result
}

// Worker is who does a task. It belongs to the goroutine of its work.
type Worker struct {
	Thread *Thread
	Turn   event.TurnID // that it does, or beside which it works
	// Record tells the model: at once where the turn is its own, else the turn beside it, or the next one, when it is done.
	Record turn.Record
}

// Publish puts bodies into the thread's stream, as events of the worker's turn.
func (w Worker) Publish(ctx context.Context, bodies ...event.Body) error {
	_, err := w.Thread.Publish(ctx, w.Turn, bodies...)
	return err
}

// work runs a task whose result nobody waits for: its events say how it went. A panic costs the task alone.
func (*besideMsg) work(ctx context.Context, task Task, w Worker) {
	defer func() {
		if p := recover(); p != nil {
			cfg := w.Thread.cfg
			cfg.Logger.Error("concurrent task panicked", "thread", cfg.ID, "turn", w.Turn, "task", task.Name, "err", p, "stack", string(debug.Stack()))
		}
	}()
	task.Work(ctx, w)
}

// runBetween runs short work while no turn does. answer is called when the thread is idle again; nil: nobody waits.
func (t *Thread) runBetween(ctx context.Context, work func(context.Context) (answer func())) {
	t.st.alone = true
	t.turns.Go(func() { // owned by the thread: end waits
		answer := work(ctx)
		t.results <- betweenMsg{} // received by Run or by end
		if answer != nil {
			answer()
		}
	})
}

// record puts messages into the log and the history, where no turn does.
func (t *Thread) record(ctx context.Context, ms ...llm.Message) error {
	if _, err := t.bus.Publish(ctx, "", event.HistoryAdded{Messages: ms}); err != nil {
		return err
	}
	t.history.Append(ms...)
	return nil
}
