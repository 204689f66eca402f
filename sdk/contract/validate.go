package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaxInstructionsBytes is the maximum size of a manifest's instructions for the model.
const MaxInstructionsBytes = 8192

// problems is a list of validation errors.
type problems []error

func (c *problems) add(format string, args ...any) { *c = append(*c, fmt.Errorf(format, args...)) }

// unique adds an error for each empty or repeated name.
func (c *problems) unique(what string, names []string) {
	seen := map[string]bool{}
	for _, n := range names {
		switch {
		case n == "":
			c.add("%s: empty name", what)
		case seen[n]:
			c.add("%s: %q appears twice", what, n)
		}
		seen[n] = true
	}
}

// Validate returns all errors in the manifest, joined.
func (m *Manifest) Validate() error {
	var c problems
	if !isDashed(m.Name) {
		c.add("name %q: use 1 to 64 lower-case letters, digits and dashes, starting with a letter", m.Name)
	}
	if !isSemver(m.Version) {
		c.add("version %q: a semantic version such as 1.2.3 is required", m.Version)
	}
	if m.Kind != KindTool && m.Kind != KindProvider {
		c.add("kind: must be tool or provider")
	}
	if len(m.ContractVersions) == 0 {
		c.add("contract versions: at least one is required")
	}
	for i, v := range m.ContractVersions {
		if v == 0 || i > 0 && v <= m.ContractVersions[i-1] {
			c.add("contract versions: must be positive and in ascending order")
			break
		}
	}
	if !utf8.ValidString(m.Description) || !utf8.ValidString(m.Instructions) {
		c.add("description and instructions must be UTF-8")
	}
	if len(m.Instructions) > MaxInstructionsBytes {
		c.add("instructions: %d bytes; the maximum is %d", len(m.Instructions), MaxInstructionsBytes)
	}
	c.unique("capabilities", m.Capabilities)
	c.unique("host services", m.HostServices)
	m.Limits.validate(&c)
	m.validateCommands(&c)
	m.Config.validate(&c, "config", nil)
	m.validateProcesses(&c)
	if len(m.Tools) > 0 && m.Kind == KindProvider {
		c.add("tools: not allowed for a provider")
	}
	if err := ValidateTools(m.Tools); err != nil {
		c = append(c, err)
	}
	return errors.Join(c...)
}

func (l Limits) validate(c *problems) {
	for _, v := range []int64{l.MaxMessageBytes, l.MaxInlineBytes, l.MaxOutputBytes, l.StartMS, l.StopMS, l.CallMS, int64(l.MaxParallelCalls)} {
		if v < 0 {
			c.add("limits: %d is negative; 0 means the default", v)
		}
	}
}

func (m *Manifest) validateCommands(c *problems) {
	var names []string
	for _, cmd := range m.Commands {
		names = append(names, cmd.Name)
		if cmd.Name != "" && !isDashed(cmd.Name) {
			c.add("command %q: use 1 to 64 lower-case letters, digits and dashes, starting with a letter", cmd.Name)
		}
		if len(cmd.InputSchema) > 0 {
			if err := checkSchema(cmd.InputSchema, true); err != nil {
				c.add("command %q: input schema: %w", cmd.Name, err)
			}
		}
	}
	c.unique("commands", names)
}

func (m *Manifest) validateProcesses(c *problems) {
	for _, n := range m.Config.Blocks {
		at := "config." + n.Name
		if !n.Process {
			continue
		}
		if len(n.Labels) > 1 || len(n.Labels) == 0 && n.MaxItems != 1 {
			c.add("%s: a block that declares a process has one label, or at most one item", at)
		}
		for _, a := range n.Block.Attributes {
			if IsProcessSetting(a.Name) {
				c.add("%s.%s: the host reads this attribute itself; leave it out", at, a.Name)
			}
		}
		for _, inner := range n.Block.Blocks {
			if IsProcessSetting(inner.Name) {
				c.add("%s.%s: the host reads this block itself; leave it out", at, inner.Name)
			}
		}
		if m.Kind == KindProvider {
			c.add("%s: a provider can't declare processes", at)
		}
		if !slices.Contains(m.Capabilities, "spawn") {
			c.add("%s: a block that declares a process needs the capability \"spawn\"", at)
		}
	}
}

func (b ConfigBlock) validate(c *problems, where string, labels []string) {
	if strings.Count(where, ".") > maxTypeDepth {
		c.add("%s: nested more than %d levels deep", where, maxTypeDepth)
		return
	}
	names := slices.Clone(labels)
	for _, a := range b.Attributes {
		names = append(names, a.Name)
		a.validate(c, where+"."+a.Name)
	}
	for _, n := range b.Blocks {
		names = append(names, n.Name)
		at := where + "." + n.Name
		if n.Process && where != "config" {
			c.add("%s: only a block of the config block itself can declare a process", at)
		}
		if n.Name != "" && !isSnake(n.Name) {
			c.add("%s: a lower_snake name is required", at)
		}
		if n.MinItems < 0 || n.MaxItems < 0 || n.MaxItems > 0 && n.MinItems > n.MaxItems {
			c.add("%s: invalid number of items: from %d to %d", at, n.MinItems, n.MaxItems)
		}
		for _, l := range n.Labels {
			if l != "" && !isSnake(l) {
				c.add("%s: label %q: a lower_snake name is required", at, l)
			}
		}
		n.Block.validate(c, at, n.Labels)
	}
	c.unique(where, names)
}

func (a ConfigAttribute) validate(c *problems, where string) {
	if a.Name != "" && !isSnake(a.Name) {
		c.add("%s: a lower_snake name is required", where)
	}
	t, err := parseConfigType(a.Type, 0)
	if err != nil {
		c.add("%s: type: %w", where, err)
		return
	}
	if len(a.Allowed) > 0 && t.kind != "string" {
		c.add("%s: only a string can have allowed values", where)
	}
	if a.Path && t.kind != "string" {
		c.add("%s: only a string can be a path", where)
	}
	if a.Endpoint && t.kind != "string" && (t.elem == nil || t.elem.kind != "string") {
		c.add("%s: only a string, or a list, set or map of strings, can be an endpoint", where)
	}
	if a.Sensitive && t.kind != "string" && (t.elem == nil || t.elem.kind != "string") {
		c.add("%s: only a string, or a list or map of strings, can be sensitive", where)
	}
	if len(a.Default) == 0 {
		return
	}
	v, err := decodeValue(a.Default)
	if err == nil {
		err = t.check(v)
	}
	if err != nil {
		c.add("%s: default: %w", where, err)
		return
	}
	if v == nil {
		return
	}
	if a.Required {
		c.add("%s: a required attribute can't have a default", where)
	}
	if a.Path {
		c.add("%s: a path can't have a default", where)
	}
	if a.Endpoint {
		c.add("%s: an endpoint can't have a default", where)
	}
	if a.Sensitive {
		c.add("%s: a secret can't have a default", where)
	}
	if s, ok := v.(string); ok && len(a.Allowed) > 0 && !slices.Contains(a.Allowed, s) {
		c.add("%s: default: %q is not one of the allowed values", where, s)
	}
}

// ValidateTools returns all errors in a set of tools, joined. A tool that is equal to one of valid, the tools of a set that had no errors,
// is not checked again: a set of thousands of tools may be sent again because of one of them.
func ValidateTools(tools []Descriptor, valid ...Descriptor) error {
	var c problems
	seen := map[[2]string]bool{}
	known := make(map[[2]string]*Descriptor, len(valid))
	for i := range valid {
		known[[2]string{valid[i].Namespace, valid[i].Name}] = &valid[i]
	}
	errs := make([]error, len(tools))
	var work sync.WaitGroup
	size := max(minChecked, (len(tools)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for from := 0; from < len(tools); from += size {
		work.Go(func() {
			for i := from; i < min(from+size, len(tools)); i++ {
				if old := known[[2]string{tools[i].Namespace, tools[i].Name}]; old == nil || !reflect.DeepEqual(old, &tools[i]) {
					errs[i] = tools[i].Validate()
				}
			}
		})
	}
	work.Wait()
	for i := range tools {
		d := &tools[i]
		k := [2]string{d.Namespace, d.Name}
		if seen[k] {
			c.add("tool %q: declared twice in the namespace %q", d.Name, d.Namespace)
		}
		seen[k] = true
		if errs[i] != nil {
			c = append(c, errs[i])
		}
	}
	return errors.Join(c...)
}

// minChecked is the number of tools that are worth a goroutine.
const minChecked = 100

// CheckSource returns an error if the tool names a source that the set does not have. A set without sources accepts any name.
func (s *ToolSet) CheckSource(d *Descriptor) error {
	if d.Source == "" || len(s.Sources) == 0 || slices.ContainsFunc(s.Sources, func(o Source) bool { return o.Name == d.Source }) {
		return nil
	}
	return fmt.Errorf("tool %q: the set has no source %q", d.Name, d.Source)
}

// maxChanges bounds Descriptor.Changes, in bytes.
const maxChanges = 4 << 10

// Validate returns all errors in the descriptor, joined.
func (d *Descriptor) Validate() error {
	var c problems
	if !isToolName(d.Name) {
		c.add("tool %q: use 1 to 64 letters, digits and underscores", d.Name)
	}
	if d.Namespace != "" && !isToolName(d.Namespace) {
		c.add("tool %q: namespace %q: use 1 to 64 letters, digits and underscores", d.Name, d.Namespace)
	}
	if !utf8.ValidString(d.Description) {
		c.add("tool %q: the description must be UTF-8", d.Name)
	}
	if len(d.Changes) > maxChanges || !utf8.ValidString(d.Changes) {
		c.add("tool %q: the text about its changes must be UTF-8 of at most %d bytes", d.Name, maxChanges)
	}
	switch {
	case d.Freeform == nil:
		if len(d.InputSchema) == 0 {
			c.add("tool %q: an input schema or a freeform grammar is required", d.Name)
		} else if err := d.checkInput(); err != nil {
			c.add("tool %q: input schema: %w", d.Name, err)
		}
	case d.UncheckedArguments:
		c.add("tool %q: a freeform tool has no arguments that could be unchecked", d.Name)
	case len(d.InputSchema) > 0:
		c.add("tool %q: a freeform tool can't have an input schema", d.Name)
	default:
		d.Freeform.validate(&c, d.Name)
	}
	if len(d.OutputSchema) > 0 {
		if err := checkSchema(d.OutputSchema, false); err != nil {
			c.add("tool %q: output schema: %w", d.Name, err)
		}
	}
	if d.Exposure == ExposureHidden && d.Nesting == NestingNever {
		c.add("tool %q: it is hidden from the model, and other calls may not call it, so it has no caller", d.Name)
	}
	for _, e := range d.Effects {
		if err := CheckEffect(e); err != nil {
			c.add("tool %q: %w", d.Name, err)
		}
	}
	return errors.Join(c...)
}

func (d *Descriptor) checkInput() error {
	if d.UncheckedArguments {
		return checkShown(d.InputSchema)
	}
	return checkSchema(d.InputSchema, true)
}

// checkShown returns an error if a JSON Schema can't be shown to a model as that of arguments.
func checkShown(raw json.RawMessage) error {
	if len(raw) > maxSchemaBytes {
		return fmt.Errorf("the schema has %d bytes; the maximum is %d", len(raw), maxSchemaBytes)
	}
	if !utf8.Valid(raw) {
		return errors.New("the schema must be UTF-8")
	}
	if err := checkDepth(raw); err != nil {
		return err
	}
	var s map[string]json.RawMessage
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("not a JSON Schema: %w", err)
	}
	if string(s["type"]) != `"object"` {
		return errors.New(`the type must be "object"`)
	}
	return nil
}

// serviceApprovals are the values of [ServiceEffect.Approval].
var serviceApprovals = []string{"", "auto", "prompt", "writes", "approve"}

// CheckEffect returns an error if a field of an effect has a value that the contract does not permit.
func CheckEffect(e Effect) error {
	switch e := e.(type) {
	case SessionInputEffect:
		if e.Language != "" && !IsLanguage(e.Language) {
			return fmt.Errorf("the language %q: use 1 to 32 lower-case letters, digits and \"+#.-\"", e.Language)
		}
	case ServiceEffect:
		switch {
		case e.Service == "" || len(e.Service) > 128:
			return fmt.Errorf("the name of a service has %d bytes: use 1 to 128", len(e.Service))
		case e.Action == "" || len(e.Action) > 256:
			return fmt.Errorf("the action of the service %q has %d bytes: use 1 to 256", e.Service, len(e.Action))
		case !slices.Contains(serviceApprovals, e.Approval):
			return fmt.Errorf("the approval of the service %q is %q: use auto, prompt, writes or approve", e.Service, e.Approval)
		}
	}
	return nil
}

// IsLanguage reports whether s is a valid name of a language, see [SessionInputEffect].
func IsLanguage(s string) bool {
	return len(s) <= 32 && validName(s, func(r byte, _ bool) bool {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.IndexByte("+#.-", r) >= 0
	})
}

func (f *Freeform) validate(c *problems, tool string) {
	switch f.Syntax {
	case "":
		if f.Definition != "" {
			c.add("tool %q: the grammar requires a syntax", tool)
		}
	case "lark", "regex":
		if f.Definition == "" {
			c.add("tool %q: the syntax %s requires a grammar", tool, f.Syntax)
		}
	default:
		c.add("tool %q: the syntax %q is neither lark nor regex", tool, f.Syntax)
	}
	if f.Property == "" {
		c.add("tool %q: a freeform tool requires the name of its property for providers without grammars", tool)
	}
}

// checkSchema returns an error if a JSON Schema does not compile, or if object is true and its type is not object.
func checkSchema(raw json.RawMessage, object bool) error {
	if compilesForSure(raw, object) {
		return nil
	}
	return compileSchema(raw, object)
}

func compileSchema(raw json.RawMessage, object bool) error {
	s, err := ParseSchema(raw)
	if err != nil {
		return err
	}
	if object && s.Type != "object" {
		return errors.New(`the type must be "object"`)
	}
	v, err := Compile(s)
	if err == nil {
		err = v.checkDefaults()
	}
	if err != nil {
		return fmt.Errorf("does not compile: %w", err)
	}
	return nil
}

func isDashed(s string) bool { return isLower(s, '-') }

func isSnake(s string) bool { return isLower(s, '_') }

// isLower reports whether s consists of lower-case letters, and after the first also of digits and separators.
func isLower(s string, separator byte) bool {
	return validName(s, func(r byte, first bool) bool {
		return r >= 'a' && r <= 'z' || !first && (r >= '0' && r <= '9' || r == separator)
	})
}

func isToolName(s string) bool {
	return validName(s, func(r byte, _ bool) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
	})
}

// validName reports whether s consists of 1 to 64 bytes for which fits returns true.
func validName(s string, fits func(b byte, first bool) bool) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if !fits(s[i], i == 0) {
			return false
		}
	}
	return true
}

// isSemver reports whether s is a semantic version without a leading v.
func isSemver(s string) bool {
	// Not compiled at start, because a running plugin doesn't need it.
	return len(s) <= 128 && regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)`+
		`(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?`+
		`(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`).MatchString(s)
}
