package config

import (
	"slices"

	"github.com/gantry-agent/gantry/config/diag"
)

// Validate returns warnings about what is fine as text but lacks something around it: variables that are not set, files
// and secrets that are not there. It starts nothing. Settings of plugins are checked by [PluginBlock.Check], which needs
// their manifests.
func (c *Config) Validate() Diagnostics {
	var out Diagnostics
	add := func(ds Diagnostics) {
		for _, d := range ds {
			d.Severity = diag.Warning
			if !slices.ContainsFunc(out, func(o Diagnostic) bool { return o.Summary == d.Summary && o.Range == d.Range }) {
				out = append(out, d)
			}
		}
	}
	for _, b := range c.Blocks() {
		add(b.Problems)
		add(b.body.Missing())
	}
	for _, m := range c.Models {
		add(m.Problems)
	}
	if _, ds, missing := c.Store.address(); missing {
		add(ds)
	} else {
		out = append(out, ds...)
	}
	if c.DefaultModel == "" {
		add(Diagnostics{{Summary: "no model is the default", Detail: "There are several, and none is called \"default\".",
			Next: "set default_model, or name one with --model"}})
	}
	out.Sort()
	return out
}
