package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/schema"
)

// Vendor is a vendor whose built-in provider needs no block where the environment has its customary key.
type Vendor struct {
	Label    string // of the provider's block
	Source   string
	Variable string // contains the key
	Model    string // the model that `gantry init` writes; empty: none is written
}

// Vendors returns the vendors with a customary key.
func Vendors() []Vendor {
	const compatible = "builtin/compatible" // which takes the vendor from the label
	return []Vendor{
		{"anthropic", "builtin/anthropic", "ANTHROPIC_API_KEY", "claude-sonnet-5"},
		{"openai", "builtin/openai", "OPENAI_API_KEY", "gpt-5.5"},
		{"google", "builtin/google", "GEMINI_API_KEY", "gemini-3.5-flash"},
		{"openrouter", compatible, "OPENROUTER_API_KEY", ""},
		{"deepseek", compatible, "DEEPSEEK_API_KEY", ""},
		{"groq", compatible, "GROQ_API_KEY", ""},
		{"mistral", compatible, "MISTRAL_API_KEY", ""},
		{"xai", compatible, "XAI_API_KEY", ""},
	}
}

// Block returns the block that the vendor's provider has without one in a file.
func (v Vendor) Block() string {
	return fmt.Sprintf("provider %q {\n  source  = %q\n  api_key = env(%q)\n}\n", v.Label, v.Source, v.Variable)
}

// keysName is the name of the layer with the providers of keys in the environment.
const keysName = "built-in (keys in the environment)"

// keyed returns providers for the keys in the environment, except those that a file configures in any way.
func (l *loader) keyed(root *node) *node {
	there := root.labels(schema.BlockProvider)
	var text strings.Builder
	for _, v := range Vendors() {
		if key, ok := l.o.LookupEnv(v.Variable); ok && strings.TrimSpace(key) != "" && !slices.Contains(there, v.Label) {
			text.WriteString(v.Block())
		}
	}
	if text.Len() == 0 {
		return nil
	}
	return l.text(LayerBuiltin, "", keysName, []byte(text.String()), l.dir)
}

// unknownProvider returns the error for a provider that is not configured.
func unknownProvider(label string, there []string) Diagnostic {
	d := unknownLabel("provider", label, there)
	all := Vendors()
	if i := slices.IndexFunc(all, func(v Vendor) bool { return v.Label == label }); i >= 0 {
		d.Next = fmt.Sprintf("set %s in the environment, or add a block to gantry.hcl: provider %q { source = %q, ... }", all[i].Variable, label, all[i].Source)
	}
	return d
}

// Keyed returns the first vendor whose key is in the environment.
func Keyed(lookupEnv func(string) (string, bool)) (Vendor, bool) {
	for _, v := range Vendors() {
		if key, ok := lookupEnv(v.Variable); ok && strings.TrimSpace(key) != "" {
			return v, true
		}
	}
	return Vendor{}, false
}

// Started returns the text of a first gantry.hcl that sets a provider, by its block, and the model "default".
func Started(block, label, model string) string {
	text := starterText
	for _, part := range []struct{ begins, set string }{
		{"# provider \"openai\" {", block},
		{"# model \"default\" {", fmt.Sprintf("model \"default\" {\n  provider = %q\n  name     = %q\n}\n", label, model)},
	} {
		from := strings.Index(text, part.begins)
		to := from + strings.Index(text[from:], "# }\n") + len("# }\n")
		text = text[:from] + part.set + text[to:]
	}
	return text
}
