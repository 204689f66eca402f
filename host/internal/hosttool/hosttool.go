// Package hosttool implements the tools that gantry itself offers to models, without a plugin.
//
// It owns: the names, schemas and implementations of these tools, and the table that says which threads have them and which models
// are offered them. It must not know: which plugins exist, how a question reaches a person, how permissions are stored.
//
// Start with [Default].
package hosttool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/orchestrate"
	"github.com/gantry-agent/gantry/host/internal/policy"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// LabelPrefix begins the labels of all host tools. The label of a plugin can't contain a colon.
const LabelPrefix = "gantry:"

// Tool is one row of the table.
type Tool struct {
	Label      string // begins with [LabelPrefix]
	Descriptor contract.Descriptor
	// Describe returns the description if it depends on the other tools; nil: it is the descriptor's. row is the model's.
	Describe func(others *registry.Snapshot, row llm.ModelRow) string
	// Search says that the tool finds deferred tools. Models that are trained to look for tools are offered it as such, others as a
	// function.
	Search bool
	// Target returns the call of another tool that the input stands for; nil: see [registry.Entry].
	Target func(input string) *llm.ToolCall
	// Offer decides by role, settings and model. A model may change during a turn, so it only decides between Offered and Hidden.
	Offer func(Conditions) Offer
	orchestrate.HostTool

	schema func() (*contract.Validator, error)
}

// Offer says whether a thread has a tool and whether its model is offered it.
type Offer int

// The values of [Offer].
const (
	Absent  Offer = iota // a call fails as one of an unknown tool
	Hidden               // the model is not offered the tool; a call is answered
	Offered              // the model is offered the tool
)

// Conditions are what the table decides by.
type Conditions struct {
	Unattended            bool // role: no person answers for the thread
	Approval              policy.Approval
	Sandbox               string             // mode
	AdditionalPermissions bool               // setting: permissions may be requested
	GranularPermissions   bool               // setting of the granular approval policy: such requests are put to a person
	Plan                  bool               // setting: models show their plans
	Goals                 bool               // the thread may have a goal
	Others                *registry.Snapshot // the tools of plugins; set by [Table.Extend]
	Model                 llm.ModelRow       // zero until the tools are declared to a model
}

// Table holds the host tools in the order in which models are offered them.
type Table []Tool

// Default returns the table of gantry's own tools, which callers must not change. It is made once, because each thread needs it at its
// start, where checking the tools' schemas took a third of the time.
func Default() Table { return standard() }

var standard = sync.OnceValue(func() Table { return slices.Clip(New(updatePlan(), requestPermissions(), search(), callFound())) })

// New makes a table. Its rows are constants of the program, so an invalid one is a panic.
func New(tools ...Tool) Table {
	for i := range tools {
		if err := tools[i].prepare(); err != nil {
			panic(fmt.Sprintf("hosttool %s: %v", tools[i].Label, err))
		}
	}
	return tools
}

func (t *Tool) prepare() error {
	if !strings.HasPrefix(t.Label, LabelPrefix) {
		return fmt.Errorf("the label does not begin with %q", LabelPrefix)
	}
	if err := t.Descriptor.Validate(); err != nil || t.Descriptor.Freeform != nil {
		return err
	}
	if !t.Descriptor.UncheckedArguments {
		t.schema = registry.Arguments(t.Descriptor.InputSchema, false)
	}
	return nil
}

// Reserve reserves the names of all tools in r, whether or not a thread has them.
func (t Table) Reserve(r *registry.Registry) {
	for i := range t {
		r.Reserve(t[i].Descriptor.Namespace, t[i].Descriptor.Name, t[i].Label)
	}
}

// Tool finds the implementation of the tool with a label.
func (t Table) Tool(label string) (orchestrate.HostTool, bool) {
	for i := range t {
		if t[i].Label == label {
			return t[i].HostTool, true
		}
	}
	return orchestrate.HostTool{}, false
}

// Extend returns the catalogue with the host tools that a thread has.
func (t Table) Extend(others *registry.Snapshot, c Conditions) *registry.Snapshot {
	c.Others = others
	var entries []*registry.Entry
	for i := range t {
		if e := t[i].entry(c); e != nil {
			entries = append(entries, e)
		}
	}
	return others.With(entries...)
}

// entry returns the tool's entry in the catalogue; nil: the thread does not have it.
func (t *Tool) entry(c Conditions) *registry.Entry {
	e := &registry.Entry{HostTool: t.Label, Descriptor: t.Descriptor, Schema: t.schema, Finds: t.Search, Target: t.Target}
	switch t.Offer(c) {
	case Absent:
		return nil
	case Hidden:
		e.Exposure = contract.ExposureHidden
	}
	e.Declare = func(row llm.ModelRow) (llm.Tool, bool) {
		c := c
		c.Model = row
		declared := e.Declaration(row)
		if t.Describe != nil {
			declared.Description = t.Describe(c.Others, row)
		}
		declared.Search = t.Search && searches(row)
		return declared, t.Offer(c) == Offered
	}
	return e
}

// Func implements a tool whose descriptor says all that the policy has to know, so that its calls need no assessment.
type Func func(ctx context.Context, c *orchestrate.HostCall, in contract.Input) (*contract.Result, error)

// Backend returns the implementation of one call, for [orchestrate.HostTool].
func (f Func) Backend(c *orchestrate.HostCall) orchestrate.ToolBackend { return funcCall{f, c} }

// funcCall is one call of a [Func].
type funcCall struct {
	f Func
	c *orchestrate.HostCall
}

// Assess implements [orchestrate.ToolBackend]. It is never called: the descriptor does not ask for it.
func (funcCall) Assess(context.Context, contract.AssessRequest) (*contract.Assessment, error) {
	return &contract.Assessment{}, nil
}

// Call implements [orchestrate.ToolBackend].
func (f funcCall) Call(ctx context.Context, start contract.CallStart, _ tool.Control, _ func(contract.CallEvent)) (*contract.Result, error) {
	return f.f(ctx, f.c, start.Input)
}
