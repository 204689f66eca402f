package session

import (
	"context"
	"errors"
	"strings"

	"github.com/gantry-agent/gantry/plugins/shell/internal/output"
	"github.com/gantry-agent/gantry/sdk/process/record"
)

// gapText replaces the earlier output of an adopted session without a valid record.
const gapText = "[the plugin was restarted here; output from before that was not returned may be missing]\n"

// OpenRecord opens the record of an adopted session. If it is invalid, OpenRecord returns a new one that contains a note about that.
func OpenRecord(memory []byte, answered func(call string) bool) (*record.Record, error) {
	r, err := record.Open(memory, answered)
	if !errors.Is(err, record.ErrForeign) {
		return r, err
	}
	if len(memory) < record.Size(RecordBytes) {
		memory = nil
	}
	if r, err = record.New(memory, RecordBytes); err != nil {
		return nil, err
	}
	_, err = r.ReadPiece(strings.NewReader(gapText))
	return r, err
}

// Adopt adds a program that was session id of an earlier process of the plugin. Unless the model already knows that the session has
// ended, attach is called before any more of its output is read. It must set the viewer: with Resume if opened is true, otherwise
// with Open.
func (st *Store) Adopt(ctx context.Context, threadID string, id int, p Program, answered func(call string) bool, attach func(s *Session, opened bool)) error {
	st.mu.Lock()
	t := st.threadLocked(threadID)
	if t.knowsLocked(id) {
		st.mu.Unlock()
		return errors.New("the session ID is in use")
	}
	t.reserved[id] = true
	st.mu.Unlock()
	over := false
	p.onStart = func(s *Session) {
		mark, taker := s.pending.Mark(), s.pending.Taker()
		over = mark&endTaken != 0 && taker != "" && answered(taker) && s.pending.Peek().Total() == 0
		if !over {
			attach(s, mark&openedBits != 0)
		}
	}
	s, err := st.Add(ctx, threadID, id, p)
	if err == nil && over {
		select { // the exit code is part of what is remembered
		case <-s.exited:
		case <-ctx.Done():
		}
		st.Finish(threadID, s)
	}
	return err
}

// Resumer is the viewer of an adopted session.
type Resumer interface {
	Viewer
	Skip(n int64)
}

// Resume sets the viewer of an adopted session that the host knows, and displays the output that was not returned yet. at is the
// position of that output, counted from when the session was opened.
func (s *Session) Resume(viewer func(at int64) Resumer) {
	o := output.Output(s.pending.Peek())
	opened := s.pending.Mark()&openedBits - 1
	at := s.pending.Total() - o.Total() - opened
	if early := -at; early > 0 { // output from before the session was opened
		o.DropFirst(early)
		at = 0
	}
	v := viewer(at)
	_, _ = v.Write(o.Head)
	v.Skip(o.Omitted)
	_, _ = v.Write(o.Tail)
	s.setViewer(v)
}
