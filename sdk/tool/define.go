package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Tool is a tool declaration. Create it with [New] or [NewFreeform].
type Tool struct {
	descriptor contract.Descriptor
	required   []string
	run        func(ctx context.Context, c *Call, in contract.Input) (*Result, error)
	assess     func(ctx context.Context, c *AssessCall, in contract.Input) (*contract.Assessment, error)
	err        error // an invalid declaration; reported when the plugin starts
}

// Option is an option of [New] and [NewFreeform].
type Option func(*Tool)

// New declares a tool with arguments of type In. The schema is derived from the struct: json tags define the names; a field
// without omitempty or omitzero is required; a jsonschema tag is the description; an enum tag ("a,b") lists the allowed
// values. Use json.RawMessage together with [Schema] to receive the arguments unparsed.
//
// run handles a call. If it returns a Go error, the call gets an error result with its text; if it panics, the call gets an
// error result that says so, and the process keeps running. ctx ends when the host cancels the call, with a *[Cancelled] as
// its cause: run should then return soon, and its return value is still the result. Calls run concurrently, each in its own
// goroutine, unless the descriptor says otherwise.
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
	f.Property = cmp.Or(f.Property, "input")
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

// freeformText returns the text of a freeform call. Providers without grammars send an object with one string property
// instead.
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

func (t *Tool) apply(opts []Option) {
	for _, o := range opts {
		o(t)
	}
	if t.descriptor.Assess && (len(t.descriptor.Effects) > 0 || t.descriptor.ReadOnly) {
		t.err = errors.Join(t.err, errors.New("Effects and ReadOnly can't be combined with Assess"))
	}
}

// check returns the errors of the declaration.
func (t Tool) check() error {
	if t.err == nil && t.run == nil {
		return errors.New("tool: declared without New or NewFreeform")
	}
	if t.err != nil {
		return fmt.Errorf("tool %q: %w", t.descriptor.Name, t.err)
	}
	return nil
}

// Descriptor returns the descriptor that is sent to the host.
func (t Tool) Descriptor() contract.Descriptor { return t.descriptor }

// ReadOnly declares that no call has side effects.
func ReadOnly() Option { return func(t *Tool) { t.descriptor.ReadOnly = true } }

// ParallelSafe declares that calls may run concurrently with other calls.
func ParallelSafe() Option { return func(t *Tool) { t.descriptor.ParallelSafe = true } }

// EffectsByHost declares that the host performs all side effects of a call: commands that it starts, tools that it calls,
// and questions that it asks through its Call. The host can then start the call while it is still storing the start, and
// hold back these requests until that is done. A tool that writes a file, sends a request or sends input to a session on
// its own must not declare it: if the host is killed, these side effects could be lost track of.
func EffectsByHost() Option { return func(t *Tool) { t.descriptor.EffectsByHost = true } }

// SerialGroup makes calls in the same group run one at a time, even if they are parallel-safe.
func SerialGroup(group string) Option { return func(t *Tool) { t.descriptor.SerialGroup = group } }

// Effects declares the side effects of every call.
func Effects(effects ...contract.Effect) Option {
	return func(t *Tool) { t.descriptor.Effects = append(t.descriptor.Effects, effects...) }
}

// Assess sets the function that determines what a call would do, without doing it. In is the type of [New], or string for a
// freeform tool. If it returns a Go error or panics, or if the arguments can't be decoded, the call is answered early with
// an error.
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

// Deferred declares that the tool is found by tool search and then callable by name.
func Deferred() Option { return func(t *Tool) { t.descriptor.Exposure = contract.ExposureDeferred } }

// Hidden declares that the tool is callable but never shown to the model.
func Hidden() Option { return func(t *Tool) { t.descriptor.Exposure = contract.ExposureHidden } }

// ModelOnly declares that only the model may call the tool, not other calls, for example those of code.
func ModelOnly() Option { return func(t *Tool) { t.descriptor.Nesting = contract.NestingNever } }

// CodeOnly declares that only other calls may call the tool, for example those of code. The model neither sees nor finds it.
func CodeOnly() Option { return func(t *Tool) { t.descriptor.Nesting = contract.NestingOnly } }

// Hook sets the name under which hooks see the tool, and additional names that hook matchers match.
func Hook(name string, aliases ...string) Option {
	return func(t *Tool) { t.descriptor.HookName, t.descriptor.HookAliases = name, aliases }
}

// HookField sets the name under which hooks see an argument.
func HookField(hook, argument string) Option {
	return func(t *Tool) {
		if t.descriptor.HookFields == nil {
			t.descriptor.HookFields = map[string]string{}
		}
		t.descriptor.HookFields[hook] = argument
	}
}

// AbortReadsAsCommand reports an abort like that of a command, with a wall-time line.
func AbortReadsAsCommand() Option { return func(t *Tool) { t.descriptor.AbortReadsAsCommand = true } }

// Lenient makes the host pass on unknown arguments instead of rejecting them.
func Lenient() Option { return func(t *Tool) { t.descriptor.LenientArguments = true } }

// UncheckedArguments makes the host pass on any JSON object, and leaves it to the tool to check it. It is for schemas of others
// that the host can't compile; models are shown such a schema as it is.
func UncheckedArguments() Option {
	return func(t *Tool) { t.descriptor.UncheckedArguments = true }
}

// Schema replaces the derived schema of the arguments. It is a JSON Schema (2020-12) of an object.
func Schema(schema json.RawMessage) Option {
	return func(t *Tool) { t.descriptor.InputSchema = schema }
}

// Output declares the type of [Result.Structured].
func Output[T any]() Option {
	return func(t *Tool) {
		schema, _, err := schemaOf[T]()
		t.descriptor.OutputSchema = schema
		t.err = errors.Join(t.err, err)
	}
}

// OutputSchema is [Output] with a JSON Schema (2020-12) instead of a type.
func OutputSchema(schema json.RawMessage) Option {
	return func(t *Tool) { t.descriptor.OutputSchema = schema }
}

// Changes says what has changed in the declaration since the tool was last called. The host shows it to people who are asked about a
// call. Approvals are not bound to it.
func Changes(text string) Option { return func(t *Tool) { t.descriptor.Changes = text } }

// SearchText adds words for tool search.
func SearchText(s string) Option { return func(t *Tool) { t.descriptor.SearchText = s } }

// ModelTraits lists the traits that a model must have for the tool to be offered, for example "images".
func ModelTraits(traits ...string) Option {
	return func(t *Tool) { t.descriptor.ModelTraits = append(t.descriptor.ModelTraits, traits...) }
}

// Source sets the tool's source, see [Env.SetTools].
func Source(name string) Option { return func(t *Tool) { t.descriptor.Source = name } }
