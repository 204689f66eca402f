package console

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// Status prints an error once and returns the exit status for it.
func (a *Env) Status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrTurn), errors.Is(err, ErrShown):
		return 1 // already shown
	}
	if s, ok := errors.AsType[StatusError](err); ok {
		return int(s)
	}
	if f, ok := errors.AsType[diag.Failure](err); ok {
		_ = diag.Write(a.Stderr, f.Diagnostics, a.Colour(a.Stderr)) // if standard error is closed, there is no one to notify
		return 1
	}
	if u, ok := errors.AsType[UsageError](err); ok {
		fmt.Fprintf(a.Stderr, "Error: %s\n  Next: %s\n", render.Clean(u.Text), render.Clean(cmp.Or(u.Next, "see `gantry help`")))
		return 2
	}
	a.ShowError(err)
	return 1
}

// ErrShown is returned if the reason has already been printed.
var ErrShown = errors.New("failed")

// ShowError prints an error with all details of its type.
func (a *Env) ShowError(err error) {
	pe, ok := errors.AsType[*plugin.Error](err)
	if !ok {
		text, next := hint.Split(err)
		next = cmp.Or(next, systemNext(err))
		fmt.Fprintf(a.Stderr, "Error: %s\n", render.Clean(text))
		if next != "" {
			fmt.Fprintf(a.Stderr, "  Next: %s\n", render.Clean(next))
		}
		return
	}
	d := diag.Diagnostic{Severity: diag.Error, Summary: pe.Summary(), Next: pe.NextStep(), Plugin: pe.Plugin}
	d.Detail = Detail(pe)
	_ = diag.Write(a.Stderr, diag.Diagnostics{d}, a.Colour(a.Stderr))
}

// systemNext returns the next step for an operating system error that has none of its own.
func systemNext(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "free up disk space"
	case errors.Is(err, syscall.EROFS):
		return "its file system is mounted read-only; use another location, or mount it writable"
	case errors.Is(err, fs.ErrPermission):
		return "check its owner and permissions with ls -l"
	}
	return ""
}

// Detail returns everything that is known about a plugin's error, on separate lines.
func Detail(e *plugin.Error) string {
	var b strings.Builder
	if e.Where != "" {
		fmt.Fprintf(&b, "%s\n", e.Where)
	}
	if e.Err != nil && len(e.Diagnostics) == 0 { // with diagnostics it only repeats them
		fmt.Fprintf(&b, "%s\n", render.Clean(e.Err.Error()))
	}
	if e.Exit != nil {
		fmt.Fprintf(&b, "It %s.\n", e.Exit)
	}
	for _, d := range e.Diagnostics {
		fmt.Fprintf(&b, "%s\n", render.Clean(d.Error()))
	}
	printed := e.Printed
	if e.Phase != plugin.PhaseStart && e.Phase != plugin.PhaseHandshake {
		printed = nil // the successful handshake itself
	}
	for _, l := range printed {
		fmt.Fprintf(&b, "It printed: %s\n", render.Clean(l))
	}
	for _, l := range e.StderrTail {
		fmt.Fprintf(&b, "stderr: %s\n", render.Clean(l))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ErrTurn ends the program with status 1; the reason has been shown.
var ErrTurn = errors.New("the turn did not complete")

// StatusError ends the program with its own status; the reason has been shown.
type StatusError int

// Error implements error.
func (e StatusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// ShowProblem prints an error that does not end the command.
func (a *Env) ShowProblem(err error) {
	if f, ok := errors.AsType[diag.Failure](err); ok {
		_ = a.Warn(f.Diagnostics) // if standard error is closed, there is no one to notify
		return
	}
	a.ShowError(err)
}

// ShowNotice prints a notice of a thread.
func (a *Env) ShowNotice(n event.Notice) {
	fmt.Fprintf(a.Stderr, "Note: %s\n", render.Clean(n.Text))
	if n.Next != "" {
		fmt.Fprintf(a.Stderr, "  Next: %s\n", render.Clean(n.Next))
	}
}
