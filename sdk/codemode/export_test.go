package codemode

import "time"

// PID returns the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Gone is closed when the process has ended.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// CloseInput does to the process what the end of its owner does.
func (p *Process) CloseInput() { p.in.Close() }

// Kill kills the process of a session that runs.
func (s *Session) Kill() { s.process.kill() }

// ProcessorTime returns what the process of a session that has ended has used.
func (s *Session) ProcessorTime() time.Duration {
	state := s.process.cmd.ProcessState
	return state.UserTime() + state.SystemTime()
}
