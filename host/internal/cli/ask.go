package cli

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"golang.org/x/term"
)

// asks answers a thread's questions from the terminal. Without a terminal nobody attends, so questions are refused at
// once instead of waiting for ever.
type asks struct {
	app    *app
	thread *thread.Thread
	leave  func()
}

func (a *app) attend(t *thread.Thread, f execFlags) *asks {
	s := &asks{app: a, thread: t, leave: func() {}}
	if a.stdin == nil || f.json || f.events || !term.IsTerminal(int(a.stdin.Fd())) {
		return s
	}
	s.leave = t.Desk().Attend()
	return s
}

func (s *asks) close() { s.leave() }

// ask shows a question and reads the answer beside the event loop. The reader of the terminal can't be interrupted; a
// line that comes after the question was resolved by somebody else is dropped by the desk.
func (s *asks) ask(ctx context.Context, q event.QuestionAsked) {
	options := q.Options
	if q.About == event.QuestionApproval {
		options = []string{approval.Approve, approval.ApproveSession, approval.Deny, approval.Abort}
	}
	w := s.app.stderr
	for _, e := range q.Effects {
		fmt.Fprintf(w, "  %s %s\n", e.Type, clean(string(e.Data)))
	}
	if q.Reason != "" {
		fmt.Fprintf(w, "  why: %s\n", clean(q.Reason))
	}
	if q.Message != "" {
		fmt.Fprintf(w, "  %s\n", clean(q.Message))
	}
	for i, o := range options {
		fmt.Fprintf(w, "  %d) %s\n", i+1, strings.ReplaceAll(clean(o), "_", " for this "))
	}
	go func() { // owned by the terminal: ends with the line, at the latest with the process
		answer := s.read(options)
		if ctx.Err() == nil {
			_ = s.thread.Desk().Resolve(q.ID, answer) // somebody else may have been faster
		}
	}()
}

func (s *asks) read(options []string) approval.Answer {
	in := bufio.NewReader(s.app.stdin)
	for {
		fmt.Fprintf(s.app.stderr, "  answer: ")
		line, err := in.ReadString('\n')
		line = strings.TrimSpace(line)
		if err != nil {
			return approval.Answer{Choice: approval.Deny, By: "user"}
		}
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(options) {
			return approval.Answer{Choice: options[n-1], By: "user"}
		}
		for _, o := range options {
			if strings.EqualFold(line, o) {
				return approval.Answer{Choice: o, By: "user"}
			}
		}
		switch strings.ToLower(line) {
		case "y", "yes":
			return approval.Answer{Choice: approval.Approve, By: "user"}
		case "n", "no":
			return approval.Answer{Choice: approval.Deny, By: "user"}
		}
		if len(options) == 0 && line != "" {
			return approval.Answer{Choice: line, By: "user"}
		}
	}
}
