package thread

import (
	"context"
	"runtime/debug"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/turn"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Task is work that a turn does instead of the loop of requests and calls. Such a turn accepts no input: it waits for the next
// turn.
type Task struct {
	// Name describes the task in one word, for logs.
	Name string
	// Replaces: the running turn is stopped, and its input is kept. Concurrent: the task runs beside a running turn. Neither: it
	// waits for the end of the running turn.
	Replaces, Concurrent bool
	// Work does the task. It returns soon after ctx ends; what it leaves is recorded even then.
	Work func(ctx context.Context, w Worker) turn.Result
}

// Worker is a task's access to its thread. Only the goroutine of Work uses it.
type Worker struct {
	Thread *Thread
	Turn   event.TurnID // the task's own turn, or the one beside which it runs
	// Record adds messages for the model: at once in a turn of its own, otherwise when the task has ended, to the running turn or
	// the next one.
	Record turn.Record
}

// Publish publishes events of the worker's turn.
func (w Worker) Publish(ctx context.Context, bodies ...event.Body) error {
	_, err := w.Thread.Publish(ctx, w.Turn, bodies...)
	return err
}

// work runs a task. Its events say how it went; a panic ends only the task.
func (*concurrentTask) work(ctx context.Context, task Task, w Worker) {
	defer func() {
		if p := recover(); p != nil {
			cfg := w.Thread.cfg
			cfg.Logger.Error("concurrent task panicked", "thread", cfg.ID, "turn", w.Turn, "task", task.Name, "err", p, "stack", string(debug.Stack()))
		}
	}()
	task.Work(ctx, w)
}

// goExclusive starts brief work while no turn runs. answer is called when the thread is idle again; nil: no caller waits.
func goExclusive(ctx context.Context, t *Thread, work func(context.Context) (answer func())) {
	t.st.alone = true
	t.turns.Go(func() { // owned by the thread: end waits
		answer := work(ctx)
		t.results <- exclusiveDone{} // received by Run or by end
		if answer != nil {
			answer()
		}
	})
}

// record adds messages to the log and the history while no turn runs.
func record(ctx context.Context, t *Thread, ms ...llm.Message) error {
	if _, err := t.bus.Publish(ctx, "", event.HistoryAdded{Messages: ms}); err != nil {
		return err
	}
	t.history.Append(ms...)
	return nil
}
