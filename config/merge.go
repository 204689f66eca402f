package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/bind"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/config/schema"
)

// origin is the file, or the command line, that a setting comes from.
type origin struct {
	layer Layer
	dir   string // the file's folder, which also contains its lock file
	scope *function.Scope
}

// setting is an argument with its range.
type setting struct {
	name string
	expr hcl.Expression
	at   hcl.Range // of the name
	from *origin
}

// key identifies a block among its siblings.
type key struct{ name, label string }

// node is a block of one layer or of several merged layers. Nodes are immutable once they have been read.
type node struct {
	schema *schema.Block
	label  string
	header hcl.Range // in the last file that has the block
	attrs  map[string]setting
	blocks map[key]*node
	order  []key           // of blocks: in the order of the lowest layer that has each one
	open   []bind.Fragment // settings that only a plugin's schema describes, lowest layer first
}

func newNode(s *schema.Block, label string, header hcl.Range) *node {
	return &node{schema: s, label: label, header: header, attrs: make(map[string]setting), blocks: make(map[key]*node)}
}

// merge returns a overridden by b. Arguments are replaced one by one, and blocks of the same kind and label are merged. Settings
// that a plugin's schema describes are kept separately for each layer until that schema is known. merge is associative, and a nil
// node is neutral.
func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	header := b.header
	if fromCommandLine(b) && !fromCommandLine(a) {
		header = a.header // a single argument on the command line is not a useful range for errors about the block
	}
	out := &node{
		schema: a.schema, label: a.label, header: header,
		attrs: maps.Clone(a.attrs), blocks: maps.Clone(a.blocks), order: slices.Clone(a.order),
		open: slices.Concat(a.open, b.open),
	}
	maps.Copy(out.attrs, b.attrs)
	for _, k := range b.order {
		if _, ok := out.blocks[k]; !ok {
			out.order = append(out.order, k)
		}
		out.blocks[k] = merge(out.blocks[k], b.blocks[k])
	}
	return out
}

// fromCommandLine reports whether the block is in no file.
func fromCommandLine(n *node) bool { return strings.HasPrefix(n.header.Filename, diag.SetFile) }

// block returns a block without a label, or nil.
func (n *node) block(name string) *node {
	if n == nil {
		return nil
	}
	return n.blocks[key{name: name}]
}

// labelled returns the blocks of a kind in their order.
func (n *node) labelled(name string) []*node {
	var out []*node
	for _, k := range n.order {
		if k.name == name {
			out = append(out, n.blocks[k])
		}
	}
	return out
}

// labels returns the labels of the blocks of a kind.
func (n *node) labels(name string) []string {
	var out []string
	for _, b := range n.labelled(name) {
		out = append(out, b.label)
	}
	return out
}

// reader converts the body of one file to nodes.
type reader struct {
	files diag.Files
	mark  string // before the names of settings of the command line, which distinguishes them from others
	from  *origin
	ds    diag.Diagnostics
}

const seeSchema = "`gantry config schema` lists what is allowed here"

// node reads a block's body. Invalid parts are reported and left out.
func (r *reader) node(body hcl.Body, s *schema.Block, label string, header hcl.Range) *node {
	n := newNode(s, label, header)
	var content *hcl.BodyContent
	var hds hcl.Diagnostics
	switch s.Open {
	case schema.Plugin:
		n.open = []bind.Fragment{{Body: body, Scope: r.from.scope, Header: header}}
		return n
	case schema.Variables:
		attrs, hds := body.JustAttributes()
		r.ds = append(r.ds, r.files.Convert(hds, "write NAME = \"value\"")...)
		for name, a := range attrs {
			n.attrs[name] = setting{name: name, expr: a.Expr, at: a.NameRange, from: r.from}
		}
		return n
	case schema.Rest:
		var rest hcl.Body
		content, rest, hds = body.PartialContent(s.HCL())
		n.open = []bind.Fragment{{Body: rest, Scope: r.from.scope, Header: header}}
	default:
		content, hds = body.Content(s.HCL())
	}
	next := seeSchema
	if s.Block(schema.BlockConfig) != nil {
		next = "move the plugin's own settings into its config block; `gantry config schema` lists the others"
	}
	r.ds = append(r.ds, r.files.ConvertNames(hds, s.Names(), next)...)
	for name, a := range content.Attributes {
		n.attrs[name] = setting{name: name, expr: a.Expr, at: a.NameRange, from: r.from}
	}
	for _, b := range content.Blocks {
		k := key{name: b.Type}
		if len(b.Labels) > 0 {
			k.label = b.Labels[0]
		}
		if first, twice := n.blocks[k]; twice {
			r.ds = append(r.ds, r.files.At(b.DefRange, diag.Diagnostic{
				Severity: diag.Error, Summary: "duplicate " + k.String() + " block",
				Detail: fmt.Sprintf("The block is already defined at %s.", r.files.Range(first.header)),
				Next:   "merge the two, or remove one",
			}))
			continue
		}
		n.blocks[k] = r.node(b.Body, s.Block(b.Type), k.label, b.DefRange)
		n.order = append(n.order, k)
	}
	return n
}

// String returns the block's header without the brace.
func (k key) String() string {
	if k.label == "" {
		return k.name
	}
	return fmt.Sprintf("%s %q", k.name, k.label)
}
