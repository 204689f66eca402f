package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Tool is one declared tool. Make it with [New] or [NewFreeform].
type Tool struct {
	descriptor contract.Descriptor
	run        func(ctx context.Context, c *Call, in contract.Input) (*Result, error)
	assess     func(ctx context.Context, c *AssessCall, in contract.Input) (*contract.Assessment, error)
	err        error
}

// Option changes a tool.
type Option func(*Tool)

// New declares a tool whose arguments are the struct In.
func New[In any](name, description string, run func(ctx context.Context, c *Call, in In) (*Result, error), opts ...Option) Tool {
	return Tool{}
}

// NewFreeform declares a tool that takes raw text.
func NewFreeform(name, description string, f contract.Freeform, run func(ctx context.Context, c *Call, text string) (*Result, error), opts ...Option) Tool {
	return Tool{}
}

// Errorf makes a failed result.
func Errorf(format string, args ...any) *Result {
	return contract.ErrorText(fmt.Sprintf(format, args...))
}

// ReadOnly: every call leaves the world as it was.
func ReadOnly() Option { return func(*Tool) {} }

// ParallelSafe: calls may run beside other calls.
func ParallelSafe() Option { return func(*Tool) {} }

// SerialGroup: calls of one group run one after the other.
func SerialGroup(group string) Option { return func(*Tool) {} }

// Effects of every call.
func Effects(effects ...contract.Effect) Option { return func(*Tool) {} }

// Assess sets the function that says what a call would do. For a freeform tool In is string.
func Assess[In any](fn func(ctx context.Context, c *AssessCall, in In) (*contract.Assessment, error)) Option {
	return func(*Tool) {}
}

// Namespace of the tool.
func Namespace(ns string) Option { return func(*Tool) {} }

// Deferred: found by tool search, callable by name.
func Deferred() Option { return func(*Tool) {} }

// Hidden: callable, never shown.
func Hidden() Option { return func(*Tool) {} }

// Hook sets the name and further names under which hooks see the tool.
func Hook(name string, aliases ...string) Option { return func(*Tool) {} }

// HookField maps a field that hooks see to an argument.
func HookField(hook, argument string) Option { return func(*Tool) {} }

// AbortReadsAsCommand: an abort reads like that of a command.
func AbortReadsAsCommand() Option { return func(*Tool) {} }

// Lenient: unknown arguments are passed on instead of refused.
func Lenient() Option { return func(*Tool) {} }

// Schema replaces the derived schema of the arguments.
func Schema(schema json.RawMessage) Option { return func(*Tool) {} }

// Output declares the structured result.
func Output[T any]() Option { return func(*Tool) {} }

// SearchText adds words by which tool search finds the tool.
func SearchText(s string) Option { return func(*Tool) {} }

// ModelTraits without which the tool is not offered.
func ModelTraits(traits ...string) Option { return func(*Tool) {} }

// Source that the tool belongs to.
func Source(name string) Option { return func(*Tool) {} }

// Descriptor returns what the host is told about the tool.
func (t Tool) Descriptor() contract.Descriptor { return t.descriptor }
