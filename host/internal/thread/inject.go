package thread

import (
	"context"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Inject adds messages to the history, all of them or none, without a turn; people do not see them. It waits for the end of a running
// turn. When it returns without an error, they survive a restart of the host. A call among them must have its output among them.
func (t *Thread) Inject(ctx context.Context, ms ...llm.Message) error {
	if t.archived.Load() {
		return ErrArchived
	}
	added := make(chan error, 1)
	_, err := t.submit(ctx, submitMsg{maintenance: func(ctx context.Context) {
		err := record(ctx, t, ms...)
		if err == nil {
			err = t.bus.flush(context.WithoutCancel(ctx))
		}
		added <- err
	}})
	if err != nil {
		return err
	}
	return <-added // this is brief
}
