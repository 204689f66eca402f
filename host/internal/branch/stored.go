package branch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
)

// Revert reverts turns of a thread that is not running. plan is [Before] or [Last].
func Revert(ctx context.Context, s *store.Store, id event.ThreadID, plan func(context.Context) (thread.Cut, error)) (done event.ThreadReverted, err error) {
	err = appendOne(ctx, s, id, func() (event.Body, error) {
		state, err := Resume(ctx, s, id)
		if err != nil {
			return nil, err
		}
		cut, err := plan(ctx)
		if err != nil {
			return nil, err
		}
		done = state.Revert(cut)
		return done, nil
	})
	return done, err
}

// AppendEvent appends an event to the log of a thread that is not running.
func AppendEvent(ctx context.Context, s *store.Store, id event.ThreadID, body event.Body) error {
	return appendOne(ctx, s, id, func() (event.Body, error) { return body, nil })
}

// Archive archives a thread that is not running, or restores it. It reports false if the thread was archived, or not, before.
func Archive(ctx context.Context, s *store.Store, id event.ThreadID, archive bool) (changed bool, err error) {
	err = appendOne(ctx, s, id, func() (event.Body, error) {
		info, err := s.Thread(ctx, string(id))
		if changed = info.Archived.IsZero() == archive; err != nil || !changed {
			return nil, err
		}
		return event.ThreadArchived{Archived: archive}, nil
	})
	return changed && err == nil, err
}

// Amend is [thread.Thread.Amend] for a thread that is not running. decide gets the state of the thread. An archived thread is not
// changed: the error is an [*ArchivedError].
func Amend(ctx context.Context, s *store.Store, id event.ThreadID, feature string,
	decide func(thread.State) (data json.RawMessage, err error),
) error {
	return appendOne(ctx, s, id, func() (event.Body, error) {
		info, err := s.Thread(ctx, string(id))
		if err != nil {
			return nil, err
		}
		if !info.Archived.IsZero() {
			return nil, &ArchivedError{Thread: id}
		}
		state, err := Resume(ctx, s, id)
		if err != nil {
			return nil, err
		}
		data, err := decide(state)
		if err != nil || data == nil {
			return nil, err
		}
		return event.FeatureChanged{Feature: feature, Data: data}, nil
	})
}

// appendOne appends the event that next returns, if any, to the log of a thread while it has the thread locked. If the thread is running,
// the error is a [*store.LockedError].
func appendOne(ctx context.Context, s *store.Store, id event.ThreadID, next func() (event.Body, error)) (err error) {
	return Write(ctx, s, id, func(l *Log) error {
		body, err := next()
		if err != nil || body == nil {
			return err
		}
		seq, err := l.Publish(ctx, "", body)
		if err != nil {
			return err
		}
		return l.Barrier(ctx, seq)
	})
}

// Write locks a thread that is not running and calls f, which may append to its log. If the thread is running, the error is a
// [*store.LockedError].
func Write(ctx context.Context, s *store.Store, id event.ThreadID, f func(*Log) error) (err error) {
	lock, err := s.LockThread(ctx, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	info, err := s.Thread(ctx, string(id)) // its last event can't change while the thread is locked
	if err != nil {
		return err
	}
	return f(&Log{s: s, id: id, seq: info.Seq})
}

// Log is the log of a locked thread. It is valid until the function that [Write] has called returns.
type Log struct {
	s   *store.Store
	id  event.ThreadID
	seq uint64
}

// Publish appends durable events, either all or none, and returns the number of the last one.
func (l *Log) Publish(ctx context.Context, turn event.TurnID, bodies ...event.Body) (uint64, error) {
	evs := make([]event.Event, len(bodies))
	for i, b := range bodies {
		evs[i] = event.Event{Seq: l.seq + 1 + uint64(i), Thread: l.id, Turn: turn, Time: time.Now().UTC(), Body: b}
	}
	if err := l.s.Append(ctx, evs...); err != nil {
		return l.seq, err
	}
	l.seq += uint64(len(evs))
	return l.seq, nil
}

// Barrier returns when everything up to seq is durable.
func (l *Log) Barrier(ctx context.Context, seq uint64) error { return l.s.Barrier(ctx, l.id, seq) }

// maxNameRunes is the maximum length that a listing can display.
const maxNameRunes = 200

// Name returns a thread's name without surrounding white space, or an error if it is not a single printable line.
func Name(name string) (string, error) {
	name = strings.TrimSpace(name)
	switch {
	case name == "":
		return "", errors.New("the name of a thread must not be empty")
	case !utf8.ValidString(name):
		return "", errors.New("the name of a thread must be valid UTF-8")
	case utf8.RuneCountInString(name) > maxNameRunes:
		return "", fmt.Errorf("the name of a thread can have at most %d characters, but this one has %d", maxNameRunes, utf8.RuneCountInString(name))
	case strings.IndexFunc(name, unicode.IsControl) >= 0:
		return "", errors.New("the name of a thread must be one line without control characters")
	}
	return name, nil
}
