package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/session"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/process/record"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	// unlimited: output of processes that a command leaves in the background is read as long as the session exists.
	unlimited = 365 * 24 * time.Hour
	// maxNoteBytes is the maximum length of the command in a note, where it is only informative.
	maxNoteBytes = 16 << 10
)

// note describes a session to the next process of the plugin.
type note struct {
	ID int `json:"id"`
	session.Info
}

// keep returns what the host has to keep so that the command can outlive this process.
func keep(id int, info session.Info) *process.Keep {
	if len(info.Command) > maxNoteBytes {
		info.Command = strings.ToValidUTF8(info.Command[:maxNoteBytes], "")
	}
	b, err := json.Marshal(note{id, info})
	if err != nil { // impossible for strings, numbers and bools
		panic("tools: marshal note: " + err.Error())
	}
	return &process.Keep{Note: b, Memory: record.Size(session.RecordBytes)}
}

// adopt continues the sessions of an earlier process.
func (f *shellPlugin) adopt(ctx context.Context, a *tool.Adoption) error {
	// In the order of their start, because the order of their last use is not known.
	slices.SortFunc(a.Processes, func(x, y process.Adopted) int { return x.Started.Compare(y.Started) })
	var errs []error
	for _, p := range a.Processes {
		if err := f.adoptOne(ctx, a, p); err != nil {
			errs = append(errs, fmt.Errorf("session of call %s: %w", p.CallID, err))
		}
	}
	return errors.Join(errs...)
}

func (f *shellPlugin) adoptOne(ctx context.Context, a *tool.Adoption, p process.Adopted) (err error) {
	var n note
	parsed := json.Unmarshal(p.Note, &n)
	p.Cmd.WaitDelay = unlimited
	out, err := p.Cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var in io.Writer
	if n.TTY {
		if in, err = p.Cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := p.Cmd.Start(); err != nil {
		return err
	}
	if parsed != nil {
		return errors.Join(fmt.Errorf("invalid note: %w", parsed), p.Cmd.Kill())
	}
	program := session.Program{Info: n.Info, Process: p.Cmd, In: in, Out: out}
	if program.Record, err = session.OpenRecord(p.Cmd.Memory(), a.Answered); err != nil {
		return errors.Join(err, p.Cmd.Kill())
	}
	id, title := strconv.Itoa(n.ID), oneLine(n.Command)
	return f.store.Adopt(ctx, a.Thread.ID(), n.ID, program, a.Answered, func(s *session.Session, opened bool) {
		if opened {
			s.Resume(func(at int64) session.Resumer { return a.Thread.ResumeSession(id, p.CallID, title, at) })
		} else {
			s.Open(a.Thread.OpenSession(id, p.CallID, title))
		}
		if !a.Answered(p.CallID) {
			f.announce(a.Thread, s)
		}
	})
}

// contextKey is the key of the context text about sessions whose ID the model does not know.
const contextKey = "sessions"

// announce tells the model about a session whose call got no answer.
func (f *shellPlugin) announce(t *tool.Thread, s *session.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.unannounced[t.ID()] == nil {
		f.mu.unannounced[t.ID()] = map[int]string{}
	}
	f.mu.unannounced[t.ID()][s.ID] = fmt.Sprintf("Session ID %d: %s", s.ID, oneLine(s.Command))
	f.updateContextLocked(t)
}

// acknowledge records that the model knows a session.
func (f *shellPlugin) acknowledge(t *tool.Thread, id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.mu.unannounced[t.ID()][id]; ok {
		delete(f.mu.unannounced[t.ID()], id)
		f.updateContextLocked(t)
	}
}

func (f *shellPlugin) updateContextLocked(t *tool.Thread) {
	var lines []string
	for _, line := range f.mu.unannounced[t.ID()] {
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		delete(f.mu.unannounced, t.ID())
		t.Context(contextKey, "")
		return
	}
	slices.Sort(lines)
	t.Context(contextKey, "These commands were started by calls that got no answer, and go on. Use write_stdin with the "+
		"session ID for their output instead of starting them again.\n"+strings.Join(lines, "\n"))
}
