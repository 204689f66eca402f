package host

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// watchFolders scans the folders in which the thread's commands may write, before the first command runs, and handles what commands of a
// killed host have left there.
func (r *running) watchFolders() {
	h := r.host
	mode := cmp.Or(r.role.Sandbox, r.sandbox())
	if err := h.launcher.Watch(string(r.thread.ID()), grants.For(h.opts.Config, mode, r.thread.Settings().Cwd, "")); err != nil {
		r.publish(event.Notice{Level: "warning", Text: err.Error(), Next: "fix this first; until then, no command runs in the sandbox"})
	}
}

// movedAside reports files of a command that other programs would execute: to the user and the model, files that the sandbox moved
// aside or changed; to the user, files that stay. A file that stays is named once.
func (h *Host) movedAside(owner launch.Owner, moved []box.Moved, err error) {
	r, closed := h.running(event.ThreadID(owner.Thread))
	if closed != nil {
		return
	}
	h.mu.Lock() // two commands may report the same file
	moved = slices.DeleteFunc(slices.Clone(moved), func(m box.Moved) bool { return m.Stays() && r.told.Has("file "+m.From) })
	for _, m := range mentioned(moved) {
		r.told.First("file " + m.From)
	}
	h.mu.Unlock()
	for _, n := range MovedNotices(moved, err, MaxMentioned) {
		r.publish(n)
		if n.Level == "warning" {
			h.log.Warn("a command left behind what is executed later", "thread", owner.Thread, "call", owner.Call, "moved", n.Text)
			r.plugins.SetContext("sandbox", contract.ContextText{Key: "moved", Text: "The sandbox moved aside what commands have made: " + n.Text +
				". Commands in the sandbox may not make this; if the task needs it, say so and ask for a call outside of the sandbox."})
		}
	}
}

// Limits of a notice: files in its text, and files in its list, which `gantry diff --executable` prints.
const (
	MaxMentioned = 5
	maxExecuted  = 2000
)

// mentioned returns the files that stay and are named in the text of a notice.
func mentioned(moved []box.Moved) []box.Moved {
	stays := slices.DeleteFunc(slices.Clone(moved), func(m box.Moved) bool { return !m.Stays() })
	return stays[:min(len(stays), MaxMentioned)]
}

// MovedNotices returns a warning about files that were moved aside or could not be, and a notice about files that stay and that other
// programs execute. Each names at most so many files.
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

// boxAhead is the time that a prepared sandbox waits for the next command of a turn. Most answers of a model take less.
const boxAhead = 30 * time.Second

// isCommand reports whether a tool runs commands, before the arguments of a call are known.
func isCommand(d contract.Descriptor) bool {
	return d.AbortReadsAsCommand || slices.ContainsFunc(d.Effects, func(e contract.Effect) bool { _, ok := e.(contract.ExecEffect); return ok })
}

// LimitNotice returns the notice that a limit has ended a command under a configuration.
func LimitNotice(c *config.Config, p *launch.Process, limit string) event.Notice {
	what, value, name := limitOf(c, p, limit)
	n := event.Notice{
		Level: "warning", Text: fmt.Sprintf("%q was ended: it reached its limit on %s, which is %s", commandLine(p.Argv()), what, value),
		Next: fmt.Sprintf("if it needs more, raise %s", name),
	}
	if name == "" {
		n.Next = fmt.Sprintf("if it needs more, look for a setting of plugin %q, which has set the limit", p.Owner().Plugin)
	}
	return n
}

// limitOf describes a limit: the resource, the value, and the user's setting; without a setting, the plugin has set the limit.
func limitOf(c *config.Config, p *launch.Process, limit string) (what, value, setting string) {
	what, value, setting = p.Limit(limit)
	if setting == "" {
		return what, value, ""
	}
	if b, ok := c.Plugin(p.Owner().Plugin); ok && limit == launch.LimitMemory && b.Spawns.MemoryBytes > 0 {
		return what, value, fmt.Sprintf("processes.memory of plugin %q", b.Label)
	}
	return what, value, "limits." + setting
}

// commandLine returns a short form of a command for people. For `sh -c` scripts, it is the last line: earlier lines are our shell set-up.
func commandLine(argv []string) string {
	line := strings.Join(argv, " ")
	if len(argv) > 2 && strings.Contains(argv[len(argv)-2], "c") && strings.HasPrefix(argv[len(argv)-2], "-") {
		line = strings.TrimSpace(argv[len(argv)-1])
		line = line[strings.LastIndexByte(line, '\n')+1:]
	}
	const most = 80
	runes := []rune(line)
	if len(runes) > most {
		line = string(runes[:most]) + "…"
	}
	return line
}

// limited reports that a limit has ended a command: to the user, and to the model in the result of the call or, if the call has ended, in
// the context of its next answer.
func (h *Host) limited(p *launch.Process, limit string) {
	owner := p.Owner()
	r, err := h.running(event.ThreadID(owner.Thread))
	if err != nil {
		return // the command belongs to no thread
	}
	n := LimitNotice(h.opts.Config, p, limit)
	n.Text = h.opts.Redactor.Text(n.Text)
	r.publish(n)
	what, value, name := limitOf(h.opts.Config, p, limit)
	more := "Where the task needs more, say so: the user can raise " + name + " in the configuration."
	if name == "" {
		more = "The plugin of the tool has set this limit."
	}
	if !h.tokens.Note(owner, fmt.Sprintf("The command was ended because it reached its limit on %s, which is %s. %s", what, value, more)) {
		r.plugins.SetContext("sandbox", contract.ContextText{Key: "limit", Text: n.Text + ". " + more})
	}
}
