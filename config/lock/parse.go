package lock

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/syntax"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/config/version"
)

const again = "run `gantry plugin lock` to rewrite the file"

var (
	// The HCL library does not modify schemas.
	fileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "plugin", LabelNames: []string{"address"}}, {Type: "process", LabelNames: []string{"name"}}}}
	// Only version is required: values that were unknown when the plugin was locked are omitted.
	pluginSchema = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "version", Required: true}, {Name: "constraints"}, {Name: "contract"},
			{Name: "manifest"}, {Name: "grants"}, {Name: "files"}, {Name: "signer"},
		},
		Blocks: []hcl.BlockHeaderSchema{{Type: "platform", LabelNames: []string{"os_arch"}}},
	}
	processSchema  = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "content", Required: true}, {Name: "program", Required: true}}}
	platformSchema = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "binary"}, {Name: "package"}}}
)

// Parse parses a lock file, called name in messages. If there are errors, the File is nil.
func Parse(src []byte, name string) (*File, diag.Diagnostics) {
	p := parser{files: diag.Files{name: src}}
	if ds := p.conflict(src, name); ds != nil {
		return nil, ds
	}
	body, ds := syntax.Parse(src, name)
	if ds.HasErrors() {
		return nil, ds
	}
	f := New(name)
	content, hds := body.Content(fileSchema)
	p.hcl(hds)
	first := make(map[string]hcl.Range)
	for _, block := range content.Blocks {
		if block.Type == "process" {
			p.process(block, f)
			continue
		}
		e, ok := p.entry(block)
		if at, twice := first[e.Address]; twice {
			p.errorAt(block.DefRange, "duplicate plugin lock",
				fmt.Sprintf("Plugin %q is already locked at %s.", e.Address, p.files.Range(at)), "remove one of the blocks")
			continue
		}
		first[block.Labels[0]] = block.DefRange
		if ok {
			f.entries[e.Address] = e
		}
	}
	p.ds.Sort()
	if p.ds.HasErrors() {
		return nil, p.ds
	}
	return f, p.ds
}

type parser struct {
	files diag.Files
	ds    diag.Diagnostics
}

func (p *parser) hcl(ds hcl.Diagnostics) { p.ds = append(p.ds, p.files.Convert(ds, again)...) }

func (p *parser) errorAt(r hcl.Range, summary, detail, next string) {
	p.ds = append(p.ds, p.files.At(r, diag.Diagnostic{Severity: diag.Error, Summary: summary, Detail: detail, Next: next}))
}

// conflict reports unresolved merge conflicts, for which the HCL parser's message would not help.
func (p *parser) conflict(src []byte, name string) diag.Diagnostics {
	at, number := 0, 0
	for l := range bytes.Lines(src) {
		number++
		if bytes.HasPrefix(l, []byte("<<<<<<< ")) || bytes.HasPrefix(l, []byte(">>>>>>> ")) {
			pos := hcl.Pos{Line: number, Column: 1, Byte: at}
			end := hcl.Pos{Line: number, Column: 8, Byte: at + 7}
			return diag.Diagnostics{p.files.At(hcl.Range{Filename: name, Start: pos, End: end}, diag.Diagnostic{
				Severity: diag.Error, Summary: "the lock file contains merge conflict markers",
				Detail: "Keep the blocks of different plugins. If there are two blocks for one plugin, remove one.",
				Next:   "remove the marker lines, then run `gantry plugin lock` and review the difference",
			})}
		}
		at += len(l)
	}
	return nil
}

// process reads the entry of a declared process.
func (p *parser) process(block *hcl.Block, f *File) {
	e := Process{Name: block.Labels[0], Range: p.files.Range(block.DefRange)}
	if old, twice := f.processes[e.Name]; twice {
		p.errorAt(block.DefRange, "duplicate process lock", fmt.Sprintf("The process %q is already locked at %s.", e.Name, old.Range), "remove one of the blocks")
		return
	}
	content, hds := block.Body.Content(processSchema)
	p.hcl(hds)
	if a, there := content.Attributes["content"]; there {
		if s, ok := p.text(a); ok {
			e.Content = p.hash(s, a.Expr.Range())
		}
	}
	e.Programs = p.hashes(content.Attributes["program"])
	f.processes[e.Name] = e
}

func (p *parser) entry(block *hcl.Block) (e Entry, ok bool) {
	before := len(p.ds)
	e = Entry{Address: block.Labels[0], Platforms: make(map[string]Hashes), Range: p.files.Range(block.DefRange)}
	if summary, err := parseAddress(e.Address); err != nil {
		p.errorAt(block.LabelRanges[0], summary, sentence(err), again)
	}
	content, hds := block.Body.Content(pluginSchema)
	p.hcl(hds)
	if a, there := content.Attributes["version"]; there {
		if s, ok := p.text(a); ok {
			var err error
			if e.Version, err = version.Parse(s); err != nil {
				p.errorAt(a.Expr.Range(), "invalid plugin version number", sentence(err), again)
			}
		}
	}
	if a, there := content.Attributes["constraints"]; there {
		if s, ok := p.text(a); ok {
			cs, err := version.ParseConstraints(s)
			switch {
			case err != nil:
				p.errorAt(a.Expr.Range(), "invalid version constraints", sentence(err), again)
			case cs.String() != s:
				p.errorAt(a.Expr.Range(), "non-normalized version constraints", fmt.Sprintf("The normal form is %q.", cs), again)
			}
			e.Constraints = cs
		}
	}
	if a, there := content.Attributes["contract"]; there {
		n, exact := integer(a.Expr)
		if !exact {
			p.errorAt(a.Expr.Range(), "invalid contract version", "The contract version must be a whole number, 1 or greater.", again)
		}
		e.Contract = n
	}
	for name, to := range map[string]*Hash{"manifest": &e.Manifest, "grants": &e.Grants, "files": &e.Files} {
		if a, there := content.Attributes[name]; there {
			if s, ok := p.text(a); ok {
				*to = p.hash(s, a.Expr.Range())
			}
		}
	}
	if a, there := content.Attributes["signer"]; there {
		e.Signer, _ = p.text(a)
	}
	first := make(map[string]hcl.Range)
	for _, b := range content.Blocks {
		name := b.Labels[0]
		if !validPlatform(name) {
			p.errorAt(b.LabelRanges[0], "invalid platform",
				fmt.Sprintf("%q is not an operating system and an architecture like \"linux_amd64\".", name), again)
		}
		if at, twice := first[name]; twice {
			p.errorAt(b.DefRange, "duplicate platform", fmt.Sprintf("Platform %q is already defined at %s.", name, p.files.Range(at)),
				"remove one of the blocks")
			continue
		}
		first[name] = b.DefRange
		hashes, hds := b.Body.Content(platformSchema)
		p.hcl(hds)
		e.Platforms[name] = Hashes{Binary: p.hashes(hashes.Attributes["binary"]), Package: p.hashes(hashes.Attributes["package"])}
	}
	return e, len(p.ds) == before
}

// hashes reads a hash or a list of hashes.
func (p *parser) hashes(a *hcl.Attribute) []Hash {
	if a == nil {
		return nil
	}
	list, ok := a.Expr.(*hclsyntax.TupleConsExpr)
	if !ok {
		if s, ok := p.text(a); ok {
			return []Hash{p.hash(s, a.Expr.Range())}
		}
		return nil
	}
	if len(list.Exprs) == 0 {
		p.errorAt(a.Expr.Range(), "no hashes", fmt.Sprintf("Remove %q, or add at least one hash.", a.Name), again)
	}
	var out []Hash
	for _, x := range list.Exprs {
		s, ok := literal(x)
		if !ok {
			p.errorAt(x.Range(), "invalid hash", "A hash must be a quoted string.", again)
			continue
		}
		out = append(out, p.hash(s, x.Range()))
	}
	return union(out)
}

func (p *parser) hash(s string, r hcl.Range) Hash {
	if err := Hash(s).check(); err != nil {
		p.errorAt(r, "invalid hash", sentence(err), again)
	}
	return Hash(s)
}

// text reads a quoted string. It does not evaluate expressions, which could take long or fail.
func (p *parser) text(a *hcl.Attribute) (string, bool) {
	if isNull(a.Expr) {
		p.errorAt(a.Expr.Range(), "missing required argument", fmt.Sprintf("The argument %q must not be null.", a.Name), again)
		return "", false
	}
	s, ok := literal(a.Expr)
	if !ok {
		p.errorAt(a.Expr.Range(), "unsuitable value type", fmt.Sprintf("The argument %q must be a quoted string without ${…}.", a.Name), again)
	}
	return s, ok
}

func literal(x hcl.Expression) (string, bool) {
	t, ok := x.(*hclsyntax.TemplateExpr)
	if !ok || !t.IsStringLiteral() {
		return "", false
	}
	v, _ := t.Parts[0].Value(nil)
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

func isNull(x hcl.Expression) bool {
	l, ok := x.(*hclsyntax.LiteralValueExpr)
	return ok && l.Val.IsNull()
}

func integer(x hcl.Expression) (int, bool) {
	l, ok := x.(*hclsyntax.LiteralValueExpr)
	if !ok || l.Val.IsNull() || l.Val.Type() != cty.Number {
		return 0, false
	}
	n, accuracy := l.Val.AsBigFloat().Int64()
	return int(n), accuracy == 0 && n >= 1 && n <= math.MaxInt32
}

// check returns an error if the hash has no scheme or invalid base64. Unknown schemes are allowed.
func (h Hash) check() error {
	if strings.IndexByte(string(h), ':') < 1 {
		return fmt.Errorf("hash %q must start with a scheme and a colon, like \"b1:\"", string(h))
	}
	if strings.ContainsFunc(string(h), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("hash %q contains characters other than printable ASCII", string(h))
	}
	return nil
}

func parseAddress(s string) (summary string, err error) {
	src, err := source.Parse(s)
	switch {
	case err != nil && source.NormalForm(s) != "":
		return "non-normalized plugin address", err
	case err != nil:
		return "invalid plugin address", err
	case src.Kind == source.Builtin:
		return "invalid plugin address", fmt.Errorf("%q is built in and is not locked", s)
	case !src.Version.IsZero():
		return "invalid plugin address", fmt.Errorf("specify the version of %q in the argument \"version\"", s)
	case src.Address() != s:
		return "non-normalized plugin address", fmt.Errorf("the normal form of %q is %q", s, src.Address())
	}
	return "", nil
}

func validPlatform(s string) bool {
	system, arch, ok := strings.Cut(s, "_")
	plain := func(s string) bool { return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == "" }
	return ok && plain(system) && plain(arch)
}

// sentence converts an error message to a sentence.
func sentence(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
