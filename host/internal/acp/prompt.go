package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// outcome is how a turn has ended.
type outcome struct {
	reason acp.StopReason
	err    error
}

// reply is the response that a prompt waits for.
type reply struct {
	request *rpc.Request
	turn    string // "": not known yet
	done    chan struct{}
}

// answer answers the prompt.
func (r *reply) answer(o outcome) {
	if o.err != nil {
		r.request.Fail(wireError(o.err))
	} else {
		r.request.Reply(acp.PromptResponse{StopReason: o.reason})
	}
	close(r.done)
}

// arrival is a prompt that has arrived and is not answered. It is guarded by the agent's mutex.
type arrival struct {
	cancelled bool
	request   rpc.ID             // zero until it is handled
	cancel    context.CancelFunc // ends its submission; nil until it is handled
}

// arrive notes a prompt that has arrived. It is called in the order of their arrival.
func (a *agent) arrive(id acp.SessionId) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arrivals[id] = append(a.arrivals[id], &arrival{})
}

// take returns the arrival of the prompt whose turn it is. forget removes it.
func (a *agent) take(id acp.SessionId, request rpc.ID, cancel context.CancelFunc) (x *arrival, forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.arrivals[id]
	x = list[slices.IndexFunc(list, func(x *arrival) bool { return x.cancel == nil })]
	x.request, x.cancel = request, cancel
	return x, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.arrivals[id] = slices.DeleteFunc(a.arrivals[id], func(y *arrival) bool { return y == x })
		if len(a.arrivals[id]) == 0 {
			delete(a.arrivals, id)
		}
	}
}

func (a *agent) isCancelled(x *arrival) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return x.cancelled
}

// prompt answers a prompt when its turn has ended. A prompt that arrives while a turn runs joins it.
func (a *agent) prompt(ctx context.Context, r *rpc.Request) {
	id := sessionOf(r.Params)
	submitting, cancel := context.WithCancel(ctx)
	defer cancel()
	x, forget := a.take(id, r.ID, cancel)
	defer forget()
	w := &reply{request: r, done: make(chan struct{})}
	s, in, err := a.prompted(ctx, r)
	if err == nil {
		err = s.begin(submitting, w, in, func() bool { return a.isCancelled(x) })
	}
	if err != nil && hub.ErrorOf(err).Code == hub.Closed && submitting.Err() == nil { // meanwhile: the thread is continued, as for a later prompt
		if s, err = a.live(submitting, id); err == nil {
			err = s.begin(submitting, w, in, func() bool { return a.isCancelled(x) })
		}
	}
	switch {
	case err != nil && a.isCancelled(x):
		w.answer(outcome{reason: acp.StopReasonCancelled})
		return
	case err != nil:
		w.answer(outcome{err: err})
		return
	}
	r.Release()
	if w.turn != "" && a.isCancelled(x) { // before it had a turn
		s.interrupt(ctx, w.turn)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	}
}

// prompted decodes a prompt.
func (a *agent) prompted(ctx context.Context, r *rpc.Request) (*session, hub.Input, error) {
	p, err := decode[struct {
		SessionID acp.SessionId
		Prompt    []json.RawMessage
	}](r.Params)
	if err != nil {
		return nil, hub.Input{}, err
	}
	in, err := input(p.Prompt)
	if err != nil {
		return nil, in, err
	}
	s, err := a.live(ctx, p.SessionID)
	return s, in, err
}

// begin starts the turn of a prompt, and lets the prompt wait for the turn's end. A command that needs no turn is answered at once.
func (s *session) begin(ctx context.Context, w *reply, in hub.Input, cancelled func() bool) error {
	if cancelled() {
		return context.Canceled
	}
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return hint.New("the thread has ended", "open the session again")
	}
	s.starting++
	stopped := s.stopped
	s.mu.Unlock()
	if stopped != nil { // a prompt after a cancellation must not join the turn that ends
		<-stopped
	}
	turn, err := s.submit(ctx, in)
	s.mu.Lock()
	o, ended := s.ended[turn]
	if s.starting--; s.starting == 0 {
		clear(s.ended)
	}
	switch {
	case err != nil:
	case turn == "":
		o, ended = outcome{reason: acp.StopReasonEndTurn}, true
	case s.over && !ended:
		err = hint.New("the thread has ended", "open the session again")
	case !ended:
		w.turn = turn
		s.waiting = append(s.waiting, w)
	}
	s.mu.Unlock()
	if err == nil && ended {
		w.answer(o)
	}
	return err
}

// submit submits a prompt or runs a command, and returns the turn to wait for; "": none.
func (s *session) submit(ctx context.Context, in hub.Input) (string, error) {
	name, args := command(in)
	switch name {
	case "compact":
		a, err := s.thread.Compact(ctx)
		return string(a.Turn), err
	case "review":
		target, err := reviewTarget(args)
		if err != nil {
			return "", err
		}
		a, err := s.thread.Review(ctx, target)
		return string(a.Turn), err
	case "undo", "redo":
		report, err := s.agent.cfg.Hub.Undo(ctx, s.thread.ID(), hub.UndoParams{Redo: name == "redo"})
		if err == nil {
			s.update(message(undone(report)))
		}
		return "", err
	case "rename":
		if args == "" {
			return "", errors.New("/rename: the name is missing")
		}
		return "", s.agent.cfg.Hub.Rename(ctx, s.thread.ID(), args)
	}
	in, err := s.filledIn(ctx, in)
	if err != nil {
		return "", err
	}
	text := textOf(in)
	s.mu.Lock()
	s.said = append(s.said, text)
	s.mu.Unlock()
	a, err := s.thread.Submit(ctx, hub.Submission{Input: in, Durable: true})
	if err != nil {
		s.known(text)
	}
	return string(a.Turn), err
}

// known reports whether a message is one that the editor has sent, once for each time.
func (s *session) known(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.said, text)
	if i >= 0 {
		s.said = slices.Delete(s.said, i, i+1)
	}
	return i >= 0
}

// undone describes what an undo has done.
func undone(r hub.UndoReport) string {
	var b strings.Builder
	for _, f := range r.Files {
		switch {
		case f.Obstacle != "":
			fmt.Fprintf(&b, "- %s: %s\n", f.Path, f.Reason)
		case f.Action != "none":
			fmt.Fprintf(&b, "- %s: %s\n", f.Path, map[string]string{"write": "restored", "create": "created again", "remove": "removed"}[f.Action])
		}
	}
	switch {
	case r.Refused:
		return "Nothing was changed, because changes would be lost:\n\n" + b.String()
	case b.Len() == 0:
		return "No files had to be changed.\n"
	}
	return b.String()
}

// turnEnded answers the prompts that wait for a turn.
func (s *session) turnEnded(t protocol.Turn) {
	o := outcome{reason: acp.StopReasonEndTurn}
	switch t.Status {
	case protocol.TurnInterrupted:
		o.reason = acp.StopReasonCancelled
	case protocol.TurnFailed:
		o.err = turnFailure(t.Error)
	}
	s.mu.Lock()
	if s.starting > 0 {
		s.ended[t.ID] = o
	}
	var answered []*reply
	s.waiting = slices.DeleteFunc(s.waiting, func(w *reply) bool {
		if w.turn == t.ID {
			answered = append(answered, w)
		}
		return w.turn == t.ID
	})
	s.mu.Unlock()
	for _, w := range answered {
		w.answer(o)
	}
}

// turnFailure converts the error of a turn. Editors offer a login if the provider has refused the one that it got.
func turnFailure(e *protocol.TurnError) error {
	if e == nil {
		return rpc.Errorf(rpc.Internal, "the turn failed")
	}
	next := ""
	if e.Next != nil {
		next = *e.Next
	}
	code := int64(rpc.Internal)
	if e.CodexErrorInfo != nil && e.CodexErrorInfo.Kind == protocol.ErrorUnauthorized {
		code = authRequired
	}
	out := rpc.Errorf(code, "%s", hint.Line(e.Message, next))
	if e.CodexErrorInfo != nil {
		out.Data = map[string]any{"kind": e.CodexErrorInfo.Kind, "next": next}
	}
	return out
}

// fail answers all prompts with an error, because the session or its thread has ended.
func (s *session) fail(err error) {
	s.mu.Lock()
	if !s.over {
		close(s.gone)
	}
	s.over = true
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, w := range waiting {
		w.answer(outcome{err: err})
	}
}

// cancel interrupts the turns of the editor's prompts. If it has none and others is set, a turn that another client has started is
// interrupted.
func (s *session) cancel(ctx context.Context, others bool) {
	s.mu.Lock()
	var turns []string
	for _, w := range s.waiting {
		if !slices.Contains(turns, w.turn) {
			turns = append(turns, w.turn)
		}
	}
	none := len(turns) == 0 && s.starting == 0
	s.mu.Unlock()
	if st := s.agent.cfg.Hub.Status(s.thread.ID()); none && others && st.Turn != "" {
		turns = []string{string(st.Turn)}
	}
	for _, t := range turns {
		s.interrupt(ctx, t)
	}
}

// interrupt interrupts a turn, and returns when it has ended.
func (s *session) interrupt(ctx context.Context, turn string) {
	err := s.thread.Interrupt(ctx, event.TurnID(turn))
	if err == nil || ctx.Err() != nil {
		return
	}
	if code := hub.ErrorOf(err).Code; code != hub.NoTurn && code != hub.OtherTurn && code != hub.Closed {
		s.agent.log.Warn("turn not interrupted", "thread", s.id, "turn", turn, "err", err)
	}
}

// cancelled cancels the prompts of a session, also those that still wait. Without any, it interrupts the running turn.
func (a *agent) cancelled(id acp.SessionId) {
	a.mu.Lock()
	for _, x := range a.arrivals[id] {
		x.cancelled = true
		if x.cancel != nil {
			x.cancel()
		}
	}
	s := a.sessions[id]
	a.mu.Unlock()
	if s == nil {
		return
	}
	s.mu.Lock()
	before, stopped := s.stopped, make(chan struct{})
	s.stopped = stopped
	s.mu.Unlock()
	if !a.begin(func() { // ends with the session
		defer close(stopped)
		s.cancel(s.life, true)
		if before != nil {
			<-before
		}
	}) {
		close(stopped)
	}
}

// withdrawn cancels the session of a prompt that the editor has withdrawn with [cancelRequest]. Other requests take no time.
func (a *agent) withdrawn(params json.RawMessage) {
	var p struct{ RequestID rpc.ID }
	if json.Unmarshal(params, &p) != nil || p.RequestID.IsZero() {
		return
	}
	a.mu.Lock()
	var of acp.SessionId
	for id, list := range a.arrivals {
		if slices.ContainsFunc(list, func(x *arrival) bool { return x.request == p.RequestID }) {
			of = id
		}
	}
	a.mu.Unlock()
	if of != "" {
		a.cancelled(of)
	}
}
