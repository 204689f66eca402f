package view

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Take gives the person control of the session: calls of the agent that work on it wait until it is given back, at the latest when the
// view is closed. It is refused while another person has control.
func (v *View) Take() error {
	took, err := v.take()
	if !took || err != nil {
		return err
	}
	return v.stream.Send(contract.ViewControl{Take: true})
}

func (v *View) take() (took bool, err error) {
	s := v.sessions
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := v.mine(); err != nil || s.controller(v.session) == v {
		return false, err
	}
	s.mu.Lock()
	known := s.mu.views[v]
	if known {
		s.mu.control[v.session] = v
	}
	s.mu.Unlock()
	if !known {
		return false, hint.New("the view is closed", "open the view again")
	}
	if err := v.publish(true); err != nil {
		s.release(v.session)
		return false, err
	}
	s.controlChanged(v.session)
	return true, nil
}

// Release gives back control, if the person has it.
func (v *View) Release() error {
	gave, err := v.release()
	if !gave || err != nil {
		return err
	}
	return v.stream.Send(contract.ViewControl{}) // the end of the stream says it as well
}

func (v *View) release() (gave bool, err error) {
	s := v.sessions
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.controller(v.session) != v {
		return false, nil
	}
	err = v.publish(false) // before calls go on, so that the log has them in this order
	s.release(v.session)
	s.controlChanged(v.session)
	return true, err
}

func (v *View) publish(person bool) error {
	return v.sessions.cfg.Publish(event.SessionControlled{Session: v.session.id, Plugin: v.session.plugin, Person: person})
}

// Wait waits until no person has control of a session, and reports whether it had to.
func (s *Sessions) Wait(ctx context.Context, plugin, id string) (waited bool, err error) {
	for {
		s.mu.Lock()
		held, changed := s.mu.control[session{plugin, id}] != nil, s.mu.changed
		s.mu.Unlock()
		if !held {
			return waited, nil
		}
		waited = true
		select {
		case <-changed:
		case <-ctx.Done():
			return waited, context.Cause(ctx)
		}
	}
}

func (s *Sessions) controller(of session) *View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.control[of]
}

// control returns who has control of the view's session.
func (v *View) control() Control {
	switch v.sessions.controller(v.session) {
	case nil:
		return Agent
	case v:
		return Self
	}
	return Other
}

// mine refuses what a person may not do while another one has control.
func (v *View) mine() error {
	if v.control() == Other {
		return hint.New(fmt.Sprintf("another person has control of session %q", v.session.id), "wait until it is given back")
	}
	return nil
}

func (s *Sessions) release(of session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.control, of)
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// controlChanged tells all views of a session.
func (s *Sessions) controlChanged(of session) {
	s.mu.Lock()
	var views []*View
	for v := range s.mu.views {
		if v.session == of {
			views = append(views, v)
		}
	}
	s.mu.Unlock()
	for _, v := range views {
		v.changed(func() {})
	}
}
