package branch

import (
	"context"
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

// Revert takes turns of a thread back that nobody runs. plan is one of [Before] and [Last].
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

// AppendEvent writes an event into the log of a thread that nobody runs.
func AppendEvent(ctx context.Context, s *store.Store, id event.ThreadID, body event.Body) error {
	return appendOne(ctx, s, id, func() (event.Body, error) { return body, nil })
}

// appendOne writes one event behind the log of a thread, which is locked meanwhile. A thread that runs is a [*store.LockedError].
func appendOne(ctx context.Context, s *store.Store, id event.ThreadID, next func() (event.Body, error)) (err error) {
	return Write(ctx, s, id, func(l *Log) error {
		body, err := next()
		if err != nil {
			return err
		}
		seq, err := l.Publish(ctx, "", body)
		if err != nil {
			return err
		}
		return l.Barrier(ctx, seq)
	})
}

// Write lets f write behind the log of a thread that nobody runs, and that nobody else can write to meanwhile. A thread that runs
// is a [*store.LockedError].
func Write(ctx context.Context, s *store.Store, id event.ThreadID, f func(*Log) error) (err error) {
	lock, err := s.LockThread(ctx, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	info, err := s.Thread(ctx, string(id)) // under the lock its last number stays
	if err != nil {
		return err
	}
	return f(&Log{s: s, id: id, seq: info.Seq})
}

// Log is the log of a thread that nobody runs. It belongs to the function that [Write] gives it to.
type Log struct {
	s   *store.Store
	id  event.ThreadID
	seq uint64
}

// Publish writes durable events, all or none, and returns the number of the last one.
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

// maxNameRunes is what a listing can show.
const maxNameRunes = 200

// Name is a thread's name as it is stored: without spaces around it, in one line.
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
