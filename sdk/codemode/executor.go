package codemode

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

// disposeTime is the time that the disposal of a run's resources may take in all, also after the run was cancelled.
const disposeTime = 10 * time.Second

// logBytes bounds the console output that is kept.
const logBytes = 1 << 20

// childArgument makes a program that links package child run a script.
const childArgument = "gantry-codemode-child"

// Wanted reports whether the program was started by an [Executor] without a Command, and must call child.Main and exit.
func Wanted(args []string) bool { return len(args) == 2 && args[1] == childArgument }

// Func is a function that code can call. args are JSON; absent arguments are absent. The result is marshalled to JSON. Use [Bytes]
// for binary data. An error is thrown in the script. Calls run concurrently, and must return soon after ctx has ended.
type Func func(ctx context.Context, args []json.RawMessage) (any, error)

// Function is a function with its declaration.
type Function struct {
	Declaration
	Call          Func
	NeedsApproval bool // code can't wait for an approval: the function is left out
}

// Provider is a set of functions below one global name.
type Provider struct {
	Name      string // empty: codemode
	Functions []Function
	Types     string // TypeScript; empty: Declarations of the functions
	Prelude   string // see frame.Namespace
	// Positional passes all arguments. Otherwise a function gets the first one, and it is validated against the schema.
	Positional bool
	// CreateRuntime makes what one execution needs, before the code runs. nil: nothing.
	CreateRuntime func(ctx context.Context) (*Runtime, error)
}

func (p Provider) name() string {
	if p.Name == "" {
		return "codemode"
	}
	return p.Name
}

// callable returns the functions that code can call.
func (p Provider) callable() []Function {
	return slices.DeleteFunc(slices.Clone(p.Functions), func(f Function) bool { return f.Call == nil || f.NeedsApproval })
}

// TypeScript returns the declarations of what code can call, as a model reads them.
func (p Provider) TypeScript() string {
	if p.Types != "" {
		return p.Types
	}
	var list []Declaration
	for _, f := range p.callable() {
		list = append(list, f.Declaration)
	}
	return Declarations(p.name(), list)
}

// Runtime is what a provider makes for one execution.
type Runtime struct {
	Fns map[string]Func // take the place of the provider's functions of the same names
	// Dispose releases the runtime. It is called exactly once, when no call runs any more, however the execution has ended.
	Dispose func(ctx context.Context) error
}

// Outcome is how an execution has ended.
type Outcome struct {
	Result json.RawMessage // nil: undefined, or an error
	Error  string          // empty: none
	Cause  frame.Cause     // of an error of the script; empty for one of a provider
	Logs   []string        // lines of the console, also after an error
}

// Executor runs code. Its zero value re-executes the program that uses it, which must call [Wanted] first.
type Executor struct {
	Command []string // serves package child's protocol, such as gantry-codemode
	Limits  Limits
	// Log is called with each line of the console as soon as it is written, one at a time. nil: there is only what the outcome has.
	Log func(line string)
}

// Execute runs code with the functions of the providers. It never fails otherwise than in the outcome.
func (e *Executor) Execute(ctx context.Context, code string, providers []Provider) (out Outcome) {
	o := &dispatcher{functions: map[string]map[string]target{}, live: e.Log}
	var names []string
	for _, p := range providers {
		names = append(names, p.name())
	}
	if err := checkNamespaces(names); err != nil {
		return Outcome{Error: err.Error()}
	}
	var disposers []func(context.Context) error
	defer func() {
		// The run's context may have ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), disposeTime)
		defer cancel()
		for _, dispose := range slices.Backward(disposers) {
			if err := protect(func() error { return dispose(ctx) }); err != nil && out.Error == "" {
				out.Result, out.Error = nil, "Runtime dispose failed: "+err.Error()
			}
		}
	}()
	var spaces []frame.Namespace
	for _, p := range providers {
		var runtime *Runtime
		if p.CreateRuntime != nil {
			err := protect(func() (err error) { runtime, err = p.CreateRuntime(ctx); return err })
			if err != nil {
				return Outcome{Error: err.Error()}
			}
			if runtime != nil && runtime.Dispose != nil {
				disposers = append(disposers, runtime.Dispose)
			}
		}
		if err := o.add(p, runtime); err != nil {
			return Outcome{Error: err.Error()}
		}
		spaces = append(spaces, frame.Namespace{Name: p.name(), Prelude: p.Prelude})
	}
	command := e.Command
	if len(command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return Outcome{Error: "find the program that runs scripts: " + err.Error()}
		}
		command = []string{self, childArgument}
	}
	done := Start(ctx, command, Script{Code: code, Namespaces: spaces, Limits: e.Limits}, o).Wait()
	out = Outcome{Result: done.Value, Logs: o.lines()}
	if done.Error != nil {
		out.Error, out.Cause = done.Error.Message, done.Error.Cause
		if strings.HasSuffix(out.Error, "is not defined") {
			out.Error += " (the only globals available in the sandbox are: " + strings.Join(names, ", ") + ")"
		}
	}
	return out
}

// protect turns a panic of a provider into an error.
func protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// target is a function that a script can call.
type target struct {
	call       Func
	positional bool
	schema     json.RawMessage
}

// dispatcher is the owner of an executor's session.
type dispatcher struct {
	functions map[string]map[string]target // by namespace and callable name
	live      func(line string)            // optional

	mu      sync.Mutex
	logs    []string
	size    int
	omitted int
}

// add adds the functions of a provider.
func (d *dispatcher) add(p Provider, r *Runtime) error {
	all := map[string]target{}
	var names []string
	for _, f := range p.callable() {
		names = append(names, f.Name)
		all[f.Name] = target{f.Call, p.Positional, f.Input}
	}
	if r != nil {
		for n, f := range r.Fns {
			names = append(names, n)
			t := all[n]
			t.call, t.positional = f, p.Positional
			all[n] = t
		}
	}
	slices.Sort(names)
	of, err := callable(p.name(), names)
	if err != nil {
		return err
	}
	d.functions[p.name()] = map[string]target{}
	for c, n := range of {
		d.functions[p.name()][c] = all[n]
	}
	return nil
}

// Call implements [Owner].
func (d *dispatcher) Call(ctx context.Context, c frame.Call) (value json.RawMessage, err error) {
	t, ok := d.functions[c.Namespace][c.Name]
	if !ok {
		return nil, nameError(fmt.Sprintf("Tool %q not found", c.Name))
	}
	args := c.Args
	if !t.positional && len(args) > 1 {
		args = args[:1]
	}
	if !t.positional && len(t.schema) > 0 {
		if err := validate(t.schema, args); err != nil {
			return nil, err
		}
	}
	err = protect(func() error {
		result, err := t.call(ctx, args)
		if err != nil || result == nil {
			return err
		}
		value, err = json.Marshal(result)
		return err
	})
	return value, err
}

// validate checks the argument of a function against its schema.
func validate(text json.RawMessage, args []json.RawMessage) error {
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		return fmt.Errorf("the function's schema is invalid: %w", err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return fmt.Errorf("the function's schema is invalid: %w", err)
	}
	var value any = map[string]any{}
	if len(args) > 0 {
		if err := json.Unmarshal(args[0], &value); err != nil {
			return err
		}
	}
	if err := resolved.Validate(value); err != nil {
		return fmt.Errorf("invalid argument: %w", err)
	}
	return nil
}

// Emit implements [Owner]. No one reads what an executor's preludes send.
func (d *dispatcher) Emit(frame.Emit) {}

// Log implements [Owner].
func (d *dispatcher) Log(line string) {
	if d.live != nil {
		d.live(line)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size += len(line) + 1; d.size > logBytes {
		d.omitted++
		return
	}
	d.logs = append(d.logs, line)
}

func (d *dispatcher) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.omitted > 0 {
		return append(d.logs, fmt.Sprintf("[%d more lines omitted]", d.omitted))
	}
	return d.logs
}
