package config

import (
	"slices"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/schema"
)

// Validate returns warnings about things that are missing outside the configuration: unset variables, files and secrets that do
// not exist. It starts no processes. The settings of plugins are checked by [PluginBlock.Check], which needs their manifests.
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
	if c.Sandbox.Mode == schema.SandboxFullAccess && len(c.Sandbox.DenyWrite) > 0 {
		where := (&decoder{files: c.sources}).block(c.root.block(schema.BlockSandbox), nil)
		add(Diagnostics{c.sources.At(where.at("mode"), Diagnostic{
			Summary: "deny_write has no effect with full access", Detail: "Commands can write everything that you can, including these " +
				"paths.",
			Next: `set sandbox { mode = "workspace-write" }, or remove deny_write; deny_read holds in every mode`,
		})})
	}
	if c.DefaultModel == "" {
		add(Diagnostics{{Summary: "there is no default model", Detail: "There are several models, and none has the label \"default\".",
			Next: "set default_model, or select one with --model"}})
	}
	out.Sort()
	return out
}
