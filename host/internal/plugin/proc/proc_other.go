//go:build !linux && !darwin

package proc

import (
	"context"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// Starter starts processes; here it refuses.
type Starter struct{}

// NewStarter starts nothing.
func NewStarter(hclog.Logger, bool) *Starter { return &Starter{} }

// Close does nothing.
func (*Starter) Close() {}

// Start returns [ErrUnsupported].
func (*Starter) Start(context.Context, Spec) (*Process, error) { return nil, ErrUnsupported }

// Process never exists on this system.
type Process struct{ exited chan struct{} }

// PID is the number of the process.
func (p *Process) PID() int { return 0 }

// Isolation says what keeps the tree together.
func (p *Process) Isolation() Isolation { return IsolationUnknown }

// Open is false.
func (p *Process) Open(int) bool { return false }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when nothing of its tree is left.
func (p *Process) Gone() <-chan struct{} { return p.exited }

// Exit returns how it ended.
func (p *Process) Exit() Exit { return Exit{} }

// Signal sends a signal.
func (p *Process) Signal(syscall.Signal) error { return ErrUnsupported }

// SignalGroup sends a signal to the group.
func (p *Process) SignalGroup(syscall.Signal) error { return ErrUnsupported }

// Kill ends the tree.
func (p *Process) Kill() {}

// Owns tells whether a process belongs to the tree.
func (p *Process) Owns(int) error { return ErrUnsupported }

// Usage tells what the tree uses.
func (p *Process) Usage(bool) (Usage, error) { return Usage{}, ErrUnsupported }

// KillMarked kills nothing here.
func KillMarked(string) int { return 0 }
