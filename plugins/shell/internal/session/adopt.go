package session

import (
	"context"
	"errors"
	"strings"

	"github.com/gantry-agent/gantry/plugins/shell/internal/output"
	"github.com/gantry-agent/gantry/sdk/process/record"
)

// gapText is what stands in the output of a session that was taken over without its record.
const gapText = "[the plugin was restarted here; output from before that was not returned may be missing]\n"

// OpenRecord opens the record of a session that is taken over. Where there is none that can be read, a new one says so.
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

// Adopt makes a program a session again that an earlier process of the plugin had under this number. Unless its end was
// returned, tell gives it its viewer, by Resume where it was opened, else by Open, before any more of its output is read.
func (st *Store) Adopt(ctx context.Context, threadID string, id int, p Program, answered func(call string) bool, tell func(s *Session, opened bool)) error {
	st.mu.Lock()
	t := st.threadLocked(threadID)
	if t.knowsLocked(id) {
		st.mu.Unlock()
		return errors.New("the number of the session is taken")
	}
	t.reserved[id] = true
	st.mu.Unlock()
	over := false
	p.onStart = func(s *Session) {
		mark, taker := s.pending.Mark(), s.pending.Taker()
		over = mark&endTaken != 0 && taker != "" && answered(taker) && s.pending.Peek().Total() == 0
		if !over {
			tell(s, mark&openedBits != 0)
		}
	}
	s, err := st.Add(ctx, threadID, id, p)
	if err == nil && over {
		select { // how it ended is what is remembered of it
		case <-s.exited:
		case <-ctx.Done():
		}
		st.Finish(threadID, s)
	}
	return err
}

// Resumer is told about a session that goes on.
type Resumer interface {
	Viewer
	Skip(n int64)
}

// Resume gives an adopted session, which the host knows, its viewer, and shows it what was not returned yet. viewer makes
// one for output from a position on, counted from the moment when the session was opened.
func (s *Session) Resume(viewer func(at int64) Resumer) {
	o := output.Output(s.pending.Peek())
	opened := s.pending.Mark()&openedBits - 1
	at := s.pending.Total() - o.Total() - opened
	if early := -at; early > 0 { // that was the output of the call that opened it
		o.DropFirst(early)
		at = 0
	}
	v := viewer(at)
	_, _ = v.Write(o.Head)
	v.Skip(o.Omitted)
	_, _ = v.Write(o.Tail)
	s.setViewer(v)
}
