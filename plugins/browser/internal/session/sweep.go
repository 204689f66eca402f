package session

import (
	"context"
	"errors"
	"time"
)

// Swept is a browser that a sweep has ended.
type Swept struct{ Key, SessionID string }

// Sweep ends browsers that nobody has used for a time; maxIdle is that of the shared one, 0: the manager's. A browser that is in use is
// left alone.
func (m *Manager[C]) Sweep(ctx context.Context, maxIdle time.Duration) ([]Swept, error) {
	if maxIdle <= 0 {
		maxIdle = m.o.Keep
	}
	var out []Swept
	if m.o.Mode != OneShot {
		s, err := m.sweepShared(ctx, maxIdle)
		if err != nil {
			return nil, err
		}
		out = append(out, s...)
	}
	keys, err := m.o.Store.List(ctx, executions)
	if err != nil {
		return out, err
	}
	var errs []error
	for _, key := range keys {
		s, err := m.sweepExecution(ctx, key)
		out, errs = append(out, s...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

func (m *Manager[C]) sweepShared(ctx context.Context, maxIdle time.Duration) ([]Swept, error) {
	e, err := m.get(ctx, m.key())
	if err != nil || e.SessionID == "" || m.o.Now().Sub(e.UpdatedAt) < maxIdle {
		return nil, err
	}
	h, err := m.lease(ctx, 0)
	if err != nil {
		return nil, nil // somebody uses it
	}
	defer h.Release()
	if e, err = m.claim(ctx, h); err != nil || e.SessionID == "" || m.o.Now().Sub(e.UpdatedAt) < maxIdle {
		return nil, err
	}
	id, err := m.end(ctx, h)
	if err != nil {
		return nil, err
	}
	return []Swept{{m.key(), id}}, nil
}

func (m *Manager[C]) sweepExecution(ctx context.Context, key string) ([]Swept, error) {
	e, err := m.get(ctx, key)
	if err != nil || e.SessionID == "" {
		return nil, err
	}
	now := m.o.Now()
	switch {
	case e.Pending:
		if err := m.remove(ctx, e.SessionID); err != nil {
			m.o.Log("a browser that is no longer needed can't be ended", err)
			return nil, nil
		}
		return []Swept{{key, e.SessionID}}, m.o.Store.Delete(ctx, key)
	case !e.ClosedAt.IsZero():
		if now.Sub(e.ClosedAt) >= executionKeep {
			return nil, m.o.Store.Delete(ctx, key)
		}
		return nil, nil
	case now.Sub(e.UpdatedAt) < executionKeep:
		return nil, nil
	}
	id := e.SessionID
	e.ClosedAt, e.Pending = now, true
	if err := m.put(ctx, key, &e); err != nil {
		return nil, ignoreConflict(err) // it is in use after all
	}
	if err := m.remove(ctx, id); err != nil {
		m.o.Log("a browser of an abandoned execution can't be ended", err)
		return []Swept{{key, id}}, nil
	}
	e.Pending = false
	return []Swept{{key, id}}, ignoreConflict(m.put(ctx, key, &e))
}

func ignoreConflict(err error) error {
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}
