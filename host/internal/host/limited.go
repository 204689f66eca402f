package host

import (
	"context"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// LimitNotice words that a limit has ended a command.
func LimitNotice(argv []string, limits launch.Limits, limit string) event.Notice {
	what, value, name := limits.Setting(limit)
	return event.Notice{
		Level: "warning", Text: fmt.Sprintf("%q was ended: it reached its limit on %s, which is %s", commandLine(argv), what, value),
		Next: fmt.Sprintf("if it needs more, raise limits.%s", name),
	}
}

// commandLine is what a person knows a command by: of what a shell runs the last line, for before it stands what sets the shell up.
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

// limited tells the user and the model which limit has ended a command. The model reads it in the result of the call, or, where
// that is over, before its next answer.
func (h *Host) limited(p *launch.Process, limit string) {
	owner, limits := p.Owner(), p.Limits()
	r, err := h.running(event.ThreadID(owner.Thread))
	if err != nil {
		return // it ran in no thread
	}
	n := LimitNotice(p.Argv(), limits, limit)
	n.Text = h.opts.Redactor.Text(n.Text)
	if _, err := r.thread.Publish(context.WithoutCancel(h.life), "", n); err != nil {
		h.log.Warn("notice not published", "error", err)
	}
	what, value, name := limits.Setting(limit)
	if h.tokens.Note(owner, fmt.Sprintf("The command was ended because it reached its limit on %s, which is %s. "+
		"Where the task needs more, say so: the user can raise limits.%s in the configuration.", what, value, name)) {
		return
	}
	r.plugins.SetContext("sandbox", contract.ContextText{Key: "limit", Text: n.Text + ". Where the task needs more, say so: the user can raise limits." +
		name + " in the configuration."})
}
