package config

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/schema"
)

// Setting is an argument that a file or the command line sets.
type Setting struct {
	// Path has the names of the blocks around it, each followed by its label if it has one, and its own name.
	Path []string
	// Value is JSON: the value if it is constant, otherwise the expression as a string. Text that looks like a secret is masked.
	Value json.RawMessage
	From  File // Path is empty for the command line and the built-in layer
}

// Settings returns the arguments of the effective configuration, without those of profiles and those that only a plugin's schema
// describes.
func (c *Config) Settings() []Setting { return settingsOf(c.root, c.sources, nil, nil) }

// FileSettings returns the arguments of a single file, as [Config.Settings] does. name is the file's name in diagnostics.
func FileSettings(text []byte, name string) ([]Setting, Diagnostics) {
	p := parse(text, name)
	if p.ds.HasErrors() {
		return nil, p.ds
	}
	files := diag.Files{name: text}
	r := &reader{files: files, from: &origin{dir: filepath.Dir(name)}}
	n := r.node(p.body, schema.Root(), "", hcl.Range{Filename: name})
	return settingsOf(n, files, nil, nil), append(p.ds, r.ds...)
}

// settingsOf appends the settings of a block, which path leads to.
func settingsOf(n *node, files diag.Files, path []string, out []Setting) []Setting {
	if n == nil {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(n.attrs)) {
		s := n.attrs[name]
		from := File{Layer: s.from.layer}
		if from.Layer > LayerBuiltin && from.Layer < LayerCommandLine {
			from.Path = filepath.Join(s.from.dir, filepath.Base(s.at.Filename))
		}
		out = append(out, Setting{Path: append(slices.Clone(path), name), Value: valueText(name, s.expr, files), From: from})
	}
	for _, k := range n.order {
		if k.name == schema.BlockProfile {
			continue
		}
		at := append(slices.Clone(path), k.name)
		if n.blocks[k].schema.Label != "" {
			at = append(at, k.label)
		}
		out = settingsOf(n.blocks[k], files, at, out)
	}
	return out
}

// valueText returns the value of an expression without evaluating functions.
func valueText(name string, x hcl.Expression, files diag.Files) json.RawMessage {
	text := ""
	r := x.Range()
	if src := files[r.Filename]; r.Start.Byte >= 0 && r.Start.Byte <= r.End.Byte && r.End.Byte <= len(src) {
		text = string(src[r.Start.Byte:r.End.Byte])
	}
	line := name + " = " + text
	if shown := diag.Mask(name + " = " + diag.MaskValue(name, text)); text != "" && shown != line {
		return encoded(shown[len(name+" = "):])
	}
	if v, ds := x.Value(nil); !ds.HasErrors() && v.IsWhollyKnown() && !v.ContainsMarked() {
		if b, err := ctyjson.Marshal(v, v.Type()); err == nil {
			return b
		}
	}
	return encoded(text)
}

func encoded(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // a string
		panic("config: " + err.Error())
	}
	return b
}
