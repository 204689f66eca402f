package schema

import (
	"encoding/json"
	"fmt"
	"strings"
)

type attributeJSON struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Required    bool     `json:"required,omitempty"`
	Default     string   `json:"default,omitempty"`
	Allowed     []string `json:"allowed,omitempty"`
}

type blockJSON struct {
	Name        string          `json:"name,omitempty"`
	Label       string          `json:"label,omitempty"`
	Description string          `json:"description"`
	Open        string          `json:"open,omitempty"`
	Attributes  []attributeJSON `json:"attributes,omitempty"`
	Blocks      []*blockJSON    `json:"blocks,omitempty"`
	SameAs      string          `json:"same_as,omitempty"`
}

var openNames = [...]string{Closed: "", Variables: "variables", Plugin: "plugin", Rest: "plugin"}

// JSON returns the settings reference as JSON. The content of a profile, which is the same as the root's, is not repeated.
func JSON() []byte {
	b, err := json.MarshalIndent(blockForm(Root()), "", "  ")
	if err != nil {
		panic(err) // impossible for strings and bools
	}
	return append(b, '\n')
}

func blockForm(b *Block) *blockJSON {
	out := &blockJSON{Name: b.Name, Label: b.Label, Description: b.Doc, Open: openNames[b.Open]}
	if b.Name == BlockProfile {
		out.SameAs = "root"
		return out
	}
	for _, a := range b.Attributes {
		out.Attributes = append(out.Attributes, attributeJSON{
			Name: a.Name, Type: a.Kind.String(), Description: a.Doc, Required: a.Required, Default: a.Default, Allowed: a.Allowed,
		})
	}
	for _, c := range b.Blocks {
		out.Blocks = append(out.Blocks, blockForm(c))
	}
	return out
}

// Markdown returns the settings reference as Markdown.
func Markdown() string {
	var b strings.Builder
	root := Root()
	b.WriteString("# gantry.hcl\n\n")
	b.WriteString(root.Doc + "\n\n")
	b.WriteString("Files can also be written in JSON, as `gantry.hcl.json`. Functions: `env(\"NAME\")` or `env(\"NAME\", \"otherwise\")` " +
		"is an environment variable; `file(\"PATH\")` is the text of a file without its final line break; `secret(\"NAME\")` is a stored " +
		"secret; and `command([\"PROGRAM\", \"ARGUMENT\"])` or `command([...], { timeout = \"5s\", refresh = \"5m\" })` is the output of a " +
		"program. The last two are allowed only in a plugin's own settings. Functions are evaluated when their block is used.\n\n")
	writeArguments(&b, root)
	for _, c := range root.Blocks {
		writeBlock(&b, c, 2, "")
	}
	return b.String()
}

func writeBlock(b *strings.Builder, block *Block, level int, parent string) {
	title := strings.TrimSpace(parent + " " + block.Name)
	fmt.Fprintf(b, "%s `%s`", strings.Repeat("#", level), title)
	if block.Label != "" {
		fmt.Fprintf(b, " *%s*", block.Label)
	}
	fmt.Fprintf(b, "\n\n%s\n\n", block.Doc)
	if block.Name == BlockProfile {
		return
	}
	writeArguments(b, block)
	for _, c := range block.Blocks {
		writeBlock(b, c, min(level+1, 6), title)
	}
}

func writeArguments(b *strings.Builder, block *Block) {
	if len(block.Attributes) == 0 {
		return
	}
	b.WriteString("| argument | value | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, a := range block.Attributes {
		value, def := a.Kind.String(), a.Default
		if len(a.Allowed) > 0 {
			value = "`\"" + strings.Join(a.Allowed, "\"`, `\"") + "\"`"
		}
		switch {
		case a.Required:
			def = "required"
		case def != "" && !strings.HasPrefix(def, "("):
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", a.Name, value, strings.Trim(def, "()"), a.Doc)
	}
	b.WriteString("\n")
}
