//go:build !linux && !darwin

package proc

import (
	"context"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// Starter starts no processes on this system.
type Starter struct{}

// NewStarter returns a starter.
func NewStarter(hclog.Logger, bool) *Starter { return &Starter{} }

// Close does nothing.
func (*Starter) Close() {}

// Start returns [ErrUnsupported].
func (*Starter) Start(context.Context, Spec) (*Process, error) { return nil, ErrUnsupported }

// Process never exists on this system.
type Process struct{ exited chan struct{} }

// PID returns 0.
func (p *Process) PID() int { return 0 }

// Isolation returns IsolationUnknown.
func (p *Process) Isolation() Isolation { return IsolationUnknown }

// Open returns false.
func (p *Process) Open(int) bool { return false }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when its tree has ended.
func (p *Process) Gone() <-chan struct{} { return p.exited }

// Exit returns the zero value.
func (p *Process) Exit() Exit { return Exit{} }

// Signal fails.
func (p *Process) Signal(syscall.Signal) error { return ErrUnsupported }

// SignalGroup fails.
func (p *Process) SignalGroup(syscall.Signal) error { return ErrUnsupported }

// Kill does nothing.
func (p *Process) Kill() {}

// Owns fails.
func (p *Process) Owns(int) error { return ErrUnsupported }

// Usage fails.
func (p *Process) Usage(bool) (Usage, error) { return Usage{}, ErrUnsupported }

// KillMarked kills nothing.
func KillMarked(string) int { return 0 }
