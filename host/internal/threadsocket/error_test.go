package threadsocket

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/branch"
	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/host/internal/undo"
)

// A client gets what kind of error it is and what to do about it, also where the error was wrapped on its way.
func TestErrorsSurviveTheSocket(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		code    Code
		message string
		next    string
	}{
		"archived":       {fmt.Errorf("fork: %w", &branch.ArchivedError{Thread: "t1"}), Archived, "fork: thread t1 is archived", "`gantry threads unarchive t1` restores it"},
		"not found":      {&store.NotFoundError{What: "artifact", ID: "ab"}, NotFound, `no artifact "ab"`, ""},
		"locked":         {&store.LockedError{Thread: "t1", Owner: store.Owner{PID: 7}}, Locked, "thread t1 is open in process 7", "attach to it, or end that process"},
		"damaged":        {&store.CorruptError{SHA256: "ab", Path: "/x", Got: "cd"}, Damaged, "artifact ab is damaged (its content has digest cd)", "restore /x from a backup, or remove it"},
		"refused":        {&undo.RefusedError{}, Refused, "no file was restored:", "use --force to restore the other files, if any"},
		"foreign":        {errFamily, Foreign, "this process was started by the gantry that runs the thread, so it can only read it", "use another terminal"},
		"busy":           {fmt.Errorf("revert: %w", thread.ErrBusy), Busy, "revert: a turn of the thread is running", "wait for its end, or interrupt it"},
		"no turn":        {thread.ErrIdle, NoTurn, "no active turn to interrupt", ""},
		"not to steer":   {thread.ErrNoTurn, NoTurn, "no active turn to steer", ""},
		"other turn":     {&thread.OtherTurnError{Want: "a", Is: "b"}, OtherTurn, "expected active turn id `a` but found `b`", ""},
		"not steerable":  {&thread.NotSteerableError{Turn: "a", Kind: "review"}, NotSteerable, "cannot steer a review turn", ""},
		"answered":       {approval.ErrUnknownQuestion, Answered, "no such question is pending; it may have been answered already", ""},
		"closed":         {thread.ErrClosed, Closed, "the thread is closed", ""},
		"shutting down":  {orchestrate.ErrShutdown, Closed, "the host is shutting down", ""},
		"archived, runs": {thread.ErrArchived, Archived, "the thread is archived", "unarchive it"},
		"no kind":        {hint.New("the disk is full", "make room"), "", "the disk is full", "make room"},
		"no hint":        {errors.New("broken"), "", "broken", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sent, _ := errors.AsType[*rpc.Error](wireError(test.err))
			if sent.Message != test.err.Error() {
				t.Errorf("message on the wire: %q", sent.Message)
			}
			line, err := json.Marshal(sent)
			if err != nil {
				t.Fatal(err)
			}
			var data json.RawMessage
			got := rpc.Error{Data: &data}
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatal(err)
			}
			if got.Data = data; data == nil {
				got.Data = nil
			}
			back := errorOf(&got)
			if message, next := hint.Split(back); message != test.message || next != test.next {
				t.Errorf("%q, %q, want %q, %q", message, next, test.message, test.next)
			}
			if e, ok := errors.AsType[*Error](back); ok && test.code == NotSteerable && e.Task != "review" {
				t.Errorf("task %q", e.Task)
			}
			if e, ok := errors.AsType[*Error](back); test.code != "" && (!ok || e.Code != test.code) {
				t.Errorf("%#v, want code %s", back, test.code)
			}
		})
	}
	old := &rpc.Error{Message: "thread t1 is archived; next: unarchive it"} // another program
	if message, next := hint.Split(errorOf(old)); message != "thread t1 is archived" || next != "unarchive it" {
		t.Errorf("%q, %q", message, next)
	}
	if wireError(nil) != nil {
		t.Error("no error became one")
	}
}
