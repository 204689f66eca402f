package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Tool is one declared tool. Make it with [New] or [NewFreeform].
type Tool struct {
	descriptor contract.Descriptor
	required   []string
	run        func(ctx context.Context, c *Call, in contract.Input) (*Result, error)
	assess     func(ctx context.Context, c *AssessCall, in contract.Input) (*contract.Assessment, error)
	err        error // what is wrong with the declaration; reported when the plugin starts
}

// Option changes a tool.
type Option func(*Tool)

// New declares a tool whose arguments are the struct In. The schema is derived from it: json tags give the names, a field
// without omitempty or omitzero is required, a jsonschema tag is its description, an enum tag ("a,b") its only values.
// json.RawMessage together with [Schema] takes arguments as they are.
//
// run answers the call. A Go error becomes an error result with its text, a panic one that says so; the process goes on.
// ctx ends when the host asks to cancel, with a *[Cancelled] as its cause: run then returns soon, and what it returns is
// still the result. Calls run at the same time, each in a goroutine of its own, unless the descriptor says otherwise.
func New[In any](name, description string, run func(ctx context.Context, c *Call, in In) (*Result, error), opts ...Option) Tool {
	t := Tool{descriptor: contract.Descriptor{Name: name, Description: description}}
	if _, raw := any(*new(In)).(json.RawMessage); !raw {
		t.descriptor.InputSchema, t.required, t.err = schemaOf[In]()
	}
	t.apply(opts)
	if t.err == nil {
		t.required, t.err = required(t.descriptor.InputSchema)
	}
	fields := t.required
	t.run = func(ctx context.Context, c *Call, input contract.Input) (*Result, error) {
		in, err := decodeInput[In](input, fields)
		if err != nil {
			return nil, err
		}
		return run(ctx, c, in)
	}
	return t
}

// NewFreeform declares a tool that takes raw text in the grammar of f. Property defaults to "input".
func NewFreeform(name, description string, f contract.Freeform, run func(ctx context.Context, c *Call, text string) (*Result, error), opts ...Option) Tool {
	if f.Property == "" {
		f.Property = "input"
	}
	t := Tool{descriptor: contract.Descriptor{Name: name, Description: description, Freeform: &f}}
	t.apply(opts)
	t.run = func(ctx context.Context, c *Call, input contract.Input) (*Result, error) {
		text, err := freeformText(input, f.Property)
		if err != nil {
			return nil, err
		}
		return run(ctx, c, text)
	}
	return t
}

// freeformText also takes the form for providers without grammars: an object with one string property.
func freeformText(input contract.Input, property string) (string, error) {
	if input.Freeform {
		return input.Text, nil
	}
	object, err := decodeInput[map[string]json.RawMessage](input, []string{property})
	if err != nil {
		return "", err
	}
	var text string
	if err := json.Unmarshal(object[property], &text); err != nil {
		return "", argumentError(object[property], err)
	}
	return text, nil
}

var (
	toolName      = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)
	errNoToolName = errors.New("a tool's name has 1 to 64 letters, digits and underscores")
)

func (t *Tool) apply(opts []Option) {
	if !toolName.MatchString(t.descriptor.Name) {
		t.err = errors.Join(t.err, errNoToolName)
	}
	for _, o := range opts {
		o(t)
	}
	if t.descriptor.Assess && (len(t.descriptor.Effects) > 0 || t.descriptor.ReadOnly) {
		t.err = errors.Join(t.err, errors.New("Effects and ReadOnly count only without Assess"))
	}
}

// check says what is wrong with the declaration.
func (t Tool) check() error {
	if t.err == nil && t.run == nil {
		return errors.New("tool: declared without New or NewFreeform")
	}
	if t.err != nil {
		return fmt.Errorf("tool %q: %w", t.descriptor.Name, t.err)
	}
	return nil
}

// Descriptor returns what the host is told about the tool.
func (t Tool) Descriptor() contract.Descriptor { return t.descriptor }

// ReadOnly says that every call leaves the world as it was.
func ReadOnly() Option { return func(t *Tool) { t.descriptor.ReadOnly = true } }

// ParallelSafe says that calls may run beside other calls.
func ParallelSafe() Option { return func(t *Tool) { t.descriptor.ParallelSafe = true } }

// EffectsByHost says that all a call does to the world is done by the host: by commands that it starts, tools that it calls,
// questions that it asks through its Call. The host can then store the call's start while the call begins already, and
// holds what it asks for until that is done. A tool that writes a file, sends a request or types into a session by itself
// must not say it: what it did might be lost track of when the host is killed.
func EffectsByHost() Option { return func(t *Tool) { t.descriptor.EffectsByHost = true } }

// SerialGroup makes calls of one group run one after the other, also where they are parallel-safe.
func SerialGroup(group string) Option { return func(t *Tool) { t.descriptor.SerialGroup = group } }

// Effects says what every call does outside the conversation.
func Effects(effects ...contract.Effect) Option {
	return func(t *Tool) { t.descriptor.Effects = append(t.descriptor.Effects, effects...) }
}

// Assess sets the function that says what a call would do, without doing it. In is the struct of [New], or string for a
// freeform tool. A Go error, a panic and arguments that can't be decoded answer the call early, with an error.
func Assess[In any](assess func(ctx context.Context, c *AssessCall, in In) (*contract.Assessment, error)) Option {
	return func(t *Tool) {
		t.descriptor.Assess = true
		t.assess = func(ctx context.Context, c *AssessCall, input contract.Input) (*contract.Assessment, error) {
			if f := c.tool.descriptor.Freeform; f != nil {
				text, err := freeformText(input, f.Property)
				if err != nil {
					return nil, err
				}
				input = contract.Input{Text: text, Freeform: true}
			}
			in, err := decodeInput[In](input, c.tool.required)
			if err != nil {
				return nil, err
			}
			return assess(ctx, c, in)
		}
	}
}

// Namespace puts the tool into a namespace.
func Namespace(ns string) Option { return func(t *Tool) { t.descriptor.Namespace = ns } }

// Deferred tools are found by tool search and callable by name.
func Deferred() Option { return func(t *Tool) { t.descriptor.Exposure = contract.ExposureDeferred } }

// Hidden tools are callable and never shown.
func Hidden() Option { return func(t *Tool) { t.descriptor.Exposure = contract.ExposureHidden } }

// Hook sets the name under which hooks see the tool, and names under which they also match it.
func Hook(name string, aliases ...string) Option {
	return func(t *Tool) { t.descriptor.HookName, t.descriptor.HookAliases = name, aliases }
}

// HookField says which argument hooks see under another name.
func HookField(hook, argument string) Option {
	return func(t *Tool) {
		if t.descriptor.HookFields == nil {
			t.descriptor.HookFields = map[string]string{}
		}
		t.descriptor.HookFields[hook] = argument
	}
}

// AbortReadsAsCommand makes an abort read like that of a command, with a line for the wall time.
func AbortReadsAsCommand() Option { return func(t *Tool) { t.descriptor.AbortReadsAsCommand = true } }

// Lenient tools get unknown arguments instead of having them refused.
func Lenient() Option { return func(t *Tool) { t.descriptor.LenientArguments = true } }

// Schema replaces the derived schema of the arguments: JSON Schema 2020-12 of an object.
func Schema(schema json.RawMessage) Option {
	return func(t *Tool) { t.descriptor.InputSchema = schema }
}

// Output declares what [Result.Structured] holds.
func Output[T any]() Option {
	return func(t *Tool) {
		schema, _, err := schemaOf[T]()
		t.descriptor.OutputSchema = schema
		t.err = errors.Join(t.err, err)
	}
}

// SearchText adds words by which tool search finds the tool.
func SearchText(s string) Option { return func(t *Tool) { t.descriptor.SearchText = s } }

// ModelTraits names what a model must have for the tool to be offered, for example "images".
func ModelTraits(traits ...string) Option {
	return func(t *Tool) { t.descriptor.ModelTraits = append(t.descriptor.ModelTraits, traits...) }
}

// Source names the source that the tool belongs to, see [Env.SetTools].
func Source(name string) Option { return func(t *Tool) { t.descriptor.Source = name } }
