package config

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/bind"
	"github.com/gantry-agent/gantry/config/schema"
)

// set reads a setting of the command line, PATH=VALUE, as a layer of its own. PATH consists of the names of blocks, labels and an
// argument, separated by dots; labels that contain a dot are quoted. VALUE is an HCL expression. A VALUE that is not a valid
// expression, or that refers to variables, is taken as text, so that quotation marks are optional.
func (r *reader) set(text string, root *schema.Block) *node {
	path, value, ok := strings.Cut(text, "=")
	// An "=" inside a quoted label belongs to the path.
	for ok && strings.Count(path, `"`)%2 == 1 {
		var more string
		more, value, ok = strings.Cut(value, "=")
		path += "=" + more
	}
	name := r.mark + diag.SetFile + strings.TrimSpace(path)
	r.files[name] = []byte(text)
	whole := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.Pos{Line: 1, Column: len(text) + 1, Byte: len(text)}}
	fail := func(summary, detail, next string) *node {
		r.ds = append(r.ds, r.files.At(whole, diag.Diagnostic{Severity: diag.Error, Summary: summary, Detail: detail, Next: next}))
		return nil
	}
	if !ok {
		return fail("setting without a value", fmt.Sprintf("%q has no \"=\".", text), "use -c NAME=VALUE, for example -c approval.policy=never")
	}
	names, err := SplitPath(strings.TrimSpace(path))
	if err != nil {
		return fail("invalid name of a setting", capital(err.Error())+".", "use names separated by dots, for example "+
			"model.default.reasoning")
	}
	expr := r.value(value, name, len(path)+1)
	if expr == nil {
		return nil
	}
	out := newNode(root, "", whole)
	n := out
	for i := 0; ; i++ {
		seen, rest := strings.Join(names[:i], "."), names[i:]
		if len(rest) == 0 {
			return fail("incomplete setting", fmt.Sprintf("%q is a block.", seen), "append a dot and one of its arguments"+examples(seen, n.schema))
		}
		head := rest[0]
		switch n.schema.Open {
		case schema.Plugin:
			n.open = []bind.Fragment{{Path: rest, Expr: expr, Scope: r.from.scope, Header: whole}}
			return out
		case schema.Variables:
			if len(rest) > 1 {
				return fail("unknown setting", fmt.Sprintf("The variable %q has no parts.", head), "remove everything after its name")
			}
			n.attrs[head] = setting{name: head, expr: expr, at: whole, from: r.from}
			return out
		}
		if _, ok := n.schema.Attribute(head); ok {
			if len(rest) > 1 {
				return fail("unknown setting", fmt.Sprintf("The argument %q has no parts.", head), "remove everything after its name")
			}
			n.attrs[head] = setting{name: head, expr: expr, at: whole, from: r.from}
			return out
		}
		if head == schema.BlockProfile && n.schema == root {
			return fail("profiles can't be set here", "A profile is a set of settings under one name.", "select one with --profile NAME, or set the argument itself")
		}
		b := n.schema.Block(head)
		if b == nil {
			if n.schema.Open == schema.Rest {
				n.open = []bind.Fragment{{Path: rest, Expr: expr, Scope: r.from.scope, Header: whole}}
				return out
			}
			where := "there is no argument or block of that name"
			if seen != "" {
				where = fmt.Sprintf("%q has no argument or block of that name", seen)
			}
			return fail("unknown setting", fmt.Sprintf("Setting %q: %s.", strings.Join(names[:i+1], "."), where),
				diag.DidYouMean(head, n.schema.Names(), seeSchema))
		}
		k := key{name: head}
		if b.Label != "" {
			if len(rest) < 2 {
				return fail("incomplete setting", fmt.Sprintf("%q is a labelled block.", head),
					fmt.Sprintf("write %s.NAME.ARGUMENT=VALUE", strings.Join(names[:i+1], ".")))
			}
			i++
			k.label = rest[1]
		}
		inner := newNode(b, k.label, whole)
		n.blocks[k], n.order = inner, append(n.order, k)
		n = inner
	}
}

func examples(seen string, b *schema.Block) string {
	if names := b.Names(); len(names) > 0 {
		return fmt.Sprintf(", for example %s.%s", seen, names[0])
	}
	return ""
}

// value parses the right-hand side. Positions are relative to the start of the whole setting.
func (r *reader) value(text, file string, offset int) hcl.Expression {
	start := hcl.Pos{Line: 1, Column: offset + 1, Byte: offset}
	at := hcl.Range{Filename: file, Start: start, End: hcl.Pos{Line: 1, Column: offset + 1 + len(text), Byte: offset + len(text)}}
	plain := hcl.StaticExpr(cty.StringVal(text), at)
	if strings.TrimSpace(text) == "" || len(text) > 1<<16 {
		return plain
	}
	expr, hds := hclsyntax.ParseExpression([]byte(text), file, start)
	quoted := strings.ContainsAny(strings.TrimSpace(text)[:1], `"[{`)
	if hds.HasErrors() {
		if quoted { // it was meant to be an expression
			r.ds = append(r.ds, r.files.Convert(hds, "correct the value")...)
			return nil
		}
		return plain
	}
	if len(expr.Variables()) > 0 && !quoted {
		return plain
	}
	if l, ok := expr.(*hclsyntax.LiteralValueExpr); ok && l.Val.Type() == cty.Number {
		return number{expr, strings.TrimSpace(text)}
	}
	return expr
}

// number keeps the spelling of a number: as text, 1.10 differs from 1.1.
type number struct {
	hcl.Expression
	raw string
}

// Raw returns the number as written.
func (n number) Raw() string { return n.raw }

// SplitPath splits the name of a setting into its parts: a.b."c.d".e and a.b["c.d"].e.
func SplitPath(s string) ([]string, error) {
	var out []string
	for rest := s; ; {
		var name string
		switch {
		case strings.HasPrefix(rest, `["`), strings.HasPrefix(rest, `"`):
			open, shut := `"`, `"`
			if rest[0] == '[' {
				open, shut = `["`, `"]`
			}
			var ok bool
			name, rest, ok = strings.Cut(rest[len(open):], shut)
			if !ok {
				return nil, fmt.Errorf("unclosed quotation mark in %q", s)
			}
		default:
			end := strings.IndexAny(rest, `."[`)
			if end < 0 {
				end = len(rest)
			}
			name, rest = rest[:end], rest[end:]
		}
		if name == "" {
			return nil, fmt.Errorf("empty name in %q", s)
		}
		out = append(out, name)
		switch {
		case rest == "":
			return out, nil
		case rest[0] == '.':
			rest = rest[1:]
		case rest[0] != '[':
			return nil, fmt.Errorf("missing dot before %[2]q in %[1]q", s, rest)
		}
	}
}
