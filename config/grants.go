package config

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/schema"
)

// Grant is a change in a project's files that widens what the project may do.
type Grant struct {
	Path    string // of the file
	Line    int    // from 1; 0: the whole file
	Removed bool   // the line is one of the previous text and is gone
	Text    string // the setting, on one line
}

// Grants compares what the project's files set now with what they set when the user last trusted them. before maps paths to the
// texts of that time, as [Project.Shown] returned them. Settings are compared twice: on top of the user's own settings, which the
// project may widen, and on top of the built-in ones, because trust outlives changes to the user's file. A change with an unknown
// effect counts as one that widens.
func (p *Project) Grants(o Options, before map[string]string) []Grant {
	o.Dir = p.Dir
	l, ds := newLoader(o)
	if ds.HasErrors() {
		return nil
	}
	l.project = &Project{Dir: p.Dir}
	c := &comparison{files: map[string][]byte{}}
	var was, is *node
	for _, path := range p.Files {
		if text, ok := before[path]; ok {
			was = merge(was, c.read(l, p, path, earlier, []byte(text)))
		}
		now := c.read(l, p, path, "", p.content[filepath.Base(path)])
		if now == nil { // The file has errors, so it has no effect.
			return nil
		}
		is = merge(is, now)
	}
	for _, f := range p.Covered {
		text, ok := before[f.Path]
		c.reread = c.reread || ok && f.Text != nil && text != string(f.Text)
	}
	for _, root := range []*node{l.lower(false), l.text(LayerBuiltin, "", builtinName, builtinText, l.dir)} {
		was, is := merge(root, was), merge(root, is)
		c.block(was, is, nil, false)
		for _, name := range is.labels(schema.BlockProfile) {
			k := key{schema.BlockProfile, name}
			c.block(merge(was, was.blocks[k]), merge(is, is.blocks[k]), nil, false)
		}
	}
	c.locks(p, before)
	for _, shown := range p.Shown() {
		if text, ok := before[shown.Path]; ok && shown.Text != text && slices.Contains(p.Programs, shown.Path) {
			c.add(Grant{Path: shown.Path, Text: "another program"})
		}
	}
	slices.SortStableFunc(c.out, func(a, b Grant) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return c.out
}

// Widening returns those of some settings, each NAME=VALUE as in o.Sets, that would widen what the configuration of o permits, as they
// would be written. It judges as [Project.Grants] does. Settings that are errors are left out: [Load] reports them.
func Widening(ctx context.Context, o Options, sets []string) []string {
	l, ds := newLoader(o)
	if ds.HasErrors() {
		return sets
	}
	was := l.layers(ctx)
	r := &reader{files: diag.Files{}, mark: earlier, from: l.origin(LayerCommandLine, l.typed, l.typed)}
	is := was
	for _, s := range sets {
		is = merge(is, r.set(s, l.root))
	}
	c := &comparison{files: r.files, approval: asksLess}
	c.block(was, is, nil, false)
	var out []string
	for _, g := range c.out {
		out = append(out, g.Text)
	}
	return out
}

// earlier is a prefix for the names of files whose text is the one that the user trusted.
const earlier = "\x00"

// comparison collects grants.
type comparison struct {
	files  map[string][]byte // texts of the project's files, by path, with the prefix earlier for the previous ones
	reread bool              // a file that file() reads has changed
	// approval judges approval.policy instead of the rule, by which a project that sets it has to be trusted; nil: the rule does
	approval widens
	out      []Grant
}

func (c *comparison) add(g Grant) {
	if !slices.ContainsFunc(c.out, func(o Grant) bool {
		return o.Path == g.Path && o.Line == g.Line && o.Removed == g.Removed && g.Line > 0
	}) {
		c.out = append(c.out, g)
	}
}

func (c *comparison) read(l *loader, p *Project, path, mark string, text []byte) *node {
	c.files[mark+path] = text
	return l.text(LayerProject, path, mark+path, text, p.Dir)
}

// value is an effective setting. The zero value is an unset one.
type value struct {
	expr hcl.Expression
	at   hcl.Range // of the name
	v    cty.Value // cty.NilVal: unknown without evaluation
}

func (v value) set() bool { return v.expr != nil }

func (c *comparison) valueOf(expr hcl.Expression, at hcl.Range) value {
	out := value{expr: expr, at: at}
	if !c.literal(expr) {
		return out
	}
	if v, ds := expr.Value(nil); !ds.HasErrors() && v.IsWhollyKnown() {
		out.v = v
	}
	return out
}

// literal reports whether an expression consists of literal values only. The user has not trusted the expression yet, so nothing
// that reads a file or takes long is evaluated.
func (c *comparison) literal(expr hcl.Expression) bool {
	native, ok := expr.(hclsyntax.Expression)
	if !ok {
		text := c.source(expr.Range())
		return !strings.Contains(text, "${") && !strings.Contains(text, "%{")
	}
	plain := true
	hclsyntax.VisitAll(native, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n.(type) {
		case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr, *hclsyntax.TupleConsExpr, *hclsyntax.ObjectConsExpr, *hclsyntax.ObjectConsKeyExpr,
			*hclsyntax.ParenthesesExpr:
		default:
			plain = false
		}
		return nil
	})
	return plain
}

// text returns the value of a string or bool.
func (v value) text() (string, bool) {
	switch {
	case v.v == cty.NilVal || v.v.IsNull():
		return "", false
	case v.v.Type() == cty.String:
		return v.v.AsString(), true
	case v.v.Type() == cty.Bool:
		return fmt.Sprint(v.v.True()), true
	}
	return "", false
}

// list returns the value of a list of strings.
func (v value) list() (out []string, ok bool) {
	if v.v == cty.NilVal || v.v.IsNull() || !v.v.CanIterateElements() {
		return nil, false
	}
	for it := v.v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() || e.Type() != cty.String {
			return nil, false
		}
		out = append(out, e.AsString())
	}
	return out, true
}

// widens reports whether changing a setting widens what a project may do.
type widens func(was, is value) bool

func never(value, value) bool  { return false }
func always(value, value) bool { return true }

// ranked is for a setting whose values are ordered from narrow to wide. standard is the default.
func ranked(standard string, values ...string) widens {
	return func(was, is value) bool {
		rank := func(v value) int {
			text, ok := v.text()
			if !v.set() {
				text, ok = standard, true
			}
			if i := slices.Index(values, text); ok && i >= 0 {
				return i
			}
			return -1
		}
		a, b := rank(was), rank(is)
		return a < 0 || b < 0 || a < b
	}
}

// grows is for a list of what is allowed, shrinks for a list of what is denied. An unset list is empty.
func grows(was, is value) bool   { return beyond(is, was) }
func shrinks(was, is value) bool { return beyond(was, is) }

// narrows is for a list that restricts to its elements when it is set.
func narrows(was, is value) bool {
	if !was.set() {
		return false
	}
	return !is.set() || beyond(is, was)
}

// narrowsUnlessEmpty is like narrows for a list that allows everything when it is empty.
func narrowsUnlessEmpty(was, is value) bool {
	a, ok := was.list()
	b, ok2 := is.list()
	if was.set() && !ok || is.set() && !ok2 {
		return true
	}
	return len(a) > 0 && (len(b) == 0 || beyond(is, was))
}

// beyond reports whether one has an element that other lacks.
func beyond(one, other value) bool {
	a, ok := one.list()
	b, ok2 := other.list()
	if one.set() && !ok || other.set() && !ok2 {
		return true
	}
	return slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

var (
	switchedOn  = ranked("false", "false", "true")
	switchedOff = ranked("true", "true", "false")
	relaxed     = ranked("false", "true", "false") // turning off a restriction that is off by default
)

// asksLess is for an approval policy that is known before and after. What would be asked about is refused under never, but untrusted also
// asks about what needs no more than the sandbox.
func asksLess(was, is value) bool {
	before, known := was.text()
	if !was.set() {
		before, known = "on-request", true
	}
	after, ok := is.text()
	return !ok || !known || after != before && after != "untrusted" && !(after == "never" && before == "on-request")
}

// grants says which changes of which settings widen what a project may do. Other settings never do; for blocks that start programs
// see [rule].
var grants = map[string]widens{
	"sandbox.mode": ranked("workspace-write", "read-only", "workspace-write", schema.SandboxFullAccess), "sandbox.writable_roots": grows, "sandbox.readable_roots": narrowsUnlessEmpty,
	"sandbox.deny_read": shrinks, "sandbox.deny_write": shrinks, "sandbox.network": switchedOn, "sandbox.require_landlock": relaxed,
	"approval.policy": func(_, is value) bool { text, _ := is.text(); return text != "untrusted" }, "approval.safe_commands": switchedOn, "approval.additional_permissions": ranked("true", "false", "true"),
	"approval.granular.sandbox_approval": switchedOn, "approval.granular.rules": switchedOn, "approval.granular.mcp_elicitations": switchedOn, "approval.granular.request_permissions": switchedOn,
	"network.mode": ranked(schema.NetworkNone, schema.NetworkNone, schema.NetworkProxy, schema.NetworkFull), "network.allow": grows, "network.deny": shrinks,
	"network.methods": ranked(schema.MethodsFull, schema.MethodsLimited, schema.MethodsFull), "network.local": switchedOn,
	"secrets.redact": switchedOff, "secrets.redact_patterns": switchedOff,
	"environment.inherit": ranked(schema.InheritAll, schema.InheritNone, schema.InheritCore, schema.InheritAll), "environment.default_excludes": switchedOff, "environment.exclude": shrinks,
	"environment.include_only": narrowsUnlessEmpty, "environment.set.*": always,
	"guardian.enabled": switchedOn, "guardian.model": always, "guardian.policy": always,
	"hooks.on_error": ranked("proceed", "block", "proceed"), "hooks.managed_only": relaxed, "hooks.login_shell": switchedOn,
	"store.driver": always, "store.dsn": always, "model.hosted_tools": grows,
	"hook.timeout": never, "hook.status": never, "hook.context_tokens": never, "hook.on_error": ranked("proceed", "block", "proceed"),
	"plugin.processes.memory": never, "plugin.processes.network.mode": always, "plugin.processes.network.allow": grows, "plugin.processes.network.deny": shrinks,
	"plugin.processes.network.methods": ranked(schema.MethodsFull, schema.MethodsLimited, schema.MethodsFull), "plugin.processes.network.local": switchedOn,
	"plugin.processes.network.unknown": ranked(schema.UnknownAsk, schema.UnknownDeny, schema.UnknownAsk, schema.UnknownPublic),
	"plugin.enabled":                   switchedOn, "plugin.start_timeout": never, "plugin.approval": approvals, "plugin.tool.approval": approvals, "plugin.unsafe_env": switchedOn,
	"provider.enabled": switchedOn, "provider.start_timeout": never, "provider.unsafe_env": switchedOn,
}

var approvals = ranked(schema.ApprovalAuto, "deny", "prompt", "writes", schema.ApprovalAuto, "approve")

// permitted judges the settings of a permissions block.
var permitted = map[string]widens{"network": grows, "read": grows, "write": grows, "exec": narrows, "capabilities": narrows}

// rule returns how a setting is judged, given the names of its blocks and its own. part is set if the setting belongs to the
// program that its block starts, so that it is not reported separately when the block is new.
func rule(path []string) (w widens, part bool) {
	starts := starting(path[0])
	if starts && len(path) == 3 && path[1] == schema.BlockPermissions {
		return permitted[path[2]], false
	}
	if starts && len(path) == 3 && path[1] == schema.BlockLimits {
		return never, false
	}
	for _, name := range []string{strings.Join(path, "."), strings.Join(path[:len(path)-1], ".") + ".*"} {
		if w, ok := grants[name]; ok {
			return w, false
		}
	}
	if starts {
		return always, true
	}
	return never, false
}

// block compares a block and everything below it. fresh is set inside a block that starts something new.
func (c *comparison) block(was, is *node, path []string, fresh bool) {
	before, after := c.attributes(was), c.attributes(is)
	if len(path) == 1 && starting(path[0]) && was == nil {
		fresh = true
		text := fmt.Sprintf("%s %q", path[0], is.label)
		for _, name := range []string{"source", "command", "file", "prompt"} {
			if v := after[name]; v.set() {
				text += ": " + name + " = " + c.text(v.expr.Range())
				break
			}
		}
		c.mark(is.header, text)
	}
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		a, b := before[name], after[name]
		w, part := rule(append(slices.Clone(path), name))
		if c.approval != nil && len(path) == 1 && path[0] == "approval" && name == "policy" {
			w = c.approval
		}
		if part && fresh || c.same(a, b) || !w(a, b) {
			continue
		}
		full := strings.Join(append(slices.Clone(path), name), ".")
		switch {
		case b.set() && c.own(b.at):
			c.mark(b.at, full+" = "+c.text(b.expr.Range()))
		case a.set() && c.own(a.at):
			c.mark(a.at, "without "+full+" = "+c.text(a.expr.Range()))
		}
	}
	for _, k := range keys(was, is) {
		a, b := child(was, k), child(is, k)
		switch {
		case k.name == schema.BlockProfile:
			continue
		case b == nil && k.name == schema.BlockHook: // the hook may have blocked something
			c.mark(a.header, "without "+k.String())
			continue
		case b == nil && starting(k.name):
			continue
		}
		c.block(a, b, append(slices.Clone(path), k.name), fresh)
	}
}

func starting(name string) bool {
	return slices.Contains([]string{schema.BlockPlugin, schema.BlockProvider, schema.BlockHook}, name)
}

// attributes returns the settings of a block, including those that only a plugin's schema describes.
func (c *comparison) attributes(n *node) map[string]value {
	out := map[string]value{}
	if n == nil {
		return out
	}
	for _, f := range n.open {
		if f.Body == nil {
			out[strings.Join(f.Path, ".")] = c.valueOf(f.Expr, f.Header)
			continue
		}
		if body, ok := f.Body.(*hclsyntax.Body); ok {
			c.nested(out, body, "", n.schema.Names())
			continue
		}
		attrs, _ := f.Body.JustAttributes() // in JSON, blocks are attributes here
		for name, a := range attrs {
			out[name] = c.valueOf(a.Expr, a.NameRange)
		}
	}
	for name, s := range n.attrs {
		out[name] = c.valueOf(s.expr, s.at)
	}
	return out
}

func (c *comparison) nested(out map[string]value, body *hclsyntax.Body, prefix string, without []string) {
	for name, a := range body.Attributes {
		if !slices.Contains(without, name) {
			out[prefix+name] = c.valueOf(a.Expr, a.NameRange)
		}
	}
	for i, b := range body.Blocks {
		if !slices.Contains(without, b.Type) {
			c.nested(out, b.Body, fmt.Sprintf("%s%s%q[%d].", prefix, b.Type, b.Labels, i), nil)
		}
	}
}

func union(a, b map[string]value) map[string]bool {
	out := map[string]bool{}
	for name := range a {
		out[name] = true
	}
	for name := range b {
		out[name] = true
	}
	return out
}

func keys(was, is *node) []key {
	var out []key
	if was != nil {
		out = slices.Clone(was.order)
	}
	if is != nil {
		for _, k := range is.order {
			if !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	return out
}

func child(n *node, k key) *node {
	if n == nil {
		return nil
	}
	return n.blocks[k]
}

// same reports whether two settings have the same source text. Settings of other layers are the same on both sides.
func (c *comparison) same(a, b value) bool {
	if !a.set() || !b.set() {
		return a.set() == b.set()
	}
	x, y := a.expr.Range(), b.expr.Range()
	if !c.own(x) || !c.own(y) {
		return x == y
	}
	text := c.source(x)
	return text == c.source(y) && !(c.reread && strings.Contains(text, "file("))
}

// own reports whether a range is in a file of the project.
func (c *comparison) own(r hcl.Range) bool { _, ok := c.files[r.Filename]; return ok }

func (c *comparison) source(r hcl.Range) string {
	text := c.files[r.Filename]
	if r.Start.Byte < 0 || r.End.Byte > len(text) || r.Start.Byte > r.End.Byte {
		return ""
	}
	return string(text[r.Start.Byte:r.End.Byte])
}

// text returns the source text of a range on one line.
func (c *comparison) text(r hcl.Range) string {
	s := strings.Join(strings.Fields(c.source(r)), " ")
	if runes := []rune(s); len(runes) > 80 {
		s = string(runes[:79]) + "…"
	}
	return s
}

func (c *comparison) mark(r hcl.Range, text string) {
	path, removed := strings.CutPrefix(r.Filename, earlier)
	c.add(Grant{Path: path, Line: r.Start.Line, Removed: removed, Text: text})
}

// locks compares the locked programs.
func (c *comparison) locks(p *Project, before map[string]string) {
	path := filepath.Join(p.Dir, projectDir, lock.FileName)
	is, ds := lock.Parse(p.content[lock.FileName], path)
	if ds.HasErrors() {
		return
	}
	was, ds := lock.Parse([]byte(before[path]), path)
	if ds.HasErrors() {
		was = lock.New(path)
	}
	for _, e := range is.Entries() {
		line := e.Range.Start.Line
		old, _ := was.Entry(e.Address)
		if e.Range = old.Range; !reflect.DeepEqual(e, old) {
			c.add(Grant{Path: path, Line: line, Text: "another program for " + e.Address})
		}
	}
	for _, p := range is.Processes() {
		line := p.Range.Start.Line
		old, _ := was.Process(p.Name)
		if p.Range = old.Range; !reflect.DeepEqual(p, old) {
			c.add(Grant{Path: path, Line: line, Text: "another process " + p.Name})
		}
	}
}
