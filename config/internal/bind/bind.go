// Package bind decodes the part of the configuration whose schema comes from a plugin.
//
// It owns merging the layers of such a block by that schema, checking and converting values, the JSON that the plugin receives,
// and mapping an attribute path back to a position in a file. It does not know the host's own settings or where manifests come
// from.
//
// It does not use hcldec, which has no labels, defaults, allowed values, sensitive values or layers, and whose messages lack the
// exact range. Start with [Block].
package bind

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Fragment is one layer's part of a block: a whole Body, or a single value at Path.
type Fragment struct {
	Body   hcl.Body
	Path   []string
	Expr   hcl.Expression
	Scope  *function.Scope
	Header hcl.Range // of the block; for a Path, of the whole setting
}

// Block is a block that a plugin's schema describes. Later fragments override earlier ones.
type Block struct {
	Fragments []Fragment
	Files     diag.Files
	Plugin    string            // label, for diagnostics
	Header    hcl.Range         // the reported range if no layer has the block
	Reserved  []string          // names that the block accepts in addition to the schema's; used for suggestions
	Inspect   string            // next step for an unknown name that resembles no known one
	Hints     map[string]string // next steps for unknown names that users are likely to try
}

// Mode selects how missing variables, files and secrets are handled.
type Mode int

// Modes.
const (
	Use   Mode = iota // an error; in a sensitive argument of a block with a label, the secret has the error
	Check             // a warning; the value is absent
	Look              // a warning; the value is absent, but secrets are present and empty to show where they belong
)

// Decode decodes the block by its schema. The JSON has every attribute of the schema, with null for absent values, and sorted
// keys. Secrets appear as {"$secret": HANDLE}, and their values are returned by handle.
func (b Block) Decode(s contract.ConfigBlock, mode Mode) (jsonText []byte, secrets map[string]Secret, ds diag.Diagnostics) {
	jsonText, secrets, _, ds = b.DecodeProcesses(s, mode)
	return jsonText, secrets, ds
}

// decode returns nil if there are errors.
func (d *decoder) decode(s contract.ConfigBlock) []byte {
	b := d.Block
	value := d.block(s, b.pieces(), b.Header, "", b.Reserved)
	d.ds.Sort()
	if d.ds.HasErrors() {
		return nil
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(fmt.Sprintf("config block of %q: %v", b.Plugin, err)) // cannot fail: the value consists of strings, numbers and lists
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

func (b Block) pieces() []piece {
	pieces := make([]piece, 0, len(b.Fragments))
	for _, f := range b.Fragments {
		pieces = append(pieces, piece{body: f.Body, rest: f.Path, expr: f.Expr, scope: f.Scope, header: f.Header})
	}
	return pieces
}

type decoder struct {
	Block
	mode      Mode
	secrets   map[string]Secret
	processes []Process
	endpoints []Endpoint
	labels    int                 // of the current block and those around it
	types     map[string]cty.Type // of attributes, by their JSON: there are few different ones, and parsing is a large part of the work
	ds        diag.Diagnostics
}

// piece is the part of a fragment that belongs to a nested block.
type piece struct {
	body   hcl.Body
	rest   []string
	expr   hcl.Expression
	scope  *function.Scope
	header hcl.Range
}

// setting is an argument in one layer; rest is the path inside its value.
type setting struct {
	expr      hcl.Expression
	rest      []string
	scope     *function.Scope
	nameRange hcl.Range
}

func (d *decoder) add(r hcl.Range, x diag.Diagnostic) {
	x.Plugin = d.Plugin
	d.ds = append(d.ds, d.Files.At(r, x))
}

func (d *decoder) errorAt(r hcl.Range, summary, detail, next string) {
	d.add(r, diag.Diagnostic{Severity: diag.Error, Summary: summary, Detail: detail, Next: next})
}

// block decodes one block. path is its path in handles, with a trailing dot unless it is empty.
func (d *decoder) block(s contract.ConfigBlock, pieces []piece, header hcl.Range, path string, reserved []string) map[string]any {
	names := schemaNames(s)
	settings := make(map[string][]setting)
	nested := make(map[string][][]piece) // by block type, then by layer
	labels := make(map[string][][][]string)
	for _, p := range pieces {
		if p.body == nil {
			d.path(s, p, names, settings, nested, labels)
			continue
		}
		header = p.header
		content, hds := p.body.Content(bodySchema(s))
		d.names(hds, append(slices.Clone(names), reserved...))
		for _, a := range content.Attributes {
			settings[a.Name] = append(settings[a.Name], setting{expr: a.Expr, scope: p.scope, nameRange: a.NameRange})
		}
		layer := make(map[string][]piece)
		layerLabels := make(map[string][][]string)
		for _, c := range content.Blocks {
			layer[c.Type] = append(layer[c.Type], piece{body: c.Body, scope: p.scope, header: c.DefRange})
			layerLabels[c.Type] = append(layerLabels[c.Type], c.Labels)
		}
		for name, ps := range layer {
			nested[name] = append(nested[name], ps)
			labels[name] = append(labels[name], layerLabels[name])
		}
	}
	out := make(map[string]any, len(s.Attributes)+len(s.Blocks))
	for _, a := range s.Attributes {
		out[a.Name] = d.attribute(a, settings[a.Name], header, path+a.Name)
	}
	for _, n := range s.Blocks {
		out[n.Name] = d.nested(n, nested[n.Name], labels[n.Name], header, path+n.Name)
	}
	return out
}

// path assigns a value of the command line to an attribute or nested block.
func (d *decoder) path(s contract.ConfigBlock, p piece, names []string, settings map[string][]setting, nested map[string][][]piece, labels map[string][][][]string) {
	name := p.rest[0]
	for _, a := range s.Attributes {
		if a.Name == name {
			settings[name] = append(settings[name], setting{expr: p.expr, rest: p.rest[1:], scope: p.scope, nameRange: p.header})
			return
		}
	}
	for _, n := range s.Blocks {
		if n.Name != name {
			continue
		}
		rest := p.rest[1:]
		switch {
		case len(rest) <= len(n.Labels):
			d.errorAt(p.header, "incomplete setting", fmt.Sprintf("%q is a block.", name), "append a dot and one of its arguments")
		case len(n.Labels) == 0 && n.MaxItems != 1:
			d.errorAt(p.header, "setting of a repeated block", fmt.Sprintf("There can be several %q blocks, and a setting can't select "+
				"one.", name),
				"put the block into a file")
		default:
			p.rest = rest[len(n.Labels):]
			nested[name] = append(nested[name], []piece{p})
			labels[name] = append(labels[name], [][]string{rest[:len(n.Labels)]})
		}
		return
	}
	d.errorAt(p.header, "unsupported argument", fmt.Sprintf("An argument named %q is not expected here.", name),
		diag.DidYouMean(name, names, d.Inspect))
}

// nested decodes the blocks of one type. Blocks without labels replace those of lower layers. Blocks of which there can be only
// one, and blocks with the same labels, are merged over the layers.
func (d *decoder) nested(n contract.ConfigNestedBlock, layers [][]piece, labels [][][]string, header hcl.Range, path string) any {
	type instance struct {
		labels []string
		pieces []piece
	}
	var found []instance
	for i, layer := range layers {
		if len(n.Labels) == 0 && n.MaxItems != 1 {
			found = found[:0]
		}
		seen := make(map[string]hcl.Range)
		for j, p := range layer {
			key := fmt.Sprintf("%q", labels[i][j])
			if first, twice := seen[key]; twice && (len(n.Labels) > 0 || n.MaxItems == 1) {
				d.errorAt(p.header, fmt.Sprintf("duplicate %q block", n.Name),
					fmt.Sprintf("The block is already defined at %s.", d.Files.Range(first)), "merge the two, or remove one")
				continue
			}
			seen[key] = p.header
			k := -1
			if len(n.Labels) > 0 || n.MaxItems == 1 {
				k = slices.IndexFunc(found, func(x instance) bool { return slices.Equal(x.labels, labels[i][j]) })
			}
			if k < 0 {
				found = append(found, instance{labels: labels[i][j]})
				k = len(found) - 1
			}
			found[k].pieces = append(found[k].pieces, p)
		}
	}
	if len(found) < int(n.MinItems) {
		d.errorAt(header, fmt.Sprintf("missing %q block", n.Name), fmt.Sprintf("At least %d are required, but there are %d.", n.MinItems, len(found)),
			fmt.Sprintf("add `%s { ... }` to the block", n.Name))
	}
	if n.MaxItems > 0 && len(found) > int(n.MaxItems) {
		d.errorAt(found[n.MaxItems].pieces[0].header, fmt.Sprintf("too many %q blocks", n.Name),
			fmt.Sprintf("At most %d are allowed, but there are %d.", n.MaxItems, len(found)), "remove the others")
	}
	inner := n.Block
	if n.Process {
		inner = WithProcess(inner)
	}
	values := make([]any, 0, len(found))
	for i, x := range found {
		place := path
		switch {
		case len(n.Labels) > 0:
			for _, l := range x.labels {
				place += "[" + strconv.Quote(l) + "]"
			}
		case n.MaxItems != 1:
			place += "[" + strconv.Itoa(i) + "]"
		}
		d.labels += len(n.Labels)
		v := d.block(inner, x.pieces, x.pieces[0].header, place+".", nil)
		d.labels -= len(n.Labels)
		if n.Process {
			d.process(n, x.labels, x.pieces, v)
		}
		for j, name := range n.Labels {
			v[name] = x.labels[j]
		}
		values = append(values, v)
	}
	if n.MaxItems != 1 {
		return values
	}
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

// names adds the HCL library's diagnostics for a body, with our own suggestions.
func (d *decoder) names(hds hcl.Diagnostics, names []string) {
	for _, x := range d.Files.ConvertNames(hds, names, d.Inspect) {
		for name, hint := range d.Hints {
			if strings.Contains(x.Detail, strconv.Quote(name)) {
				x.Next = hint
			}
		}
		x.Plugin = d.Plugin
		d.ds = append(d.ds, x)
	}
}

func schemaNames(s contract.ConfigBlock) []string {
	var out []string
	for _, a := range s.Attributes {
		out = append(out, a.Name)
	}
	for _, n := range s.Blocks {
		out = append(out, n.Name)
	}
	return out
}

func bodySchema(s contract.ConfigBlock) *hcl.BodySchema {
	out := &hcl.BodySchema{}
	for _, a := range s.Attributes {
		out.Attributes = append(out.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	for _, n := range s.Blocks {
		out.Blocks = append(out.Blocks, hcl.BlockHeaderSchema{Type: n.Name, LabelNames: n.Labels})
	}
	return out
}
