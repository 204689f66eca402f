// Package registry is the catalogue of the tools that a thread can use.
//
// It owns: which tools exist, their names and schemas, the state of their sources, their declarations to models, and the validation of
// arguments. It must not know: how a tool is called, what it does, any tool by name.
//
// Start with [Registry]. A [Snapshot] is immutable; a turn takes one for each request to the model.
package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/sync/errgroup"
)

// Entry is one tool.
type Entry struct {
	contract.Descriptor
	Plugin   string // label; empty for host tools
	HostTool string // reserved label; empty for tools of plugins
	Client   bool   // a client of the thread implements the host tool
	Revision string // of the tool set it came with
	Digest   string // of the descriptor: remembered approvals are bound to it; empty for gantry's own tools
	// Schema returns the validator of the arguments, see [Arguments]; nil for freeform tools, and for those that check their arguments
	// themselves.
	Schema func() (*contract.Validator, error)
	// Declare returns how a model is offered a host tool, or false if the model is not; nil: by the descriptor, as for tools of plugins.
	Declare func(row llm.ModelRow) (llm.Tool, bool)
	// Finds says that the host tool finds deferred tools: a model that is offered it is not offered those.
	Finds bool
	// Target returns the call of another tool that the host tool's input stands for; nil: it stands for none.
	Target func(input string) *llm.ToolCall

	sent  *contract.Descriptor // by the plugin
	about string               // see SchemaText; empty: not known yet
}

// FullName returns the name with its namespace, as people read it.
func (e *Entry) FullName() string { return FullName(e.Namespace, e.Name) }

// FullName joins a namespace and a name.
func FullName(namespace, name string) string {
	if namespace == "" || namespace == DefaultNamespace {
		return name
	}
	return namespace + "." + name
}

// DefaultNamespace is the namespace of tools that have none.
const DefaultNamespace = "functions"

type key struct{ namespace, name string }

func keyOf(namespace, name string) key {
	if namespace == DefaultNamespace {
		namespace = ""
	}
	return key{namespace, name}
}

// Registry holds the tool sets of all plugins. Safe for concurrent use.
type Registry struct {
	owners map[key]string // labels of the host tools whose names are reserved
	mu     struct {
		sync.Mutex
		order   []string // of plugin labels: that of the configuration
		sets    map[string]contract.ToolSet
		began   map[string]map[string]time.Time // by plugin: since when its sources that are starting have been
		built   map[string][]*Entry
		snap    *Snapshot
		changed chan struct{} // closed and replaced when a set or a source changes
	}
}

// New makes an empty registry, in which the plugins have the order of their labels.
func New(labels ...string) *Registry {
	r := &Registry{owners: map[key]string{}}
	r.mu.order = slices.Clone(labels)
	r.mu.sets = map[string]contract.ToolSet{}
	r.mu.began = map[string]map[string]time.Time{}
	r.mu.built = map[string][]*Entry{}
	r.mu.changed = make(chan struct{})
	return r
}

// Reserve keeps a name for a host tool: a plugin's tool of that name is left out. All names are reserved before the registry is used.
func (r *Registry) Reserve(namespace, name, owner string) { r.owners[keyOf(namespace, name)] = owner }

// Set replaces the tools of a plugin. Invalid tools are left out; the problems name them.
func (r *Registry) Set(plugin string, set contract.ToolSet) (problems []error) {
	entries := make([]*Entry, 0, len(set.Tools))
	seen := map[key]bool{}
	made, errs := r.make(plugin, set)
	for i := range set.Tools {
		d, e, err := &set.Tools[i], made[i], errs[i]
		k := keyOf(d.Namespace, d.Name)
		if owner := r.owners[k]; err == nil && owner != "" {
			err = hint.New(fmt.Sprintf("its name is reserved for the host tool %q", owner), "rename it, or give it a namespace")
		}
		if err == nil {
			err = set.CheckSource(d)
		}
		if err == nil && seen[k] {
			err = fmt.Errorf("declared twice")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("tool %q is left out: %w", FullName(d.Namespace, d.Name), err))
			continue
		}
		seen[k] = true
		entries = append(entries, e)
	}
	set.Sources = slices.Clone(set.Sources)
	for i, s := range set.Sources {
		set.Sources[i] = presented(s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.mu.order, plugin) {
		r.mu.order = append(r.mu.order, plugin)
	}
	began := map[string]time.Time{}
	for _, s := range set.Sources {
		if s.State != contract.SourceStarting {
			continue
		}
		if !slices.ContainsFunc(r.mu.sets[plugin].Sources, func(old contract.Source) bool { return old.Name == s.Name && old.State == s.State }) {
			began[s.Name] = time.Now()
			continue
		}
		began[s.Name] = r.mu.began[plugin][s.Name]
	}
	r.mu.began[plugin] = began
	r.mu.sets[plugin] = set
	r.mu.built[plugin] = entries
	r.mu.snap = nil
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
	return problems
}

// Remove removes the tools of a plugin.
func (r *Registry) Remove(plugin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.sets, plugin)
	delete(r.mu.began, plugin)
	delete(r.mu.built, plugin)
	r.mu.snap = nil
}

// Snapshot returns the current catalogue. If two plugins have a tool of the same name, the first plugin's is used.
func (r *Registry) Snapshot() *Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.snap != nil {
		return r.mu.snap
	}
	n := 0
	for _, built := range r.mu.built {
		n += len(built)
	}
	s := &Snapshot{byName: make(map[key]*Entry, n), entries: make([]*Entry, 0, n), said: map[string]Said{}}
	for _, plugin := range r.mu.order {
		descriptions := map[string]string{}
		for _, source := range r.mu.sets[plugin].Sources {
			descriptions[source.Name] = source.Description
		}
		for _, e := range r.mu.built[plugin] {
			k := keyOf(e.Namespace, e.Name)
			if first, ok := s.byName[k]; ok {
				s.Collisions = append(s.Collisions, fmt.Sprintf(
					"tool %q of plugin %q is hidden by the one of plugin %q", e.FullName(), plugin, first.Plugin))
				continue
			}
			s.byName[k] = e
			s.entries = append(s.entries, e)
			if _, ok := s.said[k.namespace]; !ok && k.namespace != "" && descriptions[e.Source] != "" {
				s.said[k.namespace] = Said{plugin, e.Source, descriptions[e.Source]}
			}
		}
	}
	r.mu.snap = s
	return s
}

// make makes an entry or an error for each tool of a set. A tool that has not changed since the plugin's last set keeps its entry, since a
// set comes with each change of a source.
func (r *Registry) make(plugin string, set contract.ToolSet) ([]*Entry, []error) {
	r.mu.Lock()
	last := make(map[key]*Entry, len(r.mu.built[plugin]))
	for _, e := range r.mu.built[plugin] {
		last[keyOf(e.Namespace, e.Name)] = e
	}
	r.mu.Unlock()
	entries, errs := make([]*Entry, len(set.Tools)), make([]error, len(set.Tools))
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < len(set.Tools); from += atOnce {
		work.Go(func() error {
			for i := from; i < min(from+atOnce, len(set.Tools)); i++ {
				d := &set.Tools[i]
				if e := last[keyOf(d.Namespace, d.Name)]; e != nil && reflect.DeepEqual(e.sent, d) {
					again := *e
					again.Revision, again.sent = set.Revision, d
					entries[i] = &again
					continue
				}
				entries[i], errs[i] = newEntry(plugin, set.Revision, d)
			}
			return nil
		})
	}
	_ = work.Wait() // errs has the errors
	return entries, errs
}

// atOnce is the number of tools that a goroutine checks: enough to be worth it.
const atOnce = 100

func newEntry(plugin, revision string, sent *contract.Descriptor) (*Entry, error) {
	d := *sent
	// The keys of a cached manifest are in another order than those that the plugin sent. That must change neither the request,
	// whose beginning vendors cache by its bytes, nor the digest of approvals.
	var schema any
	d.InputSchema, schema = sorted(d.InputSchema)
	d.OutputSchema, _ = sorted(d.OutputSchema)
	if err := d.Validate(); err != nil {
		return nil, err
	}
	e := &Entry{Descriptor: d, Plugin: plugin, Revision: revision, sent: sent, about: schemaText(schema)}
	d.Changes = "" // it says how the tool has come to be as it is
	b, err := json.Marshal(struct {
		D contract.Descriptor
		E any
	}{d, d.Effects})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	e.Digest = hex.EncodeToString(sum[:])
	if d.Freeform != nil || d.UncheckedArguments {
		return e, nil
	}
	e.Schema = Arguments(d.InputSchema, d.LenientArguments)
	if d.LenientArguments { // a reference may lead to what is left out
		if _, err := e.Schema(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Arguments returns a function that compiles a valid schema of arguments when it is called first: most tools are never called. lenient
// permits properties that the schema doesn't have.
func Arguments(raw json.RawMessage, lenient bool) func() (*contract.Validator, error) {
	return sync.OnceValues(func() (*contract.Validator, error) {
		schema, err := contract.ParseSchema(raw)
		if err != nil {
			return nil, fmt.Errorf("input schema: %w", err)
		}
		if lenient && schema.AdditionalProperties != nil {
			schema.AdditionalProperties = &jsonschema.Schema{} // not nil: a reference may lead to it, and the library would follow it
		}
		v, err := contract.Compile(schema)
		if err != nil {
			return nil, fmt.Errorf("input schema: %w", err)
		}
		return v, nil
	})
}

// SchemaText returns the names of properties and the descriptions in the schema of the arguments, separated by spaces: a search looks
// through them.
func (e *Entry) SchemaText() string {
	if e.about != "" {
		return e.about
	}
	_, schema := sorted(e.InputSchema)
	return schemaText(schema)
}

func schemaText(schema any) string {
	var parts []string
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if text, ok := value.(string); ok && (key == "description" || key == "title") {
					parts = append(parts, text)
				}
				if properties, ok := value.(map[string]any); ok && key == "properties" {
					parts = slices.AppendSeq(parts, maps.Keys(properties))
				}
				visit(value)
			}
		case []any:
			for _, value := range v {
				visit(value)
			}
		}
	}
	visit(schema)
	return strings.Join(parts, " ")
}

// sorted returns JSON with sorted keys and without insignificant space, and its value; invalid JSON is returned unchanged, with nil.
func sorted(raw json.RawMessage) (json.RawMessage, any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if len(raw) == 0 || d.Decode(&v) != nil {
		return raw, nil
	}
	if _, err := d.Token(); err != io.EOF { // something follows
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return raw, nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), v
}

// Parse validates the input of a call against the tool's kind and schema. The error is for the model.
func (e *Entry) Parse(c *llm.ToolCall) (contract.Input, error) {
	if e.Freeform != nil {
		if c.Freeform {
			return contract.Input{Text: c.Input, Freeform: true}, nil
		}
		// Models without grammars are offered the tool as a function with one string property.
		var args map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.Input), &args); err != nil {
			return contract.Input{}, ArgumentsError(err)
		}
		var text string
		if err := json.Unmarshal(args[e.Freeform.Property], &text); err != nil || e.Freeform.Property == "" {
			return contract.Input{}, fmt.Errorf("failed to parse function arguments: missing field `%s`", e.Freeform.Property)
		}
		return contract.Input{Text: text, Freeform: true}, nil
	}
	if c.Freeform {
		return contract.Input{}, fmt.Errorf("%s takes JSON arguments, not raw text", e.FullName())
	}
	raw := []byte(c.Input)
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	var args any
	if err := json.Unmarshal(raw, &args); err != nil {
		return contract.Input{}, ArgumentsError(err)
	}
	if e.UncheckedArguments {
		if _, ok := args.(map[string]any); !ok {
			return contract.Input{}, ArgumentsError(errors.New("they are not a JSON object"))
		}
		return contract.Input{Arguments: raw}, nil
	}
	schema, err := e.Schema()
	if err != nil {
		return contract.Input{}, fmt.Errorf("%s can't be called: %w", e.FullName(), err)
	}
	err = schema.Validate(args)
	if err == nil {
		return contract.Input{Arguments: raw}, nil
	}
	if less, ok := withoutNulls(schema.Schema(), raw); ok {
		var args any
		if err = json.Unmarshal(less, &args); err == nil {
			err = schema.Validate(args)
		}
		if err == nil {
			return contract.Input{Arguments: less}, nil
		}
	}
	return contract.Input{}, ArgumentsError(validationText(err))
}

// withoutNulls removes optional properties that are null. Models that were trained on schemas without optional properties write null for
// the default. false: there are none.
func withoutNulls(schema *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil {
		return raw, false
	}
	changed := false
	for name, value := range object {
		property := schema.Properties[name]
		switch {
		case property == nil, slices.Contains(property.Types, "null"), property.Type == "" && property.Types == nil:
		case string(value) != "null":
			if less, ok := withoutNulls(property, value); ok {
				object[name], changed = less, true
			}
		case !slices.Contains(schema.Required, name):
			delete(object, name)
			changed = true
		}
	}
	if !changed {
		return raw, false
	}
	less, err := json.Marshal(object)
	return less, err == nil
}

// ArgumentsError words an error in a call's arguments for the model.
func ArgumentsError(err error) error {
	return fmt.Errorf("failed to parse function arguments: %w", err)
}

// validationText replaces the schema path in a validator's error by the name of the argument, as the model does not know schema paths.
func validationText(err error) error {
	s := err.Error()
	i := strings.LastIndex(s, "validating ")
	if i < 0 {
		return err
	}
	where, rest, ok := strings.Cut(s[i+len("validating "):], ": ")
	if !ok {
		return err
	}
	if name := argumentName(where); name != "" {
		return fmt.Errorf("`%s`: %s", name, rest)
	}
	return errors.New(rest)
}

// argumentName turns /properties/a/items/properties/b into a.b; "" means the arguments as a whole.
func argumentName(schemaPath string) string {
	var names []string
	steps := strings.Split(schemaPath, "/")
	for i := 0; i+1 < len(steps); i++ {
		if steps[i] == "properties" {
			names = append(names, steps[i+1])
			i++
		}
	}
	return strings.Join(names, ".")
}

// Snapshot is an immutable catalogue.
type Snapshot struct {
	byName     map[key]*Entry // those that differ from base
	base       *Snapshot      // nil: none; shared, since it may have ten thousand tools and one is made for each request to the model
	entries    []*Entry
	said       map[string]Said // by namespace
	Collisions []string
}

// With returns the catalogue with host tools after the tools that it has.
func (s *Snapshot) With(hostTools ...*Entry) *Snapshot {
	out := &Snapshot{byName: map[key]*Entry{}, base: s, entries: slices.Concat(s.entries, hostTools), Collisions: s.Collisions, said: s.said}
	for _, e := range hostTools {
		out.byName[keyOf(e.Namespace, e.Name)] = e
	}
	return out
}

// Lookup finds a tool by namespace and name. An empty namespace is the default one.
func (s *Snapshot) Lookup(namespace, name string) (*Entry, bool) {
	e := s.find(keyOf(namespace, name))
	return e, e != nil
}

func (s *Snapshot) find(k key) *Entry {
	for ; s != nil; s = s.base {
		if e, ok := s.byName[k]; ok {
			return e
		}
	}
	return nil
}

// Entries lists all tools in order. The slice is shared.
func (s *Snapshot) Entries() []*Entry { return s.entries }

// ModelTools returns the tools that a model is offered: those that are not hidden, that models may call, and whose required traits the
// model has. Deferred tools are left out if the model is offered a tool that searches for them; it can call them by name in either case.
func (s *Snapshot) ModelTools(row llm.ModelRow) []llm.Tool {
	traits := row.Traits()
	searches := slices.ContainsFunc(s.entries, func(e *Entry) bool {
		if !e.Finds {
			return false
		}
		_, ok := e.Declare(row)
		return ok
	})
	var out []llm.Tool
	for _, e := range s.entries {
		switch {
		case e.Declare != nil:
			if t, ok := e.Declare(row); ok {
				out = append(out, t)
			}
		case e.Exposure == contract.ExposureHidden, e.Exposure == contract.ExposureDeferred && searches, !e.Suits(traits),
			e.Nesting == contract.NestingOnly:
		default:
			out = append(out, e.Declaration(row))
		}
	}
	return out
}

// Only returns the catalogue without the tools that keep rejects.
func (s *Snapshot) Only(keep func(*Entry) bool) *Snapshot {
	out := &Snapshot{byName: map[key]*Entry{}, Collisions: s.Collisions, said: s.said}
	for _, e := range s.entries {
		if keep(e) {
			out.entries = append(out.entries, e)
		}
	}
	for layer := s; layer != nil; layer = layer.base {
		for k, e := range layer.byName {
			if s.find(k) == e && keep(e) {
				out.byName[k] = e
			}
		}
	}
	return out
}

// CodeOnly returns the catalogue in which tools that code can call are called only by code.
func (s *Snapshot) CodeOnly() *Snapshot {
	out := &Snapshot{byName: map[key]*Entry{}, base: s, entries: slices.Clone(s.entries), Collisions: s.Collisions, said: s.said}
	for i, e := range out.entries {
		if e.Nesting == contract.NestingNever || e.Exposure == contract.ExposureHidden {
			continue
		}
		only := *e
		only.Nesting, only.Declare = contract.NestingOnly, nil
		out.entries[i] = &only
		if k := keyOf(e.Namespace, e.Name); out.find(k) == e {
			out.byName[k] = &only
		}
	}
	return out
}

// CodeTools returns the tools that calls can find and call in a thread whose model has these traits.
func (s *Snapshot) CodeTools(traits []string) []*Entry {
	var out []*Entry
	for _, e := range s.entries {
		if e.Exposure != contract.ExposureHidden && e.Nesting != contract.NestingNever && e.Suits(traits) {
			out = append(out, e)
		}
	}
	return out
}

// CheckCaller returns an error if the tool may not be called by another call (nested) or by the model (not nested). It is for the caller.
func (e *Entry) CheckCaller(nested bool) error {
	switch {
	case nested && e.Nesting == contract.NestingNever:
		return fmt.Errorf("%s can only be called by the model itself, not by code or another tool", e.FullName())
	case !nested && e.Nesting == contract.NestingOnly:
		return fmt.Errorf("%s can only be called by code or another tool, not by the model itself", e.FullName())
	}
	return nil
}

// Suits reports whether a model with these traits can be offered the tool.
func (e *Entry) Suits(traits []string) bool {
	return !slices.ContainsFunc(e.ModelTraits, func(t string) bool { return !slices.Contains(traits, t) })
}

// Declaration is the tool as a model is offered it. Freeform tools become functions if the model's row does not list grammars.
func (e *Entry) Declaration(row llm.ModelRow) llm.Tool {
	t := llm.Tool{Name: e.Name, Namespace: e.Namespace, Description: e.Description, InputSchema: e.InputSchema}
	if f := e.Freeform; f != nil {
		if slices.Contains(row.ToolKinds, "freeform") {
			t.Freeform = &llm.Freeform{Syntax: f.Syntax, Definition: f.Definition, Property: f.Property}
		} else {
			t.InputSchema = propertySchema(f.Property)
		}
	}
	return t
}

func propertySchema(property string) json.RawMessage {
	b, err := json.Marshal(map[string]any{
		"type":                 "object",
		"properties":           map[string]any{property: map[string]any{"type": "string"}},
		"required":             []string{property},
		"additionalProperties": false,
	})
	if err != nil { // strings only
		panic("registry: marshal schema: " + err.Error())
	}
	return b
}

// Plugins lists the labels of the plugins that have tools, sorted.
func (s *Snapshot) Plugins() []string {
	set := map[string]bool{}
	for _, e := range s.entries {
		if e.Plugin != "" {
			set[e.Plugin] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}
