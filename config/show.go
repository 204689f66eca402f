package config

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/bind"
	"github.com/gantry-agent/gantry/config/schema"
)

// Show writes the effective configuration: each setting as it is written, with its position. Text that looks like a secret is
// masked. Profiles are omitted, because the selected one is merged into the other settings.
func (c *Config) Show(w io.Writer) error {
	p := &printer{out: bufio.NewWriter(w), c: c}
	p.node(c.root, 0)
	return p.out.Flush()
}

type printer struct {
	out *bufio.Writer
	c   *Config
}

// line is a setting: its text and position.
type line struct{ text, from string }

func (p *printer) node(n *node, depth int) {
	var lines []line
	for _, name := range slices.Sorted(maps.Keys(n.attrs)) {
		s := n.attrs[name]
		lines = append(lines, p.setting(name, s.expr, s.at))
	}
	p.lines(lines, depth)
	for i, k := range n.order {
		if k.name == schema.BlockProfile {
			continue
		}
		if depth == 0 && (i > 0 || len(lines) > 0) {
			fmt.Fprintln(p.out)
		}
		fmt.Fprintf(p.out, "%s%s {\n", strings.Repeat("  ", depth), k)
		p.node(n.blocks[k], depth+1)
		fmt.Fprintf(p.out, "%s}\n", strings.Repeat("  ", depth))
	}
	// An argument of a higher layer replaces that of a lower one, whatever the schema is. How blocks are merged depends on the
	// schema: they are printed layer by layer.
	last := make(map[string]int)
	for i, f := range n.open {
		for name := range settings(f) {
			last[name] = i
		}
	}
	for i, f := range n.open {
		p.fragment(f, depth, func(name string) bool { return last[name] == i })
	}
}

// settings returns the arguments that a fragment sets as a whole.
func settings(f bind.Fragment) hcl.Attributes {
	if f.Body == nil {
		if len(f.Path) > 1 {
			return nil
		}
		return hcl.Attributes{f.Path[0]: {Name: f.Path[0], Expr: f.Expr, NameRange: f.Header}}
	}
	attrs, _ := f.Body.JustAttributes()
	return attrs
}

// fragment prints the settings of one layer for a block that a plugin's schema describes.
func (p *printer) fragment(f bind.Fragment, depth int, counts func(name string) bool) {
	var lines []line
	for name, a := range settings(f) {
		if counts == nil || counts(name) {
			lines = append(lines, p.setting(name, a.Expr, a.NameRange))
		}
	}
	if f.Body == nil && len(f.Path) > 1 {
		lines = append(lines, p.setting(strings.Join(f.Path, "."), f.Expr, f.Header))
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.text, b.text) })
	p.lines(lines, depth)
	native, ok := f.Body.(*hclsyntax.Body)
	if !ok {
		return
	}
	for _, b := range native.Blocks {
		if b.Type == schema.BlockEnv || b.Type == schema.BlockPermissions || b.Type == schema.BlockLimits {
			continue // blocks of the host inside a provider block, printed already
		}
		header := b.Type
		for _, l := range b.Labels {
			header += fmt.Sprintf(" %q", l)
		}
		fmt.Fprintf(p.out, "%s%s {\n", strings.Repeat("  ", depth), header)
		p.fragment(bind.Fragment{Body: b.Body, Scope: f.Scope}, depth+1, nil)
		fmt.Fprintf(p.out, "%s}\n", strings.Repeat("  ", depth))
	}
}

func (p *printer) setting(name string, x hcl.Expression, at hcl.Range) line {
	r := x.Range()
	text := "..."
	if src, ok := p.c.sources[r.Filename]; ok && r.Start.Byte >= 0 && r.Start.Byte <= r.End.Byte && r.End.Byte <= len(src) {
		text = strings.TrimSpace(string(src[r.Start.Byte:r.End.Byte]))
	}
	return line{diag.Mask(name + " = " + diag.MaskValue(name, text)), p.c.sources.Range(at).String()}
}

// lines prints settings with their positions aligned. The position of a value with several lines is printed above it.
func (p *printer) lines(lines []line, depth int) {
	indent := strings.Repeat("  ", depth)
	width := 0
	for _, l := range lines {
		if !strings.Contains(l.text, "\n") && len(l.text) <= 60 {
			width = max(width, len(l.text))
		}
	}
	for _, l := range lines {
		if strings.Contains(l.text, "\n") {
			fmt.Fprintf(p.out, "%s# %s\n%s%s\n", indent, l.from, indent, l.text)
			continue
		}
		fmt.Fprintf(p.out, "%s%-*s # %s\n", indent, width, l.text, l.from)
	}
}
