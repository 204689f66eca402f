// Package schema describes the content of gantry.hcl.
//
// It owns: the table of blocks and arguments on which decoding, "did you mean", `-c` paths and the printed reference are based. It must not
// know: how files are found, merged or decoded, or the effect of a setting.
//
// Start with [Root].
package schema

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Kind is the kind of an argument's value.
type Kind int

// The kinds.
const (
	Unknown  Kind = iota
	String        // "text"
	Bool          // true or false
	Integer       // a whole number from 0 on
	Duration      // "90s", "10m", "30d"
	Size          // "256MiB"
	List          // ["text", ...]
	Number        // a number from 0 on, with or without a fraction
)

var kindNames = [...]string{"unknown", "string", "bool", "integer", "duration", "size", "list of strings", "number"}

// String returns the kind's name for messages.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return kindNames[0]
	}
	return kindNames[k]
}

// Open says what a block accepts in addition to its declared arguments and blocks.
type Open int

// The ways in which a block is open.
const (
	Closed    Open = iota
	Variables      // any argument with a string value, for environment variables
	Plugin         // the plugin's own schema; nothing is declared here
	Rest           // the plugin's own schema, in addition to what is declared here
)

// Attribute is an argument.
type Attribute struct {
	Name     string
	Kind     Kind
	Doc      string // one or more sentences
	Required bool
	Default  string   // as HCL text, or a description in parentheses; empty: none
	Allowed  []string // the only values; empty: any
}

// Block is a type of block. Blocks with the same type and label are merged across layers, argument by argument.
type Block struct {
	Name       string
	Label      string // meaning of the label; empty: no label
	Doc        string
	Attributes []Attribute
	Blocks     []*Block
	Open       Open
}

// Attribute returns an argument by its name.
func (b *Block) Attribute(name string) (Attribute, bool) {
	i := slices.IndexFunc(b.Attributes, func(a Attribute) bool { return a.Name == name })
	if i < 0 {
		return Attribute{}, false
	}
	return b.Attributes[i], true
}

// Block returns a nested block type by its name, or nil.
func (b *Block) Block(name string) *Block {
	for _, c := range b.Blocks {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Names returns the names of all arguments and blocks.
func (b *Block) Names() []string {
	var out []string
	for _, a := range b.Attributes {
		out = append(out, a.Name)
	}
	for _, c := range b.Blocks {
		out = append(out, c.Name)
	}
	return out
}

// HCL returns the schema for the HCL library. It requires nothing, because an argument may be set in another layer.
func (b *Block) HCL() *hcl.BodySchema {
	s := &hcl.BodySchema{
		Attributes: make([]hcl.AttributeSchema, 0, len(b.Attributes)),
		Blocks:     make([]hcl.BlockHeaderSchema, 0, len(b.Blocks)),
	}
	for _, a := range b.Attributes {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	for _, c := range b.Blocks {
		h := hcl.BlockHeaderSchema{Type: c.Name}
		if c.Label != "" {
			h.LabelNames = []string{c.Label}
		}
		s.Blocks = append(s.Blocks, h)
	}
	return s
}

// Example describes a value of the kind, for messages.
func (k Kind) Example() string {
	switch k {
	case String:
		return `a string in quotes`
	case Bool:
		return "true or false"
	case Integer:
		return "a whole number, for example 4"
	case Number:
		return "a number, for example 2.5"
	case Duration:
		return `a duration with its unit, for example "90s", "10m" or "30d"`
	case Size:
		return `a size with its unit, for example "256MiB"`
	case List:
		return `a list of strings, for example ["a", "b"]`
	}
	return "a value"
}
