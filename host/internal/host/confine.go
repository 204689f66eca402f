package host

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/child"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/thread"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// watchFolders has the folders in which a thread's commands may write looked through before the first of them asks, and what commands of
// a host that was killed have left there dealt with before anything else happens.
func (h *Host) watchFolders(t *thread.Thread, as child.Role) {
	set := t.Settings()
	mode := cmp.Or(as.Sandbox, set.Sandbox, h.opts.Config.Sandbox.Mode)
	err := h.launcher.Watch(string(t.ID()), grants.For(h.opts.Config, mode, set.Cwd, ""))
	if err == nil {
		return
	}
	n := event.Notice{Level: "warning", Text: err.Error(), Next: "no command runs in the sandbox until this is dealt with"}
	if _, err := t.Publish(context.WithoutCancel(h.life), "", n); err != nil {
		h.log.Warn("notice not published", "error", err)
	}
}

// movedAside tells the user and the model what a command has made that a sandbox must not leave behind, and the user what it has
// changed that others execute. A file that was named is not named again; one that was only counted is.
func (h *Host) movedAside(owner launch.Owner, moved []box.Moved, err error) {
	h.mu.Lock()
	r := h.mu.threads[event.ThreadID(owner.Thread)]
	if r != nil {
		moved = slices.DeleteFunc(slices.Clone(moved), func(m box.Moved) bool { return m.Stays() && r.told.Has("file "+m.From) })
		for _, m := range mentioned(moved) {
			r.told.First("file " + m.From)
		}
	}
	h.mu.Unlock()
	if r == nil {
		return
	}
	for _, n := range MovedNotices(moved, err, MaxMentioned) {
		if _, err := r.thread.Publish(context.WithoutCancel(h.life), "", n); err != nil {
			h.log.Warn("notice not published", "error", err)
		}
		if n.Level == "warning" {
			h.log.Warn("a command left behind what is executed later", "thread", owner.Thread, "call", owner.Call, "moved", n.Text)
			r.plugins.SetContext("sandbox", contract.ContextText{Key: "moved", Text: "The sandbox moved aside what commands have made: " + n.Text +
				". Commands in the sandbox may not make this; if the task needs it, say so and ask for a call outside of the sandbox."})
		}
	}
}

// A notice mentions some files, and carries so many; `gantry diff --executable` lists these.
const (
	MaxMentioned = 5
	maxExecuted  = 2000
)

// mentioned are those of the files that stay which a notice names.
func mentioned(moved []box.Moved) []box.Moved {
	stays := slices.DeleteFunc(slices.Clone(moved), func(m box.Moved) bool { return !m.Stays() })
	return stays[:min(len(stays), MaxMentioned)]
}

// MovedNotices word what was moved aside, or could not be, as a warning, and what stays but is executed later. Of each they mention at most
// so many.
func MovedNotices(moved []box.Moved, err error, most int) []event.Notice {
	var out []event.Notice
	var aside, stays event.Notice
	var lines, names []string
	for _, m := range moved {
		n := &aside
		switch {
		case m.Stays():
			n = &stays
			names = append(names, strconv.Quote(m.From))
		case m.Changed:
			lines = append(lines, fmt.Sprintf("%q was made harmless, because %s", m.From, m.Why))
		default:
			lines = append(lines, fmt.Sprintf("%q is now %q, because %s", m.From, filepath.Base(m.To), m.Why))
		}
		if len(n.Executable) >= maxExecuted {
			n.More++
			continue
		}
		n.Executable = append(n.Executable, event.ExecutableFile{Path: m.From, MovedTo: m.To, Disarmed: m.Changed, Why: m.Why})
	}
	const all = ", and %d more, which `gantry diff --executable` lists"
	shown := func(lines []string, between string) string {
		text := strings.Join(lines[:min(len(lines), most)], between)
		if more := len(lines) - most; more > 0 {
			text += fmt.Sprintf(all, more)
		}
		return text
	}
	if len(lines) > 0 || err != nil {
		aside.Level, aside.Text, aside.Next = "warning", shown(lines, "; "), "look at what was moved before you move it back"
		if err != nil {
			aside.Text = strings.TrimPrefix(aside.Text+"; "+err.Error(), "; ")
		}
		out = append(out, aside)
	}
	if len(names) > 0 {
		stays.Level, stays.Text, stays.Next = "info", "other programs execute what was changed here: "+shown(names, ", "), "read it before you build, or open the folder elsewhere"
		out = append(out, stays)
	}
	return out
}

// boxAhead is how long a box waits for the next command of a turn: as long as models think, mostly.
const boxAhead = 30 * time.Second

// isCommand reports whether calls of a tool are commands, as far as that is known before their arguments are.
func isCommand(d contract.Descriptor) bool {
	return d.AbortReadsAsCommand || slices.ContainsFunc(d.Effects, func(e contract.Effect) bool { _, ok := e.(contract.ExecEffect); return ok })
}
