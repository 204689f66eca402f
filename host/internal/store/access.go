package store

import (
	"context"
	"errors"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store/database"
	"github.com/gantry-agent/gantry/host/internal/store/sink"
	"gorm.io/gorm"
)

// access is the database, read and changed in order with the events that were appended.
type access struct {
	*database.DB
	sink        *sink.Sink
	refuseReads bool
}

// Read returns a connection for reading that sees everything appended so far, unless the store is degraded.
func (a access) Read(ctx context.Context) (*gorm.DB, error) {
	if a.refuseReads {
		return nil, ErrReadsRefused
	}
	err := a.sink.Await(ctx, "", 0, false)
	if _, degraded := errors.AsType[*DegradedError](err); err != nil && !degraded {
		return nil, err
	}
	return a.DB.Read(ctx)
}

// Change runs fn in a transaction that is durable when Change returns. fn may run more than once.
func (a access) Change(ctx context.Context, fn func(tx *gorm.DB) error) error {
	return a.ChangeThread(ctx, "", fn)
}

// ChangeThread is [access.Change] for a transaction that adds or removes a thread.
func (a access) ChangeThread(ctx context.Context, thread event.ThreadID, fn func(tx *gorm.DB) error) error {
	return a.sink.Do(ctx, thread, fn)
}
