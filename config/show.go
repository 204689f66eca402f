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

// Show writes the configuration in force, every setting as it was written and with the place that it comes from. What
// looks like a literal secret is hidden. Profiles are left out: what the selected one says is merged in.
func (c *Config) Show(w io.Writer) error {
	p := &printer{out: bufio.NewWriter(w), c: c}
	p.node(c.root, 0)
	return p.out.Flush()
}

type printer struct {
	out *bufio.Writer
	c   *Config
}

// line is a setting: its text and where it comes from.
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
	for _, f := range n.open {
		p.fragment(f, depth)
	}
}

// fragment prints what a plugin's schema describes, layer by layer: only that schema could say how they merge.
func (p *printer) fragment(f bind.Fragment, depth int) {
	if f.Body == nil {
		p.lines([]line{p.setting(strings.Join(f.Path, "."), f.Expr, f.Header)}, depth)
		return
	}
	attrs, _ := f.Body.JustAttributes()
	var lines []line
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		lines = append(lines, p.setting(name, attrs[name].Expr, attrs[name].NameRange))
	}
	p.lines(lines, depth)
	native, ok := f.Body.(*hclsyntax.Body)
	if !ok {
		return
	}
	for _, b := range native.Blocks {
		if b.Type == schema.BlockEnv || b.Type == schema.BlockPermissions || b.Type == schema.BlockLimits {
			continue // the host's own blocks of a provider, printed already
		}
		header := b.Type
		for _, l := range b.Labels {
			header += fmt.Sprintf(" %q", l)
		}
		fmt.Fprintf(p.out, "%s%s {\n", strings.Repeat("  ", depth), header)
		p.fragment(bind.Fragment{Body: b.Body, Scope: f.Scope}, depth+1)
		fmt.Fprintf(p.out, "%s}\n", strings.Repeat("  ", depth))
	}
}

func (p *printer) setting(name string, x hcl.Expression, at hcl.Range) line {
	r := x.Range()
	text := "..."
	if src, ok := p.c.sources[r.Filename]; ok && r.Start.Byte >= 0 && r.Start.Byte <= r.End.Byte && r.End.Byte <= len(src) {
		text = strings.TrimSpace(string(src[r.Start.Byte:r.End.Byte]))
	}
	return line{diag.Mask(name + " = " + text), p.c.sources.Range(at).String()}
}

// lines prints settings with their places in one column. A value of several lines has its place above it.
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
