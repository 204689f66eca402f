package tui

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/host/internal/tui/picker"
)

// roster is the list of all threads by what they do. It is read again whenever a thread changes while it is shown.
type roster struct {
	shown   *picker.Picker // nil: it was never shown
	reading bool
	stale   bool // it has changed while it was read
}

// dispatch is a row that starts a thread.
type dispatch string

// rosterLength is how many threads are listed.
const rosterLength = 100

// listThreads lists the threads that people have started, latest first.
func listThreads(m *Model, then func(m *Model, threads []protocol.Thread) tea.Cmd) tea.Cmd {
	limit, by := uint32(rosterLength), protocol.SortByUpdatedAt
	return call(m, protocol.MethodThreadList.Name, protocol.ThreadListParams{Page: protocol.Page{Limit: &limit}, SortKey: &by, SourceKinds: []protocol.ThreadSourceKind{
		protocol.SourceKindCLI, protocol.SourceKindVSCode, protocol.SourceKindExec, protocol.SourceKindAppServer,
	}}, func(m *Model, r protocol.ThreadListResponse, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
			r.Data = nil
		}
		return then(m, r.Data)
	})
}

// showRoster lists all threads by what they do, those that need the user first.
func showRoster(m *Model, _ string) tea.Cmd {
	return listThreads(m, func(m *Model, threads []protocol.Thread) tea.Cmd {
		p := &picker.Picker{Title: "Threads", Empty: "there are none; type a task to start one", Other: func(typed string) picker.Row {
			return picker.Row{Label: "new thread: " + typed, Value: dispatch(typed)}
		}}
		p.Rows = rosterRows(m, threads)
		m.roster = roster{shown: p}
		m.pick(p, func(m *Model, r picker.Row) tea.Cmd {
			switch v := r.Value.(type) {
			case dispatch:
				return startBeside(m, string(v))
			case string:
				if m.thread == nil || v != m.thread.ID {
					return m.resume(v)
				}
			}
			return nil
		})
		return nil
	})
}

// The states of threads, most urgent first.
var states = [...]string{"needs you", "working", "failed", "done"}

func stateOf(s protocol.ThreadStatus) int {
	switch s := s.Body.(type) {
	case protocol.ActiveStatus:
		if len(s.ActiveFlags) > 0 {
			return 0
		}
		return 1
	case protocol.SystemErrorStatus:
		return 2
	}
	return 3
}

func rosterRows(m *Model, threads []protocol.Thread) []picker.Row {
	threads = slices.DeleteFunc(slices.Clone(threads), func(t protocol.Thread) bool { return t.Preview == "" && t.Name == nil })
	slices.SortStableFunc(threads, func(a, b protocol.Thread) int { return stateOf(a.Status) - stateOf(b.Status) })
	var out []picker.Row
	for _, t := range threads {
		detail := filepath.Base(t.Cwd) + ", " + age(m.now().Sub(time.Unix(t.UpdatedAt, 0)))
		if m.thread != nil && t.ID == m.thread.ID {
			detail += ", open here"
		}
		out = append(out, picker.Row{Label: fmt.Sprintf("%-9s  %s", states[stateOf(t.Status)], titleOf(t)), Detail: detail, Value: t.ID})
	}
	return out
}

func titleOf(t protocol.Thread) string {
	if t.Name != nil {
		return *t.Name
	}
	return t.Preview
}

// follow reads the list again if it is shown and a notification says that threads have changed.
func (r *roster) follow(m *Model, n rpc.Notification) tea.Cmd {
	if r.shown == nil || m.picker != r.shown || !strings.HasPrefix(n.Method, "thread/") {
		return nil
	}
	switch n.Method {
	case protocol.NotifyThreadStarted.Name, protocol.NotifyThreadStatusChanged.Name, protocol.NotifyThreadArchived.Name, protocol.NotifyThreadUnarchived.Name,
		protocol.NotifyThreadDeleted.Name, protocol.NotifyThreadClosed.Name, protocol.NotifyThreadNameUpdated.Name:
		return r.read(m)
	}
	return nil
}

func (r *roster) read(m *Model) tea.Cmd {
	if r.reading {
		r.stale = true
		return nil
	}
	r.reading, r.stale = true, false
	p := r.shown
	return listThreads(m, func(m *Model, threads []protocol.Thread) tea.Cmd {
		if m.roster.shown != p {
			return nil
		}
		p.Replace(rosterRows(m, threads))
		if m.roster.reading = false; m.roster.stale {
			return m.roster.read(m)
		}
		return nil
	})
}

// startBeside starts a thread with a task, and leaves it to itself.
func startBeside(m *Model, task string) tea.Cmd {
	dir := m.cfg.Dir
	return call(m, protocol.MethodThreadStart.Name, protocol.ThreadStartParams{ThreadOverrides: protocol.ThreadOverrides{Cwd: &dir}},
		func(m *Model, r protocol.ThreadStartResponse, err error) tea.Cmd {
			if err != nil {
				m.giveBack(task, err)
				return nil
			}
			id, message := r.Thread.ID, rand.Text()
			return call(m, protocol.MethodTurnStart.Name, protocol.TurnStartParams{ThreadID: id, Input: input(dir, task), ClientUserMessageID: &message},
				func(m *Model, _ protocol.TurnStartResponse, err error) tea.Cmd {
					m.giveBack(task, err)
					return tea.Batch(m.do(protocol.MethodThreadUnsubscribe.Name, protocol.ThreadUnsubscribeParams{ThreadID: id}), showRoster(m, ""))
				})
		})
}
